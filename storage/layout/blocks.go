package layout

import (
	"encoding/binary"
	"fmt"
)

// Blocks are the part of a spread list's elements that stand in blocks. A block is a record
// | 'l' | id | index |, whose value is a listpack (package listpack) of the elements at the indexes
// from that one on, 1 << Shift of them: index is a multiple of that. The shift of a list never
// changes. All elements from First on, before Beyond, stand in blocks, and no other does; those
// before and behind have records of their own. Elements of the first and of the last block that are
// not between the list's Head and Tail are no longer part of it. The zero Blocks is that of a list
// which never had any.
type Blocks struct {
	First, Beyond uint64 // multiples of 1 << Shift
	Shift         uint8
}

// MaxShift is that of the largest blocks.
const MaxShift = 7

// blocksSize is the size of what metadata says of blocks.
const blocksSize = 17

// Has reports whether the element at an index stands in a block.
func (b *Blocks) Has(index uint64) bool { return index >= b.First && index < b.Beyond }

// Size is the number of elements of each block.
func (b *Blocks) Size() uint64 { return 1 << b.Shift }

// Count is the number of blocks.
func (b *Blocks) Count() uint64 { return (b.Beyond - b.First) >> b.Shift }

// At is the index that the block with an element begins at.
func (b *Blocks) At(index uint64) uint64 { return index &^ (b.Size() - 1) }

// append appends | first:8 | beyond:8 | shift:1 |, and nothing when there never were blocks.
func (b *Blocks) append(dst []byte) []byte {
	if *b == (Blocks{}) {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, b.First)
	return append(binary.BigEndian.AppendUint64(dst, b.Beyond), b.Shift)
}

func (b *Blocks) decode(from []byte) error {
	if len(from) == 0 {
		return nil
	}
	*b = Blocks{binary.BigEndian.Uint64(from), binary.BigEndian.Uint64(from[8:]), from[16]}
	if b.Shift > MaxShift || b.First > b.Beyond || b.At(b.First) != b.First || b.At(b.Beyond) != b.Beyond {
		return fmt.Errorf("%w: blocks from %d to %d of 1<<%d elements", ErrCorrupt, b.First, b.Beyond, b.Shift)
	}
	return nil
}

// blocks is the number of blocks of a spread list.
func (m *Metadata) blocks() uint64 { return m.Blocks.Count() }

// Single is the number of a spread list's elements that have records of their own.
func (m *Metadata) Single() uint64 {
	from, to := max(m.Head, m.Blocks.First), min(m.Tail, m.Blocks.Beyond)
	return m.Length() - (max(from, to) - from)
}
