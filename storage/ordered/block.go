package ordered

import (
	"encoding/binary"
	"math/bits"
)

// Block holds the entries of a resident piece in the order of their keys. It never changes, so that
// what is read from it stays valid for as long as somebody refers to it. The zero Block is that of
// a piece that isn't resident.
//
// An entry that is taken out is marked, as long as most are left: a copy of the others costs some
// ten times as much.
type Block struct {
	all  packed
	gone uint64 // a bit for each of the first marks entries
}

// marks is how many entries can be marked.
const marks = 64

// Resident reports whether the entries are there.
func (b Block) Resident() bool { return b.all != nil }

// Len is the number of entries.
func (b Block) Len() int { return b.all.Len() - bits.OnesCount64(b.gone) }

// Bytes are what the block takes in memory.
func (b Block) Bytes() int { return cap(b.all) }

// At returns an entry.
func (b Block) At(i int) (key, value []byte) { return b.all.At(b.place(i)) }

// Walk visits the entries from one on, before another, until visit returns false. It returns how
// many it has visited, and whether that was all.
func (b Block) Walk(from, to int, visit func(key, value []byte) bool) (visited int, all bool) {
	if b.gone == 0 {
		return b.all.walk(from, to, visit)
	}
	for i := from; i < to; i++ {
		if !visit(b.At(i)) {
			return i + 1 - from, false
		}
	}
	return max(to-from, 0), true
}

// WalkBack is Walk from the last of these entries to the first.
func (b Block) WalkBack(from, to int, visit func(key, value []byte) bool) (visited int, all bool) {
	if b.gone == 0 {
		return b.all.walkBack(from, to, visit)
	}
	for i := to - 1; i >= from; i-- {
		if !visit(b.At(i)) {
			return to - i, false
		}
	}
	return max(to-from, 0), true
}

// place is where an entry stands among all.
func (b Block) place(i int) int {
	if b.gone == 0 {
		return i
	}
	if left := marks - bits.OnesCount64(b.gone); i >= left {
		return i + marks - left
	}
	// The i-th bit that isn't set, by halves.
	at, there := 0, ^b.gone
	for half := marks / 2; half > 0; half /= 2 {
		if n := bits.OnesCount64(there & (1<<half - 1)); i >= n {
			i, at, there = i-n, at+half, there>>half
		}
	}
	return at
}

// Search returns the index of the first entry that doesn't come before a key, and whether it is the
// key's.
func (b Block) Search(key []byte) (index int, found bool) {
	index, found = b.all.Search(key)
	if b.gone == 0 {
		return index, found
	}
	return index - bits.OnesCount64(b.gone&(1<<index-1)), found && b.gone>>index&1 == 0
}

// without returns the block without an entry.
func (b Block) without(i int) Block {
	place := b.place(i)
	if place >= marks {
		return Block{all: b.left().without(i)}
	}
	b.gone |= 1 << place
	if b.Len() < b.all.Len()/2 {
		return Block{all: b.left()}
	}
	return b
}

// replaced returns the block with an entry in place of those from one on, before another. It isn't
// resident if that is too large.
func (b Block) replaced(from, to int, key, value []byte) Block {
	return Block{all: b.left().replaced(from, to, key, value)}
}

// split returns the entries before one, and those from it on.
func (b Block) split(at int) (left, right Block) {
	first, second := b.left().split(at)
	return Block{all: first}, Block{all: second}
}

// join returns the entries of two blocks. It isn't resident if they are too many bytes.
func (b Block) join(next Block) Block { return Block{all: joined(b.left(), next.left())} }

// left are the entries that weren't taken out.
func (b Block) left() packed {
	if b.gone == 0 {
		return b.all
	}
	count, size := b.Len(), 0
	for i := range count {
		size += len(b.all.entry(b.place(i)))
	}
	left := newPacked(count, size)
	entries, at := left.entries(), 0
	for i := range count {
		at += copy(entries[at:], b.all.entry(b.place(i)))
		binary.LittleEndian.PutUint16(left[blockHeader+endBytes*i:], uint16(at))
	}
	return left
}

// Builder gathers entries for a block, in the order of their keys or backwards. Its memory is used
// again after Reset.
type Builder struct {
	entries  []byte
	ends     []int
	oversize bool // an entry is more than a block can hold
}

// Reset begins anew.
func (b *Builder) Reset() { b.entries, b.ends, b.oversize = b.entries[:0], b.ends[:0], false }

// Len is the number of entries.
func (b *Builder) Len() int { return len(b.ends) }

// Bytes is how many bytes they have.
func (b *Builder) Bytes() int { return len(b.entries) }

// Add takes the next entry. One that no block can hold is counted only.
func (b *Builder) Add(key, value []byte) {
	if size := len(key) + len(value); size > mostBlock {
		b.oversize = true
	} else {
		b.entries = binary.LittleEndian.AppendUint16(b.entries, uint16(len(key)))
		b.entries = append(append(b.entries, key...), value...)
	}
	b.ends = append(b.ends, len(b.entries))
}

// Block returns the entries as a block. It isn't resident if they are too many bytes. reverse says
// that they came backwards.
func (b *Builder) Block(reverse bool) Block {
	if b.oversize || len(b.entries) > mostBlock {
		return Block{}
	}
	n := len(b.ends)
	base := blockHeader + endBytes*n
	block := make(packed, base+len(b.entries))
	binary.LittleEndian.PutUint16(block, uint16(n))
	if !reverse {
		for i, end := range b.ends {
			binary.LittleEndian.PutUint16(block[blockHeader+endBytes*i:], uint16(end))
		}
		copy(block[base:], b.entries)
		return Block{all: block}
	}
	at := 0
	for i := range n {
		from, to := 0, b.ends[n-1-i]
		if i < n-1 {
			from = b.ends[n-2-i]
		}
		at += copy(block[base+at:], b.entries[from:to])
		binary.LittleEndian.PutUint16(block[blockHeader+endBytes*i:], uint16(at))
	}
	return Block{all: block}
}
