package sortorder

import (
	"math/bits"
	"runtime"
	"sort"
)

// A partialSort sorts the part of the elements that a window shows. It is the quicksort of Jon
// Bentley and Douglas McIlroy, "Engineering a sort function" (1993): it isn't stable, so that its
// every swap decides what a client sees of elements that compare equal. Parts that lie outside of
// the window are left as they are.
type partialSort struct {
	*comparer
	first, limit int
	comparisons  int
}

// yieldEvery is after how many comparisons others have their turn.
const yieldEvery = 1 << 14

const (
	insertionSize = 7  // fewer are sorted by insertion
	ninthSize     = 40 // more have their pivot chosen from nine instead of three
)

// maxDepth bounds how often parts are divided. Chance never gets there; elements that were chosen
// against this algorithm would make it quadratic.
func maxDepth(size int) int { return 8 * bits.Len(uint(size)) }

// sort sorts the elements from low up to, but not including, high.
func (s *partialSort) sort(low, high, depth int) {
	for s.visible(low, high) {
		if high-low < insertionSize {
			s.insert(low, high)
			return
		}
		if depth == 0 {
			sort.Stable(part{s, low, high})
			return
		}
		depth--
		less, greater := s.partition(low, high)
		s.sort(low, low+less, depth)
		low = high - greater
	}
}

// visible reports whether a part has anything to sort that is in the window.
func (s *partialSort) visible(low, high int) bool {
	return high-low > 1 && low < s.limit && high > s.first
}

func (s *partialSort) order(i, j int) int {
	if s.comparisons++; s.comparisons%yieldEvery == 0 {
		runtime.Gosched()
	}
	return s.compare(*s.entry(i), *s.entry(j))
}

func (s *partialSort) swap(i, j int) {
	a, b := s.entry(i), s.entry(j)
	*a, *b = *b, *a
}

// part is what sort.Stable sorts.
type part struct {
	*partialSort
	low, high int
}

func (p part) Len() int           { return p.high - p.low }
func (p part) Less(i, j int) bool { return p.order(p.low+i, p.low+j) < 0 }
func (p part) Swap(i, j int)      { p.swap(p.low+i, p.low+j) }

func (s *partialSort) insert(low, high int) {
	for i := low + 1; i < high; i++ {
		for j := i; j > low && s.order(j-1, j) > 0; j-- {
			s.swap(j-1, j)
		}
	}
}

// partition moves what is less than a pivot to the front, what is greater to the end, and returns
// how many there are of each. While it runs, what equals the pivot is gathered at both ends:
//
//	low     equal    less     scan          greater   equal   high
//	| pivot = = = = | < < < < | ? ? ? ? ? ? | > > > > | = = = |
//	                a         b           c           d
//
// a and b are the first elements of their parts, c and d the last ones.
func (s *partialSort) partition(low, high int) (less, greater int) {
	s.swap(low, s.pivot(low, high))
	a, b := low+1, low+1
	c, d := high-1, high-1
	for {
		for ; b <= c; b++ {
			order := s.order(b, low)
			if order > 0 {
				break
			}
			if order == 0 {
				s.swap(a, b)
				a++
			}
		}
		for ; b <= c; c-- {
			order := s.order(c, low)
			if order < 0 {
				break
			}
			if order == 0 {
				s.swap(c, d)
				d--
			}
		}
		if b > c {
			break
		}
		s.swap(b, c)
		b++
		c--
	}
	less, greater = b-a, d-c
	s.exchange(low, b, min(a-low, less))
	s.exchange(b, high, min(high-1-d, greater))
	return less, greater
}

// exchange swaps the first elements from low on with the last ones before high.
func (s *partialSort) exchange(low, high, count int) {
	for i := range count {
		s.swap(low+i, high-count+i)
	}
}

// pivot chooses the middle of a small part, the median of three in a larger one, and the median of
// the medians of three threes in a large one.
func (s *partialSort) pivot(low, high int) int {
	size := high - low
	left, middle, right := low, low+size/2, high-1
	if size == insertionSize {
		return middle
	}
	if size > ninthSize {
		d := size / 8
		left = s.median(left, left+d, left+2*d)
		middle = s.median(middle-d, middle, middle+d)
		right = s.median(right-2*d, right-d, right)
	}
	return s.median(left, middle, right)
}

func (s *partialSort) median(i, j, k int) int {
	if s.order(i, j) < 0 {
		switch {
		case s.order(j, k) < 0:
			return j
		case s.order(i, k) < 0:
			return k
		}
		return i
	}
	switch {
	case s.order(j, k) > 0:
		return j
	case s.order(i, k) < 0:
		return i
	}
	return k
}
