package ordered

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"kedis/redis-tests/seed"
)

// model is a collection as slices, and the tree that is held against it.
type model struct {
	t      *testing.T
	random *rand.Rand
	trees  *Trees
	limit  int64
	keys   []string
	values map[string]string
	undo   []func()
}

func newModel(t *testing.T, random *rand.Rand) *model {
	m := &model{t: t, random: random, trees: &Trees{}, limit: 1 << 20, values: map[string]string{}}
	m.trees.Init(func() int64 { return m.limit })
	m.trees.SetTarget(4)
	return m
}

var modelID = Identity{1, 'S', 7}

func (m *model) tree() *Tree { return m.trees.Of(modelID, true, 0) }

func (m *model) key() string {
	return fmt.Sprintf("%0*d", m.random.IntN(3)*5, m.random.IntN(1200))
}

func (m *model) put(key, value string) {
	i, _ := slices.BinarySearch(m.keys, key)
	m.keys = slices.Insert(m.keys, i, key)
	m.values[key] = value
}

func (m *model) remove(key string) {
	i, _ := slices.BinarySearch(m.keys, key)
	m.keys = slices.Delete(m.keys, i, i+1)
	delete(m.values, key)
}

// change writes, as a transaction that may be taken back.
func (m *model) change() {
	key := m.key()
	id := modelID
	if value, found := m.values[key]; found && m.random.IntN(4) == 0 {
		m.values[key] = "another"
		if t := m.trees.Find(id); t != nil {
			t.Replace([]byte(key), []byte("another"))
		}
		m.undo = append(m.undo, func() {
			m.values[key] = value
			if t := m.trees.Find(id); t != nil {
				t.Undo([]byte(key), 0)
			}
		})
		return
	} else if found {
		m.remove(key)
		if t := m.trees.Find(id); t != nil {
			t.Delete([]byte(key))
		}
		m.undo = append(m.undo, func() {
			m.put(key, value)
			if t := m.trees.Find(id); t != nil {
				t.Undo([]byte(key), -1)
			}
		})
		return
	}
	value := fmt.Sprint(m.random.IntN(100))
	if m.random.IntN(200) == 0 {
		value = string(make([]byte, 3000*m.random.IntN(7)))
	}
	m.put(key, value)
	if t := m.trees.Find(id); t != nil {
		t.Put([]byte(key), []byte(value))
	}
	m.undo = append(m.undo, func() {
		m.remove(key)
		if t := m.trees.Find(id); t != nil {
			t.Undo([]byte(key), 1)
		}
	})
}

func (m *model) rollback() {
	for _, undo := range slices.Backward(m.undo) {
		undo()
	}
	m.undo = nil
}

// read reads some entries from a place on, as a walk over records would.
func (m *model) read() {
	key := []byte(m.key())
	if m.random.IntN(4) == 0 {
		key = nil
	}
	m.readFrom(key, m.random.IntN(2) == 0, m.random.IntN(40))
}

func (m *model) readFrom(key []byte, reverse bool, wanted int) {
	t := m.tree()
	p := t.Find(key, reverse)
	if p.Resident {
		return
	}
	key = t.Start(&p, key, reverse)
	var r Reading
	r.Begin(t, &p, key, reverse, Entries)
	for _, next := range m.from(key, reverse) {
		if !r.Add([]byte(next), []byte(m.values[next])) {
			return
		}
		if wanted--; wanted <= 0 && (r.Enough() || m.random.IntN(5) == 0) {
			r.Stop()
			return
		}
	}
	r.End(nil)
	if r.Wrong() {
		m.t.Fatal("the tree has counted otherwise")
	}
}

// readFront reads the first entry, or some from where it is.
func (m *model) readFront(whole bool) {
	key := []byte(m.keys[0])
	if whole {
		key = nil
		for p := m.tree().Find(nil, false); p.Count == 0 && p.Upper != nil; p = m.tree().Find(key, false) {
			key = p.Upper
		}
	}
	m.readFrom(key, false, 1)
}

// from returns the keys from a place on, or backwards before it.
func (m *model) from(key []byte, reverse bool) []string {
	i, _ := slices.BinarySearch(m.keys, string(key))
	if !reverse {
		return m.keys[i:]
	}
	if key == nil {
		i = len(m.keys)
	}
	before := slices.Clone(m.keys[:i])
	slices.Reverse(before)
	return before
}

// check holds a tree against keys, from the first piece to the last.
func check(t *testing.T, tree *Tree, keys []string, values map[string]string) {
	t.Helper()
	at, known, vague := 0, 0, 0
	for p := tree.FindRanked(nil, false); ; p = tree.FindRanked(p.Upper, false) {
		end := len(keys)
		if p.Upper != nil {
			end, _ = slices.BinarySearch(keys, string(p.Upper))
		}
		switch {
		case p.Before != known || p.VagueBefore != vague:
			t.Fatalf("%d entries before %q, %d vague pieces, want %d and %d", p.Before, p.Lower, p.VagueBefore, known, vague)
		case p.Count != Vague && p.Count != end-at:
			t.Fatalf("%d entries in %q to %q, want %d", p.Count, p.Lower, p.Upper, end-at)
		case p.Block.Resident():
			checkBlock(t, p.Block, keys[at:end], values)
		}
		if known += max(p.Count, 0); p.Count == Vague {
			vague++
		}
		if at = end; p.Upper == nil {
			break
		}
		if before := tree.Find(p.Upper, true); !bytes.Equal(before.Lower, p.Lower) {
			t.Fatalf("before %q stands %q, want %q", p.Upper, before.Lower, p.Lower)
		}
		if same := tree.Find(p.Lower, false); !bytes.Equal(same.Upper, p.Upper) || same.Count != p.Count {
			t.Fatalf("at %q stands a piece up to %q, want %q", p.Lower, same.Upper, p.Upper)
		}
	}
	if k, v := tree.Sums(); k != known || v != vague {
		t.Fatalf("%d entries and %d vague pieces, want %d and %d", k, v, known, vague)
	}
	checkRanks(t, tree, keys, known, vague)
}

func checkBlock(t *testing.T, b Block, keys []string, values map[string]string) {
	t.Helper()
	if b.Len() != len(keys) {
		t.Fatalf("a block of %d entries, want %d", b.Len(), len(keys))
	}
	for i, want := range keys {
		key, value := b.At(i)
		if string(key) != want || string(value) != values[want] {
			t.Fatalf("entry %d is %q %q, want %q %q", i, key, value, want, values[want])
		}
		if at, found := b.Search(key); at != i || !found {
			t.Fatalf("%q is found at %d, want %d", key, at, i)
		}
	}
	for _, from := range []int{0, len(keys) / 2, len(keys)} {
		checkWalk(t, b, from, keys, values)
	}
}

// checkWalk walks from an entry on, to the end and up to the next but one; and back.
func checkWalk(t *testing.T, b Block, from int, keys []string, values map[string]string) {
	t.Helper()
	for _, want := range []int{len(keys) - from, min(len(keys)-from, 2)} {
		for _, back := range []bool{false, true} {
			walk, at, step := b.Walk, from, 1
			if back {
				walk, at, step = b.WalkBack, len(keys)-1, -1
			}
			left := want
			visited, all := walk(from, len(keys), func(key, value []byte) bool {
				if string(key) != keys[at] || string(value) != values[keys[at]] {
					t.Fatalf("entry %d is %q %q, want %q %q", at, key, value, keys[at], values[keys[at]])
				}
				at += step
				left--
				return left > 0 || want == len(keys)-from
			})
			if visited != want || all != (want == len(keys)-from) {
				t.Fatalf("%d entries from %d on were visited (back: %v, all: %v), want %d", visited, from, back, all, want)
			}
		}
	}
}

func checkRanks(t *testing.T, tree *Tree, keys []string, known, vague int) {
	t.Helper()
	if vague != 1 { // which would be resolved
		checkLocate(t, tree, keys, vague)
	}
	if vague > 0 {
		p := tree.VaguePiece(false)
		last := tree.VaguePiece(true)
		if p.Count != Vague || p.VagueBefore != 0 || last.Count != Vague || last.VagueBefore != vague-1 {
			t.Fatalf("vague pieces %+v and %+v of %d", p, last, vague)
		}
		return
	}
	if known != len(keys) {
		t.Fatalf("%d entries, want %d", known, len(keys))
	}
	for rank := 0; rank < known; rank += 1 + known/50 {
		p := tree.At(rank)
		q := tree.FindRanked([]byte(keys[rank]), false)
		if rank < p.Before || rank >= p.Before+p.Count || q.Before != p.Before {
			t.Fatalf("rank %d is in a piece of %d behind %d, its key behind %d", rank, p.Count, p.Before, q.Before)
		}
	}
}

// checkLocate locates ranks: those before the first vague piece and behind the last are known.
func checkLocate(t *testing.T, tree *Tree, keys []string, vague int) {
	t.Helper()
	for rank := 0; rank < len(keys); rank += 1 + len(keys)/50 {
		want := tree.FindRanked([]byte(keys[rank]), false)
		begin, _ := slices.BinarySearch(keys, string(want.Lower))
		skip := rank - begin
		if want.Count == Vague || want.VagueBefore > 0 && want.VagueBefore < vague {
			want, skip = tree.VaguePiece(false), 0
		}
		if p, n := tree.Locate(rank, len(keys)); n != skip || p.Count != want.Count || !bytes.Equal(p.Lower, want.Lower) {
			t.Fatalf("rank %d is in the piece of %d from %q on behind %d, want %d, %q and %d", rank, p.Count, p.Lower, n, want.Count, want.Lower, skip)
		}
	}
}

// checkBytes counts what a tree holds anew.
func checkBytes(t *testing.T, tree *Tree) {
	t.Helper()
	bytes, resident, pieces := treeBytes, 0, 0
	var visit func(n *node)
	visit = func(n *node) {
		if n.len() > fanOut || n.len() == 0 || n.owner == nil {
			t.Fatalf("a node of %d children", n.len())
		}
		if resident := n.countResident(); n.resident != resident {
			t.Fatalf("a node counts %d resident pieces, and has %d", n.resident, resident)
		}
		for i := range n.len() {
			if !n.leaf() {
				if known, vague := n.children[i].sums(); known != n.known[i] || vague != n.vague[i] {
					t.Fatalf("a child has %d and %d, want %d and %d", n.known[i], n.vague[i], known, vague)
				}
				visit(n.children[i])
				continue
			}
			bytes += pieceBytes + longer(n.borders[i]) + n.pieces[i].block.Bytes()
			resident += n.pieces[i].block.Len()
			pieces++
		}
	}
	visit(tree.root)
	if bytes != tree.bytes || resident != tree.resident || pieces != tree.pieces {
		t.Fatalf("%d bytes, %d entries, %d pieces, want %d, %d, %d", tree.bytes, tree.resident, tree.pieces, bytes, resident, pieces)
	}
	if tree.account.Load() != int64(bytes) {
		t.Fatalf("%d bytes are accounted, want %d", tree.account.Load(), bytes)
	}
}

// view is a tree as it was, and what it should show.
type view struct {
	tree   *Tree
	keys   []string
	values map[string]string
}

func (m *model) view() view {
	values := make(map[string]string, len(m.values))
	for key, value := range m.values {
		values[key] = value
	}
	return view{m.tree().Clone(), slices.Clone(m.keys), values}
}

// step does something to the collection or its tree.
func (m *model) step() {
	switch n := m.random.IntN(100); {
	case n < 50:
		m.change()
	case n < 90:
		m.read()
	case n < 92:
		m.undo = nil // committed
	case n < 94:
		m.rollback()
	case n < 96:
		m.limit = int64(m.tree().size()) * 3 / 4
		m.trees.Reclaim()
		m.limit = 1 << 20
	case n < 97:
		m.tree().Resolve(len(m.keys))
	case n < 98:
		m.count()
	case n < 99:
		m.forget()
	case m.random.IntN(20) == 0:
		m.tree().coarsen()
	case m.random.IntN(20) == 0:
		m.trees.Drop(modelID.Space, modelID.ID, modelID.Kind)
	case m.random.IntN(4) == 0:
		m.restart()
	}
}

// restart replaces the tree by what its counts tell.
func (m *model) restart() {
	counts := m.tree().Counts(m.random.IntN(20))
	known, _ := m.tree().Sums()
	m.trees.Drop(modelID.Space, modelID.ID, modelID.Kind)
	m.trees.Restore(modelID, true, counts)
	if now, _ := m.tree().Sums(); now != known {
		m.t.Fatalf("%d of %d entries are still counted", now, known)
	}
}

// forget takes the first entries away without a word of each.
func (m *model) forget() {
	if m.undo = nil; len(m.keys) == 0 {
		return
	}
	gone := m.random.IntN(min(len(m.keys), 60))
	for _, key := range m.keys[:gone] {
		delete(m.values, key)
	}
	m.tree().ForgetBefore([]byte(m.keys[gone]))
	m.keys = m.keys[gone:]
}

// count goes over all that is vague, from either end.
func (m *model) count() {
	t, last := m.tree(), m.random.IntN(2) == 0
	for {
		if _, vague := t.Sums(); vague == 0 {
			return
		}
		p := t.VaguePiece(last)
		from := p.Lower
		if last {
			from = p.Upper
		}
		var r Reading
		r.Begin(t, &p, from, last, Entries)
		done := false
		for _, key := range m.from(from, last) {
			if done = !r.Add([]byte(key), []byte(m.values[key])); done {
				break
			}
		}
		if !done {
			r.End(nil)
		}
	}
}

func (t *Tree) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

func TestTreeAgainstModel(t *testing.T) {
	seed := seed.Of(t)
	m := newModel(t, rand.New(rand.NewPCG(seed, 1)))
	var views []view
	deep := false
	for i := range 20000 {
		m.step()
		if i%100 == 0 {
			check(t, m.tree(), m.keys, m.values)
			checkBytes(t, m.tree())
			deep = deep || !m.tree().root.leaf()
		}
		if i%1000 == 0 {
			if views = append(views, m.view()); len(views) > 5 {
				views = views[1:]
			}
			for _, v := range views {
				check(t, v.tree, v.keys, v.values)
			}
		}
	}
	if !deep {
		t.Error("the tree has one leaf only")
	}
}

// A queue's front becomes one empty piece, which is never read again.
func TestQueue(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 1)))
	for i := range 5000 {
		key := fmt.Sprintf("%08d", i)
		m.put(key, "")
		m.tree().Put([]byte(key), nil)
		if len(m.keys) > 100 {
			m.readFront(m.random.IntN(2) == 0)
			m.tree().Delete([]byte(m.keys[0]))
			m.remove(m.keys[0])
		}
	}
	check(t, m.tree(), m.keys, m.values)
	checkBytes(t, m.tree())
	if n := m.tree().pieces; n > 200 {
		t.Errorf("100 entries take %d pieces", n)
	}
	if p := m.tree().Find(nil, false); p.Count != 0 || string(p.Upper) < m.keys[0][:5] {
		t.Errorf("the front is %+v, and %q the first", p, m.keys[0])
	}
}

// Who stops behind the last entry of a counted piece leaves no empty piece beside it: that would
// keep its neighbours from being joined when memory is short.
func TestStopAtTheEndOfAPiece(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		m := newModel(t, rand.New(rand.NewPCG(1, 2)))
		for i := range 4 * Target {
			m.put(fmt.Sprintf("%06d", i), "value")
		}
		tree := m.tree()
		tree.Learn(nil, nil, len(m.keys), Block{})
		p := tree.Find(nil, reverse)
		var r Reading
		r.Begin(tree, &p, nil, reverse, Counts)
		for _, key := range m.from(nil, reverse) {
			r.Add([]byte(key), []byte("value"))
		}
		r.Stop()
		check(t, tree, m.keys, m.values)
		empty := 0
		for _, c := range tree.Counts(0) {
			if c.Entries == 0 {
				empty++
			}
		}
		if empty != 1 { // where the reading began, at an end of the collection
			t.Errorf("reverse %v: %d pieces are empty, want one", reverse, empty)
		}
	}
}

// TestCoolingPassesOverWhatIsNotResident has one piece in a thousand read: to find those costs
// little, wherever they are.
func TestCoolingPassesOverWhatIsNotResident(t *testing.T) {
	trees := &Trees{}
	trees.Init(func() int64 { return 1 << 30 })
	tree := trees.Of(modelID, false, 0)
	const pieces, resident = 1 << 16, 64
	for i := range pieces {
		tree.Learn(border(i), border(i+1), Target, Block{})
	}
	for i := range resident {
		p := tree.Find(border(i*pieces/resident), false)
		var b Builder
		for e := range p.Count {
			b.Add(append(bytes.Clone(p.Lower), byte(e)), nil)
		}
		tree.Learn(p.Lower, p.Upper, p.Count, b.Block(false))
	}
	before := tree.Resident()
	tree.cool(1 << 30)
	tree.cool(1 << 30)
	if after := tree.Resident(); before != resident*Target || after != 0 {
		t.Errorf("of %d resident entries %d are left, of %d", before, after, resident*Target)
	}
}

// Readers share a tree, and each may find it being cooled or displaced.
func TestReadersBesideCooling(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(seed.Of(t), 2)))
	for i := range 2000 {
		m.put(fmt.Sprintf("%06d", i*7), "v")
	}
	m.limit = 20000
	var running sync.WaitGroup
	for n := range uint64(4) {
		reader := &model{t: t, random: rand.New(rand.NewPCG(n, 3)), trees: m.trees, keys: m.keys, values: m.values}
		running.Add(1)
		go func() {
			defer running.Done()
			for i := range 3000 {
				reader.read()
				switch {
				case i%64 == 0:
					m.trees.Reclaim()
				case i%500 == 0:
					m.trees.Clear()
				}
			}
		}()
	}
	running.Wait()
	check(t, m.tree(), m.keys, m.values)
}

// TestCloneLearnsBesideReaders: who reads the tree warms pieces of nodes that a clone copies, and
// joins with others, as it learns.
func TestCloneLearnsBesideReaders(t *testing.T) {
	trees := &Trees{}
	trees.Init(func() int64 { return 1 << 30 })
	tree := trees.Of(modelID, false, 0)
	const pieces, entries = 1000, 4
	block := func(i int) Block {
		var b Builder
		for e := range entries {
			b.Add(append(border(i), byte(e)), nil)
		}
		return b.Block(false)
	}
	for i := 0; i < pieces; i += 2 {
		tree.Learn(border(i), border(i+1), entries, block(i))
		tree.Learn(border(i+1), border(i+2), entries, Block{})
	}
	clone := tree.Clone()
	var running sync.WaitGroup
	running.Go(func() {
		for i := range pieces {
			tree.Find(border(i), false)
		}
		tree.cool(1 << 30)
	})
	running.Go(func() {
		for i := 1; i < pieces; i += 2 {
			clone.Learn(border(i), border(i+1), entries, block(i))
		}
	})
	running.Wait()
	if resident := clone.Resident(); resident != pieces*entries {
		t.Errorf("the clone has %d entries, want %d", resident, pieces*entries)
	}
}

func TestTreesStayWithinTheirLimit(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 4)))
	m.limit = 64 << 10
	for i := range 300 {
		m.put(fmt.Sprintf("%06d", i), "value")
	}
	for id := range uint64(200) {
		tree := m.trees.Of(Identity{1 + uint32(id%2), 'S', id}, true, 0)
		p := tree.Find(nil, false)
		var r Reading
		r.Begin(tree, &p, nil, false, Entries)
		for _, key := range m.keys {
			r.Add([]byte(key), []byte("value"))
		}
		r.End(nil)
		m.trees.Reclaim()
	}
	trees, bytes := m.trees.Stats()
	if bytes > 2*m.limit || trees == 0 || trees == 200 {
		t.Errorf("%d trees take %d bytes", trees, bytes)
	}
	m.trees.DropSpaces(func(space uint32) bool { return space == 1 })
	for id := range uint64(200) {
		if tree := m.trees.Find(Identity{2, 'S', id}); tree != nil {
			t.Errorf("the tree of %d stays", id)
		}
	}
	for id := range uint64(1000) { // those that went give their place to others
		m.trees.Of(Identity{3, 'S', id}, true, 0)
		m.trees.Drop(3, id, 'S')
	}
	if n := len(m.trees.clock); n > 500 {
		t.Errorf("%d trees are known, which are gone", n)
	}
	m.trees.Clear()
	if trees, bytes := m.trees.Stats(); trees != 0 || bytes != 0 {
		t.Errorf("%d trees take %d bytes, want none", trees, bytes)
	}
}

// A large tree is made coarser in steps, since nobody else may use it meanwhile.
func TestCoarseningGoesInSteps(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 5)))
	m.limit = 1 << 30
	tree := m.tree()
	p := tree.Find(nil, false)
	var r Reading
	r.Begin(tree, &p, nil, false, Counts)
	const entries = 40 * coolLeaves * fanOut
	for i := range entries {
		key := fmt.Sprintf("%08d", i)
		m.keys, m.values[key] = append(m.keys, key), ""
		r.Add([]byte(key), nil)
	}
	r.End(nil)
	before, steps := tree.pieces, 0
	for target := tree.target.Load(); tree.target.Load() <= 2*target; steps++ {
		pieces := tree.pieces
		if !tree.coarsen() {
			t.Fatal("it doesn't help")
		}
		if gone := pieces - tree.pieces; gone > coolLeaves*fanOut {
			t.Fatalf("%d pieces went in one step", gone)
		}
		checkBytes(t, tree)
	}
	if tree.pieces > before*2/3 || steps < 4 {
		t.Errorf("%d pieces of %d are left after %d steps", tree.pieces, before, steps)
	}
	check(t, tree, m.keys, m.values)
}

// A tree whose counts need more room than there is stays while it is counted, with larger pieces,
// also when some of them are read all the time.
func TestCountingBeyondTheLimit(t *testing.T) {
	for _, reads := range []bool{false, true} {
		t.Run(fmt.Sprintf("reads %v", reads), func(t *testing.T) { countBeyondTheLimit(t, reads) })
	}
}

// keep brings the entries of a piece into memory.
func (m *model) keep(p Piece) {
	if p.Resident || p.Count == Vague {
		return
	}
	var b Builder
	first, _ := slices.BinarySearch(m.keys, string(p.Lower))
	for _, key := range m.keys[first : first+p.Count] {
		b.Add([]byte(key), nil)
	}
	m.tree().Learn(p.Lower, p.Upper, p.Count, b.Block(false))
}

func countBeyondTheLimit(t *testing.T, reads bool) {
	m := newModel(t, rand.New(rand.NewPCG(1, 6)))
	m.limit = 4 * coolLeaves * fanOut * pieceBytes
	tree := m.tree()
	p := tree.Find(nil, false)
	var r Reading
	r.Begin(tree, &p, nil, false, Counts)
	for i := range 100 * coolLeaves * fanOut {
		key := fmt.Sprintf("%08d", i)
		m.keys, m.values[key] = append(m.keys, key), ""
		if r.Add([]byte(key), nil); i%1000 != 0 {
			continue
		}
		for place := i; reads && place > 0; place -= 1 + i/50 {
			m.keep(tree.Find([]byte(m.keys[place]), false))
		}
		m.trees.Reclaim()
	}
	r.End(nil)
	if _, bytes := m.trees.Stats(); m.trees.Find(modelID) != tree || bytes > m.limit+m.limit/8 {
		t.Errorf("%d bytes are taken, want %d", bytes, m.limit)
	}
	check(t, tree, m.keys, m.values)
}

// A large tree that nobody uses keeps its counts, in larger pieces, beside one that takes all the
// memory there is.
func TestCountsOfUnusedTreesStay(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 7)))
	m.limit = 16 * smallTree
	read := func(tree *Tree, learns Learning, each func(key string)) {
		p := tree.Find(nil, false)
		var r Reading
		r.Begin(tree, &p, nil, false, learns)
		for i := range 100000 {
			key := fmt.Sprintf("%08d", i)
			each(key)
			r.Add([]byte(key), nil)
		}
		r.End(nil)
	}
	tree := m.tree()
	read(tree, Counts, func(key string) { m.keys, m.values[key] = append(m.keys, key), "" })
	before := tree.size()
	other, n := m.trees.Of(Identity{1, 'S', 1 << 20}, false, 0), 0
	read(other, Entries, func(string) {
		other.Use()
		if n++; n%100 == 0 {
			m.trees.Reclaim()
		}
	})
	if known, vague := tree.Sums(); m.trees.Find(modelID) != tree || known != len(m.keys) || vague > 0 {
		t.Fatalf("of %d entries %d are counted, %d pieces aren't", len(m.keys), known, vague)
	}
	_, bytes := m.trees.Stats()
	if after := tree.size(); after > before/2 || int64(after) > m.trees.leftToEach() || bytes > m.limit+m.limit/8 {
		t.Errorf("%d bytes of %d are left, %d are taken, of %d", after, before, bytes, m.limit)
	}
	check(t, tree, m.keys, m.values)
}

// A walk to the midst of a counted piece leaves everything counted.
func TestCountsSurviveWalks(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 6)))
	for i := range m.tree().mostBefore() {
		m.put(fmt.Sprintf("%06d", i), "value")
	}
	tree := m.tree()
	tree.Learn(nil, nil, len(m.keys), Block{})
	for _, reverse := range []bool{false, true} {
		m.readFrom([]byte(m.keys[len(m.keys)/2]), reverse, 10)
		if known, vague := tree.Sums(); known != len(m.keys) || vague != 0 {
			t.Errorf("reverse %v: %d entries are counted, and %d pieces aren't", reverse, known, vague)
		}
	}
}

// TestPiecesSuitTheMemory: where pieces of the usual size would not fit, those that are cut are as
// large as they have to be, and are read as a whole.
func TestPiecesSuitTheMemory(t *testing.T) {
	const entries, usual = 1 << 20, 1 << 20 / Target * pieceBytes
	for _, fits := range []int{1, 2, 4, 8} {
		var trees Trees
		trees.Init(func() int64 { return int64(2 * usual / fits) })
		tree := trees.Of(modelID, false, entries)
		if got := tree.target.Load(); got != int64(fits*Target) {
			t.Errorf("with %d bytes pieces have %d entries, want %d", 2*usual/fits, got, fits*Target)
		}
		if !tree.Whole(&Piece{Count: fits * Target}) {
			t.Errorf("a piece of %d entries isn't read as a whole", fits*Target)
		}
	}
}

// TestCountsOfLargeEntries: where the memory doesn't hold counts of pieces of the usual size, those
// of entries of a hundred bytes take half of it too, before and after all entries were read.
func TestCountsOfLargeEntries(t *testing.T) {
	const entries = 1 << 17
	var trees Trees
	trees.Init(func() int64 { return entries / Target * pieceBytes / 4 })
	tree := trees.Of(modelID, false, entries)
	for _, learns := range []Learning{Counts, Entries} {
		first, upper := 0, []byte(nil)
		for at := []byte(nil); first < entries; at = upper { // a piece at a time
			p := tree.Find(at, false)
			var r Reading
			r.Begin(tree, &p, at, false, learns)
			last := entries
			if p.Count != Vague {
				last = first + p.Count
			}
			for ; first < last; first++ {
				r.Add(fmt.Appendf(nil, "%0100d", first), nil)
			}
			upper = p.Upper
			r.End(upper)
			trees.Reclaim()
		}
		if known, vague := tree.Sums(); known != entries || vague > 0 {
			t.Fatalf("%d entries are counted, and %d pieces aren't", known, vague)
		}
		if counts := int64(tree.pieces * pieceBytes); counts > 6*trees.limit()/10 {
			t.Errorf("learning %d: counts take %d bytes, of %d for all", learns, counts, trees.limit())
		}
	}
}

// TestLongBordersCount: who goes over long members in small steps has borders as long as they are,
// which is memory like any other.
func TestLongBordersCount(t *testing.T) {
	const entries, length = 2000, 10 << 10
	var trees Trees
	trees.Init(func() int64 { return 512 << 10 })
	var tree *Tree
	member := func(i int) []byte { return fmt.Appendf(nil, "%0*d", length, i) }
	for first := 0; first < entries; first += 10 {
		at := member(first)
		tree = trees.Of(modelID, false, entries) // another one when it was displaced
		p := tree.Find(at, false)
		var r Reading
		r.Begin(tree, &p, at, false, Counts)
		for i := range 10 {
			r.Add(member(first+i), nil)
		}
		r.Stop()
		checkBytes(t, tree)
		trees.Reclaim()
	}
	borders := 0
	var visit func(n *node)
	visit = func(n *node) {
		for _, border := range n.borders {
			borders += len(border)
		}
		for _, child := range n.children {
			visit(child)
		}
	}
	visit(tree.root)
	if int64(borders) > 2*trees.limit() {
		t.Errorf("borders take %d bytes, of %d for all", borders, trees.limit())
	}
}

// A tree that isn't used comes to take as little as it may, in pieces that are no larger than that
// needs.
func TestThinPiecesAreEven(t *testing.T) {
	const entries, wanted = 200 * 1024, 200 * pieceBytes
	var trees Trees
	trees.Init(func() int64 { return 1 << 30 })
	tree := trees.Of(modelID, false, 0)
	random := rand.New(rand.NewPCG(1, 5))
	for from := 0; from < entries; { // large pieces beside small ones
		n := min(Target<<random.IntN(5), entries-from)
		tree.Learn(border(from), border(from+n), n, Block{})
		from += n
	}
	for tree.size() > wanted+treeBytes {
		if !tree.thin(wanted) {
			t.Fatalf("%d bytes are left, and %d wanted", tree.size(), wanted)
		}
	}
	for _, c := range tree.Counts(0) {
		if c.Entries > 3*1024 {
			t.Errorf("a piece has %d entries, and 1024 are enough", c.Entries)
		}
	}
}

// border is where the entry with a number stands; that of the first is the tree's beginning.
func border(entry int) []byte {
	if entry == 0 {
		return nil
	}
	return fmt.Appendf(nil, "%08d", entry)
}

func BenchmarkTake(b *testing.B) {
	const entries, least = 500000, 250000
	var tree *Tree
	left := 0
	fill := func() {
		trees := &Trees{}
		trees.Init(func() int64 { return 1 << 30 })
		tree = trees.Of(modelID, false, 0)
		p := tree.Find(nil, false)
		var r Reading
		r.Begin(tree, &p, nil, false, Entries)
		for left = 0; left < entries; left++ {
			r.Add(fmt.Appendf(nil, "m:%012d", 2*left), nil)
		}
		r.End(nil)
	}
	fill()
	b.ReportAllocs()
	for b.Loop() {
		if left == least {
			b.StopTimer()
			fill()
			b.StartTimer()
		}
		rank := rand.IntN(left)
		p := tree.At(rank)
		key, _ := p.Block.At(rank - p.Before)
		tree.Delete(key)
		left--
	}
}
