// Package intset reads and edits Redis's intset: the members of a small set of integers, sorted,
// in one piece of memory, byte for byte as Redis writes it.
//
// The package knows nothing of keys or of when a set is an intset. It imports the standard
// library only.
//
// The layout; all integers are little-endian, members are signed and ascending:
//
//	| width of a member in bytes, 2, 4 or 8:4 | members:4 | member:width … |
//
// The width is that of the widest member that the set ever had: it grows and never shrinks.
package intset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Intset is a whole intset. It may lie in shared, immutable memory: reading doesn't modify it.
//
// Add and Remove write their result to the memory of dst, or to new memory if dst's capacity is
// too small. dst is memory apart from the intset's, or s[:0], by a caller that owns the memory of
// s: then s is edited in place and must not be used again.
//
// Methods other than Validate require a valid intset; on anything else they may panic.
type Intset []byte

// ErrCorrupt is what Validate's errors wrap.
var ErrCorrupt = errors.New("intset: corrupt")

const (
	headerSize  = 8
	countOffset = 4
)

// Empty returns a new intset without members, with room for capacity bytes in total.
func Empty(capacity int) Intset {
	s := make(Intset, headerSize, max(capacity, headerSize))
	s.setHeader(2, 0)
	return s
}

// Len returns the number of members.
func (s Intset) Len() int { return int(binary.LittleEndian.Uint32(s[countOffset:])) }

// Bytes returns the intset as the plain bytes that it is.
func (s Intset) Bytes() []byte { return s }

// Get returns the member with index i; members ascend, and 0 <= i < Len().
func (s Intset) Get(i int) int64 { return s.get(i, s.width()) }

func (s Intset) get(i, width int) int64 {
	b := s[headerSize+i*width:]
	switch width {
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	default:
		return int64(binary.LittleEndian.Uint64(b))
	}
}

// Find returns the index of value, or the one that it would have, and whether it is a member.
func (s Intset) Find(value int64) (i int, found bool) {
	width := s.width()
	low, high := 0, s.Len()
	if width < widthOf(value) {
		if value < 0 {
			return 0, false
		}
		return high, false
	}
	for low < high {
		middle := int(uint(low+high) / 2)
		if s.get(middle, width) < value {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < s.Len() && s.get(low, width) == value
}

// Contains reports whether value is a member.
func (s Intset) Contains(value int64) bool {
	_, found := s.Find(value)
	return found
}

// All iterates over indexes and members, ascending.
func (s Intset) All() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		width := s.width()
		for i := range s.Len() {
			if !yield(i, s.get(i, width)) {
				return
			}
		}
	}
}

// Add returns s with value as a member, and whether it is new. If it isn't, the result is s
// itself and dst isn't written to.
func (s Intset) Add(dst []byte, value int64) (Intset, bool) {
	i, found := s.Find(value)
	if found {
		return s, false
	}
	old, width := s.width(), max(s.width(), widthOf(value))
	count := s.Len()
	out := grow(dst, headerSize+(count+1)*width)
	if width > old {
		out.widen(s, i, old, width)
	} else {
		at := headerSize + i*width
		copy(out[at+width:], s[at:headerSize+count*width])
		copy(out[:at], s[:at])
	}
	out.set(i, width, value)
	out.setHeader(width, count+1)
	return out, true
}

// widen copies the members of s in a larger width, leaving out index gap. It goes from the last
// to the first, since s may lie in the same memory.
func (s Intset) widen(from Intset, gap, old, width int) {
	for i := from.Len() - 1; i >= 0; i-- {
		to := i
		if i >= gap {
			to++
		}
		s.set(to, width, from.get(i, old))
	}
}

// Remove returns s without value, and whether it was a member. If it wasn't, the result is s
// itself and dst isn't written to.
func (s Intset) Remove(dst []byte, value int64) (Intset, bool) {
	i, found := s.Find(value)
	if !found {
		return s, false
	}
	width, count := s.width(), s.Len()
	at, end := headerSize+i*width, headerSize+count*width
	out := grow(dst, end-width)
	copy(out[at:], s[at+width:end])
	copy(out[:at], s[:at])
	out.setHeader(width, count-1)
	return out, true
}

// Validate reports whether the bytes are an intset that every other method may be called on. The
// bytes can be anything. If deep is false, the order of the members isn't checked.
func (s Intset) Validate(deep bool) error {
	if len(s) < headerSize {
		return fmt.Errorf("%w: %d bytes are too few", ErrCorrupt, len(s))
	}
	width, count := binary.LittleEndian.Uint32(s), binary.LittleEndian.Uint32(s[countOffset:])
	if width != 2 && width != 4 && width != 8 {
		return fmt.Errorf("%w: members of %d bytes", ErrCorrupt, width)
	}
	if want := headerSize + uint64(width)*uint64(count); want != uint64(len(s)) {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrCorrupt, len(s), want)
	}
	if !deep {
		return nil
	}
	for i := 1; i < s.Len(); i++ {
		if s.Get(i-1) >= s.Get(i) {
			return fmt.Errorf("%w: members %d and %d are not ascending", ErrCorrupt, i-1, i)
		}
	}
	return nil
}

func (s Intset) width() int { return int(binary.LittleEndian.Uint32(s)) }

func (s Intset) setHeader(width, count int) {
	binary.LittleEndian.PutUint32(s, uint32(width))
	binary.LittleEndian.PutUint32(s[countOffset:], uint32(count))
}

func (s Intset) set(i, width int, value int64) {
	b := s[headerSize+i*width:]
	switch width {
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(value))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(value))
	default:
		binary.LittleEndian.PutUint64(b, uint64(value))
	}
}

// grow returns size bytes in dst's memory, or in new memory if that doesn't suffice.
func grow(dst []byte, size int) Intset { return slices.Grow(dst[:0], size)[:size] }

// widthOf is the number of bytes that it takes to hold value.
func widthOf(value int64) int {
	switch {
	case value >= math.MinInt16 && value <= math.MaxInt16:
		return 2
	case value >= math.MinInt32 && value <= math.MaxInt32:
		return 4
	default:
		return 8
	}
}
