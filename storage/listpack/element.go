package listpack

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// Element is one element of a listpack: a string, or an integer if Bytes is nil. Bytes may be a
// view into a listpack and lives as long as it. An element whose Bytes are the decimal form of an
// integer is stored as that integer; Of settles this once instead of at each use.
//
// It has four words, since Go keeps a structure of more in memory: each time that one is passed on
// it is written in single words and read in double ones, for which a processor has to wait.
type Element struct {
	Bytes []byte
	Int   int64
}

// IsInt reports whether the element is an integer.
func (e Element) IsInt() bool { return e.Bytes == nil }

// Of returns value as the element that it becomes in a listpack.
func Of(value []byte) Element {
	if n, ok := ParseInt(value); ok {
		return OfInt(n)
	}
	if value == nil {
		value = []byte{}
	}
	return Element{Bytes: value}
}

// OfInt returns n as an element.
func OfInt(n int64) Element { return Element{Int: n} }

// AppendTo appends the element as a string to dst.
func (e Element) AppendTo(dst []byte) []byte {
	if e.IsInt() {
		return strconv.AppendInt(dst, e.Int, 10)
	}
	return append(dst, e.Bytes...)
}

// Len returns the length of the element as a string, in bytes.
func (e Element) Len() int {
	if !e.IsInt() {
		return len(e.Bytes)
	}
	n, magnitude := 1, uint64(e.Int)
	if e.Int < 0 {
		n, magnitude = 2, -magnitude
	}
	for ; magnitude >= 10; magnitude /= 10 {
		n++
	}
	return n
}

// Equal reports whether the element as a string equals value.
func (e Element) Equal(value []byte) bool {
	if !e.IsInt() {
		return bytes.Equal(e.Bytes, value)
	}
	n, ok := ParseInt(value)
	return ok && n == e.Int
}

// Size returns the number of bytes by which the element makes a listpack grow.
func (e Element) Size() int {
	size := e.encodedSize()
	return size + backlenSize(size)
}

// ParseInt converts the canonical decimal form of a signed 64-bit integer: no sign but a minus,
// no leading zeros, no "-0", nothing around it. These are the strings that become integers in a
// listpack, an intset and in RDB.
func ParseInt(b []byte) (n int64, ok bool) {
	const longest = len("-9223372036854775808")
	if len(b) == 0 || len(b) > longest {
		return 0, false
	}
	digits := b
	if b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) == longest {
		return 0, false
	}
	if digits[0] == '0' {
		return 0, len(b) == 1
	}
	var magnitude uint64 // up to 19 digits: can't overflow
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		magnitude = magnitude*10 + uint64(c-'0')
	}
	if len(digits) < len(b) {
		return -int64(magnitude), magnitude <= -math.MinInt64
	}
	return int64(magnitude), magnitude <= math.MaxInt64
}

// The first byte of each encoding, and how its bits are told apart.
const (
	string6  = 0x80 // 10xxxxxx
	int13    = 0xC0 // 110xxxxx
	string12 = 0xE0 // 1110xxxx
	string32 = 0xF0
	int16Tag = 0xF1
	int24Tag = 0xF2
	int32Tag = 0xF3
	int64Tag = 0xF4
)

// encodedSize is the number of bytes of encoding and data, without the length that follows.
func (e Element) encodedSize() int {
	if !e.IsInt() {
		e = Of(e.Bytes)
	}
	if e.IsInt() {
		return encodedIntSize(e.Int)
	}
	switch n := len(e.Bytes); {
	case n < 1<<6:
		return 1 + n
	case n < 1<<12:
		return 2 + n
	default:
		return 5 + n
	}
}

func encodedIntSize(n int64) int {
	switch {
	case n >= 0 && n <= 127:
		return 1
	case fits(n, 13):
		return 2
	case fits(n, 16):
		return 3
	case fits(n, 24):
		return 4
	case fits(n, 32):
		return 5
	default:
		return 9
	}
}

// fits reports whether n is a signed integer of that many bits.
func fits(n int64, bits int) bool {
	return n >= -1<<(bits-1) && n < 1<<(bits-1)
}

// appendElement appends the element's whole entry.
func appendElement(dst []byte, e Element) []byte {
	if !e.IsInt() {
		return appendText(dst, e.Bytes)
	}
	start := len(dst)
	dst = appendInt(dst, e.Int)
	return appendBacklen(dst, len(dst)-start)
}

// appendText appends the whole entry of a string, which may be that of an integer.
func appendText(dst, s []byte) []byte {
	start := len(dst)
	if n, ok := ParseInt(s); ok {
		dst = appendInt(dst, n)
	} else {
		dst = appendString(dst, s)
	}
	return appendBacklen(dst, len(dst)-start)
}

func appendInt(dst []byte, n int64) []byte {
	u := uint64(n)
	switch encodedIntSize(n) {
	case 1:
		return append(dst, byte(u))
	case 2:
		return append(dst, int13|byte(u>>8)&0x1F, byte(u))
	case 3:
		return append(dst, int16Tag, byte(u), byte(u>>8))
	case 4:
		return append(dst, int24Tag, byte(u), byte(u>>8), byte(u>>16))
	case 5:
		return binary.LittleEndian.AppendUint32(append(dst, int32Tag), uint32(u))
	default:
		return binary.LittleEndian.AppendUint64(append(dst, int64Tag), u)
	}
}

func appendString(dst, s []byte) []byte {
	switch n := len(s); {
	case n < 1<<6:
		dst = append(dst, string6|byte(n))
	case n < 1<<12:
		dst = append(dst, string12|byte(n>>8), byte(n))
	default:
		dst = binary.LittleEndian.AppendUint32(append(dst, string32), uint32(n))
	}
	return append(dst, s...)
}

// decode reads the entry that b starts with. size leaves out the length at the entry's end.
func decode(b []byte) (e Element, size int) {
	switch c := b[0]; {
	case c < string6:
		return OfInt(int64(c)), 1
	case c < int13:
		size = 1 + int(c&0x3F)
		return Element{Bytes: b[1:size:size]}, size
	case c < string12:
		return OfInt(signed(uint64(c&0x1F)<<8|uint64(b[1]), 13)), 2
	case c < string32:
		size = 2 + int(c&0x0F)<<8 + int(b[1])
		return Element{Bytes: b[2:size:size]}, size
	case c == string32:
		size = 5 + int(binary.LittleEndian.Uint32(b[1:]))
		return Element{Bytes: b[5:size:size]}, size
	case c == int16Tag:
		return OfInt(int64(int16(binary.LittleEndian.Uint16(b[1:])))), 3
	case c == int24Tag:
		return OfInt(signed(uint64(b[1])|uint64(b[2])<<8|uint64(b[3])<<16, 24)), 4
	case c == int32Tag:
		return OfInt(int64(int32(binary.LittleEndian.Uint32(b[1:])))), 5
	case c == int64Tag:
		return OfInt(int64(binary.LittleEndian.Uint64(b[1:]))), 9
	}
	panic("listpack: not a valid listpack")
}

// signed extends the sign of an integer of that many bits.
func signed(u uint64, bits int) int64 {
	shift := 64 - bits
	return int64(u<<shift) >> shift
}

// encodedSize is decode's size alone.
func encodedSize(b []byte) int {
	switch c := b[0]; {
	case c < string6:
		return 1
	case c < int13:
		return 1 + int(c&0x3F)
	case c < string12:
		return 2
	case c < string32:
		return 2 + int(c&0x0F)<<8 + int(b[1])
	case c == string32:
		return 5 + int(binary.LittleEndian.Uint32(b[1:]))
	case c <= int32Tag:
		return int(c) - int16Tag + 3
	case c == int64Tag:
		return 9
	}
	panic("listpack: not a valid listpack")
}

// The largest sizes that a length of 1 to 4 bytes is used for. Redis compares with "less than"
// 2^14-1 and so on, so the last value of each width already takes the next one.
const (
	backlen1 = 1<<7 - 1
	backlen2 = 1<<14 - 2
	backlen3 = 1<<21 - 2
	backlen4 = 1<<28 - 2
)

// backlenSize is the number of bytes that the length at an entry's end takes.
func backlenSize(size int) int {
	switch {
	case size <= backlen1:
		return 1
	case size <= backlen2:
		return 2
	case size <= backlen3:
		return 3
	case size <= backlen4:
		return 4
	default:
		return 5
	}
}

// appendBacklen appends a length in groups of seven bits, highest first; every byte but the
// first has its top bit set, which tells the reader, who comes from behind, to go on.
func appendBacklen(dst []byte, size int) []byte {
	shift := 7 * (backlenSize(size) - 1)
	dst = append(dst, byte(size>>shift))
	for shift > 0 {
		shift -= 7
		dst = append(dst, byte(size>>shift)&0x7F|0x80)
	}
	return dst
}

// decodeBacklen reads the length that ends before b[end].
func decodeBacklen(b []byte, end int) int {
	size := 0
	for shift := 0; shift < 35; shift += 7 {
		end--
		size |= int(b[end]&0x7F) << shift
		if b[end]&0x80 == 0 {
			return size
		}
	}
	panic("listpack: not a valid listpack")
}
