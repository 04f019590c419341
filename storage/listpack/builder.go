package listpack

import "slices"

// Builder makes a listpack of strings that come one after the other: in one pass over each, since
// the header is written at the end. The zero value has none yet. Its memory is used again after
// Reset.
type Builder struct {
	pack  Listpack // without the end mark; its header is to be written
	count int
}

// Reset begins anew.
func (b *Builder) Reset() { b.pack, b.count = b.pack[:0], 0 }

// Len is the number of elements.
func (b *Builder) Len() int { return b.count }

// Size is how many bytes the listpack has so far.
func (b *Builder) Size() int { return max(len(b.pack), headerSize) + 1 }

// Add adds an element at the tail.
func (b *Builder) Add(value []byte) {
	b.count++
	at, n := len(b.pack), len(value)
	if at == 0 {
		b.pack = append(b.pack, make([]byte, headerSize)...)
		at = headerSize
	}
	if n == 0 || n >= 1<<6 || value[0] <= '9' { // longer, or perhaps an integer
		b.pack = appendText(b.pack, value)
		return
	}
	b.pack = slices.Grow(b.pack, n+2)[:at+n+2]
	entry := b.pack[at:]
	entry[0], entry[n+1] = string6|byte(n), byte(n+1)
	copy(entry[1:], value)
}

// Listpack is the listpack of what was added, in the builder's memory.
func (b *Builder) Listpack() Listpack {
	if b.count == 0 {
		b.pack = append(b.pack[:0], make([]byte, headerSize)...)
	}
	b.pack = append(b.pack, endMark)
	b.pack.setHeader(min(b.count, countUnknown))
	made := b.pack
	b.pack = b.pack[:len(made)-1]
	return made
}
