package engine

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"kedis/storage/layout"
	"kedis/storage/ordered"
	"kedis/storage/rocks"
)

// A sequence is a collection whose elements have indexes (layout.Kind). Elements outside of the
// extent that its metadata tells are never read. So a command that pops elements from an end, or
// leaves a block, writes in the metadata only that they are gone: no record says so. The flusher
// brings RocksDB into step with the extent, once for each sequence and generation. Elements that
// were pushed and popped within a generation never come to RocksDB, and those that RocksDB had are
// deleted by one range. So RocksDB has, at every position, just the elements of the extent.
//
// Views are not affected: they read the generations, which hold everything, and a snapshot of
// RocksDB that is as old.

// Bounds are indexes of a sequence: from Head on, before Tail.
type Bounds struct{ Head, Tail uint64 }

func (b Bounds) Has(index uint64) bool { return index >= b.Head && index < b.Tail }

func (b Bounds) Length() uint64 { return b.Tail - min(b.Head, b.Tail) }

// And is what lies within other bounds, too.
func (b Bounds) And(other Bounds) Bounds {
	both := Bounds{max(b.Head, other.Head), min(b.Tail, other.Tail)}
	both.Tail = max(both.Tail, both.Head)
	return both
}

// without is what lies before and what lies behind other bounds.
func (b Bounds) without(other Bounds) [2]Bounds {
	return [2]Bounds{b.And(Bounds{b.Head, other.Head}), b.And(Bounds{other.Tail, b.Tail})}
}

// Extent is where the elements of a sequence stand.
type Extent struct {
	All    Bounds
	Blocks Bounds // those in blocks: the outermost ones may reach beyond All
	Shift  uint8  // a block begins at each multiple of 1<<Shift; the same as long as a sequence has any
}

// Single is where the elements stand that have records of their own, before and behind the others.
func (e *Extent) Single() [2]Bounds {
	if e.Blocks.Length() == 0 {
		return [2]Bounds{e.All}
	}
	return e.All.without(e.Blocks)
}

// has reports whether a record of a sequence is part of the extent.
func (e *Extent) has(kind byte, index uint64) bool {
	if kind == layout.KindListBlock {
		return e.Blocks.Has(index)
	}
	return e.All.Has(index) && !e.Blocks.Has(index)
}

// movedSequence is a sequence whose extent has changed, in a command or in a generation.
type movedSequence struct {
	id    uint64
	space uint32
	gone  bool // nothing refers to it any more: the reaper removes what RocksDB has of it

	before Extent // RocksDB and older generations have nothing outside of this
	after  Extent // empty when it is gone
}

// movedSequences are those of a generation, by their ids.
type movedSequences map[uint64]*movedSequence

// bytes is about what they take of the memory that a generation may have.
func (l movedSequences) bytes() int64 { return int64(len(l)) * 160 }

// publish adds what a transaction has moved, in the order in which it did.
func (l movedSequences) publish(moved []movedSequence) {
	for from, to := 0, 0; from < len(moved); from = to {
		for to = from + 1; to < len(moved) && moved[to].id == moved[from].id; to++ {
		}
		last := &moved[to-1]
		if known, found := l[last.id]; found {
			known.after, known.gone = last.after, last.gone
			continue
		}
		first := *last
		first.before = moved[from].before
		l[last.id] = &first
	}
}

// MoveExtent notes that a spread sequence's extent changes.
func (t *Txn) MoveExtent(ns *Namespace, id uint64, before, after Extent) {
	t.changes.moved = append(t.changes.moved, movedSequence{id: id, space: ns.Number, before: before, after: after})
}

// LeaveOrder says that of a sequence's elements only those are left that stand within bounds,
// though no record says so.
func (t *Txn) LeaveOrder(ns *Namespace, id uint64, e Extent, left Bounds) {
	identity := ordered.Identity{Space: ns.Number, Kind: layout.KindListElement, ID: id}
	t.order.forgotten = append(t.order.forgotten, forgotten{identity, len(t.journal.entries)})
	tree := t.store.order.trees.Find(identity)
	switch {
	case tree == nil:
	case left.Length() == 0 || e.All.Length()-left.Length() > uint64(t.store.order.sizes.vague):
		t.store.order.trees.Drop(ns.Number, id, identity.Kind)
	default:
		for _, single := range e.Single() {
			for _, gone := range single.without(left) {
				t.leaveTree(tree, id, gone)
			}
		}
	}
}

func (t *Txn) leaveTree(tree *ordered.Tree, id uint64, gone Bounds) {
	for ; gone.Head < gone.Tail; gone.Head++ {
		t.prefetched.key = layout.AppendSequenceKey(t.prefetched.key[:0], id, gone.Head)
		tree.Delete(t.prefetched.key[layout.ElementPrefix:])
	}
}

// LeaveExtent notes that nothing refers to a spread sequence any more.
func (t *Txn) LeaveExtent(ns *Namespace, id uint64, before Extent) {
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

// row is the records of one kind that a sequence has at some indexes, step by step.
type row struct {
	space uint32
	kind  byte
	id    uint64
	Bounds
	step uint64
}

func (r *row) key(dst []byte, index uint64) []byte {
	if r.kind == layout.KindListBlock {
		return layout.AppendBlockKey(dst, r.id, index)
	}
	return layout.AppendSequenceKey(dst, r.id, index)
}

// removed is what was within the extent and isn't now. The reaper removes a sequence that was
// deleted.
func (m *movedSequence) removed() (rows []row) {
	if m.gone {
		return nil
	}
	add := func(kind byte, step uint64, b Bounds) {
		if b.Length() > 0 {
			rows = append(rows, row{m.space, kind, m.id, b, step})
		}
	}
	now := m.after.Single()
	for _, was := range m.before.Single() {
		for _, part := range was.without(now[0]) {
			for _, part := range part.without(now[1]) {
				add(layout.KindListElement, 1, part)
			}
		}
	}
	for _, part := range m.before.Blocks.without(m.after.Blocks) {
		add(layout.KindListBlock, 1<<m.before.Shift, part)
	}
	return rows
}

// removed are the rows of all sequences, in the order of their keys.
func (l movedSequences) removed() (rows []row) {
	for _, m := range l {
		rows = append(rows, m.removed()...)
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id), cmp.Compare(a.Head, b.Head))
	})
	return rows
}

// removals are the deletions of what was within the extent of a generation's sequences and isn't
// now, in the order of the keys. Each is valid until the next.
func (l movedSequences) removals() iter.Seq[removal] {
	return func(yield func(removal) bool) {
		var r removal
		for _, row := range l.removed() {
			if row.Length() > deleteOneByOne*row.step {
				r = removal{row.space, row.key(r.from[:0], row.Head), row.key(nil, row.Tail)}
				row.Head = row.Tail
				if !yield(r) {
					return
				}
			}
			for ; row.Head < row.Tail; row.Head += row.step {
				r = removal{row.space, row.key(r.from[:0], row.Head), nil}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// mostForgotten bounds the time for removing copies of elements from the cache; the others leave it
// as they age.
const mostForgotten = 1 << 20

// forgetOutside drops copies of elements that nobody asks for again.
func (s *Store) forgetOutside(moved movedSequences) {
	left := uint64(mostForgotten)
	var key []byte
	for _, row := range moved.removed() {
		for ; row.Head < row.Tail && left > 0; row.Head += row.step {
			key = row.key(key[:0], row.Head)
			s.clean.records.Forget(recordHash(row.space, key), row.space, key)
			left--
		}
	}
}

// outsideOfSequences finds the records outside of their sequence's extent among a generation's
// records, which it gets in their order.
type outsideOfSequences struct {
	moved movedSequences
	id    uint64         // that was asked for last
	last  *movedSequence // of it, if it has moved
}

func (o *outsideOfSequences) has(key []byte) bool {
	if len(o.moved) == 0 {
		return false
	}
	if !layout.Kinds[key[0]].Listed {
		return false
	}
	id, index := layout.ElementID(key), layout.ElementIndex(key)
	if id != o.id {
		o.id, o.last = id, o.moved[id]
	}
	return o.last != nil && !o.last.after.has(key[0], index)
}
