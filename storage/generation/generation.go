// Package generation holds recent writes in memory until they go to RocksDB in one sorted batch.
//
// A generation is written by one goroutine at a time (whoever holds the commit lock) and read by
// any number, without locks. Nothing in it is ever overwritten: a new version of a record is
// appended and refers to the one before, so what a reader was given stays valid as long as it
// keeps it, and a Mark is a view of the generation as it was.
//
// The package knows nothing of RocksDB, of the log or of what its keys mean: a record is a space
// (a namespace's number), a key and a value. It imports the standard library and
// internal/hugepage only.
package generation

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"sync/atomic"
)

// A generation's memory is a list of chunks, to which entries are appended:
//
//	| previous:8 | space:4 | grouped:1 key length:31 | value length:4 | key | value | sibling:8 if grouped |   little endian
//
// previous refers to the version of the same key before this one, or is 0. A value length of
// deletedLength says that the key was deleted. sibling refers to the record of the same group that
// was written before this one, or is 0 (group.go).
const (
	entryHeader   = 20
	valueLengthAt = 16
	siblingBytes  = 8
	groupedBit    = 1 << 31
	deletedLength = math.MaxUint32
	firstOffset   = 8  // so that no reference is 0
	olderUnit     = 16 // less than any entry takes
)

// reference tells where an entry is: its chunk in bits 32 to 47, its offset in the lower 32 bits.
// A later entry has a greater reference.
type reference uint64

const (
	referenceBits = 48
	referenceMask = 1<<referenceBits - 1 - usedBit - supersededBit
	maxChunks     = 1 << 16
)

// The index of a retained generation uses the upper bits of the offset: chunks are smaller than
// 1 GB, or hold one entry.
const (
	usedBit       = 1 << 31
	supersededBit = 1 << 30
)

// Mark is the end of what a reader sees of a generation.
type Mark uint64

// End is the mark behind everything that a generation will ever hold.
const End Mark = math.MaxUint64

// State is what a generation knows of a key.
type State int

const (
	Unknown State = iota // the generation doesn't say: look further down
	Present
	Deleted
)

// Generation is a set of records in the order in which they were written. Once it is complete,
// readers may mark in its index what they use, and what is superseded.
type Generation struct {
	chunkBytes int
	memory     *Memory
	hash       func(space uint32, key []byte) uint64
	group      Grouping
	sealed     func(*Chunk)

	chunks atomic.Pointer[[]*Chunk]
	index  index
	groups index
	end    atomic.Uint64
	bytes  atomic.Int64
	merged atomic.Pointer[[]reference]
	partly bool                   // merged lacks some records; set before it is
	spans  atomic.Pointer[[]span] // neighbouring chunks from the first one on; nil until Tidy

	crowded func(*Generation)
	walks   atomic.Int32 // that have begun in many chunks since crowded was called

	// Only the writer touches these.
	current *Chunk
	used    int
	count   int
	newest  int64

	superseded atomic.Bool // some record was, by Supersede
	touched    byte        // keeps the compiler from leaving out what is read ahead
}

// Chunk is a piece of a generation's memory.
type Chunk struct {
	number int
	data   []byte
	end    atomic.Uint32            // what is published of data
	older  []uint64                 // a bit for each entry that has a newer version, by its offset/olderUnit; the writer's until nothing is added any more
	sorted atomic.Pointer[[]uint32] // entries by space and key, the newest of a key first; nil until Sort
	partly atomic.Pointer[part]     // the beginning of what is published, in that order; nil until somebody iterates
	gone   atomic.Uint32            // how often those who iterate have gone over the rest
}

// New makes an empty generation. hash is the hash that Put, Delete and Get are given for a record.
// group, which may be nil, says which records are found by a common part of their keys. chunkBytes
// is the size of the chunks, which memory makes; expected is the number of keys to make room for.
// sealed, which may be nil, is called for each chunk that is complete; sorting it then (Chunk.Sort,
// from any goroutine) makes iterating cheap.
func New(memory *Memory, hash func(space uint32, key []byte) uint64, group Grouping, chunkBytes, expected int, sealed func(*Chunk)) *Generation {
	g := &Generation{chunkBytes: chunkBytes, memory: memory, hash: hash, group: group, sealed: sealed}
	g.index.init(expected)
	g.groups.init(0)
	g.chunks.Store(&[]*Chunk{})
	return g
}

// WhenCrowded has f called, again and again and by anybody, when so many walks have to begin in so
// many chunks that Tidy is worth its time. It is called before the generation is used.
func (g *Generation) WhenCrowded(f func(*Generation)) { g.crowded = f }

// Populate has the memory of an empty generation found and cleared before it is used.
func (g *Generation) Populate() { g.index.populate() }

// Bytes is the memory that the generation takes, index included.
func (g *Generation) Bytes() int64 {
	return g.bytes.Load() + g.index.bytes() + g.groups.bytes()
}

// Keys is the number of different keys. Only the writer may ask.
func (g *Generation) Keys() int { return g.count }

// Newest is the size of the newest versions of all records, keys included. While the generation is
// written, only the writer may call it.
func (g *Generation) Newest() int64 { return g.newest }

// Full reports whether the generation can't address much more, whatever its size.
func (g *Generation) Full() bool { return len(*g.chunks.Load()) > maxChunks-1024 }

// Mark is the end of what is written so far. It is a border between commits when it is asked for
// under the commit lock.
func (g *Generation) Mark() Mark { return Mark(g.end.Load()) }

// Put appends a version of a record. key and value are copied.
func (g *Generation) Put(hash uint64, space uint32, key, value []byte) {
	g.append(hash, space, key, value, uint32(len(value)), false)
}

// Delete appends that a record is gone.
func (g *Generation) Delete(hash uint64, space uint32, key []byte) {
	g.append(hash, space, key, nil, deletedLength, false)
}

// append writes an entry. inPlace says that its key and value are already where the entry will be,
// in the current chunk.
func (g *Generation) append(hash uint64, space uint32, key, value []byte, valueLength uint32, inPlace bool) {
	need := entryHeader + len(key) + len(value)
	keyLength := uint32(len(key))
	group, prefix := g.groupOf(space, key)
	if prefix > 0 {
		need += siblingBytes
		keyLength |= groupedBit
	}
	chunk := g.room(need)
	at := g.used
	data := chunk.data[at : at+need]
	segment := g.index.segment(hash)
	slot, previous := g.locate(segment, hash, space, key)
	binary.LittleEndian.PutUint64(data, uint64(previous))
	binary.LittleEndian.PutUint32(data[8:], space)
	binary.LittleEndian.PutUint32(data[12:], keyLength)
	binary.LittleEndian.PutUint32(data[16:], valueLength)
	if !inPlace {
		copy(data[entryHeader:], key)
		copy(data[entryHeader+len(key):], value)
	}
	var head *atomic.Uint64
	if prefix > 0 {
		head = g.joinGroup(data, group, space, key[:prefix])
	}
	g.used += need
	ref := uint64(chunk.number)<<32 | uint64(at)
	chunk.end.Store(uint32(g.used))
	g.end.Store(ref + 1)
	slot.Store(hash>>referenceBits<<referenceBits | ref)
	if head != nil {
		head.Store(group>>referenceBits<<referenceBits | ref)
	}
	g.newest += int64(need)
	if previous != 0 {
		g.newest -= int64(g.entry(previous).size())
		g.bytes.Add((*g.chunks.Load())[previous>>32].noteOlder(uint32(previous)))
	} else {
		g.count++
		if segment.used++; segment.full() {
			g.index.replace(hash, segment.doubled(g, func(e entry) uint64 { return g.hash(e.space(), e.key()) }))
		}
	}
}

// room returns the chunk that has room for an entry.
func (g *Generation) room(need int) *Chunk {
	if g.current != nil && len(g.current.data)-g.used >= need {
		return g.current
	}
	if need += firstOffset; need <= g.chunkBytes {
		return g.adopt(g.memory.take(g.chunkBytes))
	}
	return g.adopt(g.memory.makeAtOnce(need))
}

// locate finds the slot of a key in its segment, or the free one where it belongs.
func (g *Generation) locate(segment *segment, hash uint64, space uint32, key []byte) (*atomic.Uint64, reference) {
	for i := hash & segment.mask; ; i = (i + 1) & segment.mask {
		slot := &segment.slots[i]
		word := slot.Load()
		if word == 0 {
			return slot, 0
		}
		if word>>referenceBits == hash>>referenceBits {
			ref := reference(word & referenceMask)
			if g.entry(ref).is(space, key) {
				return slot, ref
			}
		}
	}
}

// Get returns what the generation knew of a key before the mark. The value is the generation's
// own memory: read only, and valid for good.
func (g *Generation) Get(mark Mark, hash uint64, space uint32, key []byte) ([]byte, State) {
	segment := g.index.segment(hash)
	for i := hash & segment.mask; ; i = (i + 1) & segment.mask {
		word := segment.slots[i].Load()
		if word == 0 {
			return nil, Unknown
		}
		if word>>referenceBits != hash>>referenceBits {
			continue
		}
		ref := reference(word & referenceMask)
		if e := g.entry(ref); e.is(space, key) {
			if e = g.before(mark, ref); e == nil {
				return nil, Unknown
			}
			return e.value()
		}
	}
}

// Use is Get for a retained generation. With noting it marks the record as used.
func (g *Generation) Use(hash uint64, space uint32, key []byte, noting bool) ([]byte, State) {
	slot, word := g.search(hash, space, key)
	if word == 0 || word&supersededBit != 0 {
		return nil, Unknown
	}
	if noting && word&usedBit == 0 {
		slot.Or(usedBit)
	}
	return g.entry(reference(word & referenceMask)).value()
}

// Supersede makes Use forget a record, which has a newer version elsewhere.
func (g *Generation) Supersede(hash uint64, space uint32, key []byte) {
	if slot, word := g.search(hash, space, key); word != 0 {
		slot.Or(supersededBit)
		g.superseded.Store(true)
	}
}

// search finds the slot of a key in a complete generation, and its content: 0 when there is none.
func (g *Generation) search(hash uint64, space uint32, key []byte) (*atomic.Uint64, uint64) {
	segment := g.index.segment(hash)
	for i := hash & segment.mask; ; i = (i + 1) & segment.mask {
		slot := &segment.slots[i]
		word := slot.Load()
		if word == 0 || word>>referenceBits == hash>>referenceBits && g.entry(reference(word&referenceMask)).is(space, key) {
			return slot, word
		}
	}
}

// oftenUsed is the share of the records, one in so many, that makes a generation an often used one.
const oftenUsed = 16

// OftenUsed reports whether many records of a retained generation were used. It samples a few
// segments.
func (g *Generation) OftenUsed() bool {
	used, all := 0, 0
	for i := range indexSegments / 16 {
		slots := g.index.segments[i].Load().slots
		for j := range slots {
			if word := slots[j].Load(); word != 0 {
				all++
				used += int(word & usedBit / usedBit)
			}
		}
	}
	return used*oftenUsed >= all
}

// Left visits the records that were not superseded, in no order, and whether each was used.
func (g *Generation) Left() iter.Seq2[Record, bool] {
	return func(yield func(Record, bool) bool) {
		for i := range g.index.segments {
			if !g.leftIn(g.index.segments[i].Load().slots, yield) {
				return
			}
		}
	}
}

// leftIn is Left of a part of the slots.
func (g *Generation) leftIn(slots []atomic.Uint64, yield func(Record, bool) bool) bool {
	var words [readAhead]uint64
	var warmed byte
	for len(slots) > 0 {
		few := slots[:min(readAhead, len(slots))]
		slots = slots[len(few):]
		for i := range few {
			if words[i] = few[i].Load(); words[i] != 0 {
				warmed += g.entry(reference(words[i] & referenceMask))[0]
			}
		}
		for _, word := range words[:len(few)] {
			if word == 0 || word&supersededBit != 0 {
				continue
			}
			if !yield(Record{g.entry(reference(word & referenceMask))}, word&usedBit != 0) {
				return false
			}
		}
	}
	g.touched = warmed
	return true
}

// Slot returns the content of the slot where the search for a hash begins. Reading the slots of
// several keys, then touching their entries, and only then looking them up lets the processor wait
// for all of them at once.
func (g *Generation) Slot(hash uint64) uint64 {
	segment := g.index.segment(hash)
	return segment.slots[hash&segment.mask].Load()
}

// Probe returns the first slot that seems to belong to a hash and wasn't superseded, or 0.
func (g *Generation) Probe(hash uint64) uint64 {
	segment := g.index.segment(hash)
	for i := hash & segment.mask; ; i = (i + 1) & segment.mask {
		if word := segment.slots[i].Load(); word == 0 || matches(hash, word) && word&supersededBit == 0 {
			return word
		}
	}
}

// Touch reads a little of the entry that a slot names.
func (g *Generation) Touch(slot uint64) byte {
	return g.entry(reference(slot & referenceMask))[valueLengthAt]
}

// Peek returns the value of a slot's entry, if the hash seems to match: it may be another key's.
func (g *Generation) Peek(hash, slot uint64) []byte {
	if slot == 0 || !matches(hash, slot) {
		return nil
	}
	value, _ := g.entry(reference(slot & referenceMask)).value()
	return value
}

func matches(hash, slot uint64) bool { return slot>>referenceBits == hash>>referenceBits }

// before follows the versions of an entry back to the newest one that the mark shows; nil if none.
func (g *Generation) before(mark Mark, ref reference) entry {
	for uint64(ref) >= uint64(mark) {
		ref = g.entry(ref).previous()
		if ref == 0 {
			return nil
		}
	}
	return g.entry(ref)
}

func (g *Generation) entry(ref reference) entry {
	return (*g.chunks.Load())[ref>>32].at(uint32(ref))
}

// noteOlder marks an entry as having a newer version. It returns the size of the memory that it has
// made for that.
func (c *Chunk) noteOlder(offset uint32) (made int64) {
	if c.older == nil {
		c.older = make([]uint64, len(c.data)/(64*olderUnit)+1)
		made = int64(len(c.older)) * 8
	}
	c.older[offset/(64*olderUnit)] |= 1 << (offset / olderUnit % 64)
	return made
}

// isOlder reports whether an entry of a complete generation has a newer version.
func (c *Chunk) isOlder(offset uint32) bool {
	return c.older != nil && c.older[offset/(64*olderUnit)]&(1<<(offset/olderUnit%64)) != 0
}

func (c *Chunk) at(offset uint32) entry { return entry(c.data[offset:]) }

// entry is the memory from an entry's first byte on.
type entry []byte

func (e entry) previous() reference { return reference(binary.LittleEndian.Uint64(e)) }
func (e entry) space() uint32       { return binary.LittleEndian.Uint32(e[8:]) }
func (e entry) keyLength() int      { return int(binary.LittleEndian.Uint32(e[12:]) &^ groupedBit) }
func (e entry) grouped() bool       { return e[15]&(groupedBit>>24) != 0 }

func (e entry) key() []byte {
	n := e.keyLength()
	return e[entryHeader : entryHeader+n : entryHeader+n]
}

func (e entry) value() ([]byte, State) {
	length := binary.LittleEndian.Uint32(e[16:])
	if length == deletedLength {
		return nil, Deleted
	}
	from := entryHeader + e.keyLength()
	to := from + int(length)
	return e[from:to:to], Present
}

func (e entry) size() uint32 {
	size := uint32(entryHeader + e.keyLength())
	if length := binary.LittleEndian.Uint32(e[16:]); length != deletedLength {
		size += length
	}
	if e.grouped() {
		size += siblingBytes
	}
	return size
}

func (e entry) is(space uint32, key []byte) bool {
	return e.space() == space && bytes.Equal(e.key(), key)
}

// compare orders entries by space and key.
func (e entry) compare(space uint32, key []byte) int {
	if s := e.space(); s != space {
		if s < space {
			return -1
		}
		return 1
	}
	return bytes.Compare(e.key(), key)
}
