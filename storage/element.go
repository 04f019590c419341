package storage

import (
	"kedis/storage/engine"
	"kedis/storage/layout"
)

// Limits tell up to which size collections are packed. They are asked each time, so that they can
// change live; they have the names, defaults and meaning of Redis's options.
type Limits struct {
	HashEntries, HashValue func() int64
	ListSize               func() int64 // entries, or -1 to -5 for 4 to 64 KB
	SetIntsetEntries       func() int64
	SetEntries, SetValue   func() int64
	ZSetEntries, ZSetValue func() int64

	StreamBytes, StreamEntries func() int64 // of a node, which streams are trimmed by; 0 is no limit

	// In tests, of lists:
	blockShift uint8 // of the largest blocks; 0 is layout.MaxShift
	mostEdited int   // bytes that a block grows to; 0 is mostEdited
	noBlocks   bool  // there are none
}

// Limits are the limits in force.
func (d DB) limits() *Limits { return d.txn.limits }

// newElements begins a spread collection that nothing refers to yet.
func (d DB) newElements(t layout.Type) *engine.Elements {
	return d.txn.NewElements(d.space, t, d.txn.NewID())
}

// The functions below read and write the elements of spread collections: records
// | kind | id:8 | element |. See package layout.

func (d DB) elementKey(kind byte, id uint64, element []byte) []byte {
	d.txn.scratch.key2 = layout.AppendElementKey(d.txn.scratch.key2[:0], kind, id, element)
	return d.txn.scratch.key2
}

func (d DB) getElement(kind byte, id uint64, element []byte) (value []byte, found bool, err error) {
	return d.getLong(d.elementKey(kind, id, element))
}

// getLong is Get for a record that may be long and is copied to a reply.
func (d DB) getLong(key []byte) (value []byte, found bool, err error) {
	if value, found, err = d.txn.Get(d.space, key); err == nil {
		err = d.txn.SpendLong(len(value))
	}
	return value, found, err
}

func (d DB) putElement(kind byte, id uint64, element, value []byte) error {
	return d.txn.Put(d.space, d.elementKey(kind, id, element), value)
}

func (d DB) deleteElement(kind byte, id uint64, element []byte) error {
	return d.txn.Delete(d.space, d.elementKey(kind, id, element))
}

// manyRecords are more than one walk may bring to RocksDB's cache.
const manyRecords = 64 << 10

// iterateCollection returns the records of one kind of a spread collection, for one walk. They are
// valid until the next one.
func (d DB) iterateCollection(kind byte, m *layout.Metadata, reverse bool) *Iterator {
	lower, upper := m.Records(kind)
	return d.iterateRecords(m, lower, upper, reverse)
}

// iterateSingle is iterateCollection for neighbouring elements of a list that stand in no block.
func (d DB) iterateSingle(m *layout.Metadata, row engine.Bounds) *Iterator {
	lower, upper := layout.AppendSequenceKey(nil, m.ID, row.Head), layout.AppendSequenceKey(nil, m.ID, row.Tail)
	return d.iterateRecords(m, lower, upper, false)
}

func (d DB) iterateRecords(m *layout.Metadata, lower, upper []byte, reverse bool) *Iterator {
	if m.Length() > manyRecords {
		return d.txn.IterateOnce(d.space, lower, upper, reverse)
	}
	return d.txn.Iterate(d.space, lower, upper, IteratorOptions{Reverse: reverse}).Passing()
}

// iterateElements returns the elements of one kind from one on (nil: from the first). The element
// stands behind layout.ElementPrefix in Iterator.Key.
func (d DB) iterateElements(kind byte, id uint64, from []byte, o IteratorOptions) *Iterator {
	lower := layout.AppendElementKey(nil, kind, id, from)
	return d.txn.Iterate(d.space, lower, layout.Successor(nil, lower[:layout.ElementPrefix]), o)
}
