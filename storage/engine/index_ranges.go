package engine

import (
	"bytes"

	"kedis/storage/ordered"
)

// recentPieces is how many pieces of a tree are remembered. Ranges that are near to each other lie
// in few.
const recentPieces = 4

// Ranges scans ranges of an index that are near to each other. A piece of the tree that several of
// them share is looked for once, so nothing may be written to the index in between.
type Ranges struct {
	scan   scan
	visit  VisitEntry
	recent [recentPieces]ordered.Piece
	next   int // of recent, to be replaced
}

// Begin begins with an index.
func (r *Ranges) Begin(x *Index, visit VisitEntry) {
	r.visit, r.recent, r.next = visit, [recentPieces]ordered.Piece{}, 0
	r.scan = scan{tree: x.tree(), Index: *x}
}

// Scan visits the entries from lower on, before upper.
func (r *Ranges) Scan(lower, upper []byte) error {
	s := &r.scan
	if s.tree == nil {
		return s.Walk(lower, upper, false, r.visit)
	}
	s.lower, s.upper, s.early, s.direct, s.done = lower, upper, 0, false, false
	for !s.done {
		var err error
		if p := r.piece(s.lower); p.Resident {
			err = s.show(p, r.visit)
		} else { // the tree keeps bounds of what it learns
			s.lower, s.upper = bytes.Clone(s.lower), bytes.Clone(s.upper)
			err = s.read(p, r.visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// piece returns the piece that a key belongs to.
func (r *Ranges) piece(key []byte) *ordered.Piece {
	for i := range r.recent {
		p := &r.recent[i]
		if p.Block.Resident() && bytes.Compare(p.Lower, key) <= 0 && (p.Upper == nil || bytes.Compare(key, p.Upper) < 0) {
			return p
		}
	}
	p := &r.recent[r.next]
	if *p = r.scan.tree.Find(key, false); p.Block.Resident() {
		r.next = (r.next + 1) % recentPieces
	}
	return p
}
