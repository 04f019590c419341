// Package sortorder puts the elements of a SORT command in order, as Redis does: by number or by
// bytes, by the elements themselves or by the weights that a BY pattern found, and with the same
// order among elements that compare equal.
//
// The package works on plain bytes and imports only the standard library. Reading elements and
// weights, and what a command answers when a weight isn't a number, are its caller's.
package sortorder

import (
	"bytes"
	"math"
)

// Order is how elements are compared.
type Order struct {
	Alpha      bool // by bytes, not by number
	By         bool // by weights, not by the elements themselves
	Descending bool
	// Exact compares bytes in full, as SORT does with STORE. Else they are compared up to their
	// first zero byte, as strings in C are.
	Exact bool
	// NumbersOnly leaves elements with equal numbers as they come. Else their bytes decide.
	NumbersOnly bool
}

// comparer compares entries of elements.
type comparer struct {
	Order
	*Elements
}

// compare returns a negative number when a comes before b, a positive one when it comes after, and
// 0 when Redis finds neither.
func (c *comparer) compare(a, b entry) int {
	order := c.ascending(a, b)
	if c.Descending {
		return -order
	}
	return order
}

func (c *comparer) ascending(a, b entry) int {
	if !c.Alpha {
		return c.byNumber(a, b)
	}
	if !c.By {
		return c.text(c.texts.at(a.value), c.texts.at(b.value))
	}
	if a.weight == 0 || b.weight == 0 {
		return present(a.weight) - present(b.weight)
	}
	return c.text(c.texts.at(textRef(a.weight)), c.texts.at(textRef(b.weight)))
}

func (c *comparer) byNumber(a, b entry) int {
	x, y := math.Float64frombits(a.weight), math.Float64frombits(b.weight)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case c.NumbersOnly:
		return 0
	}
	return bytes.Compare(c.texts.at(a.value), c.texts.at(b.value))
}

func present(weight uint64) int {
	if weight == 0 {
		return 0
	}
	return 1
}

func (o Order) text(a, b []byte) int {
	if !o.Exact {
		a, b = cString(a), cString(b)
	}
	return bytes.Compare(a, b)
}

// cString returns text up to its first zero byte.
func cString(text []byte) []byte {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		return text[:end]
	}
	return text
}

// Window returns the elements that LIMIT offset count leaves of a number of them: those from first
// up to, but not including, limit. A negative count means all of the rest.
func Window(offset, count int64, size int) (first, limit int) {
	first = int(min(max(offset, 0), int64(size)))
	if count < 0 || count > int64(size-first) {
		return first, size
	}
	return first, first + int(count)
}

// Sort leaves the elements of a window, in their order. With a window that is smaller than all of
// them and with Order.By, Redis sorts only as far as the window needs, which shows among elements
// that compare equal.
//
// Others have their turn on the processor while it goes on, also when there is only one.
func (o Order) Sort(elements *Elements, first, limit int) {
	c := &comparer{o, elements}
	switch {
	case first >= limit:
		elements.Cut(first, first)
	case o.By && limit-first < elements.Len():
		s := partialSort{comparer: c, first: first, limit: limit}
		s.sort(0, elements.Len(), maxDepth(elements.Len()))
		elements.Cut(first, limit)
	default:
		c.sortStable(first, limit)
	}
}
