// Package bits reads and changes strings as arrays of bits, with the results of Redis's BITCOUNT,
// BITPOS, BITOP, GETBIT, SETBIT and BITFIELD. Bit 0 is the highest bit of the first byte, and a
// string goes on with zeros beyond its end.
//
// The package works on plain bytes and imports only the standard library. It knows neither keys nor
// commands, and no limit on a string's size: the caller checks offsets before they make a string
// grow.
package bits

import (
	"encoding/binary"
	"math/bits"
)

// Get returns a bit, 0 or 1.
func Get(value []byte, offset uint64) int {
	at := offset / 8
	if at >= uint64(len(value)) {
		return 0
	}
	return int(value[at]>>(7-offset%8)) & 1
}

// Set sets a bit to 0 or 1 and returns what it was. It writes to value, after growing it as Grow
// does where it is too short.
func Set(value []byte, offset uint64, bit int) (changed []byte, old int) {
	value = Grow(value, offset+1)
	shift := 7 - offset%8
	at := &value[offset/8]
	old = int(*at>>shift) & 1
	*at = *at&^(1<<shift) | byte(bit&1)<<shift
	return value, old
}

// Grow returns value with zeros appended until it holds a number of bits. A value that is to take
// several writes is better grown once, for the last of them.
func Grow(value []byte, count uint64) []byte {
	size := (count + 7) / 8
	if size <= uint64(len(value)) {
		return value
	}
	if size <= uint64(cap(value)) {
		grown := value[:size]
		clear(grown[len(value):])
		return grown
	}
	// No more than is needed: a bitmap is large, and rarely grows twice in memory.
	grown := make([]byte, size)
	copy(grown, value)
	return grown
}

// Unit is what the ends of a range count.
type Unit int

const (
	Bytes Unit = iota
	Bits
)

// A Range is the part of a string from Start to End, both included. Negative numbers count from the
// string's end, -1 being its last byte or bit.
type Range struct {
	Start, End int64
	Unit       Unit
	// Open says that no end was given: End is not looked at. BITPOS then takes the zeros beyond the
	// string into account.
	Open bool
}

// Span returns the bits of a string of size bytes that the range has: from first up to, but not
// including, limit. An empty range has first >= limit.
func (r Range) Span(size int) (first, limit int64) {
	length, scale := int64(size), int64(8)
	if r.Unit == Bits {
		length, scale = length*8, 1
	}
	end := r.End
	if r.Open {
		end = -1
	}
	first = min(fromEnd(r.Start, length), length)
	limit = min(fromEnd(end, length), length-1) + 1
	return first * scale, limit * scale
}

// fromEnd makes an index that counts from the end one that counts from the start. What lies before
// the start becomes the start.
func fromEnd(index, length int64) int64 {
	if index < 0 {
		index += length
	}
	return max(index, 0)
}

// Count returns the number of bits of value that are 1.
func Count(value []byte) int64 {
	var count int
	for ; len(value) >= 32; value = value[32:] {
		count += bits.OnesCount64(binary.LittleEndian.Uint64(value)) +
			bits.OnesCount64(binary.LittleEndian.Uint64(value[8:])) +
			bits.OnesCount64(binary.LittleEndian.Uint64(value[16:])) +
			bits.OnesCount64(binary.LittleEndian.Uint64(value[24:]))
	}
	for _, b := range value {
		count += bits.OnesCount8(b)
	}
	return int64(count)
}

// CountSpan is Span for BITCOUNT. Two ends that both lie before the string, in the wrong order,
// would become the same byte; there the range is empty.
func (r Range) CountSpan(size int) (first, limit int64) {
	if !r.Open && r.Start < 0 && r.End < 0 && r.Start > r.End {
		return 0, 0
	}
	return r.Span(size)
}

// CountBetween returns the number of bits that are 1 from first up to, but not including, limit.
func CountBetween(value []byte, first, limit int64) int64 {
	if first >= limit {
		return 0
	}
	count := Count(value[first/8 : (limit+7)/8])
	count -= int64(bits.OnesCount8(value[first/8] &^ (0xff >> (first % 8))))
	if limit%8 > 0 {
		count -= int64(bits.OnesCount8(value[limit/8] & (0xff >> (limit % 8))))
	}
	return count
}

// Find returns the offset of the first bit from first up to, but not including, limit that is bit,
// 0 or 1; limit when there is none.
func Find(value []byte, bit int, first, limit int64) int64 {
	if first >= limit {
		return limit
	}
	return min(find(value, bit, first, limit), limit)
}

// NotFound is what BITPOS answers for a range that isn't empty, and whose bits up to limit aren't
// bit. In an open range the first 0 is the one after the last bit.
func (r Range) NotFound(bit int, limit int64) int64 {
	if bit == 0 && r.Open {
		return limit
	}
	return -1
}

// find returns the first offset from first on whose bit is bit, and limit or more when that would
// not lie below limit. There is at least one bit to look at.
func find(value []byte, bit int, first, limit int64) int64 {
	var flip uint64 // what makes the bits that are looked for ones
	if bit == 0 {
		flip = 1<<64 - 1
	}
	at, end := first/8, (limit+7)/8
	if b := (value[at] ^ byte(flip)) & (0xff >> (first % 8)); b != 0 {
		return at*8 + int64(bits.LeadingZeros8(b))
	}
	for at++; end-at >= 8; at += 8 {
		if word := binary.BigEndian.Uint64(value[at:]) ^ flip; word != 0 {
			return at*8 + int64(bits.LeadingZeros64(word))
		}
	}
	for ; at < end; at++ {
		if b := value[at] ^ byte(flip); b != 0 {
			return at*8 + int64(bits.LeadingZeros8(b))
		}
	}
	return limit
}
