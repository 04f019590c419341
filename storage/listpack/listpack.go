// Package listpack reads and edits Redis's listpack: a sequence of strings and integers packed
// into one piece of memory, byte for byte as Redis 7.0 writes it, so that what DUMP holds, what
// RocksDB holds and what is searched in memory are the same bytes.
//
// The package knows nothing of hashes, lists or sorted sets; what a run of elements means is the
// caller's business. It imports the standard library only.
//
// A listpack is laid out as follows; integers are little-endian:
//
//	| total bytes:4 | elements:2 | entry … | 0xFF |
//
// An element count of 65535 means "65535 or more, walk to find out". An entry is
//
//	| encoding and data | length of the former:1-5 |
//
// whose last part is read backwards, from its last byte on, which is what makes walking from the
// tail possible. The encodings:
//
//	0xxxxxxx                        integer 0..127
//	10xxxxxx …                      string of up to 63 bytes
//	110xxxxx xxxxxxxx               integer of 13 bits, signed
//	1110xxxx xxxxxxxx …             string of up to 4095 bytes
//	11110000 len:4 …                string of up to 2^32-1 bytes
//	11110001 int:2                  signed integers of 16, 24, 32, 64 bits
//	11110010 int:3
//	11110011 int:4
//	11110100 int:8
//
// A string that is the canonical decimal form of a signed 64-bit integer is always stored as that
// integer. The format's description: https://github.com/antirez/listpack.
package listpack

import (
	"encoding/binary"
	"iter"
)

// Listpack is a whole listpack. It may lie in shared, immutable memory: reading doesn't modify
// it, and edits write to a buffer that the caller names.
//
// Methods other than Validate require a valid listpack; on anything else they may panic, but they
// always end. Bytes from an untrusted source go through Validate first.
//
// A position is the offset of an element's first byte. Positions come from First, Last, Next,
// Prev, Seek, Find and the iterators, and hold until an edit at or before them.
//
// The editing methods (Append, Prepend, InsertBefore, InsertAfter, Replace, Delete, DeleteRange,
// Clone) return the edited listpack and never touch the one they are called on, with one
// exception that the caller has to ask for. The result is written to the memory of dst,
// whose length doesn't matter, or to new memory if dst's capacity is too small (nil always is).
// dst is one of
//
//   - memory apart from l's: l stays as it was;
//   - l[:0], by a caller that owns l's memory: l is edited in place and must not be used again.
//     Then no element that is written may be a view into l.
//
// Push has no dst: it always edits in place.
//
// The result can't exceed 4 GiB-1; the methods panic if it would, since callers keep listpacks
// far below it.
type Listpack []byte

// None is the position of no element: what lies past either end.
const None = -1

// EmptySize is the size of a listpack without elements.
const EmptySize = headerSize + 1

const (
	headerSize   = 6
	countOffset  = 4
	countUnknown = 1<<16 - 1
	endMark      = 0xFF
)

// Empty returns a new listpack without elements, with room for capacity bytes in total.
func Empty(capacity int) Listpack {
	l := make(Listpack, headerSize+1, max(capacity, headerSize+1))
	l.setHeader(0)
	l[headerSize] = endMark
	return l
}

// Len returns the number of elements. It walks the listpack if there are 65535 or more.
func (l Listpack) Len() int {
	if n := l.headerCount(); n != countUnknown {
		return n
	}
	n := 0
	for pos := headerSize; l[pos] != endMark; pos = l.skip(pos) {
		n++
	}
	return n
}

// Bytes returns the listpack as the plain bytes that it is.
func (l Listpack) Bytes() []byte { return l }

// First returns the position of the first element, or None.
func (l Listpack) First() int { return l.orNone(headerSize) }

// Last returns the position of the last element, or None.
func (l Listpack) Last() int { return l.Prev(len(l) - 1) }

// Next returns the position of the element after the one at pos, or None.
func (l Listpack) Next(pos int) int { return l.orNone(l.skip(pos)) }

// Prev returns the position of the element before the one at pos, or None.
func (l Listpack) Prev(pos int) int {
	if pos <= headerSize {
		return None
	}
	size := decodeBacklen(l, pos)
	return pos - size - backlenSize(size)
}

// At returns the element at pos. Its Bytes are a view into the listpack.
func (l Listpack) At(pos int) Element {
	e, _ := decode(l[pos:])
	return e
}

// Step returns the element at pos, as At does, and the position of the one after it, or None.
func (l Listpack) Step(pos int) (e Element, next int) {
	switch c := l[pos]; {
	case c < string6:
		e, next = OfInt(int64(c)), pos+2
	case c < int13:
		end := pos + 1 + int(c&0x3F)
		e.Bytes, next = l[pos+1:end:end], end+1
	default:
		var size int
		e, size = decode(l[pos:])
		next = pos + size + backlenSize(size)
	}
	return e, l.orNone(next)
}

// Seek returns the position of the element with the given index, or None if there is none.
// Negative indexes count from the tail: -1 is the last element.
func (l Listpack) Seek(index int) int {
	count := l.headerCount()
	if count == countUnknown {
		return l.walk(index)
	}
	if index < -count || index >= count {
		return None
	}
	// Take the shorter way.
	switch {
	case index >= 0 && index > count/2:
		index -= count
	case index < -count/2:
		index += count
	}
	return l.walk(index)
}

// walk finds an index from the end that its sign names.
func (l Listpack) walk(index int) int {
	if index >= 0 {
		pos := l.First()
		for ; index > 0 && pos != None; index-- {
			pos = l.Next(pos)
		}
		return pos
	}
	pos := l.Last()
	for ; index < -1 && pos != None; index++ {
		pos = l.Prev(pos)
	}
	return pos
}

// Find returns the position of the first element that equals value, or None. It compares the
// element at start, then passes over skip elements, and so on: 0 looks at every element, 1 at
// the fields of a hash or the members of a sorted set. A start of None finds nothing.
func (l Listpack) Find(start int, value []byte, skip int) int {
	if start == None {
		return None
	}
	number, isInt := ParseInt(value)
	for pos := start; l[pos] != endMark; {
		if l.matches(pos, value, number, isInt) {
			return pos
		}
		pos = l.skip(pos)
		for n := skip; n > 0 && l[pos] != endMark; n-- {
			pos = l.skip(pos)
		}
	}
	return None
}

// matches compares the element at pos with value, whose ParseInt is number, isInt.
func (l Listpack) matches(pos int, value []byte, number int64, isInt bool) bool {
	if c := l[pos]; c&0xC0 == string6 { // by far the most frequent
		n := int(c & 0x3F)
		return n == len(value) && string(l[pos+1:pos+1+n]) == string(value)
	}
	e, _ := decode(l[pos:])
	if e.IsInt() {
		return isInt && e.Int == number
	}
	return string(e.Bytes) == string(value)
}

// All iterates over positions and elements from head to tail.
func (l Listpack) All() iter.Seq2[int, Element] {
	return func(yield func(int, Element) bool) {
		for pos := headerSize; l[pos] != endMark; {
			e, size := decode(l[pos:])
			if !yield(pos, e) {
				return
			}
			pos += size + backlenSize(size)
		}
	}
}

// Backward iterates over positions and elements from tail to head.
func (l Listpack) Backward() iter.Seq2[int, Element] {
	return func(yield func(int, Element) bool) {
		for pos := l.Last(); pos != None; pos = l.Prev(pos) {
			if !yield(pos, l.At(pos)) {
				return
			}
		}
	}
}

// skip returns the offset of what follows the element at pos: an element or the end mark.
func (l Listpack) skip(pos int) int {
	switch c := l[pos]; {
	case c < string6:
		return pos + 2
	case c < int13:
		return pos + 2 + int(c&0x3F)
	default:
		return l.skipRare(pos)
	}
}

func (l Listpack) skipRare(pos int) int {
	size := encodedSize(l[pos:])
	return pos + size + backlenSize(size)
}

func (l Listpack) orNone(pos int) int {
	if l[pos] == endMark {
		return None
	}
	return pos
}

// headerCount is the header's element count, which may be countUnknown.
func (l Listpack) headerCount() int {
	return int(binary.LittleEndian.Uint16(l[countOffset:]))
}

// setHeader writes the length that l has and the given count.
func (l Listpack) setHeader(count int) {
	binary.LittleEndian.PutUint32(l, uint32(len(l)))
	binary.LittleEndian.PutUint16(l[countOffset:], uint16(min(count, countUnknown)))
}
