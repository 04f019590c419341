package ordered

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// node is a part of the tree: neighbouring pieces, or nodes that hold them. It is changed by the
// tree that has its owner; another one that refers to it copies it first.
//
// Each child begins at a border and ends before the next. The border of a node's first child isn't
// looked at: who comes to the node belongs into it.
type node struct {
	owner    *owner
	shared   int      // bytes that all borders but the first have in common
	heads    []uint64 // of each border, the eight bytes behind those
	borders  [][]byte
	known    []int   // entries of each child, but for those of vague pieces
	vague    []int32 // pieces of each child whose entries weren't counted
	children []*node // nil in a leaf
	pieces   []piece // nil above
	resident int     // pieces in it that are
}

// owner is what may change a node in place. It has a size, so that no two have the same address.
type owner struct{ clone bool } // Tree.clone

// appendPieces appends those of a node that may be shared. A clone takes the blocks only: the tree
// that it is of changes the rest in place, under its own mutex.
func (o *owner) appendPieces(to, pieces []piece) []piece {
	if !o.clone {
		return append(to, pieces...)
	}
	to = slices.Grow(to, len(pieces))
	for i := range pieces {
		to = append(to, piece{block: pieces[i].block})
	}
	return to
}

// piece is what a leaf keeps of a range of keys besides border and count.
type piece struct {
	block Block // its entries, if they are resident
	heat  uint8 // how often it may be written before it is read again
	read  bool  // since memory was short
}

const (
	fanOut      = 64
	fewChildren = fanOut / 4
	joinedMost  = fanOut * 3 / 4
)

func (n *node) leaf() bool { return n.children == nil }

func (n *node) len() int { return len(n.borders) }

// sums are the entries and the vague pieces of all children.
func (n *node) sums() (known int, vague int32) {
	for i, k := range n.known {
		known += k
		vague += n.vague[i]
	}
	return known, vague
}

// ranked returns the child that has the entry of a rank, and how many entries of that stand before.
func (n *node) ranked(rank int) (child, left int) {
	for child, known := range n.known[:n.len()-1] {
		if rank < known {
			return child, rank
		}
		rank -= known
	}
	return n.len() - 1, rank
}

// cacheLine is how many bytes the processor reads at once.
const cacheLine = 64

// touch reads what finds a child.
func (n *node) touch() (touched int) {
	for i := 0; i < n.len(); i += cacheLine / 8 {
		touched += n.known[i] + int(n.heads[i])
	}
	return touched
}

// vagueBefore is how many vague pieces stand before a child.
func (n *node) vagueBefore(i int) (pieces int) {
	for _, v := range n.vague[:i] {
		pieces += int(v)
	}
	return pieces
}

// residentFrom returns the first leaf that has resident pieces, from the one that a key belongs to
// on, and has p tell between which borders it is; nil if there is none.
func (n *node) residentFrom(key []byte, p *Piece) *node {
	switch {
	case n.resident == 0:
		return nil
	case n.leaf():
		return n
	}
	outer := *p
	for i := n.find(key, false); i < n.len(); i++ {
		*p = outer
		p.between(n, i)
		if leaf := n.children[i].residentFrom(key, p); leaf != nil {
			return leaf
		}
		key = nil // behind it all belong
	}
	return nil
}

// head returns the eight bytes of a key behind those that a node's borders share.
func head(key []byte, shared int) uint64 {
	if rest := key[min(shared, len(key)):]; len(rest) >= 8 {
		return binary.BigEndian.Uint64(rest)
	} else {
		var padded [8]byte
		copy(padded[:], rest)
		return binary.BigEndian.Uint64(padded[:])
	}
}

// find returns the child that a key belongs to; with below, the one that what stands directly
// before the key belongs to. A nil key is the first, or, with below, the one behind all.
func (n *node) find(key []byte, below bool) int {
	count := n.len()
	switch {
	case count == 1:
		return 0
	case key == nil && below:
		return count - 1
	}
	common := n.borders[1][:n.shared]
	switch c := bytes.Compare(key[:min(len(key), n.shared)], common); {
	case c < 0:
		return 0
	case c > 0:
		return count - 1
	}
	h := head(key, n.shared)
	low, beyond := 1, count // spelled out, since it is most of what a walk over few entries does
	for low < beyond {
		if middle := int(uint(low+beyond) >> 1); n.heads[middle] < h {
			low = middle + 1
		} else {
			beyond = middle
		}
	}
	if low == count || n.heads[low] > h {
		return low - 1
	}
	// Among equal heads the borders decide.
	high := low
	for high < count && n.heads[high] == h {
		high++
	}
	return low - 1 + sort.Search(high-low, func(i int) bool {
		c := bytes.Compare(n.borders[low+i], key)
		return c > 0 || below && c == 0
	})
}

// copyFor returns the node if a tree may change it, else a copy that it may.
func (n *node) copyFor(o *owner) *node {
	if n.owner == o {
		return n
	}
	return &node{owner: o, shared: n.shared, heads: slices.Clone(n.heads), borders: slices.Clone(n.borders),
		known: slices.Clone(n.known), vague: slices.Clone(n.vague), children: slices.Clone(n.children), pieces: o.appendPieces(nil, n.pieces),
		resident: n.resident}
}

// child returns a child that may be changed, as the node itself may.
func (n *node) child(i int) *node {
	c := n.children[i].copyFor(n.owner)
	n.children[i] = c
	return c
}

// measure notes what a child holds now.
func (n *node) measure(i int) { n.known[i], n.vague[i] = n.children[i].sums() }

// within has a child changed, and notes what it holds then.
func (n *node) within(i int, f func(c *node)) {
	c := n.child(i)
	before := c.resident
	f(c)
	n.resident += c.resident - before
	n.measure(i)
}

// insert makes room for a child at a place. Its border is given; the caller sets the rest.
func (n *node) insert(i int, border []byte) {
	n.borders = slices.Insert(n.borders, i, border)
	n.heads = slices.Insert(n.heads, i, head(border, n.shared))
	n.known = slices.Insert(n.known, i, 0)
	n.vague = slices.Insert(n.vague, i, 0)
	if n.leaf() {
		n.pieces = slices.Insert(n.pieces, i, piece{})
	} else {
		n.children = slices.Insert(n.children, i, nil)
	}
	n.share()
}

// remove takes a child out.
func (n *node) remove(i int) {
	n.borders = slices.Delete(n.borders, i, i+1)
	n.heads = slices.Delete(n.heads, i, i+1)
	n.known = slices.Delete(n.known, i, i+1)
	n.vague = slices.Delete(n.vague, i, i+1)
	if n.leaf() {
		n.pieces = slices.Delete(n.pieces, i, i+1)
	} else {
		n.children = slices.Delete(n.children, i, i+1)
	}
	n.share()
}

// share finds out what borders share, and their heads if that has changed.
func (n *node) share() {
	shared := 0
	if count := n.len(); count > 1 {
		shared = sharedPrefix(n.borders[1], n.borders[count-1])
	}
	if shared == n.shared {
		return
	}
	n.shared = shared
	for i, border := range n.borders {
		n.heads[i] = head(border, shared)
	}
}

func sharedPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// splitOff takes the second half of the children out and returns it, with its border.
func (n *node) splitOff() (right *node, border []byte) {
	half := n.len() / 2
	right = &node{owner: n.owner, heads: slices.Clone(n.heads[half:]), borders: slices.Clone(n.borders[half:]),
		known: slices.Clone(n.known[half:]), vague: slices.Clone(n.vague[half:]), shared: n.shared}
	if n.leaf() {
		right.pieces = slices.Clone(n.pieces[half:])
		n.pieces = slices.Delete(n.pieces, half, n.len())
	} else {
		right.children = slices.Clone(n.children[half:])
		n.children = slices.Delete(n.children, half, n.len())
	}
	clear(n.borders[half:])
	n.heads, n.borders, n.known, n.vague = n.heads[:half], n.borders[:half], n.known[:half], n.vague[:half]
	right.resident = right.countResident()
	n.resident -= right.resident
	n.share()
	right.share()
	return right, right.borders[0]
}

func (n *node) countResident() (pieces int) {
	for _, c := range n.children {
		pieces += c.resident
	}
	for i := range n.pieces {
		if n.pieces[i].block.Resident() {
			pieces++
		}
	}
	return pieces
}

// absorb appends the children of the node behind.
func (n *node) absorb(right *node, border []byte) {
	first := n.len()
	n.heads = append(n.heads, right.heads...)
	n.borders = append(n.borders, right.borders...)
	n.borders[first] = border
	n.known = append(n.known, right.known...)
	n.vague = append(n.vague, right.vague...)
	if n.leaf() {
		n.pieces = n.owner.appendPieces(n.pieces, right.pieces)
	} else {
		n.children = append(n.children, right.children...)
	}
	n.resident += right.resident
	n.shared = -1
	n.share()
}

// balance splits a child that has become too large, or joins one that has become small with a
// neighbour. joined is the child that came of that, or -1, and seam where the second one's children
// begin in it.
func (n *node) balance(i int) (joined, seam int) {
	c := n.children[i]
	switch {
	case c.len() > fanOut:
		right, border := c.splitOff()
		n.insert(i+1, border)
		n.children[i+1] = right
		n.measure(i)
		n.measure(i + 1)
	case c.len() >= fewChildren || n.len() == 1:
	case i+1 < n.len() && c.len()+n.children[i+1].len() <= joinedMost:
		return i, n.join(i)
	case i > 0 && c.len()+n.children[i-1].len() <= joinedMost:
		return i - 1, n.join(i - 1)
	}
	return -1, 0
}

// join joins a child and the one behind it.
func (n *node) join(i int) (seam int) {
	left, right, border := n.child(i), n.children[i+1], n.borders[i+1]
	seam = left.len()
	left.absorb(right, border)
	n.remove(i + 1)
	n.measure(i)
	return seam
}
