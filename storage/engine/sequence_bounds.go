package engine

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"

	"kedis/storage/layout"
	"kedis/storage/ordered"
	"kedis/storage/rocks"
)

// A sequence is a collection whose elements have indexes (layout.Kind). Elements outside of the
// bounds in its metadata are never read. So a command that pops elements from an end writes only
// the metadata: no record says that they are gone. The flusher brings RocksDB into step with the
// bounds, once for each sequence and generation. Elements that were pushed and popped within a
// generation never come to RocksDB, and those that RocksDB had are deleted by one range. So RocksDB
// has, at every position, just the elements within bounds.
//
// Views are not affected: they read the generations, which hold everything, and a snapshot of
// RocksDB that is as old.

// Bounds are the indexes that a sequence's elements have: from Head on, before Tail.
type Bounds struct{ Head, Tail uint64 }

func (b Bounds) Has(index uint64) bool { return index >= b.Head && index < b.Tail }

func (b Bounds) Length() uint64 { return b.Tail - min(b.Head, b.Tail) }

// without is what lies before and what lies behind other bounds.
func (b Bounds) without(other Bounds) [2]Bounds {
	return [2]Bounds{{b.Head, min(b.Tail, other.Head)}, {max(b.Head, other.Tail), b.Tail}}
}

// movedSequence is a sequence whose bounds have changed, in a command or in a generation.
type movedSequence struct {
	id    uint64
	space uint32
	gone  bool // nothing refers to it any more: the reaper removes what RocksDB has of it

	before Bounds // RocksDB and older generations have nothing outside of these
	after  Bounds // empty when it is gone
}

// movedSequences are those of a generation, by their ids.
type movedSequences map[uint64]movedSequence

// bytes is about what they take of the memory that a generation may have.
func (l movedSequences) bytes() int64 { return int64(len(l)) * 128 }

// publish adds what a transaction has moved, in the order in which it did.
func (l movedSequences) publish(moved []movedSequence) {
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

// MoveBounds notes that a spread sequence's bounds change.
func (t *Txn) MoveBounds(ns *Namespace, id uint64, before, after Bounds) {
	t.changes.moved = append(t.changes.moved, movedSequence{id: id, space: ns.Number, before: before, after: after})
}

// LeaveOrder says that the elements of a sequence that bounds had before are no longer part of it,
// though no record says so.
func (t *Txn) LeaveOrder(ns *Namespace, id uint64, before, after Bounds) {
	gone := before.without(after)
	count := gone[0].Length() + gone[1].Length()
	if count == 0 {
		return
	}
	identity := ordered.Identity{Space: ns.Number, Kind: layout.KindListElement, ID: id}
	t.order.forgotten = append(t.order.forgotten, forgotten{identity, len(t.journal.entries)})
	tree := t.store.order.trees.Find(identity)
	switch {
	case tree == nil:
	case count > uint64(t.store.order.sizes.vague):
		t.store.order.trees.Drop(ns.Number, id, identity.Kind)
	default:
		for _, b := range gone {
			for ; b.Head < b.Tail; b.Head++ {
				t.prefetched.key = layout.AppendSequenceKey(t.prefetched.key[:0], id, b.Head)
				tree.Delete(t.prefetched.key[layout.ElementPrefix:])
			}
		}
	}
}

// LeaveBounds notes that nothing refers to a spread sequence any more.
func (t *Txn) LeaveBounds(ns *Namespace, id uint64, before Bounds) {
	t.changes.moved = append(t.changes.moved, movedSequence{id: id, space: ns.Number, gone: true, before: before})
}

// deleteOneByOne is up to how many elements are deleted one by one: every deleted range slows
// readers of RocksDB down.
const deleteOneByOne = 256

// removal is a deletion in RocksDB: of the keys from from up to and without to, or, without to, of
// the key from.
type removal struct {
	space    uint32
	from, to []byte
}

// before reports whether a removal comes before a record.
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

// removals are the deletions of what was within the bounds of a generation's sequences and isn't
// now, in the order of the keys. Each is valid until the next.
func (l movedSequences) removals() iter.Seq[removal] {
	return func(yield func(removal) bool) {
		var r removal
		for _, m := range l.sorted() {
			for _, b := range m.removed() {
				if b.Length() > deleteOneByOne {
					r = removal{m.space, layout.AppendSequenceKey(r.from[:0], m.id, b.Head), layout.AppendSequenceKey(nil, m.id, b.Tail)}
					b.Head = b.Tail
					if !yield(r) {
						return
					}
				}
				for ; b.Head < b.Tail; b.Head++ {
					r = removal{m.space, layout.AppendSequenceKey(r.from[:0], m.id, b.Head), nil}
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}

// removed is what was within the bounds and isn't now. The reaper removes a sequence that was
// deleted.
func (m *movedSequence) removed() []Bounds {
	if m.gone {
		return nil
	}
	parts := m.before.without(m.after)
	return parts[:]
}

// mostForgotten bounds the time for removing copies of elements from the cache; the others leave it
// as they age.
const mostForgotten = 1 << 20

// forgetOutside drops copies of elements that nobody asks for again.
func (s *Store) forgetOutside(moved movedSequences) {
	left := uint64(mostForgotten)
	var key []byte
	for _, m := range moved {
		for _, b := range m.removed() {
			b.Tail = min(b.Tail, b.Head+left)
			for index := b.Head; index < b.Tail; index++ {
				key = layout.AppendSequenceKey(key[:0], m.id, index)
				s.clean.records.Forget(recordHash(m.space, key), m.space, key)
			}
			left -= b.Length()
		}
	}
}

// sorted are the sequences in the order of their records.
func (l movedSequences) sorted() []movedSequence {
	return slices.SortedFunc(maps.Values(l), func(a, b movedSequence) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.id, b.id))
	})
}

// outsideOfSequences finds the elements outside of their sequence's bounds among a generation's
// records, which it gets in their order.
type outsideOfSequences struct {
	moved movedSequences
	last  movedSequence // the one that was asked for last
	known bool
}

func (o *outsideOfSequences) has(key []byte) bool {
	if len(o.moved) == 0 {
		return false
	}
	id, index, ok := layout.DecodeSequenceKey(key)
	if !ok {
		return false
	}
	if id != o.last.id {
		o.last, o.known = o.moved[id]
		o.last.id = id
	}
	return o.known && !o.last.after.Has(index)
}
