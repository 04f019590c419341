// Package rocks is RocksDB behind one type. It is the only package that knows grocksdb and C++. Of
// ours it imports internal/buffer and internal/hugepage. It knows nothing of keys, values,
// transactions or what the families are for.
//
// Two ways lead into RocksDB. What is rare (options, opening, families, checkpoints, properties,
// compaction, ingestion) goes through grocksdb. What is hot, or what the C API lacks, goes through
// a small C++ shim of our own (shim.h): a read or a write is one crossing into C, an iterator
// crosses once for a block of entries, and several families are flushed as one atomic step.
//
// RocksDB's own log is never written: after a crash the database stands as the last flush left it,
// in all families alike. Whoever needs to know where that was writes a position into each batch and
// reads it back after Open.
//
// All methods of DB may be called from many goroutines at once, except that no call may be under
// way on a database when it is closed, nor on a family when it is dropped. After that, calls return
// ErrClosed or ErrDropped.
package rocks

// // The shim derives from a class of RocksDB's, whose release build has no type information to
// // derive from.
// #cgo CXXFLAGS: -std=c++17 -fno-rtti -O2
// #cgo noescape rocks_get
// #cgo nocallback rocks_get
// #cgo noescape rocks_get_cached
// #cgo nocallback rocks_get_cached
// #cgo noescape rocks_rest_take
// #cgo nocallback rocks_rest_take
// #cgo noescape rocks_write
// #cgo nocallback rocks_write
// #cgo noescape rocks_table_add
// #cgo nocallback rocks_table_add
// #cgo noescape rocks_iterator_open
// #cgo nocallback rocks_iterator_open
// #cgo noescape rocks_iterator_next
// #cgo nocallback rocks_iterator_next
// #cgo noescape rocks_iterator_seek
// #cgo nocallback rocks_iterator_seek
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"github.com/linxGnu/grocksdb"
)

// DB is an open database.
type DB struct {
	directory string
	logger    hclog.Logger
	c         *C.rocks_db
	inner     *grocksdb.DB
	parts     *parts
	events    *events
	recovery  recovery
	blocks    blockPool

	// inUse counts the iterators, snapshots and checkpoints that would outlive a Close.
	inUse  atomic.Int64
	closed atomic.Bool

	// structure is held by what chooses families (a flush, a compaction) and by what changes their
	// set. RocksDB 7.8 chooses the families of an atomic flush before it seals their memtables; a
	// family created and written to in between would be left out, and the flush would tear the
	// batch that wrote to it.
	structure sync.Mutex

	// writing is held for reading by each Write, so that no batch finds one of its families dropped
	// half-way, and by an ingestion, which needs empty memtables. It comes behind structure.
	writing sync.RWMutex

	tablesFrom      atomic.Int64
	targetFileBytes atomic.Int64
	tableNumber     atomic.Uint64 // of the table file that was begun last
	tableBytes      atomic.Uint64 // written to table files

	// families is never held while RocksDB works: it may wait for room on the disk.
	families struct {
		sync.RWMutex
		byName    map[string]*Family
		overrides map[string]string // what SetFamilyOptions changed, for families that are created later
	}
}

// Open opens the database in o.Directory with all of its families, and creates both when they are
// not there. The error satisfies IsLocked when the directory belongs to another process or to
// another DB of this one, IsCorruption when files are damaged or missing, and wraps
// fs.ErrPermission when rights are lacking.
func Open(o Options) (*DB, error) {
	parts, err := newParts(&o)
	if err != nil {
		return nil, err
	}
	d := &DB{directory: o.Directory, logger: o.logger(), parts: parts, events: newEvents()}
	d.noteWriteBuffer(o.WriteBufferBytes)
	d.targetFileBytes.Store(o.TargetFileBytes)
	if err := d.open(); err != nil {
		d.events.end()
		parts.destroy()
		return nil, err
	}
	d.events.start(d.logger, o.Full)
	d.startRecovery()
	return d, nil
}

func (d *DB) open() error {
	C.rocks_limit_arenas(C.int(max(2, runtime.NumCPU())))
	if err := claimable(d.directory); err != nil {
		return err
	}
	if err := d.refuseStrays(); err != nil {
		return err
	}
	address, err := hidden(d.parts.options)
	if err != nil {
		return err
	}
	directory := C.CString(d.directory)
	defer C.free(unsafe.Pointer(directory))
	C.rocks_options_complete(address, directory, d.events.c)
	names, err := d.existingFamilies()
	if err != nil {
		return err
	}
	options := make([]*grocksdb.Options, len(names))
	for i := range options {
		options[i] = d.parts.options
	}
	inner, handles, err := grocksdb.OpenDbColumnFamilies(d.parts.options, d.directory, names, options)
	if err != nil {
		return d.openError(err)
	}
	d.inner = inner
	if err := errors.Join(d.adopt(handles), d.clearTables()); err != nil {
		for _, handle := range handles {
			handle.Destroy()
		}
		inner.Close()
		return err
	}
	return nil
}

// adopt takes over what grocksdb opened.
func (d *DB) adopt(handles []*grocksdb.ColumnFamilyHandle) error {
	address, err := hidden(d.inner)
	if err != nil {
		return err
	}
	d.c = C.rocks_db_of(address)
	d.families.byName = make(map[string]*Family, len(handles))
	d.families.overrides = make(map[string]string)
	for _, handle := range handles {
		f, err := newFamily(d, handle)
		if err != nil {
			return err
		}
		d.families.byName[f.name] = f
	}
	return nil
}

// existingFamilies lists what the manifest names. A directory without CURRENT holds no database
// yet.
func (d *DB) existingFamilies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(d.directory, "CURRENT")); err != nil {
		if !os.IsNotExist(err) {
			return nil, fmt.Errorf("rocks: open %s: %w", d.directory, err)
		}
		return []string{DefaultFamily}, d.refuseRemains()
	}
	names, err := grocksdb.ListColumnFamilies(d.parts.options, d.directory)
	if err != nil {
		return nil, d.openError(err)
	}
	return names, nil
}

// refuseRemains refuses to begin a new database over the tables of one that lost its CURRENT file:
// RocksDB would delete them as leftovers.
func (d *DB) refuseRemains() error {
	entries, err := os.ReadDir(d.directory)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("rocks: open %s: %w", d.directory, err)
	}
	tables := 0
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".sst" {
			tables++
		}
	}
	if tables > 0 {
		return &Error{Operation: "open " + d.directory, Code: codeCorruption,
			Text: fmt.Sprintf("Corruption: %d table files are there, but the file CURRENT is missing", tables)}
	}
	return nil
}

func (d *DB) openError(err error) error {
	e := parseStatus("open "+d.directory, err)
	e.Missing = e.Subcode == subcodePathNotFound
	return e
}

// Close flushes all families as one step, and closes the database whether or not that succeeded;
// what was not flushed is lost. It refuses, and changes nothing, while iterators or snapshots are
// open, or a checkpoint is made.
//
// When RocksDB waits for room on the disk, the error satisfies IsNoSpace, and the database is left
// as it is until the process ends, its lock included: nothing can be done with it any more, and its
// files are as a kill would leave them.
func (d *DB) Close() error {
	if d.closed.Load() {
		return ErrClosed
	}
	if n := d.inUse.Load(); n > 0 {
		return fmt.Errorf("rocks: close %s: %d iterators, snapshots and checkpoints: %w", d.directory, n, ErrInUse)
	}
	d.recovery.end()
	err := d.exclusively("close", d.flush)
	if d.closed.Swap(true) {
		return ErrClosed
	}
	if IsNoSpace(err) {
		d.logger.Error("rocksdb: the database is left open, since the disk is full; what its files lack is read from the log at the next start")
		return err
	}
	d.end()
	return err
}

// end ends what still runs, and closes the database. A Write that was given up on a full disk may
// be under way still: what it waits for need not come, now that it isn't looked after any more.
func (d *DB) end() {
	C.rocks_room_await(d.events.c, 0) // what still runs fails rather than wait
	d.structure.Lock()
	defer d.structure.Unlock()
	families := d.all()
	for _, f := range families {
		d.setGone(f, true)
	}
	d.inner.CancelAllBackgroundWork(false)
	d.awaitWrites()
	for _, f := range families {
		f.handle.Destroy()
	}
	d.inner.Close()
	d.events.end()
	d.parts.destroy()
}

// Directory returns the directory that the database lives in.
func (d *DB) Directory() string { return d.directory }

// claimable makes the directory and finds out what would keep RocksDB from opening it; RocksDB's
// own status tells a held lock from lacking rights in its text only.
func claimable(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("rocks: open: %w", err)
	}
	for _, name := range []string{".", "LOCK", "CURRENT"} {
		if err := writable(filepath.Join(directory, name)); err != nil {
			return fmt.Errorf("rocks: open: %w", err)
		}
	}
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	if err := fromStatus("open", C.rocks_lock_probe(path)); err != nil {
		if IsNoSpace(err) {
			return err
		}
		return &lockedError{directory: directory, owner: lockOwner(filepath.Join(directory, "LOCK")), cause: err}
	}
	return nil
}

// writable asks the kernel whether a file may be written. It must not open the file: closing it
// again would drop the lock that another DB of this process may hold.
func writable(path string) error {
	const write = 2
	err := syscall.Access(path, write)
	if err == syscall.ENOENT {
		return nil
	}
	return wrapPath("write", path, err)
}

func wrapPath(operation, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: operation, Path: path, Err: err}
}

// hidden returns the C handle in a grocksdb object, which keeps it in a field named c and offers no
// way to it.
func hidden(object any) (unsafe.Pointer, error) {
	field := reflect.ValueOf(object).Elem().FieldByName("c")
	if field.Kind() != reflect.Pointer || field.IsNil() {
		return nil, fmt.Errorf("rocks: grocksdb's %T does not look as it does in v1.7.14", object)
	}
	return field.UnsafePointer(), nil
}
