package engine

import (
	"encoding/binary"
	"fmt"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// mostPoints is up to how many neighbouring elements of a sequence are looked up one by one: their
// keys are known, and they are near the ends most of the time, where the sequence was last written,
// and so in memory. A walk would look for its beginning in each chunk.
const mostPoints = 128

// sequencePoints are the next elements of a sequence that an iterator looks up.
type sequencePoints struct {
	space  *Namespace
	id     uint64
	left   Bounds
	blocks Bounds // what lies there has no records of its own, and is passed over
	passed int
	keys   []byte // memory for the next ones
}

// iterateSequence iterates over the elements of a sequence from one key of a record on, before
// another one. It has to have them.
func (x *Index) iterateSequence(from, to []byte, reverse bool) *Iterator {
	t, row := x.txn, Bounds{firstIndex(from), firstIndex(to)}
	t.order.run.expect(x.space.Number, x.id, row, reverse)
	points := &sequencePoints{space: x.space, id: x.id, left: row, blocks: x.blocks}
	points.passBlocks(reverse)
	return &Iterator{txn: t, reverse: reverse, points: points}
}

// firstIndex is that of the first element that doesn't come before a border of a sequence's tree,
// which may be shorter or longer than keys are.
func firstIndex(border []byte) uint64 {
	var index [8]byte
	longer := copy(index[:], border[layout.ElementPrefix:]) < len(border)-layout.ElementPrefix
	first := binary.BigEndian.Uint64(index[:])
	if longer {
		first++
	}
	return first
}

// nextPoint is Next as long as elements are looked up.
func (it *Iterator) nextPoint() bool {
	p, t := it.points, it.txn
	switch {
	case p.left.Length() == 0:
		return false
	case p.passed == mostPoints:
		it.endPoints()
		it.begin(p.space, p.key(p.left.Head), p.key(p.left.Tail), IteratorOptions{Reverse: it.reverse})
		return it.next()
	case p.passed%PrefetchBatch == 0 && !t.order.run.has(p.id, p.next(it.reverse)):
		p.prefetch(t, it.reverse)
	}
	p.passed++
	index := p.take(it.reverse)
	key := p.key(index)
	value, found, err := t.getInRow(p.space, index, key)
	if err == nil && !found {
		err = fmt.Errorf("%w: collection %d has no element %d", layout.ErrCorrupt, p.id, index)
	}
	it.key, it.value, it.err = key, value, err
	return err == nil
}

// endPoints ends looking up elements in a row.
func (it *Iterator) endPoints() {
	if it.points != nil {
		it.txn.order.run.row, it.points = Bounds{}, nil
	}
}

// getInRow is Get for an element that RocksDB may have been asked for with the one before it: newer
// is only what RocksDB hasn't got yet.
func (t *Txn) getInRow(ns *Namespace, index uint64, key []byte) (value []byte, found bool, err error) {
	run := &t.order.run
	if !run.has(layout.ElementID(key), index) {
		return t.Get(ns, key)
	}
	hash := t.hash(ns, key)
	_, own := t.journal.get(hash, ns.Number, key)
	_, recent := t.store.tiers.Load().recent.get(hash, ns.Number, key)
	if own != generation.Unknown || recent != generation.Unknown || !run.holds(t.store) {
		return t.Get(ns, key)
	}
	value, found = run.at(index)
	return value, found, t.Spend(1)
}

// next is the next index.
func (p *sequencePoints) next(reverse bool) uint64 {
	if reverse {
		return p.left.Tail - 1
	}
	return p.left.Head
}

// take passes the next index.
func (p *sequencePoints) take(reverse bool) uint64 {
	index := p.next(reverse)
	if reverse {
		p.left.Tail--
	} else {
		p.left.Head++
	}
	p.passBlocks(reverse)
	return index
}

// passBlocks goes on behind the blocks if they come next.
func (p *sequencePoints) passBlocks(reverse bool) {
	switch {
	case p.left.Length() == 0 || !p.blocks.Has(p.next(reverse)):
	case reverse:
		p.left.Tail = max(p.left.Head, p.blocks.Head)
	default:
		p.left.Head = min(p.left.Tail, p.blocks.Tail)
	}
}

// key is that of an element. It is not written to again.
func (p *sequencePoints) key(index uint64) []byte {
	const length = layout.ElementPrefix + 8
	if cap(p.keys)-len(p.keys) < length {
		p.keys = make([]byte, 0, PrefetchBatch*length)
	}
	from := len(p.keys)
	p.keys = layout.AppendSequenceKey(p.keys, p.id, index)
	return p.keys[from:len(p.keys):len(p.keys)]
}

// prefetch has the processor read the next elements together.
func (p *sequencePoints) prefetch(t *Txn, reverse bool) {
	ahead, key := *p, &t.prefetched.key
	t.PrefetchRecords(p.space, func() []byte {
		if ahead.left.Length() == 0 {
			return nil
		}
		*key = layout.AppendSequenceKey((*key)[:0], p.id, ahead.take(reverse))
		return *key
	})
}
