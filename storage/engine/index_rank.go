package engine

import (
	"bytes"
	"errors"
	"fmt"

	"kedis/storage/layout"
	"kedis/storage/ordered"
)

const (
	// FewEntries are about as many as one piece of an index has.
	FewEntries = ordered.Target
	// fewUncounted is how many entries are walked rather than counted.
	fewUncounted = 4 * ordered.Target
)

// Counts reports whether the index finds ranks and entries by their number without a walk from an
// end.
func (x *Index) Counts() bool { return x.tree() != nil }

// Before is how many entries stand before a key of the index; none before nil. What isn't counted
// yet is counted from its beginning on, or, reverse, from its end. Counts has returned true.
func (x *Index) Before(key []byte, reverse bool) (int, error) {
	if len(key) == 0 {
		return 0, nil
	}
	tree := x.tree()
	x.txn.order.asked = true
	for {
		p := x.find(tree, key)
		vagueFrom, behind := p.Vague-p.VagueBefore, p.Known-p.Before // of this piece and those behind it
		switch vague := p.Count == ordered.Vague; {
		case !vague && p.VagueBefore == 0:
			n, err := x.beforeWithin(tree, &p, key, reverse)
			return p.Before + n, err
		case !vague && vagueFrom == 0:
			n, err := x.beforeWithin(tree, &p, key, reverse)
			return x.entries - behind + n, err
		case p.VagueBefore == 0:
			n, err := x.countTo(tree, &p, key, false)
			return p.Before + n, err
		case vagueFrom == 1 && vague:
			n, err := x.countTo(tree, &p, key, true)
			return x.entries - behind - n, err
		}
		if err := x.countVague(tree, reverse); err != nil {
			return 0, err
		}
	}
}

// find returns the piece that a key belongs to. If it is the only vague one, its entries are those
// that are left.
func (x *Index) find(tree *ordered.Tree, key []byte) ordered.Piece {
	p := tree.FindRanked(key, false)
	if p.Vague == 1 {
		tree.Resolve(x.entries)
		p = tree.FindRanked(key, false)
	}
	return p
}

// beforeWithin is how many entries of a known piece stand before a key.
func (x *Index) beforeWithin(tree *ordered.Tree, p *ordered.Piece, key []byte, reverse bool) (n int, err error) {
	switch {
	case p.Resident:
		n, _ = p.Block.Search(key)
		return n, x.txn.Spend(1)
	case reverse && !tree.Whole(p):
		n, err = x.countTo(tree, p, key, true)
		return p.Count - n, err
	}
	return x.countTo(tree, p, key, false)
}

// countTo counts the entries of a piece before a key, or, reverse, those from it on.
func (x *Index) countTo(tree *ordered.Tree, p *ordered.Piece, key []byte, reverse bool) (n int, err error) {
	err = x.count(tree, p, reverse, func(next []byte) bool {
		if reverse == (bytes.Compare(next, key) < 0) {
			return false
		}
		n++
		return true
	})
	return n, err
}

// countVague counts the first vague piece, or the last.
func (x *Index) countVague(tree *ordered.Tree, last bool) error {
	p := tree.VaguePiece(last)
	return x.count(tree, &p, last, func([]byte) bool { return true })
}

// count goes over a piece that isn't resident, and tells the tree what is there. visit returns
// false when the rest may stay as it is; a key is valid during the call.
func (x *Index) count(tree *ordered.Tree, p *ordered.Piece, reverse bool, visit func(key []byte) bool) error {
	t := x.txn
	if !tree.Counting.TryLock() {
		if t.running.budget < unlimited/2 && t.order.countAtMost == 0 {
			return ErrBudget // a reactor doesn't wait for another one's walk
		}
		tree.Counting.Lock()
	}
	defer tree.Counting.Unlock()
	defer t.store.order.trees.Reclaim()
	budget := t.running.budget
	if t.order.countAtMost > 0 {
		t.running.budget = t.order.countAtMost
	}
	err := x.countPiece(tree, p, reverse, visit)
	if !tree.Whole(p) {
		err = t.Often(err)
	}
	if t.order.countAtMost > 0 {
		t.order.countAtMost, t.running.budget = max(t.running.budget, 1), budget
		if errors.Is(err, ErrBudget) {
			err = ErrCounting
		}
	}
	return err
}

func (x *Index) countPiece(tree *ordered.Tree, p *ordered.Piece, reverse bool, visit func(key []byte) bool) error {
	r, learns := x.txn.order.readings.take(), ordered.Counts
	defer x.txn.order.readings.giveBack(r)
	if tree.Whole(p) || x.txn.view == nil && x.txn.store.order.trees.HasRoom() {
		learns = ordered.Entries
	}
	from, far := p.Lower, p.Upper
	if reverse {
		from, far = far, from
	}
	r.Begin(tree, p, from, reverse, learns)
	it := x.iterateFrom(from, far, reverse).Passing()
	wanted, stopped := true, false
	for !stopped && it.Next() {
		key := it.Key()[layout.ElementPrefix:]
		if stopped = !wanted && r.Enough() && !tree.Whole(p); stopped || !r.Add(key, it.Value()) {
			break
		}
		wanted = wanted && visit(key)
	}
	err := it.Close()
	if stopped || err != nil {
		r.Stop()
	} else {
		r.End(far)
	}
	if r.Wrong() {
		x.drop()
		return x.miscounted()
	}
	return err
}

// ByRank visits the entries from a rank on, 0 being the first one, or backwards. Those near to
// where that begins are found without counts. Counts has returned true.
func (x *Index) ByRank(rank int, reverse bool, visit VisitEntry) error {
	s := scan{Index: *x, tree: x.tree(), reverse: reverse, skip: rank}
	if reverse {
		s.skip = x.entries - 1 - rank
	}
	if s.skip > FewEntries {
		p, skip, err := x.at(rank)
		if err != nil {
			return err
		}
		if s.lower, s.skip = p.Lower, skip; reverse {
			s.lower, s.upper, s.skip = nil, p.Upper, p.Count-1-skip
		}
		if err := s.step(&p, visit); err != nil {
			return err
		}
	}
	return s.run(visit)
}

// at returns the piece of the index that has the entry of a rank, and how many of its entries stand
// before that.
func (x *Index) at(rank int) (p ordered.Piece, skip int, err error) {
	tree := x.tree()
	x.txn.order.asked = true
	for {
		if p, skip, err = x.locate(tree, rank); err != nil {
			return p, 0, err
		}
		if p.Count != ordered.Vague && (p.Resident || tree.Whole(&p)) {
			return p, skip, nil
		}
		if p.Count == ordered.Vague {
			err = x.countVague(tree, rank > x.entries/2)
		} else {
			err = x.divide(tree, &p, skip)
		}
		if err != nil {
			return p, 0, err
		}
	}
}

// locate returns the known piece that has the entry of a rank, or a vague one.
func (x *Index) locate(tree *ordered.Tree, rank int) (p ordered.Piece, skip int, err error) {
	p, skip = tree.Locate(rank, x.entries)
	if skip < 0 || p.Count != ordered.Vague && skip >= p.Count {
		x.recount("a rank is in no piece")
		err = x.miscounted()
	}
	return p, skip, err
}

// miscounted is what it means that the index has other entries than are counted.
func (x *Index) miscounted() error {
	return fmt.Errorf("%w: collection %d has not the %d elements that it should have", layout.ErrCorrupt, x.id, x.entries)
}

// divide cuts small pieces off a large one up to an entry, from the nearer end.
func (x *Index) divide(tree *ordered.Tree, p *ordered.Piece, skip int) error {
	reverse := skip > p.Count/2
	if reverse {
		skip = p.Count - 1 - skip
	}
	return x.count(tree, p, reverse, func([]byte) bool { skip--; return skip >= 0 })
}

// CountBetween is the number of entries from lower on, before upper. What isn't counted yet is only
// counted when they are many. Counts has returned true.
func (x *Index) CountBetween(lower, upper []byte) (n int, err error) {
	tree := x.tree()
	if !x.counted(tree, lower) || !x.counted(tree, upper) {
		err = x.Scan(lower, upper, false, func(_, _ []byte) bool { n++; return n <= fewUncounted })
		if err != nil || n <= fewUncounted {
			return n, err
		}
	}
	from, to, err := x.Between(lower, upper, false)
	return max(to-from, 0), err
}

// Between is how many entries stand before two keys of the index, of which upper may be nil for its
// end. Counts has returned true.
func (x *Index) Between(lower, upper []byte, reverse bool) (from, to int, err error) {
	if from, err = x.Before(lower, reverse); err != nil || upper == nil {
		return from, x.entries, err
	}
	to, err = x.Before(upper, reverse)
	return from, to, err
}

// counted reports whether all that stands before a key, or behind it, is counted in small pieces.
func (x *Index) counted(tree *ordered.Tree, key []byte) bool {
	if len(key) == 0 {
		return true
	}
	p := tree.FindRanked(key, false)
	return p.Count != ordered.Vague && (p.Resident || tree.Whole(&p)) && (p.VagueBefore == 0 || p.VagueBefore == p.Vague)
}
