package ordered

import (
	"bytes"
	"encoding/binary"
)

// packed are entries in the order of their keys. They have no pointers and never change.
//
//	| entries:2 | end of each entry:2, … | key length:2, key, value | …   little endian
//
// Ends count from where the first entry begins.
type packed []byte

const (
	blockHeader = 2
	endBytes    = 2
	entryHeader = 2
	// mostBlock is how many bytes the entries of a block have at most. A write copies them.
	mostBlock = 16 << 10
)

// Len is the number of entries.
func (b packed) Len() int {
	if len(b) == 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint16(b))
}

func (b packed) end(i int) int { return int(binary.LittleEndian.Uint16(b[blockHeader+endBytes*i:])) }

// begin is where an entry begins among the entries.
func (b packed) begin(i int) int {
	if i == 0 {
		return 0
	}
	return b.end(i - 1)
}

// entry returns the bytes of an entry.
func (b packed) entry(i int) []byte {
	base := blockHeader + endBytes*b.Len()
	to := base + b.end(i)
	return b[base+b.begin(i) : to : to]
}

// touchedBytes are of short entries all of a piece.
const touchedBytes = 1 << 10

// touch reads a little of everything.
func (b packed) touch() (touched int) {
	for i := 0; i < min(len(b), touchedBytes); i += cacheLine {
		touched += int(b[i])
	}
	return touched
}

// At returns an entry.
func (b packed) At(i int) (key, value []byte) {
	e := b.entry(i)
	length := entryHeader + int(binary.LittleEndian.Uint16(e))
	return e[entryHeader:length:length], e[length:]
}

// walk is Block.Walk: it goes from one entry's end to the next.
func (b packed) walk(from, to int, visit func(key, value []byte) bool) (visited int, all bool) {
	if from >= to {
		return 0, true
	}
	ends, entries := b.ends(), b.entries()
	at := b.begin(from)
	for i := from; i < to; i++ {
		end := int(binary.LittleEndian.Uint16(ends[endBytes*i:]))
		e := entries[at:end:end]
		length := entryHeader + int(binary.LittleEndian.Uint16(e))
		if at = end; !visit(e[entryHeader:length:length], e[length:]) {
			return i + 1 - from, false
		}
	}
	return to - from, true
}

// walkBack is Block.WalkBack.
func (b packed) walkBack(from, to int, visit func(key, value []byte) bool) (visited int, all bool) {
	if from >= to {
		return 0, true
	}
	ends, entries := b.ends(), b.entries()
	end := b.end(to - 1)
	for i := to - 1; i >= from; i-- {
		at := 0
		if i > 0 {
			at = int(binary.LittleEndian.Uint16(ends[endBytes*(i-1):]))
		}
		e := entries[at:end:end]
		length := entryHeader + int(binary.LittleEndian.Uint16(e))
		if end = at; !visit(e[entryHeader:length:length], e[length:]) {
			return to - i, false
		}
	}
	return to - from, true
}

// keyAt returns the key of the entry that begins at a place.
func (b packed) keyAt(at int) []byte {
	from := at + entryHeader
	to := from + int(binary.LittleEndian.Uint16(b[at:]))
	return b[from:to:to]
}

// Search returns the index of the first entry that doesn't come before a key, and whether it is the
// key's.
func (b packed) Search(key []byte) (index int, found bool) {
	n := b.Len()
	entries := blockHeader + endBytes*n
	low, high := 0, n
	for low < high {
		middle := int(uint(low+high) >> 1)
		c := bytes.Compare(b.keyAt(entries+b.begin(middle)), key)
		if c < 0 {
			low = middle + 1
			continue
		}
		high, found = middle, c == 0
	}
	return low, found
}

// replaced returns the entries with an entry in place of those from one on, before another. It is
// nil if that is too large.
func (b packed) replaced(from, to int, key, value []byte) packed {
	added := entryHeader + len(key) + len(value)
	return b.spliced(from, to, 1, added, func(dst []byte) {
		binary.LittleEndian.PutUint16(dst, uint16(len(key)))
		copy(dst[entryHeader+copy(dst[entryHeader:], key):], value)
	})
}

// without returns the entries without one.
func (b packed) without(i int) packed { return b.spliced(i, i+1, 0, 0, nil) }

// spliced returns the entries with up to one entry, of so many bytes, in place of others.
func (b packed) spliced(from, to, entries, added int, fill func(dst []byte)) packed {
	n := b.Len()
	size, first, last := 0, 0, 0
	if n > 0 {
		size, first, last = b.end(n-1), b.begin(from), b.begin(to)
	}
	now := n - (to - from) + entries
	bytes := size - (last - first) + added
	if bytes > mostBlock {
		return nil
	}
	base := blockHeader + endBytes*now
	next := make(packed, base+bytes)
	binary.LittleEndian.PutUint16(next, uint16(now))
	copy(next[blockHeader:], b[min(blockHeader, len(b)):min(blockHeader+endBytes*from, len(b))])
	if entries > 0 {
		binary.LittleEndian.PutUint16(next[blockHeader+endBytes*from:], uint16(first+added))
	}
	for i, at := to, blockHeader+endBytes*(from+entries); i < n; i, at = i+1, at+endBytes {
		binary.LittleEndian.PutUint16(next[at:], uint16(b.end(i)-last+first+added))
	}
	if n > 0 {
		old := b[blockHeader+endBytes*n:]
		copy(next[base:], old[:first])
		copy(next[base+first+added:], old[last:])
	}
	if entries > 0 {
		fill(next[base+first:])
	}
	return next
}

// split returns the entries before one, and those from it on.
func (b packed) split(at int) (left, right packed) {
	ends, entries, middle := b.ends(), b.entries(), b.begin(at)
	left, right = newPacked(at, middle), newPacked(b.Len()-at, len(entries)-middle)
	left.fill(0, 0, ends[:endBytes*at], entries[:middle])
	right.fill(0, -middle, ends[endBytes*at:], entries[middle:])
	return left, right
}

// joined returns the entries of both; nil if they are too many bytes.
func joined(a, b packed) packed {
	first, second := a.entries(), b.entries()
	if len(first)+len(second) > mostBlock {
		return nil
	}
	both := newPacked(a.Len()+b.Len(), len(first)+len(second))
	both.fill(0, 0, a.ends(), first)
	both.fill(a.Len(), len(first), b.ends(), second)
	return both
}

// ends are those of all entries, as they stand there.
func (b packed) ends() []byte { return b[blockHeader : blockHeader+endBytes*b.Len()] }

// entries are the bytes of all entries.
func (b packed) entries() []byte { return b[blockHeader+endBytes*b.Len():] }

func newPacked(entries, bytes int) packed {
	b := make(packed, blockHeader+endBytes*entries+bytes)
	binary.LittleEndian.PutUint16(b, uint16(entries))
	return b
}

// fill puts entries in the place of those from one on. Their ends are further behind by so much
// than they were.
func (b packed) fill(from, by int, ends, entries []byte) {
	at := blockHeader + endBytes*from
	for i := 0; i < len(ends); i += endBytes {
		binary.LittleEndian.PutUint16(b[at+i:], uint16(int(binary.LittleEndian.Uint16(ends[i:]))+by))
	}
	copy(b.entries()[b.begin(from):], entries)
}
