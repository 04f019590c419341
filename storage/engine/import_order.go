package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"kedis/storage/layout"
)

// item is an entry of a journal that is being sorted: most comparisons need eight bytes of its key,
// and no look at the entry.
type item struct {
	piece uint64
	space uint32
	entry int32
}

// sorted lists the records to be written, in the order of keys. A Redis sends large hashes and sets
// in the order of its hash tables.
func (i *Import) sorted() []item {
	j := &i.txn.journal
	i.items = i.items[:0]
	for n := range j.entries {
		if c := &j.entries[n]; !c.superseded {
			i.items = append(i.items, item{beginning(j.key(c)), c.space, int32(n)})
		}
	}
	slices.SortFunc(i.items, func(a, b item) int {
		if a.space != b.space {
			return cmp.Compare(a.space, b.space)
		}
		return cmp.Compare(a.piece, b.piece)
	})
	for from, to := 0, 0; from < len(i.items); from = to {
		first := i.items[from]
		for to = from + 1; to < len(i.items) && i.items[to].piece == first.piece && i.items[to].space == first.space; to++ {
		}
		j.sortFurther(i.items[from:to])
	}
	return i.items
}

// beginning is eight bytes that sort as the keys do, as far as they differ. For an element these
// are its kind and seven bytes of its id (ids never need more); otherwise they are the key's first
// ones.
func beginning(key []byte) uint64 {
	if layout.Kinds[key[0]].Element {
		return uint64(key[0])<<56 | layout.ElementID(key)&(1<<56-1)
	}
	return piece(key, 0)
}

// sortFurther sorts items with the same beginning by the eight bytes from which on their keys
// differ, and then by what stands behind those.
func (j *journal) sortFurther(items []item) {
	if len(items) < 2 {
		return
	}
	shared := j.itemKey(&items[0])
	for n := range items {
		key := j.itemKey(&items[n])
		at := 0
		for at < len(shared) && at < len(key) && shared[at] == key[at] {
			at++
		}
		shared = shared[:at]
	}
	for n := range items {
		items[n].piece = piece(j.itemKey(&items[n]), len(shared))
	}
	slices.SortFunc(items, func(a, b item) int {
		if a.piece != b.piece {
			return cmp.Compare(a.piece, b.piece)
		}
		return bytes.Compare(j.itemKey(&a), j.itemKey(&b))
	})
}

func (j *journal) itemKey(i *item) []byte { return j.key(&j.entries[i.entry]) }

// piece is eight bytes of a key as a number that compares as they do; behind its end are zeros.
func piece(key []byte, from int) uint64 {
	if len(key) >= from+8 {
		return binary.BigEndian.Uint64(key[from:])
	}
	var bytes [8]byte
	copy(bytes[:], key[from:])
	return binary.BigEndian.Uint64(bytes[:])
}
