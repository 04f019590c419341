package ordered

import (
	"bytes"
	"sync"
	"sync/atomic"
)

const (
	// Target is about how many entries a piece that was read has.
	Target = 32
	// cutBytes is how many bytes of entries end a piece, if they are fewer.
	cutBytes = 4 << 10
	// readHeat is how often a piece that was read may be written before it is no longer resident:
	// what nobody reads isn't worth the copies.
	readHeat = 16

	pieceBytes  = 120 // of a piece besides its block: its part of the node, and a short border
	shortBorder = 36
	treeBytes   = 640
)

// Vague is the count of a piece whose entries weren't counted.
const Vague = -1

// Tree is the order of one collection. See the package's comment.
type Tree struct {
	id     Identity
	values bool // entries have those of their records
	usual  int  // entries of a piece that is cut as long as memory holds the counts of all

	mu       sync.Mutex
	root     *node
	owner    *owner
	target   atomic.Int64 // entries of a piece that is cut
	largest  atomic.Int64 // of a known piece that is read as a whole
	pieces   int
	resident int    // entries in blocks
	borders  int    // bytes by which borders are longer than short ones
	bytes    int    // of everything
	hand     []byte // where cooling goes on
	coarse   []byte // where coarsening goes on; nil: it isn't under way
	spared   int    // pieces that coarsening has joined with others

	allKnown atomic.Int64 // entries of all known pieces; set before allVague
	allVague atomic.Int64 // vague pieces

	account *atomic.Int64 // what all trees take
	read    atomic.Bool   // see Again
	used    atomic.Bool   // since the hand of Trees has passed
	gone    atomic.Bool   // it was displaced: its bytes count no more
	clone   bool          // pieces and their heat are another tree's
	// Counting is held by who goes over vague pieces, so that no two go the same way.
	Counting sync.Mutex
}

// Piece is a range of keys as the tree knows it: from Lower on, before Upper, which is nil for the
// last one.
type Piece struct {
	Lower, Upper []byte
	Block        Block // its entries, if it is resident
	Resident     bool  // also of a piece that is known to be empty
	Count        int   // or Vague

	// What only FindRanked, At, Locate and VaguePiece tell.
	Before      int // entries of the known pieces before it
	VagueBefore int // vague pieces before it
	Known       int // entries of all known pieces
	Vague       int // vague pieces of all
}

// Whole reports whether the piece is read from its beginning to its end.
func (t *Tree) Whole(p *Piece) bool { return p.Count != Vague && p.Count <= int(t.largest.Load()) }

// mostBefore is how many entries a counted piece may have that is read from an end on. A reading
// from its midst would leave a vague piece on either side, and the next rank would count them anew.
func (t *Tree) mostBefore() int { return 64 * t.usual }

// Start returns where the reading of a piece begins that isn't resident and that a walk comes to at
// a place. Between a vague piece's beginning and the place there may be more than it is worth to go
// over; there is little if what stands before is empty.
func (t *Tree) Start(p *Piece, at []byte, reverse bool) []byte {
	near := p.Lower
	if reverse {
		near = p.Upper
	}
	switch {
	case t.Whole(p) || p.Count != Vague && p.Count <= t.mostBefore():
		return near
	case !reverse && len(at) == 0:
		return nil
	case near != nil && t.Find(near, !reverse).Count == 0:
		return near
	}
	return at
}

func newTree(id Identity, values bool, target int, account *atomic.Int64) *Tree {
	o := &owner{}
	t := &Tree{id: id, values: values, owner: o, usual: target, pieces: 1, account: account}
	t.target.Store(int64(target))
	t.largest.Store(8 * int64(target))
	t.root = &node{owner: o, heads: []uint64{0}, borders: [][]byte{nil}, known: []int{0}, vague: []int32{1}, pieces: []piece{{}}}
	t.add(treeBytes + pieceBytes)
	t.sum()
	return t
}

// Clone returns a copy that others don't change. It takes no time, and its memory isn't counted.
func (t *Tree) Clone() *Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner = &owner{}
	c := &Tree{id: t.id, values: t.values, root: t.root, owner: &owner{clone: true}, usual: t.usual, resident: t.resident, clone: true}
	c.target.Store(t.target.Load())
	c.largest.Store(t.largest.Load())
	c.gone.Store(true)
	c.sum()
	return c
}

// Use reports whether the tree is still that of its collection, and notes that it is used. When it
// was displaced it isn't told of writes any more, and another one may take its place from then on.
func (t *Tree) Use() bool {
	if !t.used.Load() {
		t.used.Store(true)
	}
	return !t.gone.Load()
}

// Again notes that the collection is read, and reports whether it was before.
func (t *Tree) Again() bool { return t.read.Load() || t.read.Swap(true) }

// Values reports whether entries have the values of their records.
func (t *Tree) Values() bool { return t.values }

// ID is the collection's.
func (t *Tree) ID() Identity { return t.id }

func (t *Tree) add(bytes int) {
	t.bytes += bytes
	if !t.gone.Load() {
		t.account.Add(int64(bytes))
	}
}

// Sums returns how many entries the known pieces have, and how many pieces are vague. While others
// learn, or forget counts, the two may be of different moments.
func (t *Tree) Sums() (known, vague int) { return int(t.allKnown.Load()), int(t.allVague.Load()) }

// Fits reports whether so many entries can be what the collection has. Known is how many the known
// pieces have.
func (t *Tree) Fits(entries int) (known int, ok bool) {
	may := func(known, vague int) bool { return known == entries || known < entries && vague > 0 }
	known, vague := t.Sums()
	if !may(known, vague) { // which may be of different moments
		t.mu.Lock()
		k, v := t.root.sums()
		known, vague = k, int(v)
		t.mu.Unlock()
	}
	return known, may(known, vague)
}

// sum notes what Sums tells.
func (t *Tree) sum() {
	known, vague := t.root.sums()
	t.allKnown.Store(int64(known))
	t.allVague.Store(int64(vague))
}

// Resident is how many entries are in memory.
func (t *Tree) Resident() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resident
}

// Find returns the piece that a key belongs to; with below, the one that what stands directly
// before the key belongs to. A nil key is the first, or, with below, the one behind all.
func (t *Tree) Find(key []byte, below bool) (p Piece) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.root
	for {
		i := n.find(key, below)
		p.between(n, i)
		if n.leaf() {
			t.show(&p, n, i)
			return p
		}
		n = n.children[i]
	}
}

// FindRanked is Find, and tells what is before the piece.
func (t *Tree) FindRanked(key []byte, below bool) Piece {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seek(func(n *node) int { return n.find(key, below) })
}

// At returns the known piece with the entry of a rank among those of all known pieces; the rank is
// below their sum.
func (t *Tree) At(rank int) Piece {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at(rank)
}

func (t *Tree) at(rank int) (p Piece) {
	p.Known, p.Vague = t.Sums()
	left := rank
	for n := t.root; ; {
		var i int
		i, left = n.ranked(left)
		p.between(n, i)
		if p.Vague > 0 {
			p.VagueBefore += n.vagueBefore(i)
		}
		if n.leaf() {
			p.Before = rank - left
			t.show(&p, n, i)
			return p
		}
		n = n.children[i]
	}
}

// Together is how many ranks AtEach takes at most.
const Together = 16

// AtEach is At for several ranks; no piece is vague. It goes down level by level, and reads what it
// and Delete will look at there for all ranks before it looks at any, so that the processor waits
// for all of it at once. What it returns keeps the compiler from leaving that out.
func (t *Tree) AtEach(ranks []int, pieces *[Together]Piece) (touched int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var nodes [Together]*node
	var left [Together]int
	for i, rank := range ranks {
		nodes[i], left[i] = t.root, rank
	}
	below := nodes[:len(ranks)]
	for len(below) > 0 && !below[0].leaf() {
		for i, n := range below {
			var child int
			child, left[i] = n.ranked(left[i])
			pieces[i].between(n, child)
			below[i] = n.children[child]
		}
		for _, n := range below {
			touched += n.touch()
		}
	}
	for i, leaf := range below {
		child, before := leaf.ranked(left[i])
		p := &pieces[i]
		p.between(leaf, child)
		p.Before = ranks[i] - before
		t.show(p, leaf, child)
	}
	for i := range below {
		touched += pieces[i].Block.all.touch()
	}
	return touched
}

// Locate returns the known piece with the entry of a rank among so many entries in all, and how
// many of its entries stand before that. As long as the rank may lie anywhere between the first
// vague piece and the last, it is the first. All is of one moment: what others learn between two
// looks moves the ranks among the known entries.
func (t *Tree) Locate(rank, total int) (p Piece, skip int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resolve(total)
	if known, vague := t.Sums(); vague > 0 {
		first, last := t.vaguePiece(false), t.vaguePiece(true)
		switch uncounted := total - known; {
		case rank < first.Before:
		case rank-uncounted >= last.Before:
			rank -= uncounted
		default:
			return first, 0
		}
	}
	p = t.at(rank)
	return p, rank - p.Before
}

// VaguePiece returns the first vague piece, or the last; there is one.
func (t *Tree) VaguePiece(last bool) Piece {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.vaguePiece(last)
}

func (t *Tree) vaguePiece(last bool) Piece {
	return t.seek(func(n *node) int {
		if last {
			i := n.len() - 1
			for i > 0 && n.vague[i] == 0 {
				i--
			}
			return i
		}
		i := 0
		for i < n.len()-1 && n.vague[i] == 0 {
			i++
		}
		return i
	})
}

// seek goes down to a piece, and counts what is before it.
func (t *Tree) seek(choose func(n *node) int) (p Piece) {
	p.Known, p.Vague = t.Sums()
	for n := t.root; ; {
		i := choose(n)
		for _, known := range n.known[:i] {
			p.Before += known
		}
		if p.Vague > 0 {
			p.VagueBefore += n.vagueBefore(i)
		}
		p.between(n, i)
		if n.leaf() {
			t.show(&p, n, i)
			return p
		}
		n = n.children[i]
	}
}

// between notes the borders of a node's child, within which the piece is.
func (p *Piece) between(n *node, i int) {
	if i > 0 {
		p.Lower = n.borders[i]
	}
	if i+1 < n.len() {
		p.Upper = n.borders[i+1]
	}
}

// show has p tell what the tree knows of a leaf's piece, and warms that.
func (t *Tree) show(p *Piece, leaf *node, i int) {
	here := &leaf.pieces[i]
	if !t.clone && here.block.Resident() {
		here.heat, here.read = readHeat, true
	}
	p.Block, p.Count = here.block, leaf.known[i]
	if leaf.vague[i] > 0 {
		p.Count = Vague
	}
	p.Resident = p.Block.Resident() || p.Count == 0
}

// change has f change the leaf that a key belongs to.
func (t *Tree) change(key []byte, f func(leaf *node, i int)) {
	t.root = t.root.copyFor(t.owner)
	t.changeBelow(t.root, key, f)
	switch {
	case t.root.len() > fanOut:
		left := t.root
		right, border := left.splitOff()
		t.root = &node{owner: t.owner, heads: []uint64{0, 0}, borders: [][]byte{nil, border}, known: []int{0, 0}, vague: []int32{0, 0},
			children: []*node{left, right}, shared: -1, resident: left.resident + right.resident}
		t.root.share()
		t.root.measure(0)
		t.root.measure(1)
	case !t.root.leaf() && t.root.len() == 1:
		t.root = t.root.children[0]
	}
	t.sum()
}

func (t *Tree) changeBelow(n *node, key []byte, f func(leaf *node, i int)) {
	i := n.find(key, false)
	if n.leaf() {
		f(n, i)
		return
	}
	n.within(i, func(c *node) { t.changeBelow(c, key, f) })
	if joined, seam := n.balance(i); joined >= 0 && n.children[joined].leaf() && t.joins(n.children[joined], seam-1, t.small()) {
		n.within(joined, func(leaf *node) { t.join(leaf, seam-1) })
	}
}

// Put says that an entry has come: there was none with its key.
func (t *Tree) Put(key, value []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(key, func(n *node, i int) {
		if n.vague[i] > 0 {
			return
		}
		n.known[i]++
		here := &n.pieces[i]
		switch {
		case !here.block.Resident() && n.known[i] == 1:
			var b Builder
			b.Add(key, value)
			t.setBlock(n, i, b.Block(false))
			here.heat = readHeat
		case !here.block.Resident():
		case here.heat == 0:
			t.setBlock(n, i, Block{})
		default:
			here.heat--
			at, found := here.block.Search(key)
			if found { // it isn't as it should be: what is there is read again
				t.setBlock(n, i, Block{})
				return
			}
			t.setBlock(n, i, here.block.replaced(at, at, key, value))
			t.splitPiece(n, i)
		}
	})
}

// Replace says that an entry has got another value.
func (t *Tree) Replace(key, value []byte) {
	if !t.values {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(key, func(n *node, i int) {
		here := &n.pieces[i]
		if !here.block.Resident() {
			return
		}
		at, found := here.block.Search(key)
		if here.heat == 0 || !found {
			t.setBlock(n, i, Block{})
			return
		}
		here.heat--
		t.setBlock(n, i, here.block.replaced(at, at+1, key, value))
		t.splitPiece(n, i)
	})
}

// Delete says that an entry has gone.
func (t *Tree) Delete(key []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(key, func(n *node, i int) {
		if n.vague[i] > 0 {
			return
		}
		n.known[i]--
		switch here := &n.pieces[i]; {
		case !here.block.Resident():
		case here.heat == 0 || n.known[i] == 0:
			t.setBlock(n, i, Block{})
		default:
			here.heat--
			if at, found := here.block.Search(key); found {
				t.setBlock(n, i, here.block.without(at))
			} else {
				t.setBlock(n, i, Block{})
			}
		}
		t.joinPiece(n, i)
	})
}

// Undo takes back what Put (1), Replace (0) or Delete (-1) has said of an entry.
func (t *Tree) Undo(key []byte, delta int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(key, func(n *node, i int) {
		if n.vague[i] > 0 {
			return
		}
		n.known[i] -= delta
		t.setBlock(n, i, Block{})
	})
}

// ForgetBefore makes the pieces vague that begin before a key.
func (t *Tree) ForgetBefore(key []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := []byte(nil); ; {
		t.change(at, func(n *node, i int) {
			at = t.limits(n, i, at).Upper
			t.setBlock(n, i, Block{})
			n.known[i], n.vague[i] = 0, 1
			t.joinPiece(n, i)
		})
		if at == nil || bytes.Compare(at, key) >= 0 {
			return
		}
	}
}

// setBlock gives a piece its entries, or takes them away.
func (t *Tree) setBlock(n *node, i int, b Block) {
	here := &n.pieces[i]
	if here.block.Resident() {
		n.resident--
	}
	if b.Resident() {
		n.resident++
	}
	t.resident += b.Len() - here.block.Len()
	t.add(b.Bytes() - here.block.Bytes())
	here.block = b
}

// splitPiece cuts a resident piece in two when it has become large.
func (t *Tree) splitPiece(n *node, i int) {
	b := n.pieces[i].block
	if entries := b.Len(); entries <= 2*int(t.target.Load()) && (b.Bytes() <= 2*cutBytes || entries < 2) {
		return
	}
	half := b.Len() / 2
	left, right := b.split(half)
	last, _ := left.At(half - 1)
	first, _ := right.At(0)
	border := Separator(last, first)
	heat := n.pieces[i].heat
	t.insertPiece(n, i+1, border)
	t.setBlock(n, i, left)
	t.setBlock(n, i+1, right)
	n.pieces[i+1].heat = heat
	n.known[i], n.known[i+1] = left.Len(), right.Len()
}

func (t *Tree) insertPiece(n *node, i int, border []byte) {
	n.insert(i, border)
	t.pieces++
	t.borders += longer(border)
	t.add(pieceBytes + longer(border))
}

// longer is by how many bytes a border is longer than a short one: it may be a whole member.
func longer(border []byte) int { return max(len(border)-shortBorder, 0) }

// joinPiece joins a piece that has become small with a neighbour in its leaf. Empty pieces are
// joined with each other only: where nothing lives, nothing is to be read.
func (t *Tree) joinPiece(n *node, i int) {
	if i+1 < n.len() && t.joins(n, i, t.small()) {
		t.join(n, i)
	}
	if i > 0 && t.joins(n, i-1, t.small()) {
		t.join(n, i-1)
	}
}

// small is how many entries two neighbours may have together that a change joins.
func (t *Tree) small() int { return int(t.target.Load()) / 2 }

// joins reports whether a piece and the next one, which have so many entries at most, are to become
// one.
func (t *Tree) joins(n *node, i, most int) bool {
	if n.vague[i]+n.vague[i+1] > 0 {
		return n.vague[i] == n.vague[i+1]
	}
	a, b := n.known[i], n.known[i+1]
	if (a == 0) != (b == 0) || a+b > most {
		return false
	}
	left, right := n.pieces[i].block, n.pieces[i+1].block
	return a == 0 || left.Resident() == right.Resident() && left.Bytes()+right.Bytes() <= cutBytes
}

func (t *Tree) join(n *node, i int) {
	var both Block
	if left, right := n.pieces[i].block, n.pieces[i+1].block; left.Resident() && right.Resident() {
		both = left.join(right)
	}
	t.setBlock(n, i, both)
	t.setBlock(n, i+1, Block{})
	n.known[i] += n.known[i+1]
	border := longer(n.borders[i+1])
	n.remove(i + 1)
	t.pieces--
	t.borders -= border
	t.add(-pieceBytes - border)
}

// Learn says which entries stand from lower on (nil: the first), before upper (nil: behind the
// last): so many, those in the block, if it is resident. They must lie within one piece, which
// isn't resident; if that has changed, nothing is learned. It returns false when the tree has
// counted otherwise.
func (t *Tree) Learn(lower, upper []byte, count int, block Block) (right bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	right = true
	t.change(lower, func(n *node, i int) { right = t.learn(n, i, lower, upper, count, block) })
	return right
}

func (t *Tree) learn(n *node, i int, lower, upper []byte, count int, block Block) (right bool) {
	begins, ends := t.bounds(n, i, lower, upper)
	if n.pieces[i].block.Resident() || !begins.within || !ends.within {
		return true
	}
	left := n.known[i] - count
	switch {
	case n.vague[i] > 0:
	case left < 0 || left != 0 && begins.same && ends.same:
		return false
	case n.known[i] == 0:
		return true
	case left == 0: // an empty piece beside it would keep it from being joined with others
		begins.same, ends.same = true, true
	}
	wasVague := n.vague[i] > 0
	at := i
	if count == 0 {
		block = Block{}
	}
	if !begins.same {
		t.insertPiece(n, i+1, bytes.Clone(lower))
		at = i + 1
	}
	if !ends.same {
		t.insertPiece(n, at+1, bytes.Clone(upper))
	}
	t.known(n, at, count)
	t.setBlock(n, at, block)
	n.pieces[at].heat = readHeat
	switch {
	case begins.same && ends.same:
	case wasVague || !begins.same && !ends.same:
		t.doubt(n, i, at, !begins.same, !ends.same)
	case begins.same:
		t.known(n, at+1, left)
	default:
		t.known(n, i, left)
	}
	t.joinPiece(n, at)
	return true
}

// doubt makes what is left of a piece before and behind another one vague.
func (t *Tree) doubt(n *node, before, at int, left, right bool) {
	if left {
		n.known[before], n.vague[before] = 0, 1
	}
	if right {
		n.known[at+1], n.vague[at+1] = 0, 1
	}
}

func (t *Tree) known(n *node, i, count int) { n.known[i], n.vague[i] = count, 0 }

// bound tells how an end of a range lies to that of a piece.
type bound struct{ within, same bool }

// bounds compares a range with the piece that its lower end belongs to.
func (t *Tree) bounds(n *node, i int, lower, upper []byte) (begins, ends bound) {
	p := t.limits(n, i, lower)
	begins.same = bytes.Equal(p.Lower, lower) && (p.Lower == nil) == (lower == nil)
	begins.within = true
	switch {
	case p.Upper == nil:
		ends = bound{within: true, same: upper == nil}
	case upper == nil:
	default:
		c := bytes.Compare(upper, p.Upper)
		ends = bound{within: c <= 0, same: c == 0}
	}
	return begins, ends
}

// limits returns the borders of a piece of a leaf.
func (t *Tree) limits(leaf *node, i int, key []byte) (p Piece) {
	for n := t.root; ; {
		k := n.find(key, false)
		if k > 0 {
			p.Lower = n.borders[k]
		}
		if k+1 < n.len() {
			p.Upper = n.borders[k+1]
		}
		if n.leaf() {
			return p
		}
		n = n.children[k]
	}
}

// Resolve counts the only vague piece by what all entries are.
func (t *Tree) Resolve(total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resolve(total)
}

func (t *Tree) resolve(total int) {
	known, vague := t.Sums()
	if vague != 1 || known > total {
		return
	}
	t.root = t.root.copyFor(t.owner)
	n := t.root
	var path []*node
	var at []int
	for {
		i := 0
		for n.vague[i] == 0 {
			i++
		}
		if n.leaf() {
			t.known(n, i, total-known)
			break
		}
		path, at = append(path, n), append(at, i)
		n = n.child(i)
	}
	for i := len(path) - 1; i >= 0; i-- {
		path[i].measure(at[i])
	}
	t.sum()
}

// Separator is the shortest key that is above one and not above the next.
func Separator(key, next []byte) []byte {
	return bytes.Clone(next[:sharedPrefix(key, next)+1])
}
