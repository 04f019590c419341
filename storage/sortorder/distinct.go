package sortorder

import (
	"bytes"
	"hash/maphash"
)

// Distinct are elements each of which is there once. The zero value is empty.
type Distinct struct {
	Elements
	seed maphash.Seed
	// slots is a table with open addressing, at most half full. A slot is the upper half of an
	// element's hash and, in the lower half, its index plus 1; 0 is free.
	slots []uint64
}

const (
	leastSlots = 64
	// mostKeptSlots are as many as the elements of one piece take.
	mostKeptSlots = 2 * pieceEntries
	indexBits     = 32
	indexMask     = 1<<indexBits - 1
)

// Reset forgets all elements, and makes room for so many that are short, as far as that is one
// piece of memory. The memory of few is used again.
func (d *Distinct) Reset(expected int) {
	expected = min(expected, pieceEntries)
	if d.Elements.Reset(); len(d.pieces) == 0 || cap(d.pieces[0]) < expected {
		d.pieces = [][]entry{make([]entry, 0, expected)}
	}
	if size := min(largeBlock, shortText*expected); len(d.texts.blocks) == 0 || cap(d.texts.blocks[0]) < size {
		d.texts.blocks = [][]byte{make([]byte, 0, size)}
	}
	slots := leastSlots
	for slots < 2*expected {
		slots *= 2
	}
	if slots <= cap(d.slots) && cap(d.slots) <= mostKeptSlots {
		d.slots = d.slots[:slots]
		clear(d.slots)
		return
	}
	d.slots = nil
	d.resize(slots)
}

// shortText is how many bytes a short element takes, with its length.
const shortText = 16

// Put returns the index of an element, and whether it came just now.
func (d *Distinct) Put(value []byte) (index int, added bool) {
	if 2*d.Len() >= len(d.slots) {
		d.grow()
	}
	hash := maphash.Bytes(d.seed, value) &^ indexMask
	i := d.start(hash)
	for d.slots[i] != 0 {
		if d.slots[i]&^indexMask == hash {
			if index := int(d.slots[i]&indexMask) - 1; bytes.Equal(d.Value(index), value) {
				return index, false
			}
		}
		i = d.next(i)
	}
	d.Add(value)
	d.slots[i] = hash | uint64(d.Len())
	return d.Len() - 1, true
}

// start is the slot with which the search for a hash begins.
func (d *Distinct) start(hash uint64) uint64 { return hash >> indexBits & uint64(len(d.slots)-1) }

func (d *Distinct) next(i uint64) uint64 { return (i + 1) & uint64(len(d.slots)-1) }

func (d *Distinct) grow() { d.resize(max(leastSlots, 2*len(d.slots))) }

// resize gives the elements another number of slots.
func (d *Distinct) resize(size int) {
	slots := d.slots
	if len(slots) == 0 {
		d.seed = maphash.MakeSeed()
	}
	d.slots = make([]uint64, size)
	for _, slot := range slots {
		if slot == 0 {
			continue
		}
		i := d.start(slot)
		for d.slots[i] != 0 {
			i = d.next(i)
		}
		d.slots[i] = slot
	}
}
