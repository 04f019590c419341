package ordered

// coolLeaves is how many leaves Cool looks at in one go.
const coolLeaves = 64

// cool takes entries away from pieces that weren't read of late, until so many bytes are free, or
// it has looked at enough. It goes on where it has ended. done reports that it has gone around.
func (t *Tree) cool(want int) (freed int, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.bytes
	for range coolLeaves {
		upper := t.coolLeaf(t.hand)
		t.hand = upper
		if freed = before - t.bytes; upper == nil || freed >= want {
			break
		}
	}
	return freed, t.hand == nil
}

// coolLeaf cools the first leaf with resident pieces, from the one that a key belongs to on, and
// returns where the next one begins.
func (t *Tree) coolLeaf(key []byte) (upper []byte) {
	var at Piece
	n := t.root.residentFrom(key, &at)
	if n == nil {
		return nil
	}
	cold := false
	for i := range n.pieces {
		here := &n.pieces[i]
		cold = cold || here.block.Resident() && !here.read
	}
	if cold {
		t.change(at.Lower, func(leaf *node, _ int) { t.coolPieces(leaf) })
		return at.Upper
	}
	for i := range n.pieces {
		n.pieces[i].read = false
	}
	return at.Upper
}

func (t *Tree) coolPieces(leaf *node) {
	for i := range leaf.pieces {
		if leaf.pieces[i].read {
			leaf.pieces[i].read = false
			continue
		}
		t.setBlock(leaf, i, Block{})
	}
	t.coarsenPieces(leaf, t.cold())
}

// cold is how many entries two neighbours may have together that are joined when they aren't
// resident any more. Of large entries, a piece has fewer while it is resident: where counts are to
// take less memory, that must not last.
func (t *Tree) cold() int {
	if target := int(t.target.Load()); target > t.usual {
		return target
	}
	return t.small()
}

// leaf returns the leaf that a key belongs to, and where the next one begins.
func (t *Tree) leaf(key []byte) (n *node, upper []byte) {
	for n = t.root; !n.leaf(); {
		i := n.find(key, false)
		if i+1 < n.len() {
			upper = n.borders[i+1]
		}
		n = n.children[i]
	}
	return n, upper
}

// suit has pieces cut so large from now on that the counts of so many entries take half of the
// memory for trees at most. Otherwise pieces would be small where somebody has read, and huge
// elsewhere.
func (t *Tree) suit(entries int, memory int64) {
	fits := func() bool { return int64(entries)*pieceBytes/t.target.Load() <= memory/2 }
	if fits() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.target.Load() < mostSuited && !fits() {
		t.enlarge()
	}
}

// enlarge doubles the entries of the pieces that are cut from now on.
func (t *Tree) enlarge() {
	target := 2 * t.target.Load()
	t.target.Store(target)
	t.largest.Store(max(t.largest.Load(), 2*target))
}

// coarsen joins pieces up to twice the size that they had, and so leaves about half as many of
// them. A call goes over coolLeaves leaves and the next one goes on there: a tree of a million
// pieces must not be locked for as long as all of them take. It reports whether there is more to
// do, or whether that has helped; meanwhile others may have added as many pieces.
func (t *Tree) coarsen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.coarse == nil {
		t.enlarge()
		t.spared = 0
	}
	return t.coarsenLeaves(int(t.target.Load()))
}

// coarsenLeaves joins pieces up to so many entries in some leaves.
func (t *Tree) coarsenLeaves(most int) bool {
	for range coolLeaves {
		_, upper := t.leaf(t.coarse)
		before := t.pieces
		t.change(t.coarse, func(leaf *node, _ int) { t.coarsenPieces(leaf, most) })
		t.spared += before - t.pieces
		if t.coarse = upper; upper == nil {
			return t.spared > 0
		}
	}
	return true
}

func (t *Tree) coarsenPieces(leaf *node, most int) {
	for i := leaf.len() - 2; i >= 0; i-- {
		if t.joins(leaf, i, most) {
			t.join(leaf, i)
		}
	}
}

const (
	// Entries of a piece: so many are cut at most, since reading them costs some accesses to the
	// disk; so many are read as a whole; and to go over more takes longer than a question may.
	mostSuited   = 16 * Target
	leastThinned = 8 * Target
	mostThinned  = 1 << 16
)

// thin is coarsen for a tree that isn't used, so that it takes about so many bytes. Two neighbours
// that weren't joined have more entries than one piece may have, so each has more than half of that
// on average. The pieces that come of it are divided again where somebody reads.
func (t *Tree) thin(bytes int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, _ := t.Sums()
	most := max(5*known*pieceBytes/(2*max(bytes, 1)), leastThinned) // twice, and some for seams of leaves
	if most > mostThinned {
		return false
	}
	if t.coarse == nil {
		t.spared = 0
	}
	return t.coarsenLeaves(most)
}
