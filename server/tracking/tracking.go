// Package tracking knows which clients have to be told of changes of which keys: those that have
// read a key since it was last changed, and those that want to know of all keys with a prefix. The
// clients keep what they have read, and throw it away when they are told.
//
// It knows names of keys and handles of clients, and neither what a client is nor what it is sent.
// It imports the standard library only.
package tracking

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// Table remembers who has read which keys. As in Redis, a key is its name, in whichever database. C
// is a handle of a client.
//
// Whoever reads a key is noted before, and whoever changes it takes those that are noted after the
// change is visible, both while the key's lock is held: so each that has read something older is
// found.
type Table[C comparable] struct {
	seed   maphash.Seed
	shards [shards]shard[C]
	next   atomic.Uint32 // the shard that gives up a key when there are too many

	keys, items atomic.Int64
}

// shards are so many that writers of different keys seldom meet.
const shards = 64

type shard[C comparable] struct {
	mu      sync.Mutex
	readers map[string][]C
	items   int64
}

// NewTable makes an empty table.
func NewTable[C comparable]() *Table[C] {
	t := &Table[C]{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].readers = map[string][]C{}
	}
	return t
}

func (t *Table[C]) shard(key []byte) *shard[C] { return &t.shards[maphash.Bytes(t.seed, key)%shards] }

// Remember notes that a client is about to read a key.
func (t *Table[C]) Remember(client C, key []byte) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	readers, known := s.readers[string(key)]
	if slices.Contains(readers, client) {
		return
	}
	s.readers[string(key)] = append(readers, client)
	s.items++
	t.items.Add(1)
	if !known {
		t.keys.Add(1)
	}
}

// Knows reports whether somebody has read a key.
func (t *Table[C]) Knows(key []byte) bool {
	if t.keys.Load() == 0 {
		return false
	}
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.readers[string(key)]
	return known
}

// Take returns who has read a key, and forgets that they have.
func (t *Table[C]) Take(key []byte) []C {
	if t.keys.Load() == 0 {
		return nil
	}
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.take(s, string(key))
}

// take is Take in a shard that is locked.
func (t *Table[C]) take(s *shard[C], key string) []C {
	readers, known := s.readers[key]
	if known {
		delete(s.readers, key)
		s.items -= int64(len(readers))
		t.keys.Add(-1)
		t.items.Add(int64(-len(readers)))
	}
	return readers
}

// TakeAny is Take of any key; found is false when there is none.
func (t *Table[C]) TakeAny() (key string, readers []C, found bool) {
	for range shards {
		s := &t.shards[t.next.Add(1)%shards]
		s.mu.Lock()
		for key := range s.readers {
			readers := t.take(s, key)
			s.mu.Unlock()
			return key, readers, true
		}
		s.mu.Unlock()
	}
	return "", nil, false
}

// Clear forgets all.
func (t *Table[C]) Clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		t.keys.Add(int64(-len(s.readers)))
		t.items.Add(-s.items)
		s.readers, s.items = map[string][]C{}, 0
		s.mu.Unlock()
	}
}

// Size is how many keys are remembered, and how many readers of them.
func (t *Table[C]) Size() (keys, items int64) { return t.keys.Load(), t.items.Load() }
