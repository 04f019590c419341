// Package cache keeps clean copies of records that RocksDB holds, so that what is read often is
// served without crossing into C.
//
// Its memory is bounded and holds no pointers for the garbage collector to follow. What a reader
// was given stays valid: chunks of memory are dropped, never used again. The package knows nothing
// of RocksDB or of what the records mean, and imports the standard library and internal/hugepage
// only.
package cache

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"kedis/internal/hugepage"
)

// Shards have a lock each. A key's shard is given by low bits of its hash, but for the lowest,
// which tell neighbours in an index apart: records that are looked for one after the other have
// hashes that differ in those only, and their slots lie side by side.
const (
	shardCount     = 64
	neighbourCount = 8
)

func shardOf(hash uint64) uint64 { return hash / neighbourCount % shardCount }

// Entries stand in chunks, one behind the other; a value of deletedLength says that RocksDB has no
// such record:
//
//	| hash:8 | space:4 | key length:4 | value length:4 | key | value |   little endian
const (
	entryHeader   = 20
	valueLengthAt = 16
	deletedLength = math.MaxUint32
	chunkBytes    = 64 << 10

	// LargestEntry is the size above which records are not kept.
	LargestEntry = chunkBytes / 4
	// Least is the least that a cache takes that keeps any, and about by how much it grows.
	Least = shardCount * chunkBytes
)

// A slot of the index: | tag:15 | used again:1 | home:8 | chunk:24 | offset:16 |; 0 is free. The
// tag is the upper bits of the hash, home the lowest of the number of the slot where the search for
// it begins.
const (
	tagShift     = 49
	againBit     = 1 << 48
	homeShift    = 40
	homeMask     = 1<<8 - 1
	chunkShift   = 16
	offsetMask   = 1<<16 - 1
	chunkMask    = 1<<24 - 1
	locationMask = chunkMask<<chunkShift | offsetMask
	firstOffset  = 8 // so that no slot in use is 0
)

// Cache holds clean copies of records. All methods may be called from any goroutine. Get takes no
// lock: it may miss a record that is being moved, and never finds an outdated one.
type Cache struct {
	shards       [shardCount]shard
	limit        atomic.Int64
	hits, misses atomic.Int64
}

type shard struct {
	index  atomic.Pointer[index]
	chunks atomic.Pointer[ring]

	mu          sync.Mutex // of whoever changes the following, or what the index and the ring hold
	count       int
	first, next uint32 // numbers of the oldest chunk and of the one to come; they wrap at 24 bits
	_           [24]byte
}

// index finds entries: open addressing with linear probing.
type index struct {
	slots []atomic.Uint64
	mask  uint64
}

// ring finds a chunk by its number. A chunk that was dropped leaves its place empty.
type ring struct {
	chunks []atomic.Pointer[chunk]
	mask   uint32
}

type chunk struct {
	number uint32
	used   uint32
	data   []byte
}

// New makes a cache that takes at most about limit bytes, its index included.
func New(limit int64) *Cache {
	c := new(Cache)
	c.limit.Store(limit)
	for i := range c.shards {
		c.shards[i].clear()
	}
	return c
}

// SetLimit changes the size; a smaller one takes effect as records come in, and by Shrink.
func (c *Cache) SetLimit(limit int64) { c.limit.Store(limit) }

// shrinkSteps are how many chunks one Shrink drops at most, in less than a second.
const shrinkSteps = 4096

// Shrink drops what is beyond the limit, when no records come in that would have it dropped. Of
// much that is, it drops a part. Others wait for a chunk at most.
func (c *Cache) Shrink() {
	limit, steps := c.limit.Load()/shardCount, shrinkSteps
	for i := range c.shards {
		for c.shards[i].shrink(limit) {
			if steps--; steps == 0 {
				return
			}
			runtime.Gosched()
		}
	}
}

// shrink drops one chunk, or all when the limit is too small for any. It reports whether there was
// something to be dropped.
func (s *shard) shrink(limit int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case limit < chunkBytes && s.held() > 0:
		s.clear()
	case s.bytes() > limit && s.held() > 1:
		s.evict()
		if size := len(s.index.Load().slots); size >= sparseFrom*max(s.count, leastSlots) {
			s.resize(size / 2)
		}
	default:
		return false
	}
	return true
}

// Clear forgets everything.
func (c *Cache) Clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if s.held() > 0 { // else it is as clear leaves it, and making that costs system calls
			s.clear()
		}
		s.mu.Unlock()
	}
}

const (
	leastSlots = 64 // of an index
	sparseFrom = 8  // slots for each record, the index is made smaller by Shrink
)

func (s *shard) clear() {
	s.index.Store(newIndex(leastSlots))
	s.chunks.Store(newRing(4))
	s.count, s.first = 0, s.next
}

func newIndex(size int) *index {
	slots := make([]atomic.Uint64, size)
	hugepage.Advise(slots)
	return &index{slots, uint64(size - 1)}
}

func newRing(size int) *ring {
	return &ring{make([]atomic.Pointer[chunk], size), uint32(size - 1)}
}

// Limit is the size that the cache may have, in bytes.
func (c *Cache) Limit() int64 { return c.limit.Load() }

// Bytes is the memory in use.
func (c *Cache) Bytes() int64 {
	var total int64
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		total += s.bytes()
		s.mu.Unlock()
	}
	return total
}

// Count adds to what Hits and Misses tell. Readers count for themselves, since a counter that all
// of them write costs more than the reading.
func (c *Cache) Count(hits, misses int64) {
	c.hits.Add(hits)
	c.misses.Add(misses)
}

// Hits is the number of records that were found here.
func (c *Cache) Hits() int64 { return c.hits.Load() }

// Misses is the number of records that had to be read from RocksDB.
func (c *Cache) Misses() int64 { return c.misses.Load() }

// Get returns the copy of a record. When known is true and value nil, there is no such record.
// The value is read only and stays valid.
func (c *Cache) Get(hash uint64, space uint32, key []byte) (value []byte, present, known bool) {
	s := &c.shards[shardOf(hash)]
	index := s.index.Load()
	for i := position(hash) & index.mask; ; i = (i + 1) & index.mask {
		word := index.slots[i].Load()
		if word == 0 {
			return nil, false, false
		}
		if word>>tagShift != hash>>tagShift {
			continue
		}
		if e := s.entry(word); e != nil && e.is(space, key) {
			if word&againBit == 0 {
				index.slots[i].CompareAndSwap(word, word|againBit)
			}
			value, present = e.value()
			return value, present, true
		}
	}
}

// Slot returns the content of the slot where the search for a hash begins. Reading the slots of
// several records, then touching their entries, and only then looking them up lets the processor
// wait for all of them at once.
func (c *Cache) Slot(hash uint64) uint64 {
	index := c.shards[shardOf(hash)].index.Load()
	return index.slots[position(hash)&index.mask].Load()
}

// Probe returns the first slot that seems to be that of a hash; 0 when there is none.
func (c *Cache) Probe(hash uint64) uint64 {
	index := c.shards[shardOf(hash)].index.Load()
	for i := position(hash) & index.mask; ; i = (i + 1) & index.mask {
		if word := index.slots[i].Load(); word == 0 || word>>tagShift == hash>>tagShift {
			return word
		}
	}
}

// Touch reads a little of the entry that a slot names.
func (c *Cache) Touch(hash, slot uint64) byte {
	if e := c.shards[shardOf(hash)].entry(slot); e != nil {
		return e[valueLengthAt]
	}
	return 0
}

// Peek returns the value of a slot's entry, if the hash seems to match: it may be another record's.
func (c *Cache) Peek(hash, slot uint64) []byte {
	if slot == 0 || slot>>tagShift != hash>>tagShift {
		return nil
	}
	e := c.shards[shardOf(hash)].entry(slot)
	if e == nil {
		return nil
	}
	value, _ := e.value()
	return value
}

// Forget drops the copy of a record, if there is one. Nobody may put one there meanwhile.
func (c *Cache) Forget(hash uint64, space uint32, key []byte) {
	if c.Slot(hash) == 0 {
		return // where the search for it would begin, and what is moved never leaves that empty
	}
	s := &c.shards[shardOf(hash)]
	s.mu.Lock()
	s.remove(hash, space, key)
	s.mu.Unlock()
}

// Put keeps a copy of a record, or, with present false, that there is none.
//
// Whoever calls it makes sure that the record can't change between being read and being put here:
// by the lock of the key that it belongs to, or by putting what it has itself just written, before
// readers look here for it.
func (c *Cache) Put(hash uint64, space uint32, key, value []byte, present bool) {
	limit := c.limit.Load() / shardCount
	s := &c.shards[shardOf(hash)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if entryHeader+len(key)+len(value) > LargestEntry || limit < chunkBytes {
		s.remove(hash, space, key)
		return
	}
	s.put(hash, space, key, value, present)
	for s.bytes() > limit && s.held() > 1 {
		s.evict()
	}
}

// held is the number of chunks.
func (s *shard) held() uint32 { return (s.next - s.first) & chunkMask }

func (s *shard) bytes() int64 {
	return int64(s.held())*chunkBytes + int64(len(s.index.Load().slots))*8
}

func (s *shard) put(hash uint64, space uint32, key, value []byte, present bool) {
	if s.count*3 >= len(s.index.Load().slots)*2 {
		s.resize(2 * len(s.index.Load().slots))
	}
	word := label(hash) | s.append(hash, space, key, value, present)
	if slot := s.find(hash, space, key); slot >= 0 {
		s.index.Load().slots[slot].Store(word)
		return
	}
	s.index.Load().insert(hash, word)
	s.count++
}

func (x *index) insert(hash, word uint64) {
	i := position(hash) & x.mask
	for x.slots[i].Load() != 0 {
		i = (i + 1) & x.mask
	}
	x.slots[i].Store(word)
}

// label is what a slot says of a hash.
func label(hash uint64) uint64 {
	return hash>>tagShift<<tagShift | position(hash)&homeMask<<homeShift
}

// position is where a hash belongs in an index: what it has besides the bits of the shard.
func position(hash uint64) uint64 {
	return hash%neighbourCount | hash/(neighbourCount*shardCount)*neighbourCount&math.MaxInt32
}

// append writes an entry, and returns its place.
func (s *shard) append(hash uint64, space uint32, key, value []byte, present bool) uint64 {
	need := uint32(entryHeader + len(key) + len(value))
	last := s.chunks.Load().at((s.next - 1) & chunkMask)
	if last == nil || chunkBytes-last.used < need {
		last = s.extend()
	}
	at := last.used
	last.used += need
	length := uint32(len(value))
	if !present {
		length = deletedLength
	}
	e := last.data[at:last.used]
	binary.LittleEndian.PutUint64(e, hash)
	binary.LittleEndian.PutUint32(e[8:], space)
	binary.LittleEndian.PutUint32(e[12:], uint32(len(key)))
	binary.LittleEndian.PutUint32(e[16:], length)
	copy(e[entryHeader:], key)
	copy(e[entryHeader+len(key):], value)
	return uint64(last.number)<<chunkShift | uint64(at)
}

// extend adds a chunk.
func (s *shard) extend() *chunk {
	if int(s.held()) == len(s.chunks.Load().chunks) {
		s.growRing()
	}
	added := &chunk{number: s.next, used: firstOffset, data: make([]byte, chunkBytes)}
	hugepage.Advise(added.data)
	s.chunks.Load().put(added)
	s.next = (s.next + 1) & chunkMask
	return added
}

func (s *shard) growRing() {
	old := s.chunks.Load()
	grown := newRing(2 * len(old.chunks))
	for i := range old.chunks {
		if c := old.chunks[i].Load(); c != nil {
			grown.put(c)
		}
	}
	s.chunks.Store(grown)
}

func (r *ring) put(c *chunk) { r.chunks[c.number&r.mask].Store(c) }

func (r *ring) drop(number uint32) { r.chunks[number&r.mask].Store(nil) }

// at returns a chunk by its number; nil when it was dropped.
func (r *ring) at(number uint32) *chunk {
	if c := r.chunks[number&r.mask].Load(); c != nil && c.number == number {
		return c
	}
	return nil
}

// find returns the number of a record's slot; -1 when there is none.
func (s *shard) find(hash uint64, space uint32, key []byte) int {
	index := s.index.Load()
	for i := position(hash) & index.mask; ; i = (i + 1) & index.mask {
		word := index.slots[i].Load()
		if word == 0 {
			return -1
		}
		if word>>tagShift == hash>>tagShift && s.entry(word).is(space, key) {
			return int(i)
		}
	}
}

// entry returns the entry that a slot refers to; nil when its chunk was dropped meanwhile.
func (s *shard) entry(word uint64) entry {
	c := s.chunks.Load().at(uint32(word>>chunkShift) & chunkMask)
	if c == nil {
		return nil
	}
	return entry(c.data[word&offsetMask:])
}

// resize moves what is in the index to one of another size.
func (s *shard) resize(size int) {
	old, resized := s.index.Load(), newIndex(size)
	for i := range old.slots {
		if word := old.slots[i].Load(); word != 0 {
			resized.insert(s.entry(word).hash(), word)
		}
	}
	s.index.Store(resized)
}

// evict drops the oldest chunk. What was used again since it came stays, as if it were new.
func (s *shard) evict() {
	oldest := s.chunks.Load().at(s.first)
	for at := uint32(firstOffset); at < oldest.used; {
		e := entry(oldest.data[at:])
		slot := s.slotOf(e.hash(), uint64(s.first)<<chunkShift|uint64(at))
		at += uint32(e.size())
		if slot < 0 {
			continue // a newer copy has taken its place
		}
		if s.index.Load().slots[slot].Load()&againBit == 0 {
			s.free(uint64(slot))
			continue
		}
		value, present := e.value()
		word := label(e.hash()) | s.append(e.hash(), e.space(), e.key(), value, present)
		s.index.Load().slots[slot].Store(word)
	}
	s.chunks.Load().drop(s.first)
	s.first = (s.first + 1) & chunkMask
}

// slotOf finds the slot that refers to a location; -1 when none does.
func (s *shard) slotOf(hash, location uint64) int {
	index := s.index.Load()
	for i := position(hash) & index.mask; ; i = (i + 1) & index.mask {
		word := index.slots[i].Load()
		if word == 0 {
			return -1
		}
		if word&locationMask == location {
			return int(i)
		}
	}
}

func (s *shard) remove(hash uint64, space uint32, key []byte) {
	if slot := s.find(hash, space, key); slot >= 0 {
		s.free(uint64(slot))
	}
}

// free empties a slot and moves those behind it up, so that searches still end where they should.
func (s *shard) free(hole uint64) {
	index := s.index.Load()
	s.count--
	run := uint64(0) // slots in use before this one
	for index.slots[(hole-run-1)&index.mask].Load() != 0 {
		run++
	}
	for i := (hole + 1) & index.mask; ; i = (i + 1) & index.mask {
		word := index.slots[i].Load()
		if word == 0 {
			break
		}
		run++
		if s.displacement(index, i, word, run) >= (i-hole)&index.mask {
			index.slots[hole].Store(word)
			hole = i
		}
	}
	index.slots[hole].Store(0)
}

// displacement returns how far behind its home a slot is. run is the number of slots in use before
// it. While that is small, the slot's own home bits suffice, without waiting for the memory of the
// entry.
func (s *shard) displacement(index *index, slot, word, run uint64) uint64 {
	if run <= homeMask {
		return (slot - word>>homeShift) & homeMask & index.mask
	}
	return (slot - position(s.entry(word).hash())) & index.mask
}

type entry []byte

func (e entry) hash() uint64  { return binary.LittleEndian.Uint64(e) }
func (e entry) space() uint32 { return binary.LittleEndian.Uint32(e[8:]) }

func (e entry) key() []byte {
	n := int(binary.LittleEndian.Uint32(e[12:]))
	return e[entryHeader : entryHeader+n : entryHeader+n]
}

func (e entry) value() ([]byte, bool) {
	length := binary.LittleEndian.Uint32(e[16:])
	if length == deletedLength {
		return nil, false
	}
	from := entryHeader + len(e.key())
	to := from + int(length)
	return e[from:to:to], true
}

func (e entry) size() int {
	value, _ := e.value()
	return entryHeader + len(e.key()) + len(value)
}

func (e entry) is(space uint32, key []byte) bool {
	return e.space() == space && bytes.Equal(e.key(), key)
}
