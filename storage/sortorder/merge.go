package sortorder

import (
	"runtime"
	"slices"
)

// sortStable puts the elements of a window into their order, and leaves no others. Pieces are
// sorted by themselves and then merged as far as the window goes.
func (c *comparer) sortStable(first, limit int) {
	for _, piece := range c.pieces {
		c.sortPiece(piece)
		if len(piece) == pieceEntries {
			runtime.Gosched() // others wait for the processor
		}
	}
	if len(c.pieces) < 2 {
		c.Cut(first, limit)
		return
	}
	t := newTournament(c)
	merged := Elements{texts: c.texts}
	for i := range limit {
		winner := t.take()
		if i >= first {
			merged.add(winner)
		}
		if i%pieceEntries == 0 {
			runtime.Gosched()
		}
	}
	*c.Elements = merged
}

// sortPiece need not keep the order of equal entries when nobody can tell them apart.
func (c *comparer) sortPiece(piece []entry) {
	switch {
	case c.Alpha || c.NumbersOnly:
		slices.SortStableFunc(piece, c.compare)
	case c.Descending:
		slices.SortFunc(piece, func(a, b entry) int { return c.byNumber(b, a) })
	default:
		slices.SortFunc(piece, c.byNumber)
	}
}

// A tournament merges sorted pieces: the heads of neighbours play against each other, and whoever
// comes first plays the next round. Among equals the earlier piece wins, which keeps their order.
//
//	nodes[1]                  winner of all
//	nodes[2]     nodes[3]     …
//	piece 0, 1   piece 2, 3
type tournament struct {
	*comparer
	rest  [][]entry // of each piece
	nodes []int     // the winning piece of each match; the pieces themselves are the second half
}

func newTournament(c *comparer) *tournament {
	n := len(c.pieces)
	t := &tournament{comparer: c, rest: slices.Clone(c.pieces), nodes: make([]int, 2*n)}
	for i := range n {
		t.nodes[n+i] = i
	}
	for node := n - 1; node > 0; node-- {
		t.play(node)
	}
	return t
}

// take returns the first entry of all that are left.
func (t *tournament) take() entry {
	winner := t.nodes[1]
	first := t.rest[winner][0]
	t.rest[winner] = t.rest[winner][1:]
	for node := (len(t.rest) + winner) / 2; node > 0; node /= 2 {
		t.play(node)
	}
	return first
}

// play finds the winner of a match.
func (t *tournament) play(node int) {
	a, b := t.nodes[2*node], t.nodes[2*node+1]
	if t.before(b, a) {
		a = b
	}
	t.nodes[node] = a
}

// before reports whether what is left of piece a comes before what is left of piece b.
func (t *tournament) before(a, b int) bool {
	switch {
	case len(t.rest[a]) == 0:
		return false
	case len(t.rest[b]) == 0:
		return true
	}
	order := t.compare(t.rest[a][0], t.rest[b][0])
	return order < 0 || order == 0 && a < b
}
