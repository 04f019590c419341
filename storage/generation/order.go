package generation

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"
)

// item is an entry that is being sorted: eight bytes of its key, and where it is. Comparing those
// eight bytes needs no look at the entry, which is far away in memory.
type item struct {
	piece uint64
	ref   reference
}

// Scratch is memory for sorting. It is one goroutine's; the zero value is ready for use.
type Scratch struct{ items, spare []item }

// fewEnough is up to how many entries are sorted by one piece, and by whole keys where that is the
// same.
const fewEnough = 16

// order sorts entries, whose pieces are their spaces, by space and key, and those of the same key
// the newest first. It is a radix sort by eight bytes of the key at a time: first all entries by
// the first eight, then those that share them by the next, and so on.
func (s *Scratch) order(items []item, at func(reference) entry) {
	s.byPiece(items)
	for from, to := range runs(items) {
		s.orderKeys(items[from:to], 0, at)
	}
}

// endedBit of an item's reference marks a key that ends within the piece.
const endedBit reference = 1 << 63

// orderKeys sorts entries of one space whose keys have the first depth bytes in common.
func (s *Scratch) orderKeys(items []item, depth int, at func(reference) entry) {
	if len(items) <= fewEnough {
		orderFew(items, depth, at)
		return
	}
	for i := range items {
		key := at(items[i].ref).key()
		items[i].piece = piece(key, depth)
		if len(key) < depth+8 {
			items[i].ref |= endedBit
		}
	}
	s.byPiece(items)
	if len(items) >= enoughForDigits {
		runtime.Gosched()
	}
	for from, to := range runs(items) {
		// A key that ends looks like one that goes on with zeros, and comes before it.
		ended := from + endedFirst(items[from:to])
		if ended-from > 1 {
			compareWhole(items[from:ended], at)
		}
		if to-ended > 1 {
			s.orderKeys(items[ended:to], depth+8, at)
		}
	}
}

// endedFirst brings the keys that end within the piece before the others, and returns their number.
func endedFirst(items []item) int {
	ended := 0
	for i := range items {
		if items[i].ref&endedBit != 0 {
			items[i].ref &^= endedBit
			items[i], items[ended] = items[ended], items[i]
			ended++
		}
	}
	return ended
}

// piece is eight bytes of a key as a number that compares as they do; behind its end are zeros.
func piece(key []byte, depth int) uint64 {
	if len(key) >= depth+8 {
		return binary.BigEndian.Uint64(key[depth:])
	}
	var bytes [8]byte
	copy(bytes[:], key[min(depth, len(key)):])
	return binary.BigEndian.Uint64(bytes[:])
}

// enoughForDigits is the number of items from which on sorting by digits is faster than comparing.
const enoughForDigits = 512

func (s *Scratch) byPiece(items []item) {
	switch {
	case len(items) < enoughForDigits:
		slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.piece, b.piece) })
	case inOrder(items, 1):
	case inOrder(items, -1):
		slices.Reverse(items)
	default:
		s.byDigits(items)
	}
}

// inOrder reports whether pieces ascend, or with a direction of -1 descend, as after pushes to the
// left of a list.
func inOrder(items []item, direction int) bool {
	for i := range items[1:] {
		if cmp.Compare(items[i].piece, items[i+1].piece) == direction {
			return false
		}
	}
	return true
}

// fewDigits is up to how many different values of the highest byte items are sorted separately for
// each.
const fewDigits = 4

// byDigits sorts by one byte of the piece after the other, the lowest first. It skips bytes that
// all pieces share, such as those of a prefix. Where there are only a few beginnings, as of
// metadata among elements, it sorts each of them separately, since their pieces share more bytes.
func (s *Scratch) byDigits(items []item) {
	var differing uint64
	for i := range items {
		differing |= items[i].piece ^ items[0].piece
	}
	spare := s.spareFor(len(items))
	if highest := (bits.Len64(differing) - 1) &^ 7; highest > 8 && digits(items, highest) <= fewDigits {
		distribute(spare, items, highest)
		copy(items, spare)
		for from, to := 0, 0; from < len(items); from = to {
			for to < len(items) && items[to].piece>>highest == items[from].piece>>highest {
				to++
			}
			s.byPiece(items[from:to])
		}
		return
	}
	from, to := items, spare
	for shift := 0; shift < 64; shift += 8 {
		if byte(differing>>shift) == 0 {
			continue
		}
		distribute(to, from, shift)
		runtime.Gosched() // reactors wait for the processor
		from, to = to, from
	}
	if &from[0] != &items[0] {
		copy(items, from)
	}
}

// digits is how many different values one byte of the pieces has.
func digits(items []item, shift int) (different int) {
	var seen [256]bool
	for i := range items {
		seen[byte(items[i].piece>>shift)] = true
	}
	for _, seen := range seen {
		if seen {
			different++
		}
	}
	return different
}

func (s *Scratch) spareFor(n int) []item {
	if cap(s.spare) < n {
		s.spare = make([]item, n)
	}
	return s.spare[:n]
}

// distribute copies items in the order of one byte of the piece; those of the same byte stay in
// their order.
func distribute(to, from []item, shift int) {
	var next [256]int
	for i := range from {
		next[byte(from[i].piece>>shift)]++
	}
	sum := 0
	for digit, count := range next {
		next[digit] = sum
		sum += count
	}
	for i := range from {
		digit := byte(from[i].piece >> shift)
		to[next[digit]] = from[i]
		next[digit]++
	}
}

// runs are the parts of sorted items that share a piece.
func runs(items []item) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(items); {
			to := from + 1
			for to < len(items) && items[to].piece == items[from].piece {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// orderFew is orderKeys for a few. Each entry is looked at once, unless keys share the piece, too.
func orderFew(items []item, depth int, at func(reference) entry) {
	for i := range items {
		items[i].piece = piece(at(items[i].ref).key(), depth)
	}
	slices.SortFunc(items, func(a, b item) int {
		if a.piece != b.piece {
			return cmp.Compare(a.piece, b.piece)
		}
		return compareEntries(a, b, at)
	})
}

func compareWhole(items []item, at func(reference) entry) {
	slices.SortFunc(items, func(a, b item) int { return compareEntries(a, b, at) })
}

// compareEntries says which of two entries comes first.
func compareEntries(a, b item, at func(reference) entry) int {
	other := at(b.ref)
	if d := at(a.ref).compare(other.space(), other.key()); d != 0 {
		return d
	}
	return cmp.Compare(b.ref, a.ref)
}
