package engine

import (
	"cmp"

	"kedis/storage/ordered"
)

// The entry with a number is found by a descent, once all entries are counted. Picking one without
// that takes about as long as counting PickCost entries. So each pick counts some, from the first
// on, until all are counted. A few picks don't go over the whole collection.

const (
	// PickCost is about how many elements could be walked in the time that it takes to pick one.
	PickCost = 2048
	// countedAhead are the entries that are counted with each pick while there is room for them.
	// More would keep others waiting for long.
	countedAhead = 4 * PickCost
)

// Counted reports whether all entries are.
func (x *Index) Counted() bool {
	tree := x.tree()
	if tree == nil {
		return false
	}
	_, left := x.uncounted(tree)
	return !left
}

// uncounted returns the first piece of which the entries aren't counted; left is false if there is
// none.
func (x *Index) uncounted(tree *ordered.Tree) (p ordered.Piece, left bool) {
	if _, vague := tree.Sums(); vague == 0 {
		last := tree.Find(nil, true)
		return last, undivided(&last)
	}
	last := tree.FindRanked(nil, true)
	if last.Vague == 1 {
		tree.Resolve(x.entries)
		last = tree.FindRanked(nil, true)
	}
	if last.Vague > 0 {
		return tree.VaguePiece(false), true
	}
	return last, undivided(&last)
}

// undivided reports whether a known piece, the last one, is so large that its entries are yet to be
// found.
func undivided(p *ordered.Piece) bool { return !p.Resident && p.Count > PickCost }

// Entry returns the entry with a number, from 0 on; found is false as long as not all are counted.
func (x *Index) Entry(rank int) (key []byte, found bool, err error) {
	tree := x.tree()
	if tree == nil {
		return nil, false, nil
	}
	if p, left := x.uncounted(tree); left {
		return nil, false, x.countSome(tree, &p)
	}
	p := tree.At(rank)
	key, _, found, err = x.entry(&p, rank)
	return key, found, err
}

// Entries visits the entries with some numbers, in the order of these, until visit returns false.
// All are counted.
func (x *Index) Entries(ranks []int, visit func(key, value []byte) (goesOn bool, err error)) error {
	tree := x.tree()
	for len(ranks) > 0 {
		few := ranks[:min(ordered.Together, len(ranks))]
		ranks = ranks[len(few):]
		var pieces [ordered.Together]ordered.Piece
		x.txn.order.touched += tree.AtEach(few, &pieces)
		for i, rank := range few {
			key, value, found, err := x.entry(&pieces[i], rank)
			if err == nil && !found {
				err = x.miscounted()
			}
			goesOn := err == nil
			if goesOn {
				goesOn, err = visit(key, value)
			}
			if !goesOn {
				return err
			}
		}
	}
	return nil
}

// entry is Entry when all are counted. The piece is that of the entry, as far as it was in small
// ones.
func (x *Index) entry(p *ordered.Piece, rank int) (key, value []byte, found bool, err error) {
	switch {
	case p.Block.Resident() && rank-p.Before < p.Block.Len():
		key, value = p.Block.At(rank - p.Before)
		return key, value, true, cmp.Or(x.txn.Spend(1), x.txn.SpendLong(len(key)))
	case x.txn.store.order.trees.HasRoom():
		err = x.ByRank(rank, false, func(k, v []byte) bool {
			key, value, found = k, v, true
			return false
		})
	default:
		key, value, found, err = x.passTo(rank)
	}
	return key, value, found, x.txn.Often(err) // a command that runs again picks another number
}

// passTo is Entry where there is no room for the piece that the entry is in: the next pick is as
// likely to need any other, so no more of it is read than the way from its nearer end.
func (x *Index) passTo(rank int) (key, value []byte, found bool, err error) {
	p, skip, err := x.at(rank)
	if err != nil {
		return nil, nil, false, err
	}
	reverse := skip > p.Count/2
	if reverse {
		skip = p.Count - 1 - skip
	}
	err = x.Walk(p.Lower, p.Upper, reverse, func(k, v []byte) bool {
		if found = skip == 0; found {
			key, value = k, v
		}
		skip--
		return !found
	})
	return key, value, found, err
}

// countSome counts some entries from the beginning of a piece on.
func (x *Index) countSome(tree *ordered.Tree, p *ordered.Piece) error {
	if !tree.Counting.TryLock() {
		return nil // somebody else does
	}
	tree.Counting.Unlock()
	left := PickCost
	if x.txn.store.order.trees.HasRoom() {
		left = countedAhead
	}
	return x.count(tree, p, false, func([]byte) bool { left--; return left > 0 })
}
