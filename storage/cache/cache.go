// Package cache keeps clean copies of records that RocksDB holds, so that what is read often is
// served without crossing into C.
//
// Its memory is bounded and holds no pointers for the garbage collector to follow. What a reader
// was given stays valid: chunks of memory are dropped, never used again. The package knows nothing
// of RocksDB or of what the records mean, and imports the standard library only.
package cache

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

// Shards have a lock each. A key's shard is given by the lowest bits of its hash.
const shardCount = 64

// Entries stand in chunks, one behind the other; a value of deletedLength says that RocksDB has no
// such record:
//
//	| hash:8 | space:4 | key length:4 | value length:4 | key | value |   little endian
const (
	entryHeader   = 20
	deletedLength = math.MaxUint32
	chunkBytes    = 64 << 10

	// LargestEntry is the size above which records are not kept.
	LargestEntry = chunkBytes / 4
)

// A slot of the index: | tag:15 | used again:1 | chunk:24 | offset:24 |; 0 is free. The tag is the
// upper bits of the hash.
const (
	tagShift    = 49
	againBit    = 1 << 48
	chunkShift  = 24
	offsetMask  = 1<<24 - 1
	chunkMask   = 1<<24 - 1
	firstOffset = 8 // so that no slot in use is 0
)

// Cache holds clean copies of records. All methods may be called from any goroutine.
type Cache struct {
	shards       [shardCount]shard
	limit        atomic.Int64
	hits, misses atomic.Int64
}

type shard struct {
	mu     sync.Mutex
	slots  []uint64
	count  int
	chunks [][]byte // a queue: the oldest first
	first  uint32   // the number of chunks[0]
	_      [40]byte
}

// New makes a cache that takes at most about limit bytes, its index included.
func New(limit int64) *Cache {
	c := new(Cache)
	c.limit.Store(limit)
	return c
}

// SetLimit changes the size; a smaller one takes effect as records come in.
func (c *Cache) SetLimit(limit int64) { c.limit.Store(limit) }

// Clear forgets everything.
func (c *Cache) Clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.slots, s.count, s.chunks = nil, 0, nil
		s.mu.Unlock()
	}
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

// Hits and Misses count what Get found and did not find.
func (c *Cache) Hits() int64 { return c.hits.Load() }

// Misses counts the records that had to be read from RocksDB.
func (c *Cache) Misses() int64 { return c.misses.Load() }

// Get returns the copy of a record. When known is true and value nil, there is no such record.
// The value is read only and stays valid.
func (c *Cache) Get(hash uint64, space uint32, key []byte) (value []byte, present, known bool) {
	s := &c.shards[hash%shardCount]
	s.mu.Lock()
	if slot := s.find(hash, space, key); slot >= 0 {
		s.slots[slot] |= againBit
		value, present = s.entry(s.slots[slot]).value()
		known = true
	}
	s.mu.Unlock()
	if known {
		c.hits.Add(1)
	} else {
		c.misses.Add(1)
	}
	return value, present, known
}

// Put keeps a copy of a record, or, with present false, that there is none.
//
// Whoever calls it makes sure that the record can't change between being read and being put here:
// by the lock of the key that it belongs to, or by putting what it has itself just written.
func (c *Cache) Put(hash uint64, space uint32, key, value []byte, present bool) {
	limit := c.limit.Load() / shardCount
	s := &c.shards[hash%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	if entryHeader+len(key)+len(value) > LargestEntry || limit < chunkBytes {
		s.remove(hash, space, key)
		return
	}
	s.put(hash, space, key, value, present)
	for s.bytes() > limit && len(s.chunks) > 1 {
		s.evict()
	}
}

func (s *shard) bytes() int64 { return int64(len(s.chunks))*chunkBytes + int64(len(s.slots))*8 }

func (s *shard) put(hash uint64, space uint32, key, value []byte, present bool) {
	if s.count*3 >= len(s.slots)*2 {
		s.grow()
	}
	word := hash>>tagShift<<tagShift | s.append(hash, space, key, value, present)
	if slot := s.find(hash, space, key); slot >= 0 {
		s.slots[slot] = word
		return
	}
	s.insert(hash, word)
	s.count++
}

func (s *shard) insert(hash, word uint64) {
	mask := len(s.slots) - 1
	i := position(hash) & mask
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = word
}

// position is where a hash belongs in an index; its lowest bits are those of the shard.
func position(hash uint64) int { return int(hash >> 6 & math.MaxInt32) }

func (s *shard) append(hash uint64, space uint32, key, value []byte, present bool) uint64 {
	need := entryHeader + len(key) + len(value)
	last := len(s.chunks) - 1
	if last < 0 || cap(s.chunks[last])-len(s.chunks[last]) < need {
		s.chunks = append(s.chunks, make([]byte, firstOffset, chunkBytes))
		last++
	}
	at := len(s.chunks[last])
	chunk := s.chunks[last][:at+need]
	s.chunks[last] = chunk
	length := uint32(len(value))
	if !present {
		length = deletedLength
	}
	e := chunk[at:]
	binary.LittleEndian.PutUint64(e, hash)
	binary.LittleEndian.PutUint32(e[8:], space)
	binary.LittleEndian.PutUint32(e[12:], uint32(len(key)))
	binary.LittleEndian.PutUint32(e[16:], length)
	copy(e[entryHeader:], key)
	copy(e[entryHeader+len(key):], value)
	return uint64((s.first+uint32(last))&chunkMask)<<chunkShift | uint64(at)
}

func (s *shard) find(hash uint64, space uint32, key []byte) int {
	if len(s.slots) == 0 {
		return -1
	}
	mask := len(s.slots) - 1
	for i := position(hash) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if s.slots[i]>>tagShift == hash>>tagShift && s.entry(s.slots[i]).is(space, key) {
			return i
		}
	}
	return -1
}

func (s *shard) entry(word uint64) entry {
	number := uint32(word>>chunkShift) & chunkMask
	return entry(s.chunks[(number-s.first)&chunkMask][word&offsetMask:])
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]uint64, max(64, 2*len(old)))
	for _, word := range old {
		if word != 0 {
			s.insert(s.entry(word).hash(), word)
		}
	}
}

// evict drops the oldest chunk. What was used again since it came stays, as if it were new.
func (s *shard) evict() {
	oldest := s.chunks[0]
	for at := firstOffset; at < len(oldest); {
		e := entry(oldest[at:])
		word := uint64(s.first)<<chunkShift | uint64(at)
		slot := s.slotOf(e.hash(), word)
		at += e.size()
		if slot < 0 {
			continue // a newer copy has taken its place
		}
		if s.slots[slot]&againBit == 0 {
			s.free(slot)
			continue
		}
		value, present := e.value()
		s.slots[slot] = e.hash()>>tagShift<<tagShift | s.append(e.hash(), e.space(), e.key(), value, present)
	}
	s.chunks[0] = nil
	s.chunks = s.chunks[1:]
	s.first = (s.first + 1) & chunkMask
}

// slotOf finds the slot that refers to a place.
func (s *shard) slotOf(hash, place uint64) int {
	mask := len(s.slots) - 1
	for i := position(hash) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if s.slots[i]&(1<<(tagShift-1)-1) == place {
			return i
		}
	}
	return -1
}

func (s *shard) remove(hash uint64, space uint32, key []byte) {
	if slot := s.find(hash, space, key); slot >= 0 {
		s.free(slot)
	}
}

// free empties a slot and moves those behind it up, so that every search still ends where it should.
func (s *shard) free(hole int) {
	mask := len(s.slots) - 1
	s.count--
	for i := (hole + 1) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		home := position(s.entry(s.slots[i]).hash()) & mask
		if (i-home)&mask >= (i-hole)&mask {
			s.slots[hole] = s.slots[i]
			hole = i
		}
	}
	s.slots[hole] = 0
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
