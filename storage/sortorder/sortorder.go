// Package sortorder puts the elements of a SORT command in order, as Redis does: by number or by
// bytes, by the elements themselves or by the weights that a BY pattern found, and with the same
// order among elements that compare equal.
//
// The package works on plain bytes and imports only the standard library. Reading elements and
// weights, and what a command answers when a weight isn't a number, are its caller's.
package sortorder

import (
	"bytes"
	"cmp"
	"slices"
)

// An Element is what is sorted.
type Element struct {
	Value []byte
	// Number is what decides unless Order.Alpha. It is 0 where there is no weight, and never NaN.
	Number float64
	// Weight is what decides with Order.Alpha and Order.By; nil where there is none, which sorts first.
	Weight []byte
}

// Order is how elements are compared.
type Order struct {
	Alpha      bool // by bytes, not by number
	By         bool // by weights, not by the elements themselves
	Descending bool
	// Exact compares bytes in full, as SORT does with STORE. Else they are compared up to their
	// first zero byte, as strings in C are.
	Exact bool
}

// Compare returns a negative number when a comes before b, a positive one when it comes after, and 0
// when Redis finds neither.
func (o Order) Compare(a, b *Element) int {
	order := o.ascending(a, b)
	if o.Descending {
		return -order
	}
	return order
}

func (o Order) ascending(a, b *Element) int {
	switch {
	case !o.Alpha && a.Number != b.Number:
		return cmp.Compare(a.Number, b.Number)
	case !o.Alpha:
		return bytes.Compare(a.Value, b.Value)
	case !o.By:
		return o.text(a.Value, b.Value)
	case a.Weight == nil || b.Weight == nil:
		return present(a.Weight) - present(b.Weight)
	}
	return o.text(a.Weight, b.Weight)
}

func present(weight []byte) int {
	if weight == nil {
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

// Window returns the elements that LIMIT offset count leaves of a number of them: those from first up
// to, but not including, limit. A negative count means all of the rest.
func Window(offset, count int64, size int) (first, limit int) {
	first = int(min(max(offset, 0), int64(size)))
	if count < 0 || count > int64(size-first) {
		return first, size
	}
	return first, first + int(count)
}

// Sort puts the elements of a window into their places. With a window that is smaller than all of
// them and with Order.By, Redis sorts only as far as the window needs, which shows among elements
// that compare equal; the others are then in no particular order.
func (o Order) Sort(elements []Element, first, limit int) {
	if !o.By || first == 0 && limit == len(elements) {
		slices.SortStableFunc(elements, o.compareValues)
		return
	}
	if first >= limit {
		return
	}
	s := partialSort{elements: elements, order: o, first: first, limit: limit}
	s.sort(0, len(elements), maxDepth(len(elements)))
}

func (o Order) compareValues(a, b Element) int { return o.Compare(&a, &b) }
