package ordered

// coolLeaves is how many leaves Cool looks at in one go.
const coolLeaves = 64

// cool takes entries away from pieces that weren't read of late, until so many bytes are free, or it has looked at enough. It
// goes on where it has ended. done reports that it has gone around.
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

// coolLeaf cools the pieces of the leaf that a key belongs to, and returns where the next one begins.
func (t *Tree) coolLeaf(key []byte) (upper []byte) {
	n := t.root
	for !n.leaf() {
		i := n.find(key, false)
		if i+1 < n.len() {
			upper = n.borders[i+1]
		}
		n = n.children[i]
	}
	cold := false
	for i := range n.pieces {
		here := &n.pieces[i]
		cold = cold || here.block != nil && !here.read
	}
	if cold {
		t.change(key, func(leaf *node, _ int) { t.coolPieces(leaf) })
		return upper
	}
	for i := range n.pieces {
		n.pieces[i].read = false
	}
	return upper
}

func (t *Tree) coolPieces(leaf *node) {
	for i := range leaf.pieces {
		if leaf.pieces[i].read {
			leaf.pieces[i].read = false
			continue
		}
		t.setBlock(leaf, i, nil)
	}
	for i := leaf.len() - 2; i >= 0; i-- {
		if t.joins(leaf, i) {
			t.join(leaf, i)
		}
	}
}

// coarsen makes pieces that aren't resident twice as large, and so about half as many of them. It reports whether that helps.
func (t *Tree) coarsen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.pieces
	t.target *= 2
	t.largest = max(t.largest, 2*t.target)
	old := t.root
	t.add(treeBytes + pieceBytes - t.bytes)
	t.resident, t.pieces, t.hand = 0, 1, nil
	t.root = &node{owner: t.owner, heads: []uint64{0}, borders: [][]byte{nil}, known: []int{0}, vague: []int32{0}, pieces: []piece{{}}}
	first := true
	old.each(nil, func(lower []byte, known int, vague int32) {
		t.changeOnly(lower, func(n *node, i int) {
			switch {
			case first:
				n.known[i], n.vague[i] = known, vague
			case vague+n.vague[i] == 0 && (known == 0) == (n.known[i] == 0) && known+n.known[i] <= t.target:
				n.known[i] += known
			default:
				t.insertPiece(n, i+1, lower)
				n.known[i+1], n.vague[i+1] = known, vague
			}
		})
		first = false
	})
	t.sum()
	return t.pieces < before
}

// each visits the pieces below a node, in order.
func (n *node) each(lower []byte, visit func(lower []byte, known int, vague int32)) {
	for i := range n.borders {
		border := n.borders[i]
		if i == 0 {
			border = lower
		}
		if n.leaf() {
			visit(border, n.known[i], n.vague[i])
		} else {
			n.children[i].each(border, visit)
		}
	}
}
