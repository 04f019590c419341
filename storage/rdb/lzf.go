package rdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// LZF is a sequence of literal runs and references to earlier output:
//
//	000LLLLL byte …              L+1 literal bytes
//	LLLooooo oooooooo            L+2 bytes from o+1 bytes before, 1 <= L <= 6
//	111ooooo LLLLLLLL oooooooo   L+9 bytes from o+1 bytes before
//
// Redis uses liblzf 3.6 with a hash table of 2^16 slots and its "very fast" setting. Which of
// several possible outputs it produces is decided by what it enters into that table and when; the
// compressor here makes the same decisions, so that a value has the same bytes in our DUMP as in
// Redis's.
const (
	lzfHashBits    = 16
	lzfMaxLiteral  = 1 << 5
	lzfMaxOffset   = 1 << 13
	lzfMaxMatch    = 1<<8 + 1<<3
	lzfExpansion   = lzfMaxMatch / 3 // three bytes of input yield that much output each, at most
	lzfMaxInput    = math.MaxInt32
	lzfWorthSaving = 4 // Redis compresses only if it saves as many bytes
)

// lzfCompressor compresses one string after another. The zero value is ready for use.
type lzfCompressor struct {
	// table maps the hash of three bytes to base + the position where they were last seen.
	// Everything below base is left over from earlier inputs and counts as absent.
	table *[1 << lzfHashBits]uint32
	base  uint32
}

// compress appends the compressed form of in to dst, unless that would take more than limit bytes
// or so (liblzf gives up a few bytes early at places); then it returns false, and what dst held.
func (c *lzfCompressor) compress(dst, in []byte, limit int) ([]byte, bool) {
	if len(in) < 3 || len(in) > lzfMaxInput || limit <= 0 {
		return dst, false
	}
	c.prepare(len(in))
	start := len(dst)
	// liblzf may write one byte at the limit before it notices.
	out := slices.Grow(dst, limit+1)
	r := lzfRun{op: 1, three: firstTwo(in)}
	n, ok := 0, c.run(&r, out[start:start+limit+1], in, limit, len(in)-2)
	if ok {
		n, ok = r.finish(out[start:start+limit+1], in, limit)
	}
	c.base += uint32(len(in))
	return out[:start+n], ok
}

// firstTwo are the bytes before the first one to be hashed.
func firstTwo(in []byte) uint32 { return uint32(in[0])<<8 | uint32(in[1]) }

func (c *lzfCompressor) prepare(size int) {
	if c.table == nil {
		c.table = new([1 << lzfHashBits]uint32)
	}
	if c.base > math.MaxUint32-uint32(size) {
		clear(c.table[:])
		c.base = 0
	}
}

// lzfHash hashes the three bytes in the lower 24 bits to lzfHashBits.
func lzfHash(three uint32) uint16 { return uint16(three>>8 - three*5) }

// lzfRun is how far a compression has come.
type lzfRun struct {
	ip       int    // in the input
	op       int    // in the output: out[op-literals-1] is where the length of the literal run goes
	literals int    // of the run so far
	three    uint32 // the two bytes before ip+2, where the next three to be hashed end
}

// run compresses what begins before stop, which is two bytes before the input's end, or so many
// that a match ends before it. It returns false when the output would be more than limit bytes.
func (c *lzfCompressor) run(r *lzfRun, out, in []byte, limit, stop int) (fits bool) {
	op, literals, ip, three, last := r.op, r.literals, r.ip, r.three, len(in)-2
	table, base := c.table, c.base
	for ip < stop {
		three = three<<8 | uint32(in[ip+2])
		slot := &table[lzfHash(three)]
		ref := int(*slot) - int(base) // negative if they weren't seen before
		*slot = base + uint32(ip)
		if !isMatch(in, three, ref, ip) {
			if op >= limit {
				return false
			}
			out[op] = in[ip]
			op, literals, ip = op+1, literals+1, ip+1
			if literals == lzfMaxLiteral {
				out[op-literals-1] = byte(literals - 1)
				op, literals = op+1, 0
			}
			continue
		}
		if literals == 0 {
			op-- // no literals: no length for them either
		}
		if op+4 >= limit {
			return false
		}
		if literals > 0 {
			out[op-literals-1] = byte(literals - 1)
		}
		n := matchLength(in, ref, ip)
		op += putReference(out[op:], ip-ref-1, n)
		op, literals, ip = op+1, 0, ip+n
		if ip >= last {
			break
		}
		// liblzf enters the last two positions inside of a match, and leaves out the others.
		three = binary.BigEndian.Uint32(in[ip-2:])
		table[lzfHash(three>>8)] = base + uint32(ip-2)
		table[lzfHash(three)] = base + uint32(ip-1)
	}
	*r = lzfRun{ip, op, literals, three}
	return true
}

// isMatch reports whether three bytes, those at ip, can be a reference to those at ref. Position 0
// can't be referred to: liblzf takes it for an empty slot.
func isMatch(in []byte, three uint32, ref, ip int) bool {
	return ref > 0 && ip-ref-1 < lzfMaxOffset && binary.BigEndian.Uint32(in[ref-1:])<<8 == three<<8
}

// matchLength is how far the bytes at ref and ip agree, at least three. liblzf compares the first
// sixteen of them without a look at the limit, so it may exceed that a little.
func matchLength(in []byte, ref, ip int) int {
	n, longest := 3, min(len(in)-ip-2, lzfMaxMatch)
	if longest > 16 {
		longest = max(longest, 19)
	}
	for ; n+8 <= longest; n += 8 {
		if differing := binary.LittleEndian.Uint64(in[ref+n:]) ^ binary.LittleEndian.Uint64(in[ip+n:]); differing != 0 {
			return n + bits.TrailingZeros64(differing)/8
		}
	}
	for n < longest && in[ref+n] == in[ip+n] {
		n++
	}
	return n
}

// putReference writes a reference to n bytes, offset+1 bytes before, and returns its size.
func putReference(out []byte, offset, n int) int {
	n -= 2
	if n < 7 {
		out[0] = byte(offset>>8) | byte(n)<<5
		out[1] = byte(offset)
		return 2
	}
	out[0] = byte(offset>>8) | 7<<5
	out[1] = byte(n - 7)
	out[2] = byte(offset)
	return 3
}

// finish writes the last bytes, for which no match was looked for, as literals. It returns the
// length of the output, and false when that would be more than limit.
func (r *lzfRun) finish(out, in []byte, limit int) (n int, fits bool) {
	op, literals := r.op, r.literals
	if op+3 > limit { // at most so many follow
		return 0, false
	}
	for ip := r.ip; ip < len(in); ip++ {
		out[op] = in[ip]
		op, literals = op+1, literals+1
		if literals == lzfMaxLiteral {
			out[op-literals-1] = byte(literals - 1)
			op, literals = op+1, 0
		}
	}
	if literals == 0 {
		return op - 1, true
	}
	out[op-literals-1] = byte(literals - 1)
	return op, true
}

// lzfStep is how many bytes are copied at once.
const lzfStep = 8

// decompressLZF appends the size bytes that in is the compressed form of to dst. The bytes of in
// can be anything; at most size bytes and a step are allocated, and only if in is long enough to
// yield them.
func decompressLZF(dst, in []byte, size uint64) ([]byte, error) {
	if size > uint64(len(in))*lzfExpansion {
		return dst, fmt.Errorf("%w: %d compressed bytes can't become %d", ErrCorrupt, len(in), size)
	}
	start := len(dst)
	limit := start + int(size)
	out := slices.Grow(dst, int(size)+lzfStep)[:limit+lzfStep]
	at := start
	for len(in) > 0 {
		made, read := inflate(out, start, at, limit, in)
		if read == 0 {
			return dst, fmt.Errorf("%w: bad compressed string", ErrCorrupt)
		}
		at, in = at+made, in[read:]
	}
	if at != limit {
		return dst, fmt.Errorf("%w: string of %d bytes was to have %d", ErrCorrupt, at-start, size)
	}
	return out[:limit], nil
}

// inflate takes one step, a run of literals or a reference to what stands from start on, and writes
// what it makes to out, at an offset and up to a limit; out is a step longer than that, and the
// step may be written to. It returns how many bytes it made and read: none of a step that is bad.
func inflate(out []byte, start, at, limit int, in []byte) (made, read int) {
	if len(in) == 0 {
		return 0, 0
	}
	if n := int(in[0]) + 1; n <= lzfMaxLiteral {
		if n >= len(in) || at+n > limit {
			return 0, 0
		}
		if n <= lzfStep && len(in) > lzfStep {
			copyStep(out[at:], in[1:])
		} else {
			copy(out[at:at+n], in[1:])
		}
		return n, n + 1
	}
	n, read := int(in[0]>>5)+2, 2
	if n == 7+2 {
		read = 3
	}
	if len(in) < read {
		return 0, 0
	}
	if read == 3 {
		n += int(in[1])
	}
	from := at - int(in[0]&0x1F)<<8 - int(in[read-1]) - 1
	if from < start || at+n > limit {
		return 0, 0
	}
	copyWithin(out, from, at, at+n)
	return n, read
}

func copyStep(to, from []byte) {
	binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
}

// copyWithin copies what stands from an offset on to at, up to end. What overlaps by less than a
// step goes byte by byte.
func copyWithin(out []byte, from, at, end int) {
	if at-from >= lzfStep {
		for ; at < end; at, from = at+lzfStep, from+lzfStep {
			copyStep(out[at:], out[from:])
		}
		return
	}
	for ; at < end; at, from = at+1, from+1 {
		out[at] = out[from]
	}
}
