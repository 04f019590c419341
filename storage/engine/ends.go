package engine

import (
	"bytes"
	"sync"

	"kedis/storage/layout"
)

// indexEnds remembers, for some indexes, how far from their ends nothing lives any more. Taking the first entry again
// and again, as a queue does, leaves ever more deleted records before the next one, which every walk from that end would pass.
//
// What it knows holds for what is committed and for what is about to be, whatever becomes of that: a key that is put beyond an end moves
// the end out at once, and a walk moves it in only up to the first record that lives or that its transaction has changed. Both happen
// under the key's lock. A view may be older than what is known here, and doesn't ask.
type indexEnds struct{ slots [1024]indexEnd }

// indexEnd is what is known of the index that last came to a slot: no record lives before first, or from behind on; nil is unknown.
// The bytes never change.
type indexEnd struct {
	mu            sync.Mutex
	id            uint64
	first, behind []byte
}

// endBytes are remembered of a key.
const endBytes = 256

// startingAt is a bound at or shortly before a key.
func startingAt(key []byte) []byte { return bytes.Clone(key[:min(len(key), endBytes)]) }

// endingBehind is a bound shortly behind a key.
func endingBehind(key []byte) []byte {
	if len(key) > endBytes {
		return layout.Successor(nil, key[:endBytes])
	}
	return append(bytes.Clone(key), 0)
}

// slot returns an index's slot, locked.
func (e *indexEnds) slot(id uint64) *indexEnd {
	s := &e.slots[id%uint64(len(e.slots))]
	s.mu.Lock()
	return s
}

// bounds returns what is known of a set.
func (e *indexEnds) bounds(id uint64) (first, behind []byte) {
	s := e.slot(id)
	defer s.mu.Unlock()
	if s.id != id {
		return nil, nil
	}
	return s.first, s.behind
}

// found notes that a walk from an end of an index has passed nothing that lives before it came to key.
func (e *indexEnds) found(id uint64, key []byte, reverse bool) {
	s := e.slot(id)
	defer s.mu.Unlock()
	if s.id != id {
		s.id, s.first, s.behind = id, nil, nil
	}
	switch {
	case reverse:
		s.behind = endingBehind(key)
	case !bytes.Equal(s.first, key):
		s.first = startingAt(key)
	}
}

// cover notes that a key comes to an index.
func (e *indexEnds) cover(id uint64, key []byte) {
	s := e.slot(id)
	defer s.mu.Unlock()
	if s.id != id {
		return
	}
	if s.first != nil && bytes.Compare(key, s.first) < 0 {
		s.first = startingAt(key)
	}
	if s.behind != nil && bytes.Compare(key, s.behind) >= 0 {
		s.behind = endingBehind(key)
	}
}

// narrow cuts bounds of the index down to where records live. What isn't known of the end that the walk would come from is found out
// first. atEnd tells that the walk begins there.
func (x *Index) narrow(lower, upper []byte, reverse bool) (newLower, newUpper []byte, atEnd bool, err error) {
	ends := &x.txn.store.order.ends
	first, behind := ends.bounds(x.id)
	if atEnd = x.reachesEnd(lower, upper, first, behind, reverse); !atEnd && (!reverse && first == nil || reverse && behind == nil) {
		prefix := x.indexKey(nil)
		if err := x.scanRecords(prefix, layout.Successor(nil, prefix), reverse, func(_, _ []byte) bool { return false }); err != nil {
			return nil, nil, false, err
		}
		first, behind = ends.bounds(x.id)
		atEnd = x.reachesEnd(lower, upper, first, behind, reverse)
	}
	if bytes.Compare(first, lower) > 0 {
		lower = first
	}
	if behind != nil && bytes.Compare(behind, upper) < 0 {
		upper = behind
	}
	return lower, upper, atEnd, nil
}

// reachesEnd tells that nothing lives between the end of the index that a walk would come from and where it begins.
func (x *Index) reachesEnd(lower, upper, first, behind []byte, reverse bool) bool {
	if reverse {
		if behind == nil {
			behind = layout.Behind(x.kind, x.id)
		}
		return bytes.Compare(upper, behind) >= 0
	}
	if first == nil {
		first = layout.First(x.kind, x.id)
	}
	return bytes.Compare(lower, first) <= 0
}
