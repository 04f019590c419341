package storage

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/rand/v2"
	"slices"

	"kedis/storage/engine"
	"kedis/storage/layout"
)

const (
	// exactPick is up to how many elements of a spread collection are walked to the one that chance
	// names.
	exactPick = 1024
	// pickElements are read at each place that a picker comes to.
	pickElements = 32
	// pickLevels is how often a picker narrows down where it looks, at most.
	pickLevels = 64
	// pickTries is how often it begins anew, at most.
	pickTries = 100
	// placeCost is pickCost where elements are found by their places.
	placeCost = 4 * engine.FewEntries
	// noteBytes are looked at of each element, behind what is shared.
	noteBytes = 64
	// sampleBatch is how many picks with repetition are made at once, at least.
	sampleBatch = 1024
	// sampleBytes are about what the picks take that are made at once, if they are more.
	sampleBytes = 16 << 20
	// pickBytes are what a pick takes besides what was picked.
	pickBytes = 100
)

// tree is what a picker picks from: keys in the order of their bytes.
type tree interface {
	// scan visits the elements from one on (nil: the first); likely so many (0: nobody knows).
	scan(from []byte, keysOnly bool, expected int, visit visitPair) error
	// lastWith returns the last element with a prefix.
	lastWith(prefix []byte) ([]byte, error)
	// miscounted is what it means that there are not so many elements.
	miscounted(count uint64) error
}

// picker picks elements of a spread collection, or keys of a database, by chance, without walking
// all of it.
//
// Up to exactPick elements each is as likely as any other. In a larger collection the picker goes
// down the tree that the bytes of the elements form: of the bytes that come behind what all
// elements share it chooses one, each as likely as any other, then one of those that come behind
// what the elements with that byte share, and so on, until no more than pickElements are left, of
// which it takes one. (Which bytes come somewhere, it finds out by looking for those that it has
// seen elsewhere.)
//
// The elements of small branches would be found too often that way. But if all branches were as
// full as those on the way, there would be as many elements as there were ways to go, multiplied:
// when that is a fraction of what there is, the element is only taken with that chance, else the
// picker begins anew. (The product is Knuth's estimate of a tree's size, "Estimating the efficiency
// of backtrack programs", Mathematics of Computation 29, 1975.)
//
// So all elements are equally likely but for those where the tree has more branches than elsewhere,
// which are less so, by as much. Numbers, UUIDs and digests, with whatever prefix, differ by a
// small factor, if at all; so do names.
//
// With surplus the picker begins anew as if there were that many times as many elements, which
// takes so many times as long: only those elements are less likely then which have so many times
// more branches on their way. And it looks for all branches, until it has seen as many as it is
// curious about, and wherever it has looked for one that isn't there.
type picker struct {
	tree
	count   uint64
	surplus int // 0 is none
	random  func(n int) int
	places  engine.Index // finds the element with a number as soon as all are counted
	placed  bool         // there is such an index

	curiosity int // branches

	*learned // nil until somebody has to go down the tree
}

// learned is what a picker has found out.
type learned struct {
	all      span // everything
	occurs   [256]bool
	known    map[string][]byte // the bytes that come behind a prefix, where all branches were looked for
	explored int               // branches that were found so
	branches map[string]span   // those that were looked at
}

func newPicker(t tree, count uint64) *picker {
	return &picker{tree: t, count: count, random: rand.IntN}
}

// picker picks elements, by their places as soon as all are counted.
func (r *spreadElements) picker(count uint64) *picker {
	p := newPicker(r, count)
	p.places, p.placed = r.index(count, false), true
	return p
}

// random picks one of count elements.
func (r *spreadElements) random(count uint64) ([]byte, error) {
	places := r.index(count, false)
	element, found, err := places.Entry(rand.IntN(int(max(count, 1))))
	if found || err != nil {
		return element, err
	}
	own := *r // only this one has to be kept
	return newPicker(&own, count).pick()
}

// span is a part of a collection: its first elements, and the last one.
type span struct {
	near [][]byte // also holds what follows upon the last one, if there is room
	last []byte
}

// complete tells that all elements of the span were read.
func (s *span) complete() bool { return bytes.Compare(s.near[len(s.near)-1], s.last) >= 0 }

// size is how many of the elements that were read are within the span.
func (s *span) size() int {
	n, found := slices.BinarySearchFunc(s.near, s.last, bytes.Compare)
	if found {
		n++
	}
	return n
}

// pick returns an element; the collection has some. It is valid until the transaction is reset.
func (p *picker) pick() (element []byte, err error) {
	if p.placed {
		element, found, err := p.places.Entry(p.random(int(max(p.count, 1))))
		if found || err != nil {
			return element, err
		}
	}
	if p.count <= exactPick {
		return p.at(p.random(int(max(p.count, 1))))
	}
	if err := p.learn(); err != nil {
		return nil, err
	}
	for range pickTries {
		var ways float64
		element, ways, err = p.descend()
		if err != nil || p.chance()*float64(p.count)*float64(max(p.surplus, 1)) < ways {
			break
		}
	}
	return element, err
}

// cost is about how many elements could be walked in the time that it takes to pick one.
func (p *picker) cost() uint64 {
	if p.placed && p.places.Counted() {
		return placeCost
	}
	return engine.PickCost
}

// chance returns a number from 0 on, below 1.
func (p *picker) chance() float64 {
	const steps = 1 << 30
	return float64(p.random(steps)) / steps
}

// at returns the element with an index.
func (p *picker) at(index int) (element []byte, err error) {
	found := false
	err = p.scan(nil, true, index+1, func(e, _ []byte) bool {
		if found = index == 0; found {
			element = e
		}
		index--
		return !found
	})
	if err == nil && !found {
		err = p.miscounted(p.count)
	}
	return element, err
}

// read returns up to n elements from a place on.
func (p *picker) read(from []byte, n int) ([][]byte, error) {
	near := make([][]byte, 0, n)
	err := p.scan(from, true, n, func(element, _ []byte) bool {
		near = append(near, element)
		return len(near) < n
	})
	return near, err
}

// learn looks at the whole collection, once.
func (p *picker) learn() (err error) {
	if p.learned != nil {
		return nil
	}
	var all span
	if all.near, err = p.read(nil, pickElements); err != nil {
		return err
	}
	if all.last, err = p.lastWith(nil); err != nil {
		return err
	}
	if len(all.near) < pickElements {
		return p.miscounted(p.count)
	}
	p.learned = &learned{all: all, known: map[string][]byte{}, branches: map[string]span{}}
	p.note(all)
	return nil
}

// note remembers the bytes that occur in a span, behind what its elements share.
func (p *picker) note(s span) {
	shared := layout.SharedPrefix(s.near[0], s.last)
	for _, element := range s.near[:s.size()] {
		p.noteElement(element, shared)
	}
	p.noteElement(s.last, shared)
}

func (p *picker) noteElement(element []byte, shared int) {
	for _, b := range element[shared:min(len(element), shared+noteBytes)] {
		p.occurs[b] = true
	}
}

// descend goes down the tree to an element, and returns how many elements there would be if all
// branches were like those on the way.
func (p *picker) descend() (element []byte, ways float64, err error) {
	s, ways := p.all, 1.0
	for level := 0; level < pickLevels && !s.complete(); level++ {
		var branches int
		if s, branches, err = p.narrow(s); err != nil {
			return nil, 0, err
		}
		ways *= float64(branches)
	}
	n := s.size()
	if n == 0 {
		return nil, 0, p.miscounted(p.count)
	}
	return s.near[p.random(n)], ways * float64(n), nil
}

// narrow chooses among the branches of a span that isn't complete, and returns one and how many
// there are, as far as is known.
func (p *picker) narrow(s span) (branch span, branches int, err error) {
	first := s.near[0]
	shared := layout.SharedPrefix(first, s.last)
	candidates, err := p.candidates(s, shared)
	if err != nil {
		return span{}, 0, err
	}
	for {
		branches = len(candidates)
		if len(first) == shared {
			branches++ // the first element itself is one
		}
		i := p.random(branches)
		if i == len(candidates) {
			return span{s.near, first}, branches, nil
		}
		next := candidates[i]
		if branch, err = p.branch(s, shared, next); err != nil {
			return span{}, 0, err
		}
		there := branch.near[0][shared]
		if there == next {
			p.note(branch)
			return branch, branches, nil
		}
		if p.surplus > 0 {
			if candidates, err = p.explore(s, shared); err != nil {
				return span{}, 0, err
			}
			continue
		}
		// No element goes on with a byte from the chosen one up to the one that is there.
		candidates = slices.DeleteFunc(candidates, func(b byte) bool { return b >= next && b <= there })
		candidates = append(candidates, there)
	}
}

// explore finds out which bytes come behind what the elements of a span share.
func (p *picker) explore(s span, shared int) (bytesThere []byte, err error) {
	prefix := bytes.Clone(s.near[0][:shared])
	next, ok := s.near[0], true
	if len(next) == shared {
		next, ok, err = p.behind(append(bytes.Clone(prefix), 0), s.last)
	}
	for err == nil && ok && len(next) > shared {
		p.noteElement(next, shared)
		p.explored++
		b := next[shared]
		bytesThere = append(bytesThere, b)
		if b >= s.last[shared] {
			break
		}
		next, ok, err = p.behind(append(bytes.Clone(prefix), b+1), s.last)
	}
	if err == nil && (len(bytesThere) == 0 || bytesThere[len(bytesThere)-1] != s.last[shared]) {
		err = p.miscounted(p.count)
	}
	p.known[string(prefix)] = bytesThere
	return bytesThere, err
}

// behind returns the first element from a place on, up to the last of a span.
func (p *picker) behind(place, last []byte) (element []byte, ok bool, err error) {
	near, err := p.read(place, 1)
	if err != nil || len(near) == 0 || bytes.Compare(near[0], last) > 0 {
		return nil, false, err
	}
	return near[0], true, nil
}

// candidates are the bytes that may come behind what the elements of a span share.
func (p *picker) candidates(s span, shared int) (candidates []byte, err error) {
	if known := p.known[string(s.near[0][:shared])]; known != nil {
		return known, nil
	}
	if p.explored < p.curiosity {
		return p.explore(s, shared)
	}
	low := 0
	if first := s.near[0]; len(first) > shared {
		low = int(first[shared])
	}
	for b := low; b <= int(s.last[shared]); b++ {
		if p.occurs[b] {
			candidates = append(candidates, byte(b))
		}
	}
	return candidates, nil
}

// branch returns the elements of a span that have a byte behind what all of them share; if none
// has, the first ones behind where those would be.
func (p *picker) branch(s span, shared int, next byte) (branch span, err error) {
	prefix := append(bytes.Clone(s.near[0][:shared]), next)
	if seen, ok := p.branches[string(prefix)]; ok {
		return seen, nil
	}
	defer func() {
		if err == nil && p.surplus > 0 {
			p.branches[string(prefix)] = branch
		}
	}()
	branch = s
	if bytes.Compare(s.near[0], prefix) < 0 {
		branch.near, err = p.read(prefix, pickElements)
	}
	switch {
	case err != nil:
		return branch, err
	case len(branch.near) == 0 || bytes.Compare(branch.near[0], s.last) > 0:
		return branch, p.miscounted(p.count)
	case next != s.last[shared] && bytes.HasPrefix(branch.near[0], prefix):
		branch.last, err = p.lastWith(prefix)
	}
	return branch, err
}

// sampler picks several elements of a collection, packed or spread.
type sampler struct {
	txn   *Txn
	count uint64
	all   func(visit visitPair) error // walks all of it; fails if these are not count
	picks picks                       // nil if it is packed
}

// picks takes any element of a collection.
type picks interface {
	pick() (pair, error)
	// cost is about how many elements could be walked in the time that it takes to pick one.
	cost() uint64
	// at visits the elements with some numbers; counted is false, and none is visited, as long as
	// not all are counted.
	at(numbers []int, visit visitPair) (counted bool, err error)
}

// pair is an element and its value.
type pair struct{ element, value []byte }

func (p pair) clone() pair {
	n := len(p.element)
	both := append(append(make([]byte, 0, n+len(p.value)), p.element...), p.value...)
	return pair{both[:n:n], both[n:]}
}

// pairPicker is a picker of elements with their values, or, without get, of elements only.
type pairPicker struct {
	*picker
	get getElement
}

// getElement reads the value of an element.
type getElement func(element []byte) (value []byte, found bool, err error)

func (p pairPicker) pick() (picked pair, err error) {
	if picked.element, err = p.picker.pick(); err != nil || p.get == nil {
		return picked, err
	}
	var found bool
	if picked.value, found, err = p.get(picked.element); err == nil && !found {
		err = p.miscounted(p.count)
	}
	return picked, err
}

func (p pairPicker) at(numbers []int, visit visitPair) (counted bool, err error) {
	if !p.placed || !p.places.Counted() {
		return false, nil
	}
	return true, p.places.Entries(numbers, func(element, _ []byte) (goesOn bool, err error) {
		var value []byte
		if p.get != nil {
			var found bool
			if value, found, err = p.get(element); err != nil || !found {
				return false, cmp.Or(err, p.miscounted(p.count))
			}
		}
		return visit(element, value), nil
	})
}

// distinct visits count different elements, or all if there are no more. Unless they are few of
// very many, every choice of them is as likely as any other. Their order says nothing.
func (s *sampler) distinct(count uint64, visit visitPair) error {
	if count >= s.count {
		return s.all(visit)
	}
	if s.picks == nil || count >= s.count/s.picks.cost() {
		return s.choose(count, visit)
	}
	if counted, err := s.picks.at(distinctNumbers(int(count), int(s.count)), visit); counted || err != nil {
		return err
	}
	picked, err := s.pickDistinct(int(count))
	if err != nil {
		return err
	}
	if len(picked) < int(count) {
		return s.choose(count, visit)
	}
	show(picked, visit)
	return nil
}

// choose walks the elements and takes each with the chance that makes all choices equally likely:
// algorithm S of Knuth, The Art of Computer Programming 2, section 3.4.2.
func (s *sampler) choose(count uint64, visit visitPair) error {
	left := s.count
	return s.all(func(element, value []byte) bool {
		if rand.Uint64N(left) < count {
			count--
			if !visit(element, value) {
				return false
			}
		}
		left--
		return count > 0
	})
}

// pickDistinct picks elements until enough of them are different. It gives up, with fewer, when it
// finds the same ones all the time.
func (s *sampler) pickDistinct(count int) ([]pair, error) {
	picked, seen, seed := make([]pair, 0, count), make(map[uint64]struct{}, count), maphash.MakeSeed()
	for tries := 2*count + pickElements; len(picked) < count && tries > 0; tries-- {
		p, err := s.picks.pick()
		if err != nil {
			return nil, err
		}
		hash := maphash.Bytes(seed, p.element) // two elements with one hash count as the same one
		if _, again := seen[hash]; !again {
			seen[hash] = struct{}{}
			picked = append(picked, p)
		}
	}
	return picked, nil
}

// fewNumbers is up to how many numbers it is faster to look through than to keep a map of.
const fewNumbers = 32

// distinctNumbers returns count of the numbers below n; any choice is as likely as any other. It is
// Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", Communications of the ACM 30,
// 1987).
func distinctNumbers(count, n int) []int {
	numbers := make([]int, 0, count)
	var seen map[int]struct{}
	if count > fewNumbers {
		seen = make(map[int]struct{}, count)
	}
	for last := n - count; last < n; last++ {
		number := rand.IntN(last + 1)
		_, again := seen[number]
		if again || seen == nil && slices.Contains(numbers, number) {
			number = last
		}
		if seen != nil {
			seen[number] = struct{}{}
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// repeated visits an element count times, each time any of them. visit returns false to stop.
func (s *sampler) repeated(count uint64, visit visitPair) error {
	for batch := uint64(sampleBatch); count > 0; {
		n := min(count, batch)
		count -= n
		picked, err := s.pickRepeated(int(n))
		if err != nil || !show(picked, visit) {
			return err
		}
		batch = nextBatch(picked)
	}
	return nil
}

// nextBatch is how many picks may be made at once, by what others have taken: each batch may cost a
// walk over everything.
func nextBatch(picked []pair) uint64 {
	average := pickBytes + pairBytes(picked)/len(picked)
	return uint64(max(sampleBatch, sampleBytes/average))
}

func pairBytes(pairs []pair) (bytes int) {
	for _, p := range pairs {
		bytes += len(p.element) + len(p.value)
	}
	return bytes
}

func (s *sampler) pickRepeated(n int) ([]pair, error) {
	if s.picks == nil || uint64(n) >= s.count/s.picks.cost() {
		picked, err := s.draw(n)
		if err == nil {
			err = s.txn.SpendBytes(pairBytes(picked)) // the walk counts an element once, however often it is drawn
		}
		return picked, err
	}
	numbers, picked := make([]int, n), make([]pair, 0, n)
	for i := range numbers {
		numbers[i] = rand.IntN(int(s.count))
	}
	counted, err := s.picks.at(numbers, func(element, value []byte) bool {
		picked = append(picked, pair{element, value})
		return true
	})
	for err == nil && !counted && len(picked) < n {
		var p pair
		p, err = s.picks.pick()
		picked = append(picked, p)
	}
	return picked, err
}

// ticket is a drawn index, and when it was drawn.
type ticket struct {
	index uint64
	place int
}

// draw picks elements by their indexes, in one walk: each is as likely as any other.
func (s *sampler) draw(n int) ([]pair, error) {
	if err := s.txn.Spend(n); err != nil {
		return nil, err
	}
	if uint64(n) >= s.count {
		return s.drawOfAll(n)
	}
	tickets := make([]ticket, n)
	for i := range tickets {
		tickets[i] = ticket{rand.Uint64N(s.count), i}
	}
	slices.SortFunc(tickets, func(a, b ticket) int { return cmp.Compare(a.index, b.index) })
	picked, index := make([]pair, n), uint64(0)
	err := s.all(func(element, value []byte) bool {
		if tickets[0].index == index {
			p := pair{element, value}.clone()
			for len(tickets) > 0 && tickets[0].index == index {
				picked[tickets[0].place] = p
				tickets = tickets[1:]
			}
		}
		index++
		return len(tickets) > 0
	})
	return picked, err
}

// drawOfAll is draw of no fewer than there are.
func (s *sampler) drawOfAll(n int) ([]pair, error) {
	all := make([]pair, 0, s.count)
	err := s.all(func(element, value []byte) bool {
		all = append(all, pair{element, value}.clone())
		return true
	})
	if err != nil {
		return nil, err
	}
	picked := make([]pair, n)
	for i := range picked {
		picked[i] = all[rand.IntN(len(all))]
	}
	return picked, nil
}

// show visits pairs; false when the visit was stopped.
func show(pairs []pair, visit visitPair) bool {
	for _, p := range pairs {
		if !visit(p.element, p.value) {
			return false
		}
	}
	return true
}
