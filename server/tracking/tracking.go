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
// found. Keys of one name in several databases share an entry here, and have a lock each: a change
// of one of them may take a client that is only about to read another one. So a client is told
// behind the reply to what it reads.
type Table[C comparable] struct {
	gone   func(C) bool
	seed   maphash.Seed
	shards [shards]shard[C]
	next   atomic.Uint32 // the shard that gives up a key when there are too many

	keys, items atomic.Int64
}

// shards are so many that writers of different keys seldom meet.
const shards = 64

type shard[C comparable] struct {
	mu      sync.Mutex
	readers map[string]readers[C]
	items   int64
}

// readers are those who have read a key.
type readers[C comparable] struct {
	list  []C
	known map[C]struct{} // those of the list; nil while there are few
}

// few are so many readers that one of them is found as fast by going through the list.
const few = 16

// NewTable makes an empty table. gone says that a client is no more, so that nobody has to remember
// what it has read.
func NewTable[C comparable](gone func(C) bool) *Table[C] {
	t := &Table[C]{gone: gone, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].readers = map[string]readers[C]{}
	}
	return t
}

func (t *Table[C]) shard(key []byte) *shard[C] { return &t.shards[maphash.Bytes(t.seed, key)%shards] }

// Remember notes that a client is about to read a key. It reports whether that wasn't known.
func (t *Table[C]) Remember(client C, key []byte) bool {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.remember(s, client, key)
}

// remember is Remember in a shard that is locked.
func (t *Table[C]) remember(s *shard[C], client C, key []byte) bool {
	read, known := s.readers[string(key)]
	if read.has(client) {
		return false
	}
	was := len(read.list)
	read.add(client, t.gone)
	s.readers[string(key)] = read
	s.items += int64(len(read.list) - was)
	t.items.Add(int64(len(read.list) - was))
	if !known {
		t.keys.Add(1)
	}
	return true
}

func (r *readers[C]) has(client C) bool {
	if r.known == nil {
		return slices.Contains(r.list, client)
	}
	_, has := r.known[client]
	return has
}

// add adds a client. When the list is full, those that are gone leave it, and it gets room for as
// many as are left: so it is never longer than twice what was there at once, and is seldom looked
// through.
func (r *readers[C]) add(client C, gone func(C) bool) {
	if len(r.list) == cap(r.list) {
		r.list, r.known = slices.DeleteFunc(r.list, gone), nil
		r.list = slices.Grow(r.list, max(1, len(r.list)))
	}
	r.list = append(r.list, client)
	switch {
	case len(r.list) <= few:
	case r.known == nil:
		r.known = make(map[C]struct{}, cap(r.list))
		for _, client := range r.list {
			r.known[client] = struct{}{}
		}
	default:
		r.known[client] = struct{}{}
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

// Take looks at all who have read a key: it returns those who are to be told, and forgets those who
// don't stay. It does that as one step, so that a Take for the same name in another database finds
// those who stay.
func (t *Table[C]) Take(key []byte, look func(C) (told, stays bool)) []C {
	if t.keys.Load() == 0 {
		return nil
	}
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := t.take(s, string(key))
	toTell := taken[:0]
	for _, client := range taken {
		told, stays := look(client)
		if told {
			toTell = append(toTell, client)
		}
		if stays {
			t.remember(s, client, key)
		}
	}
	return toTell
}

// take forgets all who have read a key, in a shard that is locked, and returns them.
func (t *Table[C]) take(s *shard[C], key string) []C {
	read, known := s.readers[key]
	if known {
		delete(s.readers, key)
		s.items -= int64(len(read.list))
		t.keys.Add(-1)
		t.items.Add(int64(-len(read.list)))
	}
	return read.list
}

// TakeAny forgets all who have read some key, and returns them; found is false when there is none.
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
		s.readers, s.items = map[string]readers[C]{}, 0
		s.mu.Unlock()
	}
}

// Size is how many keys are remembered, and how many readers of them.
func (t *Table[C]) Size() (keys, items int64) { return t.keys.Load(), t.items.Load() }
