package generation

import (
	"sync/atomic"

	"kedis/internal/hugepage"
)

// index finds a key's newest entry: open addressing with linear probing, never more than half full.
// The hash's lower bits tell where the search begins, some of the middle ones in which segment.
// Each segment grows for itself: a whole index would take a tenth of a second and more, in which
// everybody waits for whoever has the commit lock.
//
// A slot is the upper 16 bits of the key's hash and the entry's reference, with usedBit and
// supersededBit; 0 is free.
type index struct {
	segments [indexSegments]atomic.Pointer[segment]
	slots    atomic.Int64 // of all segments
}

const (
	indexSegments = 128
	segmentShift  = referenceBits - 7 // below the bits that slots have
	leastSlots    = 8                 // of a segment
	largeIndex    = 4 << 10           // slots from which on large pages are worth asking for
)

// segment is one part of an index.
type segment struct {
	slots []atomic.Uint64
	mask  uint64
	used  int // slots that aren't free; the writer's
}

// init makes room for so many keys.
func (x *index) init(expected int) {
	size := leastSlots
	for size*indexSegments < 2*expected {
		size *= 2
	}
	for i := range x.segments {
		x.segments[i].Store(newSegment(size))
	}
	x.slots.Store(int64(size * indexSegments))
}

func newSegment(size int) *segment { return &segment{slots: newSlots(size), mask: uint64(size - 1)} }

func newSlots(size int) []atomic.Uint64 {
	slots := make([]atomic.Uint64, size)
	if size >= largeIndex {
		hugepage.Advise(slots)
	}
	return slots
}

// populate has the memory found and cleared before it is used.
func (x *index) populate() {
	for i := range x.segments {
		hugepage.Populate(x.segments[i].Load().slots)
	}
}

// bytes is the memory that the index takes.
func (x *index) bytes() int64 { return x.slots.Load() * 8 }

// segment is where a hash belongs.
func (x *index) segment(hash uint64) *segment {
	return x.segments[hash>>segmentShift%indexSegments].Load()
}

// replace replaces the segment of a hash by a larger one.
func (x *index) replace(hash uint64, larger *segment) {
	at := &x.segments[hash>>segmentShift%indexSegments]
	x.slots.Add(int64(len(larger.slots) - len(at.Load().slots)))
	at.Store(larger)
}

func (s *segment) full() bool { return s.used*2 > len(s.slots) }

// doubled is a segment with twice as many slots for the same entries.
func (s *segment) doubled(g *Generation, hash func(entry) uint64) *segment {
	next := newSegment(2 * len(s.slots))
	next.used = s.used
	var few [readAhead]uint64
	for slots := s.slots; len(slots) > 0; slots = slots[min(readAhead, len(slots)):] {
		group := slots[:min(readAhead, len(slots))]
		for i := range group {
			if few[i] = group[i].Load(); few[i] != 0 {
				g.touched += g.entry(reference(few[i] & referenceMask))[0]
			}
		}
		for _, word := range few[:len(group)] {
			if word != 0 {
				next.insert(hash(g.entry(reference(word&referenceMask))), word)
			}
		}
	}
	return next
}

func (s *segment) insert(hash, word uint64) {
	i := hash & s.mask
	for s.slots[i].Load() != 0 {
		i = (i + 1) & s.mask
	}
	s.slots[i].Store(word)
}
