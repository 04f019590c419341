package generation

import (
	"bytes"
	"math"
)

// The run whose entry comes next is found in a tournament (Knuth's tree of losers, The Art of
// Computer Programming 3, section 5.4.1): each node remembers the run that has lost there. When the
// winner has gone on, it meets those that have lost on its way to the top, and no others.
//
// Entries that come next lie near to each other, so their keys begin with the same bytes. Eight
// bytes behind those stand in the run; the entries themselves are looked at only where these are
// the same.

// begin finds the first run.
func (it *Iterator) begin() {
	if len(it.runs) > 0 {
		it.losers = make([]int, len(it.runs))
		it.share()
		it.first = it.play(1)
	}
}

// play finds the first of the runs below a node. The nodes below node n are 2n and 2n+1, and the
// runs stand below all of them.
func (it *Iterator) play(node int) (first int) {
	if node >= len(it.runs) {
		return node - len(it.runs)
	}
	first, loser := it.play(2*node), it.play(2*node+1)
	if it.before(loser, first) {
		first, loser = loser, first
	}
	it.losers[node] = loser
	return first
}

// goOn moves the first run on to its next key, and finds the one that is the first then.
func (it *Iterator) goOn() {
	r := &it.runs[it.first]
	if r.advance(it); r.entry != nil && bytes.HasPrefix(r.entry.key(), it.shared) {
		r.piece = piece(r.entry.key(), len(it.shared))
	} else {
		it.share()
	}
	for node := (it.first + len(it.runs)) / 2; node > 0; node /= 2 {
		if loser := it.losers[node]; it.before(loser, it.first) {
			it.losers[node], it.first = it.first, loser
		}
	}
}

// before reports whether run a comes before run b: by key, and of the same key the newest first.
// Runs that have ended come last.
func (it *Iterator) before(a, b int) bool {
	x, y := &it.runs[a], &it.runs[b]
	switch {
	case x.piece != y.piece:
		return x.piece < y.piece != it.reverse
	case x.entry == nil || y.entry == nil:
		return x.entry != nil
	}
	d := bytes.Compare(x.entry.key(), y.entry.key())
	if it.reverse {
		d = -d
	}
	return d < 0 || d == 0 && x.ref > y.ref
}

// share finds out what the keys of all runs' entries begin with, and the pieces behind that.
func (it *Iterator) share() {
	first := true
	for i := range it.runs {
		switch e := it.runs[i].entry; {
		case e == nil:
		case first:
			it.shared, first = e.key(), false
		default:
			it.shared = it.shared[:sharedPrefix(it.shared, e.key())]
		}
	}
	for i := range it.runs {
		switch r := &it.runs[i]; {
		case r.entry != nil:
			r.piece = piece(r.entry.key(), len(it.shared))
		case it.reverse:
			r.piece = 0
		default:
			r.piece = math.MaxUint64
		}
	}
}
