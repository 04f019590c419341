package storage

import (
	"bytes"
	"math"
	"sync"

	"kedis/storage/layout"
)

// indexEnds remembers, for some sorted sets, how far from the ends of their index nothing lives any more. Taking the lowest member again
// and again, as a queue does, leaves ever more deleted records before the next one, which every walk from that end would pass.
//
// What it knows holds for what is committed and for what is about to be, whatever becomes of that: a key that is put beyond an end moves
// the end out at once, and a walk moves it in only up to the first record that lives or that its transaction has changed. Both happen
// under the key's lock. A view may be older than what is known here, and doesn't ask.
type indexEnds struct{ slots [1024]indexEnd }

// indexEnd is what is known of the sorted set that last came to a slot: no record stands before first or behind last; nil is unknown.
// The bytes never change.
type indexEnd struct {
	mu          sync.Mutex
	id          uint64
	first, last []byte
}

// longestEnd is the longest key that is remembered.
const longestEnd = 256

// slot returns a set's slot, locked.
func (e *indexEnds) slot(id uint64) *indexEnd {
	s := &e.slots[id%uint64(len(e.slots))]
	s.mu.Lock()
	return s
}

// narrow cuts bounds of a set's index down to where records may stand. end tells that a walk in that
// direction begins at the set's end.
func (e *indexEnds) narrow(id uint64, lower, upper []byte, reverse bool) (newLower, newUpper []byte, end bool) {
	s := e.slot(id)
	defer s.mu.Unlock()
	var first, behind []byte
	if s.id == id {
		first = s.first
		if s.last != nil {
			behind = append(bytes.Clone(s.last), 0)
		}
	}
	if reverse {
		end = bytes.Compare(upper, orElse(behind, afterAllScores(id))) >= 0
	} else {
		end = bytes.Compare(lower, orElse(first, beforeAllScores(id))) <= 0
	}
	if first != nil && bytes.Compare(first, lower) > 0 {
		lower = first
	}
	if behind != nil && bytes.Compare(behind, upper) < 0 {
		upper = behind
	}
	return lower, upper, end
}

func orElse(key, otherwise []byte) []byte {
	if key != nil {
		return key
	}
	return otherwise
}

func beforeAllScores(id uint64) []byte { return layout.AppendScoreKey(nil, id, math.Inf(-1), nil) }

func afterAllScores(id uint64) []byte {
	return layout.Successor(nil, layout.AppendScoreKey(nil, id, math.Inf(1), nil))
}

// found notes that a walk from an end of a set's index has passed nothing that lives before it came to key.
func (e *indexEnds) found(id uint64, key []byte, reverse bool) {
	if len(key) > longestEnd {
		return
	}
	s := e.slot(id)
	defer s.mu.Unlock()
	if s.id != id {
		s.id, s.first, s.last = id, nil, nil
	}
	end := &s.first
	if reverse {
		end = &s.last
	}
	if !bytes.Equal(*end, key) {
		*end = bytes.Clone(key)
	}
}

// cover notes that a key comes to a set's index.
func (e *indexEnds) cover(id uint64, key []byte) {
	s := e.slot(id)
	defer s.mu.Unlock()
	if s.id != id {
		return
	}
	if s.first != nil && bytes.Compare(key, s.first) < 0 {
		s.first = bytes.Clone(key[:min(len(key), longestEnd)]) // a prefix stands before what it begins
	}
	if s.last != nil && bytes.Compare(key, s.last) > 0 {
		if s.last = nil; len(key) <= longestEnd {
			s.last = bytes.Clone(key)
		}
	}
}
