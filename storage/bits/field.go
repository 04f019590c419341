package bits

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// A Type is the type of an integer in BITFIELD: signed of 1 to 64 bits, unsigned of 1 to 63. It is
// stored with its highest bit first, at any offset.
type Type struct {
	Signed bool
	Bits   uint8
}

// ParseType reads a type such as i16 or u8. What follows a zero byte is ignored, as in Redis.
func ParseType(text []byte) (Type, bool) {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	if len(text) < 2 || len(text) > 3 || text[1] < '1' || text[1] > '9' {
		return Type{}, false
	}
	size, err := strconv.ParseUint(string(text[1:]), 10, 8)
	if err != nil {
		return Type{}, false
	}
	t := Type{Signed: text[0] == 'i', Bits: uint8(size)}
	return t, text[0] == 'i' && size <= 64 || text[0] == 'u' && size <= 63
}

// Overflow is what happens to a number that a type can't hold.
type Overflow int

const (
	// Wrap keeps the lowest bits.
	Wrap Overflow = iota
	// Saturate takes the nearest number that the type can hold.
	Saturate
	// Fail leaves the field as it was.
	Fail
)

// Get returns the integer at an offset in bits.
func (t Type) Get(value []byte, offset uint64) int64 {
	// A field of up to 64 bits lies in at most nine bytes.
	var window [9]byte
	if at := offset / 8; at < uint64(len(value)) {
		copy(window[:], value[at:])
	}
	shift := offset % 8
	word := binary.BigEndian.Uint64(window[:])<<shift | uint64(window[8])>>(8-shift)
	return t.extend(word >> (64 - t.Bits))
}

// Set stores a number at an offset in bits, and returns the one that was there. It writes to value,
// after growing it as Grow does where it is too short; it grows too where ok is false, which tells
// that the number didn't fit and nothing was stored. A negative number for an unsigned type is
// above its maximum.
func (t Type) Set(value []byte, offset uint64, number int64, overflow Overflow) (changed []byte, old int64, ok bool) {
	low, high := t.bounds()
	over := number > high || number < 0 && !t.Signed
	if t.Signed && t.Bits < 64 && number < low && high-number < 0 {
		// So far below the type that the distance from its maximum overflows. Redis computes that
		// distance, and takes such a number for one above the maximum.
		over = true
	}
	under := number < low && !over
	value = Grow(value, offset+uint64(t.Bits))
	old = t.Get(value, offset)
	number, ok = t.fit(number, over, under, overflow)
	if ok {
		t.put(value, offset, number)
	}
	return value, old, ok
}

// Increment adds to the number at an offset in bits, and returns the sum that it stored. Else it is
// as Set.
func (t Type) Increment(value []byte, offset uint64, delta int64, overflow Overflow) (changed []byte, sum int64, ok bool) {
	low, high := t.bounds()
	value = Grow(value, offset+uint64(t.Bits))
	old := t.Get(value, offset)
	sum = old + delta
	over := delta > 0 && (sum < old || sum > high)
	under := delta < 0 && (sum > old || sum < low)
	sum, ok = t.fit(sum, over, under, overflow)
	if ok {
		t.put(value, offset, sum)
	}
	return value, sum, ok
}

// bounds returns the lowest and the highest number of a type.
func (t Type) bounds() (low, high int64) {
	if t.Signed {
		high = 1<<(t.Bits-1) - 1
		return -high - 1, high
	}
	return 0, 1<<t.Bits - 1
}

// fit returns what is stored for a number that may lie over or under the bounds, and whether
// anything is.
func (t Type) fit(number int64, over, under bool, overflow Overflow) (int64, bool) {
	if !over && !under {
		return number, true
	}
	low, high := t.bounds()
	switch {
	case overflow == Fail:
		return 0, false
	case overflow == Wrap:
		return t.extend(uint64(number) << (64 - t.Bits) >> (64 - t.Bits)), true
	case over:
		return high, true
	}
	return low, true
}

// extend makes a number of the lowest bits of a word; the others are zero.
func (t Type) extend(word uint64) int64 {
	if t.Signed {
		return int64(word<<(64-t.Bits)) >> (64 - t.Bits)
	}
	return int64(word)
}

// put stores a number that is within bounds in a value that is long enough.
func (t Type) put(value []byte, offset uint64, number int64) {
	var window [9]byte
	field := value[offset/8 : (offset+uint64(t.Bits)+7)/8]
	copy(window[:], field)
	shift := offset % 8
	word := uint64(number) << (64 - t.Bits)
	mask := uint64(1<<64-1) << (64 - t.Bits)
	head := binary.BigEndian.Uint64(window[:])
	binary.BigEndian.PutUint64(window[:], head&^(mask>>shift)|word>>shift)
	window[8] = window[8]&^byte(mask<<(8-shift)) | byte(word<<(8-shift))
	copy(field, window[:])
}
