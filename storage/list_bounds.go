package storage

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"

	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// Nobody reads an element that lies outside of the bounds in its list's metadata. So what takes elements from an end writes the metadata
// only: no record says that they are gone. The flusher brings RocksDB into step with the bounds, once for each list and generation. What
// was pushed and popped within a generation never comes to RocksDB, and what RocksDB had is deleted there by one range, however many
// elements it is. So RocksDB has, at every position, just the elements within bounds.
//
// Views aren't touched by it: they look through the generations, which keep everything, and a snapshot of RocksDB that is as old.

// listBounds are the indexes that a spread list's elements have: from head on, before tail.
type listBounds struct{ head, tail uint64 }

func boundsOf(m *layout.Metadata) listBounds { return listBounds{m.Head, m.Tail} }

func (b listBounds) has(index uint64) bool { return index >= b.head && index < b.tail }

func (b listBounds) length() uint64 { return b.tail - min(b.head, b.tail) }

// without is what lies before and what lies behind other bounds.
func (b listBounds) without(other listBounds) [2]listBounds {
	return [2]listBounds{{b.head, min(b.tail, other.head)}, {max(b.head, other.tail), b.tail}}
}

// movedList is a spread list whose bounds have changed, in a command or in a generation.
type movedList struct {
	id    uint64
	space uint32
	gone  bool // nothing refers to it any more: the reaper removes what RocksDB has of it

	before listBounds // RocksDB and older generations have nothing outside of these
	after  listBounds // empty when it is gone
}

// movedLists are those of a generation, by their ids.
type movedLists map[uint64]movedList

// bytes is about what they take of the memory that a generation may have.
func (l movedLists) bytes() int64 { return int64(len(l)) * 128 }

// publish adds what a transaction has moved, in the order in which it did.
func (l movedLists) publish(moved []movedList) {
	for from, to := 0, 0; from < len(moved); from = to {
		for to = from + 1; to < len(moved) && moved[to].id == moved[from].id; to++ {
		}
		last := moved[to-1]
		last.before = moved[from].before
		if known, found := l[last.id]; found {
			last.before = known.before
		}
		l[last.id] = last
	}
}

// noteBounds notes that a key's new metadata changes the bounds of the spread list that it had before.
func (d DB) noteBounds(old, next *layout.Metadata) {
	if next.Encoding == layout.Spread && old.Encoding == layout.Spread && next.ID == old.ID &&
		boundsOf(next) != boundsOf(old) {
		d.moveList(next.ID, boundsOf(old), boundsOf(next))
	}
}

// moveList notes that a spread list's bounds change.
func (d DB) moveList(id uint64, before, after listBounds) {
	d.txn.changes.moved = append(d.txn.changes.moved, movedList{id: id, space: d.space.number, before: before, after: after})
}

// leaveList notes that nothing refers to a spread list any more.
func (d DB) leaveList(m *layout.Metadata) {
	d.txn.changes.moved = append(d.txn.changes.moved, movedList{id: m.ID, space: d.space.number, gone: true, before: boundsOf(m)})
}

// deleteOneByOne is up to how many elements are deleted each by itself, since every range that is deleted costs the readers of RocksDB.
const deleteOneByOne = 256

// removal is what RocksDB has no more: the keys from from up to and without to, or, without to, the one key from.
type removal struct {
	space    uint32
	from, to []byte
}

// before tells whether a removal comes before a record.
func (r *removal) before(space uint32, key []byte) bool {
	return r.space < space || r.space == space && bytes.Compare(r.from, key) < 0
}

func (r *removal) write(to target, family *rocks.Family) {
	switch {
	case family == nil: // of a namespace that no database has any more
	case r.to == nil:
		to.Delete(family, r.from)
	default:
		to.DeleteRange(family, r.from, r.to)
	}
}

// removals are what takes out of RocksDB what lay within the bounds of a generation's lists before and doesn't now, in the order of the
// keys. Each is valid until the next.
func (l movedLists) removals() iter.Seq[removal] {
	return func(yield func(removal) bool) {
		var r removal
		for _, m := range l.sorted() {
			for _, b := range m.removed() {
				if b.length() > deleteOneByOne {
					r = removal{m.space, layout.AppendListKey(r.from[:0], m.id, b.head), layout.AppendListKey(nil, m.id, b.tail)}
					b.head = b.tail
					if !yield(r) {
						return
					}
				}
				for ; b.head < b.tail; b.head++ {
					r = removal{m.space, layout.AppendListKey(r.from[:0], m.id, b.head), nil}
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}

// removed is what lay within a list's bounds before and doesn't now. When nothing refers to the list any more it is the reaper who removes it.
func (m *movedList) removed() []listBounds {
	if m.gone {
		return nil
	}
	parts := m.before.without(m.after)
	return parts[:]
}

// mostForgotten bounds the time that it takes to forget copies of elements; what is left of them makes room for others as it ages.
const mostForgotten = 1 << 20

// forgetOutside drops copies of elements that nobody asks for again.
func (s *Store) forgetOutside(moved movedLists) {
	left := uint64(mostForgotten)
	var key []byte
	for _, m := range moved {
		for _, b := range m.removed() {
			b.tail = min(b.tail, b.head+left)
			for index := b.head; index < b.tail; index++ {
				key = layout.AppendListKey(key[:0], m.id, index)
				s.clean.records.Forget(recordHash(m.space, key), m.space, key)
			}
			left -= b.length()
		}
	}
}

// sorted are the lists in the order of their records.
func (l movedLists) sorted() []movedList {
	return slices.SortedFunc(maps.Values(l), func(a, b movedList) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.id, b.id))
	})
}

// outsideOfLists tells of a generation's records, in their order, which are elements outside of their list's bounds.
type outsideOfLists struct {
	moved movedLists
	list  movedList // the one that was asked for last
	known bool
}

func (o *outsideOfLists) has(key []byte) bool {
	if len(o.moved) == 0 {
		return false
	}
	id, index, ok := layout.DecodeListKey(key)
	if !ok {
		return false
	}
	if id != o.list.id {
		o.list, o.known = o.moved[id]
		o.list.id = id
	}
	return o.known && !o.list.after.has(index)
}
