package engine

import (
	"bytes"

	"kedis/storage/layout"
	"kedis/storage/ordered"
)

// residentShare is how many entries of a resident piece cost about as much as one record.
const residentShare = 4

// residentCost is what so many entries of a resident piece cost, in records.
func residentCost(b ordered.Block, n int) int {
	return 1 + max(n/residentShare, n*b.Bytes()/max(b.Len(), 1)/bytesPerRecord)
}

// aheadPerEntry is how many bytes that are read ahead cost as much as an entry.
const aheadPerEntry = 256

// usualSizes: what is read as a whole is seldom larger than valued. Many records that were deleted
// may stand where a piece is completed, to whose end nobody has asked. Who takes entries from an
// end asks for all of them.
var usualSizes = orderSizes{
	least:    1,
	kept:     keptEntries,
	valued:   16 << 10,
	early:    16 * ordered.Target,
	complete: 8 * ordered.Target,
	ahead:    7 * ordered.Target,
	taken:    countedAhead,
	vague:    4096,
}

// scan is a walk over an index by its tree. Pieces that aren't resident are read, and are so
// afterwards.
type scan struct {
	Index        // a copy, so that who scans keeps his on the stack
	tree         *ordered.Tree
	lower, upper []byte
	reverse      bool
	skip         int  // entries that aren't visited, before the others
	early        int  // entries that were read before those that are asked for
	direct       bool // a piece is read from where the scan has come to
	done         bool
}

// run visits the entries. (visit is handed on instead of being kept: so it stays on the stack of
// who calls Scan.)
func (s *scan) run(visit VisitEntry) error {
	for !s.done {
		p := s.tree.Find(s.at(), s.reverse)
		if err := s.step(&p, visit); err != nil {
			return err
		}
	}
	return nil
}

// step visits the entries of the piece that the scan has come to.
func (s *scan) step(p *ordered.Piece, visit VisitEntry) error {
	if p.Resident {
		return s.show(p, visit)
	}
	return s.read(p, visit)
}

// at is where the scan has come to; nil is an end of the index.
func (s *scan) at() []byte {
	if s.reverse {
		return s.upper
	}
	return s.lower
}

// goOn has the scan go on at a border.
func (s *scan) goOn(border []byte) {
	end := s.upper
	if s.reverse {
		end, s.upper = s.lower, border
	} else {
		s.lower = border
	}
	s.done = s.done || border == nil || end != nil && s.reverse == (bytes.Compare(border, end) < 0) || bytes.Equal(border, end)
}

// show visits the entries of a resident piece.
func (s *scan) show(p *ordered.Piece, visit VisitEntry) error {
	from, to := 0, p.Block.Len()
	if s.lower != nil && bytes.Compare(p.Lower, s.lower) < 0 {
		from, _ = p.Block.Search(s.lower)
	}
	if s.upper != nil && (p.Upper == nil || bytes.Compare(p.Upper, s.upper) > 0) {
		to, _ = p.Block.Search(s.upper)
	}
	passed := max(min(s.skip, to-from), 0)
	s.skip -= passed
	n, all := 0, false
	if s.reverse {
		n, all = p.Block.WalkBack(from, to-passed, visit)
		s.done = !all
		s.goOn(p.Lower)
	} else {
		n, all = p.Block.Walk(from+passed, to, visit)
		s.done = !all
		s.goOn(p.Upper)
	}
	return s.txn.Spend(residentCost(p.Block, n))
}

// begin begins to read a piece that isn't resident: as a whole, or from where the scan has come to.
// Where memory is full, what is read for the first time displaces nothing that is read again.
func (s *scan) begin(r *ordered.Reading, p *ordered.Piece) (from []byte) {
	if from = s.at(); !s.direct {
		from = s.tree.Start(p, from, s.reverse)
	}
	learns := ordered.Entries
	if s.txn.view != nil || !s.tree.Again() && s.txn.store.order.trees.Full() {
		learns = ordered.Nothing // the tree of a view is gone with it
	}
	r.Begin(s.tree, p, from, s.reverse, learns)
	return from
}

// far is how far records are read: to the end of the piece, or of the scan; where no piece ends, to
// that of the index.
func (s *scan) far(p *ordered.Piece) []byte {
	piece, end := p.Upper, s.upper
	if s.reverse {
		piece, end = p.Lower, s.lower
	}
	if piece == nil || end == nil || !s.tree.Whole(p) {
		return nil
	}
	if c := bytes.Compare(piece, end); s.reverse == (c < 0) {
		return piece
	}
	return end
}

// read visits entries that are read from a piece on, up to a resident one.
func (s *scan) read(p *ordered.Piece, visit VisitEntry) error {
	r := s.txn.order.readings.take()
	defer s.txn.order.readings.giveBack(r)
	from, far, ahead := s.begin(r, p), s.far(p), s.ahead(p)
	if ahead > 0 {
		far = nil
	}
	it := s.iterateFrom(from, far, s.reverse)
	defer s.txn.store.order.trees.Reclaim()
	for it.Next() {
		key, value := it.Key()[layout.ElementPrefix:], it.Value()
		if !r.Add(key, value) {
			s.goOn(r.Border())
			return s.finish(it, r)
		}
		switch early := s.take(key, value, visit); {
		case s.done:
			if r.Learns() {
				s.complete(it, r, far, ahead)
			}
			return s.finish(it, r)
		case early && p.Count == ordered.Vague && s.early > s.txn.store.order.sizes.early:
			s.direct = true
			r.Stop()
			return s.finish(it, r)
		}
	}
	if it.Err() == nil {
		r.End(far)
		s.goOn(far)
	}
	return s.finish(it, r)
}

// iterateFrom iterates over the index from one of its keys on up to another one, or backwards.
func (x *Index) iterateFrom(from, far []byte, reverse bool) *Iterator {
	if reverse {
		from, far = far, from
	}
	return x.iterate(from, far, reverse)
}

// finish ends a reading.
func (s *scan) finish(it *Iterator, r *ordered.Reading) error {
	err := it.Close()
	if r.Wrong() {
		s.recount("a piece has others")
	}
	return err
}

// take visits an entry that was read, unless it is early: before those that are asked for.
func (s *scan) take(key, value []byte, visit VisitEntry) (early bool) {
	early, late := s.lower != nil && bytes.Compare(key, s.lower) < 0, s.upper != nil && bytes.Compare(key, s.upper) >= 0
	if s.reverse {
		early, late = late, early
	}
	switch {
	case early:
		s.early++
	case late:
		s.done = true
	case s.skip > 0:
		s.skip--
	default:
		s.done = !visit(key, value)
	}
	return early
}

// ahead is how many entries are read behind the piece: who reads from one piece on after the other,
// or takes entries from an end, asks for them next, and to begin a walk costs as much as to go over
// many.
func (s *scan) ahead(p *ordered.Piece) int {
	passed := p.Lower
	if s.reverse {
		passed = p.Upper
	}
	if !s.values || s.txn.view != nil || passed == nil {
		return 0
	}
	switch beside := s.tree.Find(passed, !s.reverse); {
	case beside.Block.Resident():
		return s.txn.store.order.sizes.ahead
	case beside.Count == 0 && s.txn.running.mode.Writing:
		return s.txn.store.order.trees.Ahead(s.txn.store.order.sizes.taken)
	}
	return 0
}

// complete reads on until the piece is complete, and some of what follows, unless that is much
// work.
func (s *scan) complete(it *Iterator, r *ordered.Reading, far []byte, ahead int) {
	t := s.txn
	budget := t.running.budget
	t.running.budget = min(budget/2, t.store.order.sizes.complete+ahead)
	defer func(allowed int) { t.running.budget = budget - (allowed - t.running.budget) }(t.running.budget)
	for ahead > 0 || !r.Enough() {
		if !it.Next() {
			if it.err == nil {
				r.End(far)
				return
			}
			it.err = nil // nobody has asked for what is there
			break
		}
		if !r.Add(it.Key()[layout.ElementPrefix:], it.Value()) {
			return
		}
		ahead -= 1 + len(it.Value())/aheadPerEntry
	}
	r.Stop()
}

// readings are those of a transaction, whose memory is used again.
type readings struct{ free *ordered.Reading }

func (r *readings) take() *ordered.Reading {
	taken := r.free
	if r.free = nil; taken == nil {
		taken = &ordered.Reading{}
	}
	return taken
}

func (r *readings) giveBack(taken *ordered.Reading) { r.free = taken }
