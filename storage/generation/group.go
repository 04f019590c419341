package generation

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
)

// The records of a group are found without their keys, and without bringing chunks into order: an
// index of its own leads to the one that was written last, and each refers to the one before it.
// What is found has no order, and of a record that was written again all versions.

// Grouping tells to which group a record belongs: a hash of it, and how many bytes at the beginning
// of their keys all of its records have in common, and no others; 0 when it belongs to none.
type Grouping func(space uint32, key []byte) (hash uint64, prefix int)

func (g *Generation) groupOf(space uint32, key []byte) (hash uint64, prefix int) {
	if g.group == nil {
		return 0, 0
	}
	return g.group(space, key)
}

// joinGroup lets an entry that is being written refer to the one of its group that was the last,
// and returns where to note that it is the last now.
func (g *Generation) joinGroup(data []byte, hash uint64, space uint32, prefix []byte) (head *atomic.Uint64) {
	segment := g.groups.segment(hash)
	head, last := g.locateGroup(segment, hash, space, prefix)
	if last == 0 {
		if segment.used++; segment.full() {
			g.groups.replace(hash, segment.doubled(g, g.groupHash))
			head, _ = g.locateGroup(g.groups.segment(hash), hash, space, prefix)
		}
	}
	binary.LittleEndian.PutUint64(data[len(data)-siblingBytes:], uint64(last))
	return head
}

func (g *Generation) groupHash(e entry) uint64 {
	hash, _ := g.group(e.space(), e.key())
	return hash
}

// locateGroup finds the slot of a group in its segment, or the free one where it belongs, and the
// entry that was written last.
func (g *Generation) locateGroup(segment *segment, hash uint64, space uint32, prefix []byte) (*atomic.Uint64, reference) {
	for i := hash & segment.mask; ; i = (i + 1) & segment.mask {
		slot := &segment.slots[i]
		word := slot.Load()
		if word == 0 {
			return slot, 0
		}
		if word>>referenceBits == hash>>referenceBits {
			ref := reference(word & referenceMask)
			if e := g.entry(ref); e.space() == space && bytes.HasPrefix(e.key(), prefix) {
				return slot, ref
			}
		}
	}
}

// Group is what a generation has of a group, from one record on.
type Group struct {
	g   *Generation
	ref reference
}

// Group finds a group by its hash, as Grouping tells it, and what the keys of its records begin
// with.
func (g *Generation) Group(hash uint64, space uint32, prefix []byte) Group {
	_, last := g.locateGroup(g.groups.segment(hash), hash, space, prefix)
	return Group{g, last}
}

// Next takes the record that was written last of those that are left; ok is false when none is.
func (c *Group) Next() (r Record, ok bool) {
	if c.ref == 0 {
		return Record{}, false
	}
	r.entry = c.g.entry(c.ref)
	c.ref = r.entry.sibling()
	return r, true
}

// Superseded tells that some records of a generation that is kept have newer versions elsewhere.
// Use knows which; who finds them by their group doesn't.
func (g *Generation) Superseded() bool { return g.superseded.Load() }

// sibling is the record of the same group that was written before this one.
func (e entry) sibling() reference {
	return reference(binary.LittleEndian.Uint64(e[e.size()-siblingBytes:]))
}
