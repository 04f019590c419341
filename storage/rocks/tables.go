package rocks

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// Tables collects many writes that are applied as one step, like a Batch, but writes them to table
// files as they come, which Ingest then adds to the database. That spares what a batch costs on its
// way: copies of everything in the batch, in RocksDB's own and in a memtable, all of them in fresh
// memory, and the order that the memtable brings it into. So they have to come in order: the keys
// of a family ascending, each once, and all of a family behind each other.
//
// The zero value isn't ready for use: see DB.NewTables. Not for concurrent use.
type Tables struct {
	db      *DB
	options TableOptions
	files   []tableFile
	buffer  []byte // records on their way to the last file
	records int
	passed  int   // how many of the fresh ranges
	err     error // the first one; nothing is written after it
}

// TableOptions say what tables are for. The zero value is ready for use.
type TableOptions struct {
	Bytes      int64 // about how many are coming: there has to be room for them, and compactions mustn't have fallen behind; 0: it isn't known
	FileBytes  int64 // how large a file gets before the next one of the same family begins; default: a family has one file. A range has to lie within one
	Bottommost bool  // they are compressed as the last level is, and not as the first

	// Fresh are ranges in which the database has nothing, in the order in which their records come.
	// They get files of their own, compressed as the last level is: Ingest puts those there, where
	// they needn't be compacted, as long as no file there spans the range.
	Fresh []Fresh
}

// Fresh is a range of a family's keys, both bounds included.
type Fresh struct {
	Family      *Family
	First, Last []byte
}

// tableFile holds records of a family.
type tableFile struct {
	family *Family
	path   string
	c      *C.rocks_table // nil once it is finished
	bytes  C.uint64_t
	fresh  int // the number of its fresh range, from 1 on; 0: none
}

// tableDirectory is where table files stand before they are ingested, below the database's
// directory. Open empties it.
const tableDirectory = "tables"

// Records go to a table in blocks, each crossing into C once. Numbers are little endian:
//
//	| kind:1 | key length:4 | value length:4 | key | value, or the range's end |
const (
	tablePut         = C.ROCKS_TABLE_PUT
	tableDelete      = C.ROCKS_TABLE_DELETE
	tableDeleteRange = C.ROCKS_TABLE_DELETE_RANGE
	tableRecord      = 9
	tableBlock       = 64 << 10
	largeValue       = 1 << 20 // is not copied into a block
)

// tableRoom is what has to be free on the disk besides what is to be written to tables.
const tableRoom = 16 << 20

// TablesFrom is how many bytes are better written to tables than as a batch: half of what fills a
// memtable. Less would make many small files.
func (d *DB) TablesFrom() int64 {
	return d.tablesFrom.Load()
}

func (d *DB) noteWriteBuffer(bytes int64) { d.tablesFrom.Store(bytes / 2) }

// NewTables makes empty tables. Ingest or Discard must follow, before the database is closed. The
// error satisfies IsNoSpace when the disk may not have room for them; a batch, which is compressed
// before it gets there, may still fit.
func (d *DB) NewTables(options TableOptions) (*Tables, error) {
	if options.Bytes > 0 {
		if err := d.RequireRoom(uint64(options.Bytes) + tableRoom); err != nil {
			return nil, err
		}
		d.awaitCompactions(options.Bytes)
	}
	return &Tables{db: d, options: options, buffer: newTableBuffer()}, nil
}

func newTableBuffer() []byte { return make([]byte, 0, tableBlock+tableBlock/4) }

// RequireRoom fails when the disk has less room than so many bytes. The error satisfies IsNoSpace.
func (d *DB) RequireRoom(bytes uint64) error {
	free, err := d.free()
	if err != nil {
		return fmt.Errorf("rocks: looking for room on the disk: %w", err)
	}
	if free < bytes {
		return fmt.Errorf("rocks: the disk has %d bytes left, and %d are needed: %w", free, bytes, syscall.ENOSPC)
	}
	return nil
}

// awaitCompactions waits as long as RocksDB has a writer of so many bytes wait when compactions
// fall behind. It ends early when they have caught up, and when background work has failed.
func (d *DB) awaitCompactions(bytes int64) {
	const step = 10 * time.Millisecond
	var s Statistics
	for written := 0.0; written < float64(bytes); time.Sleep(step) {
		s = Statistics{}
		if d.addDatabase(&s, d.Family(DefaultFamily)) != nil || d.events.failure("compact") != nil || d.full("compact") != nil {
			return
		}
		switch {
		case s.WritesStopped:
		case s.DelayedWriteBytesPerSec == 0:
			return
		default:
			written += float64(s.DelayedWriteBytesPerSec) * step.Seconds()
		}
	}
}

// Put adds the writing of a value.
func (t *Tables) Put(f *Family, key, value []byte) { t.add(f, tablePut, key, value) }

// Delete adds the removal of a key, which need not exist, and in a fresh range doesn't: there it
// adds nothing.
func (t *Tables) Delete(f *Family, key []byte) {
	if t.fresh(f, key) == 0 {
		t.add(f, tableDelete, key, nil)
	}
}

// DeleteRange adds the removal of all keys from from up to and without to that the database has, as
// Batch.DeleteRange does.
func (t *Tables) DeleteRange(f *Family, from, to []byte) { t.add(f, tableDeleteRange, from, to) }

// Len returns the number of records.
func (t *Tables) Len() int { return t.records }

// Err is why nothing is written any more; nil if nothing has failed.
func (t *Tables) Err() error { return t.err }

func (t *Tables) add(f *Family, kind byte, key, value []byte) {
	if t.err == nil {
		t.err = t.choose(f, key)
	}
	if t.err == nil && len(key)+len(value) > math.MaxUint32-tableRecord {
		t.err = ErrTooLarge
	}
	if t.err != nil {
		return
	}
	t.records++
	if kind == tablePut && len(value) >= largeValue {
		t.err = t.putLarge(key, value)
		return
	}
	t.buffer = append(t.buffer, kind)
	t.buffer = binary.LittleEndian.AppendUint32(t.buffer, uint32(len(key)))
	t.buffer = binary.LittleEndian.AppendUint32(t.buffer, uint32(len(value)))
	t.buffer = append(append(t.buffer, key...), value...)
	if len(t.buffer) >= tableBlock {
		t.err = t.write()
	}
}

// choose makes the last file one that a record of a family may go to.
func (t *Tables) choose(f *Family, key []byte) error {
	fresh := t.fresh(f, key)
	if len(t.files) > 0 {
		last := &t.files[len(t.files)-1]
		if last.family == f && last.fresh == fresh && !t.full(last) {
			return nil
		}
	}
	if err := t.finish(); err != nil {
		return err
	}
	return t.begin(f, fresh)
}

// fresh returns the number of the fresh range that a key lies in, from 1 on; 0 for none. Keys and
// ranges come in the same order.
func (t *Tables) fresh(f *Family, key []byte) int {
	ranges := t.options.Fresh
	for t.passed < len(ranges) && (ranges[t.passed].Family != f || bytes.Compare(ranges[t.passed].Last, key) < 0) {
		if !slices.ContainsFunc(ranges[t.passed:], func(r Fresh) bool { return r.Family == f }) {
			return 0 // of this family no more, of others that are to come perhaps
		}
		t.passed++
	}
	if t.passed == len(ranges) || bytes.Compare(key, ranges[t.passed].First) < 0 {
		return 0
	}
	return t.passed + 1
}

func (t *Tables) full(file *tableFile) bool {
	limit := t.options.FileBytes
	if file.fresh > 0 {
		limit = t.db.targetFileBytes.Load()
	}
	return limit > 0 && int64(file.bytes) >= limit
}

func (t *Tables) begin(f *Family, fresh int) error {
	t.db.families.RLock()
	defer t.db.families.RUnlock()
	family, err := f.in(t.db)
	if err != nil {
		return err
	}
	path := filepath.Join(t.db.directory, tableDirectory, strconv.FormatUint(t.db.tableNumber.Add(1), 10)+".sst")
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	begun := tableFile{family: f, path: path, fresh: fresh}
	err = fromStatus("create table file "+path, C.rocks_table_open(t.db.c, family, name, cBool(t.options.Bottommost || fresh > 0), &begun.c))
	t.files = append(t.files, begun)
	return err
}

// write hands the records in the buffer over.
func (t *Tables) write() error {
	last := &t.files[len(t.files)-1]
	err := fromStatus("write table file "+last.path, C.rocks_table_add(last.c, first(t.buffer), C.size_t(len(t.buffer)), &last.bytes))
	if t.buffer = t.buffer[:0]; cap(t.buffer) > 4*tableBlock {
		t.buffer = newTableBuffer()
	}
	return err
}

// putLarge hands a record over as it stands in memory, behind those in the buffer.
func (t *Tables) putLarge(key, value []byte) error {
	if err := t.write(); err != nil {
		return err
	}
	last := &t.files[len(t.files)-1]
	return fromStatus("write table file "+last.path,
		C.rocks_table_put(last.c, first(key), C.size_t(len(key)), first(value), C.size_t(len(value)), &last.bytes))
}

// finish completes the last file and makes it durable.
func (t *Tables) finish() error {
	if len(t.files) == 0 {
		return nil
	}
	if err := t.write(); err != nil {
		return err
	}
	last := &t.files[len(t.files)-1]
	err := fromStatus("finish table file "+last.path, C.rocks_table_finish(last.c, &last.bytes))
	last.c = nil
	t.db.tableBytes.Add(uint64(last.bytes))
	return err
}

// Discard removes tables that are not to be ingested.
func (t *Tables) Discard() error {
	var failed []error
	for _, file := range t.files {
		if file.c != nil {
			C.rocks_table_discard(file.c)
		}
		if err := os.Remove(file.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, fmt.Errorf("rocks: a table file that is not needed: %w", err))
		}
	}
	t.files = nil
	return errors.Join(failed...)
}

// Ingest adds everything that was written to tables to the database: all of it or nothing, as one
// step that is durable when it returns. What was written before by batches becomes durable with it.
// The tables can't be used any more, whether or not it succeeds. When the error satisfies
// IsNoSpace, they may still be added later.
func (d *DB) Ingest(t *Tables) error {
	err := t.err
	if err == nil {
		err = t.finish()
	}
	if err != nil || len(t.files) == 0 {
		return errors.Join(err, t.Discard())
	}
	taken := &Tables{files: t.files}
	t.files = nil
	begun, err := d.beginExclusively(d.full, "ingest tables", func() error {
		return errors.Join(d.ingest(taken.files), taken.Discard())
	})
	if !begun {
		err = errors.Join(err, taken.Discard())
	}
	return err
}

// ingest needs d.structure to be held.
func (d *DB) ingest(files []tableFile) error {
	handles := make([]*C.rocks_family, len(files))
	paths := make([]*C.char, len(files))
	for i, file := range files {
		family, err := file.family.in(d)
		if err != nil {
			return err
		}
		handles[i], paths[i] = family, C.CString(file.path)
		defer C.free(unsafe.Pointer(paths[i]))
	}
	// No batch comes between the two steps, so that no memtable holds what RocksDB would have to
	// flush while it keeps all writers out.
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.flush(); err != nil {
		return err
	}
	return fromStatus("ingest tables", C.rocks_ingest(d.c, &handles[0], &paths[0], C.size_t(len(handles))))
}

// clearTables removes what was being written when the process ended.
func (d *DB) clearTables() error {
	directory := filepath.Join(d.directory, tableDirectory)
	if err := os.RemoveAll(directory); err != nil {
		return fmt.Errorf("rocks: open: table files that were not completed: %w", err)
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		return fmt.Errorf("rocks: open: %w", err)
	}
	return nil
}
