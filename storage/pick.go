package storage

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"

	"kedis/storage/layout"
)

const (
	// exactPick is up to how many elements of a spread collection are walked to the one that chance names.
	exactPick = 1024
	// pickElements are read at each place that a picker comes to.
	pickElements = 32
	// pickLevels is how often a picker narrows down where it looks, at most.
	pickLevels = 64
	// pickCost is about how many elements could be walked in the time that it takes to pick one.
	pickCost = 512
	// sampleBatch is how many picks with repetition are made in one walk.
	sampleBatch = 1024
)

// picker picks elements of a spread collection by chance, without walking all of it.
//
// Up to exactPick elements each is as likely as any other. In a larger collection the picker takes the
// bytes behind the prefix that all elements share, chooses one of those that can come next, keeps the
// elements that begin so, and does the same with them, until no more than pickElements are left, of
// which each is as likely as any other. Which bytes there are it doesn't know: it chooses among all
// between the lowest and the highest that occur anywhere in what it has read, and moves on to the next
// one that does come here.
//
// So what counts is not how many elements begin with a byte, but in how many ways elements can begin.
// Where all of them fill the same space evenly (numbers, UUIDs, digests, with whatever prefix) all are
// nearly equally likely. Elements of small groups beside large ones, and those behind bytes that don't
// come there, are picked more often than the others; none is out of reach.
type picker struct {
	spreadElements
	count    uint64
	keysOnly bool

	all    span // everything, once it was looked at
	occurs [256]bool
}

// pair is an element and its value.
type pair struct{ element, value []byte }

// span is a part of a collection: its first elements, and the last one.
type span struct {
	near []pair // also holds what follows upon the last one, if it is short
	last []byte
}

// pick returns an element; the collection has some. It is valid until the transaction is reset.
func (p *picker) pick() (pair, error) {
	if p.count <= exactPick {
		return p.at(rand.Uint64N(max(p.count, 1)))
	}
	if err := p.learn(); err != nil {
		return pair{}, err
	}
	s := p.all
	for range pickLevels {
		if bytes.Compare(s.near[len(s.near)-1].element, s.last) >= 0 {
			break
		}
		var err error
		if s, err = p.narrow(s); err != nil {
			return pair{}, err
		}
	}
	return s.near[rand.IntN(s.size())], nil
}

// size is how many of the elements that were read are within the span.
func (s *span) size() int {
	n, found := slices.BinarySearchFunc(s.near, s.last, func(p pair, last []byte) int {
		return bytes.Compare(p.element, last)
	})
	if found {
		n++
	}
	return n
}

// at returns the element with an index.
func (p *picker) at(index uint64) (pair, error) {
	near, err := p.read(nil, int(index)+1)
	if err == nil && len(near) <= int(index) {
		err = p.miscounted(p.count)
	}
	if err != nil {
		return pair{}, err
	}
	return near[index], nil
}

// read returns up to n elements from a place on.
func (p *picker) read(from []byte, n int) ([]pair, error) {
	near := make([]pair, 0, n)
	err := p.walk(from, p.keysOnly, func(element, value []byte) bool {
		near = append(near, pair{element, value})
		return len(near) < n
	})
	return near, err
}

// learn looks at the whole collection, once.
func (p *picker) learn() error {
	if p.all.near != nil {
		return nil
	}
	near, err := p.read(nil, pickElements)
	if err == nil && len(near) < pickElements {
		err = p.miscounted(p.count)
	}
	if err != nil {
		return err
	}
	p.all.near = near
	p.all.last, err = p.lastWith(nil)
	p.note(p.all)
	return err
}

// note remembers the bytes that occur in a span, behind what its elements share.
func (p *picker) note(s span) {
	from := commonPrefix(s.near[0].element, s.last)
	for _, e := range s.near {
		for _, b := range e.element[min(from, len(e.element)):] {
			p.occurs[b] = true
		}
	}
	for _, b := range s.last[from:] {
		p.occurs[b] = true
	}
}

// lastWith returns the last element with a prefix, which some have.
func (p *picker) lastWith(prefix []byte) (last []byte, err error) {
	lower := layout.AppendElementKey(nil, p.kind, p.id, prefix)
	it := p.db.txn.walk(p.db.space, lower, layout.Successor(nil, lower), true, true)
	if it.Next() {
		last = it.Key()[layout.ElementPrefix:]
	} else if it.Err() == nil {
		it.err = p.miscounted(p.count)
	}
	return last, it.Close()
}

// narrow chooses the next byte behind what the elements of a span share, and returns those that have it.
func (p *picker) narrow(s span) (span, error) {
	first := s.near[0].element
	shared := commonPrefix(first, s.last)
	next, whole := p.choose(first, s.last, shared)
	if whole {
		return span{s.near, first}, nil
	}
	near, err := p.read(append(bytes.Clone(first[:shared]), next), pickElements)
	if err == nil && len(near) == 0 {
		err = p.miscounted(p.count)
	}
	if err != nil {
		return span{}, err
	}
	within := span{near, s.last}
	if prefix := near[0].element[:shared+1]; prefix[shared] != s.last[shared] {
		if within.last, err = p.lastWith(prefix); err != nil {
			return span{}, err
		}
	}
	p.note(within)
	return within, nil
}

// choose returns a byte that may come behind what the first and the last element of a span share; whole
// if the first one ends there, and is chosen itself.
func (p *picker) choose(first, last []byte, shared int) (next byte, whole bool) {
	var candidates [256]byte
	n, low := 0, 0
	if len(first) > shared {
		low = int(first[shared])
	}
	for b := low; b <= int(last[shared]); b++ {
		if p.occurs[b] {
			candidates[n] = byte(b)
			n++
		}
	}
	if len(first) == shared && rand.IntN(n+1) == n {
		return 0, true
	}
	return candidates[rand.IntN(n)], false
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// sampler picks several elements of a collection, packed or spread.
type sampler struct {
	txn    *Txn
	count  uint64
	all    func(visit visitPair) error // walks all of it
	picker *picker                     // nil if it is packed
}

// distinct visits count different elements, or all if there are no more. Unless they are few of very
// many, every choice of them is as likely as any other. Their order says nothing.
func (s *sampler) distinct(count uint64, visit visitPair) error {
	if count >= s.count {
		return s.all(visit)
	}
	if s.picker == nil || count >= s.count/pickCost {
		return s.choose(count, visit)
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
	picked, seen := make([]pair, 0, count), make(map[string]struct{}, count)
	for tries := 2*count + pickElements; len(picked) < count && tries > 0; tries-- {
		p, err := s.picker.pick()
		if err != nil {
			return nil, err
		}
		if _, again := seen[string(p.element)]; !again {
			seen[string(p.element)] = struct{}{}
			picked = append(picked, p)
		}
	}
	return picked, nil
}

// repeated visits an element count times, each time any of them. visit returns false to stop.
func (s *sampler) repeated(count uint64, visit visitPair) error {
	for count > 0 {
		n := min(count, sampleBatch)
		count -= n
		picked, err := s.pickRepeated(int(n))
		if err != nil || !show(picked, visit) {
			return err
		}
	}
	return nil
}

func (s *sampler) pickRepeated(n int) ([]pair, error) {
	if s.picker == nil || uint64(n) >= s.count/pickCost {
		return s.draw(n)
	}
	picked := make([]pair, n)
	for i := range picked {
		var err error
		if picked[i], err = s.picker.pick(); err != nil {
			return nil, err
		}
	}
	return picked, nil
}

// ticket is a drawn index, and when it was drawn.
type ticket struct {
	index uint64
	place int
}

// draw picks elements by their indexes, in one walk: each is as likely as any other.
func (s *sampler) draw(n int) ([]pair, error) {
	if err := s.txn.spend(n); err != nil {
		return nil, err
	}
	tickets := make([]ticket, n)
	for i := range tickets {
		tickets[i] = ticket{rand.Uint64N(s.count), i}
	}
	slices.SortFunc(tickets, func(a, b ticket) int { return cmp.Compare(a.index, b.index) })
	picked, index := make([]pair, n), uint64(0)
	err := s.all(func(element, value []byte) bool {
		if tickets[0].index == index {
			p := pair{bytes.Clone(element), bytes.Clone(value)}
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

// show visits pairs; false when the visit was stopped.
func show(pairs []pair, visit visitPair) bool {
	for _, p := range pairs {
		if !visit(p.element, p.value) {
			return false
		}
	}
	return true
}
