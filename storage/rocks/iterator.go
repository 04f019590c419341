package rocks

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"math"
	"sync"
)

// IteratorOptions say what an iterator walks over and how.
type IteratorOptions struct {
	// LowerBound is the first key that may be seen, UpperBound the first one after it that may not;
	// nil for none. Both must stay unchanged until Close.
	LowerBound, UpperBound []byte

	Reverse  bool // from the last key to the first
	KeysOnly bool // Value returns nothing

	// Expected is how many entries the caller is likely to read, when it knows: they are then
	// fetched at once. Without it the first block is small and the next ones are larger, so that a
	// walk which stops early costs little.
	Expected int

	NoFillCache    bool // blocks that are read don't displace others in the cache: for walks over much data
	CachedOnly     bool // the walk ends, with an error that IsIncomplete knows, where it would wait for a file
	ReadAheadBytes int  // read ahead from disk by so much, for long walks; 0 leaves it to RocksDB
}

const (
	firstEntries = 16
	blockBytes   = 64 << 10
)

// Iterator walks over the entries of a family in the order of their keys. It fetches them from C in
// blocks.
//
// It doesn't respect deleted ranges (Batch.DeleteRange): it shows what was deleted so until RocksDB
// has compacted it away.
//
// It sees the database as its snapshot does; without one, as it was at the first call of Next or
// Seek (a Seek after the walk had reached its end takes a newer state). For one goroutine at a
// time. Close must follow.
type Iterator struct {
	db       *DB
	family   *Family
	snapshot *Snapshot
	options  IteratorOptions
	c        *C.rocks_iterator

	block   []byte // entries as rocks_block has them
	length  int    // how much of it is filled
	offset  int    // where the next entry begins
	entries uint32 // how many to fetch next time
	opened  bool
	closed  bool

	key, value []byte
	err        error
}

// NewIterator returns an iterator that stands before its first entry. It does nothing in C yet.
func (d *DB) NewIterator(f *Family, s *Snapshot, o IteratorOptions) *Iterator {
	it := &Iterator{db: d, family: f, snapshot: s, options: o, entries: firstEntries}
	if o.Expected > 0 {
		it.entries = uint32(min(o.Expected, math.MaxInt32))
	}
	d.inUse.Add(1)
	f.inUse.Add(1)
	return it
}

// Next moves to the next entry and reports whether there is one. After false, Err tells why.
func (it *Iterator) Next() bool {
	if it.offset == it.length && !it.fetch() {
		it.key, it.value = nil, nil
		return false
	}
	entry := it.block[it.offset:it.length]
	keyEnd := 8 + int(binary.NativeEndian.Uint32(entry))
	end := keyEnd + int(binary.NativeEndian.Uint32(entry[4:]))
	it.key, it.value = entry[8:keyEnd:keyEnd], entry[keyEnd:end:end]
	it.offset += end
	return true
}

// Key returns the key of the entry, valid until the next call of Next, Seek or Close.
func (it *Iterator) Key() []byte { return it.key }

// Value returns the value of the entry, valid as long as Key.
func (it *Iterator) Value() []byte { return it.value }

// Err returns what stopped the walk, nil when it came to its end.
func (it *Iterator) Err() error { return it.err }

// Seek makes the next call of Next move to the first entry at or after key; in reverse, to the last
// at or before it. The bounds hold as before.
func (it *Iterator) Seek(key []byte) {
	if it.closed {
		panic("rocks: seek in a closed iterator")
	}
	it.offset, it.length, it.err, it.key, it.value = 0, 0, nil, nil, nil
	if it.c == nil {
		it.open(C.ROCKS_SEEK, key)
		return
	}
	it.take(C.rocks_iterator_seek(it.c, first(key), C.size_t(len(key)), first(it.block), C.size_t(len(it.block)),
		C.uint32_t(it.entries)))
}

// Close ends the walk and frees what it holds.
func (it *Iterator) Close() {
	if it.closed {
		return
	}
	it.closed = true
	if it.c != nil {
		C.rocks_iterator_close(it.c)
		it.c = nil
	}
	it.db.blocks.put(it.block)
	it.block, it.key, it.value, it.offset, it.length = nil, nil, nil, 0, 0
	it.family.inUse.Add(-1)
	it.db.inUse.Add(-1)
}

// fetch gets the next block and reports whether there is an entry in it.
func (it *Iterator) fetch() bool {
	switch {
	case it.closed || it.err != nil:
		return false
	case !it.opened:
		it.open(0, nil)
	case it.c == nil: // the last block was the end
		return false
	default:
		it.fill()
	}
	return it.length > 0
}

// open begins the walk. RocksDB's iterator lives from here until nothing is left to see.
func (it *Iterator) open(flags C.uint32_t, key []byte) {
	family, err := it.family.in(it.db)
	if err != nil {
		it.err = err
		return
	}
	it.opened = true
	if it.block == nil {
		it.block = it.db.blocks.get()
	}
	o := &it.options
	it.take(C.rocks_iterator_open(it.db.c, family, it.snapshot.of(it.db), flags|o.flags(),
		C.size_t(o.ReadAheadBytes), first(o.LowerBound), C.size_t(len(o.LowerBound)),
		first(o.UpperBound), C.size_t(len(o.UpperBound)), first(key), C.size_t(len(key)),
		first(it.block), C.size_t(len(it.block)), C.uint32_t(it.entries)))
}

func (it *Iterator) fill() {
	it.take(C.rocks_iterator_next(it.c, first(it.block), C.size_t(len(it.block)), C.uint32_t(it.entries)))
}

// take accepts a block. An entry that is larger than the whole block makes it grow, and is fetched
// again.
func (it *Iterator) take(b C.rocks_block) {
	it.c, it.offset, it.length = b.iterator, 0, int(b.length)
	if it.err = fromStatus("iterate", b.status); it.err != nil {
		return
	}
	if it.entries < math.MaxInt32/4 {
		it.entries *= 4
	}
	if b.needed > 0 {
		it.db.blocks.put(it.block)
		it.block = make([]byte, int(b.needed))
		it.fill()
	}
}

func (o *IteratorOptions) flags() C.uint32_t {
	var flags C.uint32_t
	for _, f := range []struct {
		set  bool
		flag C.uint32_t
	}{
		{o.Reverse, C.ROCKS_REVERSE},
		{o.KeysOnly, C.ROCKS_KEYS_ONLY},
		{o.NoFillCache, C.ROCKS_NO_FILL_CACHE},
		{o.CachedOnly, C.ROCKS_CACHED},
		{o.LowerBound != nil, C.ROCKS_LOWER},
		{o.UpperBound != nil, C.ROCKS_UPPER},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

// blockPool lends blocks of blockBytes to iterators.
type blockPool struct{ pool sync.Pool }

func (p *blockPool) get() []byte {
	if b, ok := p.pool.Get().(*[blockBytes]byte); ok {
		return b[:]
	}
	return make([]byte, blockBytes)
}

// put takes a block back. One that had to be larger is left to the garbage collector.
func (p *blockPool) put(b []byte) {
	if len(b) == blockBytes {
		p.pool.Put((*[blockBytes]byte)(b))
	}
}
