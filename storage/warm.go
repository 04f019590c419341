package storage

import (
	"encoding/binary"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// WarmRequests is how many requests Warm takes at once: enough for the processor to wait for all of
// their records together.
const WarmRequests = 16

// Warm reads what commands that are about to be executed will look at first: the slots of the indexes,
// then the entries, and of spread collections the same for an element. One command after another would
// wait for memory at each step; here the processor waits for many at once. It changes nothing, and what
// isn't there does no harm.
//
// Requests are commands with their arguments, at most WarmRequests. The first argument is taken for a
// key, and the second, or the last when the key is a sorted set's, for an element.
func (t *Txn) Warm(database int, requests [][][]byte) {
	space := t.store.current.Load().databases[database].number
	var keys, elements warming
	for _, args := range requests {
		t.key = layout.AppendMetadataKey(t.key[:0], args[1])
		keys.add(t.store, generation.Hash(space, t.key))
	}
	for i := range keys.count {
		value := keys.value(t.store, i)
		if args := requests[i]; len(args) > 2 && len(value) >= spreadHeader && layout.Encoding(value[1]) == layout.Spread {
			t.appendWarmElement(value, args)
			elements.add(t.store, generation.Hash(space, t.key))
		}
	}
	for i := range elements.count {
		t.warmed += byte(len(elements.value(t.store, i)))
	}
}

// spreadHeader is the size of a spread collection's metadata up to its id's end; see layout.Metadata.
const spreadHeader = 18

// appendWarmElement puts the key of the element that a request seems to be about into t.key.
func (t *Txn) appendWarmElement(metadata []byte, args [][]byte) {
	kind, element := byte(layout.KindHashField), args[2]
	switch layout.Type(metadata[0]) {
	case layout.Set:
		kind = layout.KindSetMember
	case layout.ZSet:
		kind, element = layout.KindZSetMember, args[len(args)-1]
	}
	t.key = layout.AppendElementKey(t.key[:0], kind, binary.BigEndian.Uint64(metadata[10:]), element)
}

// warming are records that are being looked for side by side.
type warming struct {
	count                  int
	hashes, recent, copies [WarmRequests]uint64
}

// add reads a record's slots.
func (w *warming) add(s *Store, hash uint64) {
	now := s.current.Load()
	w.hashes[w.count], w.recent[w.count], w.copies[w.count] = hash, now.active.Slot(hash), s.cache.Slot(hash)
	w.count++
	for _, f := range now.frozen {
		_ = f.Slot(hash)
	}
}

// value reads the entry that a record's slots name, and returns its value. It is a guess: the entry may be
// another record's whose hash is similar.
func (w *warming) value(s *Store, i int) []byte {
	if value := s.current.Load().active.Peek(w.hashes[i], w.recent[i]); value != nil {
		return value
	}
	return s.cache.Peek(w.hashes[i], w.copies[i])
}
