package generation

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"
)

// place is an entry that is being brought into order: eight bytes of its key, and where it is. Comparing
// those eight bytes needs no look at the entry, which is far away in memory.
type place struct {
	piece uint64
	ref   reference
}

// Scratch is memory that sorting needs. Whoever sorts often keeps one. It is one goroutine's; the zero value is ready for use.
type Scratch struct{ places, spare []place }

// fewEnough is the number of entries that are compared as a whole rather than piece by piece.
const fewEnough = 16

// order sorts entries, whose pieces are their spaces, by space and key, and those of the same key the newest first. It goes over the keys
// eight bytes at a time: first all entries by the first eight, then those that have them in common by the
// next, and so on.
func (s *Scratch) order(places []place, at func(reference) entry) {
	s.byPiece(places)
	for from, to := range runs(places) {
		s.orderKeys(places[from:to], 0, at)
	}
}

// endedBit of a place's reference says that the key ends within the piece.
const endedBit reference = 1 << 63

// orderKeys sorts entries of one space whose keys have the first depth bytes in common.
func (s *Scratch) orderKeys(places []place, depth int, at func(reference) entry) {
	if len(places) <= fewEnough {
		compareWhole(places, at)
		return
	}
	for i := range places {
		key := at(places[i].ref).key()
		places[i].piece = piece(key, depth)
		if len(key) < depth+8 {
			places[i].ref |= endedBit
		}
	}
	s.byPiece(places)
	if len(places) >= enoughForDigits {
		runtime.Gosched()
	}
	for from, to := range runs(places) {
		// A key that ends looks like one that goes on with zeros, and comes before it.
		ended := from + endedFirst(places[from:to])
		if ended-from > 1 {
			compareWhole(places[from:ended], at)
		}
		if to-ended > 1 {
			s.orderKeys(places[ended:to], depth+8, at)
		}
	}
}

// endedFirst brings the keys that end within the piece before the others, and returns how many they are.
func endedFirst(places []place) int {
	ended := 0
	for i := range places {
		if places[i].ref&endedBit != 0 {
			places[i].ref &^= endedBit
			places[i], places[ended] = places[ended], places[i]
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

// enoughForDigits is the number of places from which on sorting by digits is faster than comparing.
const enoughForDigits = 512

func (s *Scratch) byPiece(places []place) {
	switch {
	case len(places) < enoughForDigits:
		slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.piece, b.piece) })
	case inOrder(places, 1):
	case inOrder(places, -1):
		slices.Reverse(places)
	default:
		s.byDigits(places)
	}
}

// inOrder tells whether pieces ascend, or with a direction of -1 descend, as when elements were pushed to the left of a list.
func inOrder(places []place, direction int) bool {
	for i := range places[1:] {
		if cmp.Compare(places[i].piece, places[i+1].piece) == direction {
			return false
		}
	}
	return true
}

// fewDigits is how many different values of the highest byte are worth being taken apart first.
const fewDigits = 4

// byDigits sorts by one byte of the piece after the other, the lowest first. Bytes that all pieces have in common,
// such as those of a prefix, take no time. Where there are only few kinds of beginning, as of metadata among elements, each is sorted for
// itself, since it has more in common.
func (s *Scratch) byDigits(places []place) {
	var differing uint64
	for i := range places {
		differing |= places[i].piece ^ places[0].piece
	}
	spare := s.spareFor(len(places))
	if highest := (bits.Len64(differing) - 1) &^ 7; highest > 8 && digits(places, highest) <= fewDigits {
		distribute(spare, places, highest)
		copy(places, spare)
		for from, to := 0, 0; from < len(places); from = to {
			for to < len(places) && places[to].piece>>highest == places[from].piece>>highest {
				to++
			}
			s.byPiece(places[from:to])
		}
		return
	}
	from, to := places, spare
	for shift := 0; shift < 64; shift += 8 {
		if byte(differing>>shift) == 0 {
			continue
		}
		distribute(to, from, shift)
		runtime.Gosched() // reactors wait for the processor
		from, to = to, from
	}
	if &from[0] != &places[0] {
		copy(places, from)
	}
}

// digits is how many different values one byte of the pieces has.
func digits(places []place, shift int) (different int) {
	var seen [256]bool
	for i := range places {
		seen[byte(places[i].piece>>shift)] = true
	}
	for _, seen := range seen {
		if seen {
			different++
		}
	}
	return different
}

func (s *Scratch) spareFor(n int) []place {
	if cap(s.spare) < n {
		s.spare = make([]place, n)
	}
	return s.spare[:n]
}

// distribute copies places in the order of one byte of the piece, those of the same byte as they stand.
func distribute(to, from []place, shift int) {
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

// runs are the parts of sorted places that have a piece in common.
func runs(places []place) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(places); {
			to := from + 1
			for to < len(places) && places[to].piece == places[from].piece {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

func compareWhole(places []place, at func(reference) entry) {
	slices.SortFunc(places, func(a, b place) int {
		other := at(b.ref)
		if d := at(a.ref).compare(other.space(), other.key()); d != 0 {
			return d
		}
		return cmp.Compare(b.ref, a.ref)
	})
}
