package rocks

// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

// DefaultFamily is the family that every database has and that can't be dropped.
const DefaultFamily = "default"

// Family is a column family: a key space of its own within the database. Batches may span families.
type Family struct {
	db     *DB
	id     uint32
	name   string
	c      *C.rocks_family
	handle *grocksdb.ColumnFamilyHandle
	gone   atomic.Bool  // the family was dropped or the database closed: c and handle are freed
	inUse  atomic.Int64 // iterators that are open on it
	eager  bool         // CompactEagerly; guarded by DB.structure
}

func newFamily(d *DB, handle *grocksdb.ColumnFamilyHandle) (*Family, error) {
	address, err := hidden(handle)
	if err != nil {
		return nil, err
	}
	return &Family{db: d, id: handle.ID(), name: handle.Name(), c: C.rocks_family_of(address), handle: handle}, nil
}

// ID returns the number that RocksDB gave the family. It is never given to another one.
func (f *Family) ID() uint32 { return f.id }

// Name returns the family's name.
func (f *Family) Name() string { return f.name }

// in returns the C side of f for a call on d.
func (f *Family) in(d *DB) (*C.rocks_family, error) {
	if f.db == d && !f.gone.Load() {
		return f.c, nil
	}
	switch {
	case f.db != d:
		return nil, ErrForeign
	case d.closed.Load():
		return nil, ErrClosed
	default:
		return nil, ErrDropped
	}
}

// Families returns the names of all families, sorted.
func (d *DB) Families() []string {
	d.families.RLock()
	defer d.families.RUnlock()
	names := make([]string, 0, len(d.families.byName))
	for name := range d.families.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Family returns the family of that name, or nil.
func (d *DB) Family(name string) *Family {
	d.families.RLock()
	defer d.families.RUnlock()
	return d.families.byName[name]
}

// all returns the families in the order of their ids.
func (d *DB) all() []*Family {
	d.families.RLock()
	defer d.families.RUnlock()
	families := make([]*Family, 0, len(d.families.byName))
	for _, f := range d.families.byName {
		families = append(families, f)
	}
	slices.SortFunc(families, func(a, b *Family) int { return int(int64(a.id) - int64(b.id)) })
	return families
}

// Create adds a family. It is durable at once, ahead of anything that was written but not flushed.
// Create waits while a Flush or a step of Compact runs; writers don't wait for it. On a full disk
// it returns an error that satisfies IsNoSpace, and the family may still come into being later.
func (d *DB) Create(name string) (*Family, error) {
	if err := d.exclusively("create family", func() error { return d.create(name) }); err != nil {
		return nil, err
	}
	return d.Family(name), nil
}

// create needs d.structure to be held.
func (d *DB) create(name string) error {
	if d.Family(name) != nil {
		return fmt.Errorf("rocks: create family %q: it is there already", name)
	}
	handle, err := d.inner.CreateColumnFamily(d.parts.options, name)
	if err != nil {
		return fromGrocksdb(fmt.Sprintf("create family %q", name), err)
	}
	f, err := newFamily(d, handle)
	if err != nil {
		return err
	}
	d.families.Lock()
	d.families.byName[name] = f
	d.families.Unlock()
	return d.override(f)
}

// override gives a new family what SetFamilyOptions changed since Open.
func (d *DB) override(f *Family) error {
	if len(d.families.overrides) == 0 {
		return nil
	}
	return d.setFamily(f, d.families.overrides)
}

// Drop removes a family and all that it holds, durably and at once, ahead of anything that was
// written but not flushed. Its files are deleted then. It refuses with ErrInUse while iterators are
// open on the family. It waits as Create does, and fails as Create does when the disk is full.
func (d *DB) Drop(f *Family) error {
	return d.exclusively("drop family", func() error { return d.drop(f) })
}

// drop needs d.structure to be held.
func (d *DB) drop(f *Family) error {
	if _, err := f.in(d); err != nil {
		return err
	}
	if f.name == DefaultFamily {
		return fmt.Errorf("rocks: drop family: %q can't be dropped", f.name)
	}
	// First, so that writers need not wait while the manifest is written, and so that an iterator
	// that is made now either is counted below or finds the family gone.
	d.setGone(f, true)
	d.awaitWrites()
	if n := f.inUse.Load(); n > 0 {
		d.setGone(f, false)
		return fmt.Errorf("rocks: drop family %q: %d iterators: %w", f.name, n, ErrInUse)
	}
	if err := d.inner.DropColumnFamily(f.handle); err != nil {
		d.setGone(f, false)
		return fromGrocksdb(fmt.Sprintf("drop family %q", f.name), err)
	}
	f.handle.Destroy()
	d.recovery.dropped.Add(1)
	return nil
}

// awaitWrites returns when no Write is under way that has begun before.
func (d *DB) awaitWrites() {
	d.writing.Lock()
	defer d.writing.Unlock()
}

// setGone takes a family out of the database, or back in. When it returns, no Write begins that
// names a family which is gone.
func (d *DB) setGone(f *Family, gone bool) {
	d.families.Lock()
	defer d.families.Unlock()
	f.gone.Store(gone)
	if gone {
		delete(d.families.byName, f.name)
	} else {
		d.families.byName[f.name] = f
	}
}

// first returns the address of a slice's first byte as C takes it. The bytes hold no pointers, and
// C keeps none.
func first(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }
