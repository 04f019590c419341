// Package ordered keeps the order of large collections in memory: how many entries stand where,
// and, as far as there is room, the entries themselves. Rank, range, pick by number and walk are
// then a descent over counts and a walk over blocks.
//
// A Tree cuts the keys of one collection into pieces of about 32 entries, or of more where the
// memory wouldn't hold the counts of so many. Of each piece it knows the border, and how many
// entries it has, unless the piece is vague: then nobody has counted it. A piece that was read is
// resident: its entries stand in one Block, which has no pointers and never changes. A write
// replaces the block by another, or, of a piece that isn't read any more, drops it. Entries that
// are taken out are only marked as long as most are left. Whoever needs a piece that isn't resident
// reads it, in one bounded walk over the records (Learn).
//
//	root     | border, entries, vague pieces | …    up to 64 children
//	leaf     | border, entries, vague, block | …    up to 64 pieces
//
// A tree begins as one vague piece. A range that is read in the midst of a vague piece leaves vague
// pieces on both sides, so that walks need no counts; who asks for a rank counts what is vague
// before it. The last vague piece is counted by the collection's total. Empty pieces stay: where
// the front of a queue was, nothing is read again.
//
// A tree is a cache. It may be dropped at any time, and no correctness rests on it. Memory is
// bounded (Trees): pieces that weren't read of late lose their entries first, and counts stay
// longer. While it is full, what a collection is read for the first time leaves no entries behind.
//
// Who uses a tree holds the lock of its collection's key, and sees in it what its transaction sees:
// exclusive to Put and Delete, shared to read and to Learn. A rollback (Undo) corrects counts and
// drops the blocks that it touches. A Clone is made under the lock for who goes on without it:
// nodes are shared until either side changes them. The tree's own mutex is held for a descent only;
// it is the last of all locks, and nothing is read under it.
//
// The package knows keys and values as bytes, and imports the standard library only.
package ordered

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Identity names the collection of a tree: ID is never given to another one.
type Identity struct {
	Space uint32
	Kind  byte
	ID    uint64
}

const (
	shards = 64
	// smallTree is what is given up as a whole when it wasn't used of late.
	smallTree = 64 << 10
	// leastGone is how many trees may be gone before they are looked for.
	leastGone = 64
	// reclaimSteps are made at once, in each of which a tree gives some memory, or its turn to the
	// next.
	reclaimSteps = 256
)

// Trees are those of all collections, within a bound of memory.
type Trees struct {
	limit  func() int64
	target int
	bytes  atomic.Int64
	shards [shards]shard

	mu    sync.Mutex // comes before those of shards and trees
	clock []*Tree    // all trees, and some that are gone
	hand  int
	gone  atomic.Int64 // how many of them
}

type shard struct {
	mu       sync.RWMutex
	byID     map[Identity]*Tree
	occupied [64]atomic.Int32 // trees by ID, for those who write to other collections
}

// Init sets how many bytes the trees may take.
func (s *Trees) Init(limit func() int64) {
	s.limit, s.target = limit, Target
	for i := range s.shards {
		s.shards[i].byID = map[Identity]*Tree{}
	}
}

// SetTarget changes how many entries the pieces of new trees have.
func (s *Trees) SetTarget(entries int) { s.target = entries }

// Enabled reports whether there is room for any.
func (s *Trees) Enabled() bool { return s.limit() > 0 }

func (s *Trees) shard(id uint64) *shard { return &s.shards[id%shards] }

func (s *shard) occupants(id uint64) *atomic.Int32 {
	return &s.occupied[id/shards%uint64(len(s.occupied))]
}

// Occupied reports whether there may be a tree of a collection. It costs next to nothing.
func (s *Trees) Occupied(id uint64) bool { return s.shard(id).occupants(id).Load() > 0 }

// Find returns a collection's tree, or nil.
func (s *Trees) Find(id Identity) *Tree {
	here := s.shard(id.ID)
	if here.occupants(id.ID).Load() == 0 {
		return nil
	}
	here.mu.RLock()
	defer here.mu.RUnlock()
	return here.byID[id]
}

// Of returns the tree of a collection with so many entries, and makes it if there is none, with the
// values of records or without.
func (s *Trees) Of(id Identity, values bool, entries int) *Tree {
	t := s.Find(id)
	if t == nil {
		t = s.make(id, values)
	}
	t.Use()
	t.suit(entries, s.limit())
	return t
}

func (s *Trees) make(id Identity, values bool) *Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := s.shard(id.ID)
	here.mu.Lock()
	defer here.mu.Unlock()
	t := here.byID[id]
	if t == nil {
		t = newTree(id, values, s.target, &s.bytes)
		here.byID[id] = t
		here.occupants(id.ID).Add(1)
		s.forgetGone()
		s.clock = append(s.clock, t)
	}
	return t
}

// forgetGone takes trees that are gone from the clock, when they are most of it.
func (s *Trees) forgetGone() {
	if gone := s.gone.Load(); gone < leastGone || 2*gone < int64(len(s.clock)) {
		return
	}
	stays := slices.DeleteFunc(s.clock, func(t *Tree) bool { return t.gone.Load() })
	s.gone.Add(int64(len(stays) - len(s.clock)))
	s.clock, s.hand = stays, 0
}

// Drop forgets a collection's trees of some kinds.
func (s *Trees) Drop(space uint32, id uint64, kinds ...byte) {
	if !s.Occupied(id) {
		return
	}
	for _, kind := range kinds {
		if t := s.Find(Identity{space, kind, id}); t != nil {
			s.displace(t)
		}
	}
}

// displace takes a tree away from those who come.
func (s *Trees) displace(t *Tree) {
	t.mu.Lock()
	if t.gone.CompareAndSwap(false, true) {
		s.gone.Add(1)
		s.bytes.Add(-int64(t.bytes))
	}
	t.mu.Unlock()
	here := s.shard(t.id.ID)
	here.mu.Lock()
	defer here.mu.Unlock()
	if here.byID[t.id] == t {
		delete(here.byID, t.id)
		here.occupants(t.id.ID).Add(-1)
	}
}

// DropSpaces forgets the trees of all namespaces but some.
func (s *Trees) DropSpaces(stays func(space uint32) bool) {
	s.mu.Lock()
	all := append([]*Tree(nil), s.clock...)
	s.mu.Unlock()
	for _, t := range all {
		if !stays(t.id.Space) {
			s.displace(t)
		}
	}
}

// Clear forgets all.
func (s *Trees) Clear() { s.DropSpaces(func(uint32) bool { return false }) }

// Stats returns how many trees there are, and the bytes that they take.
func (s *Trees) Stats() (trees int, bytes int64) {
	for i := range s.shards {
		here := &s.shards[i]
		here.mu.RLock()
		trees += len(here.byID)
		here.mu.RUnlock()
	}
	return trees, s.bytes.Load()
}

// HasRoom reports whether entries may become resident that nobody has asked for. They take no more
// than half of the memory: the rest is for counts, and entries that are to go again at once aren't
// worth reading.
func (s *Trees) HasRoom() bool { return s.bytes.Load() < s.limit()/2 }

// Full reports whether what becomes resident takes the place of something else.
func (s *Trees) Full() bool { return s.bytes.Load() >= s.limit()/16*15 }

// Ahead is how many of so many entries may be read ahead: an eighth of the memory holds them, at
// some 32 bytes each. What doesn't stay until it is asked for is read again for each question.
func (s *Trees) Ahead(entries int) int { return int(min(int64(entries), s.limit()/(8*32))) }

// Reclaim frees memory when the trees take more than they may. It is called without a tree's mutex,
// by who has made one grow.
func (s *Trees) Reclaim() {
	if s.bytes.Load() <= s.limit() {
		return
	}
	if !s.mu.TryLock() {
		return // somebody else does
	}
	defer s.mu.Unlock()
	for range min(reclaimSteps, 2*(len(s.clock)+1)) {
		over := s.bytes.Load() - s.limit()
		if over <= 0 || len(s.clock) == 0 {
			return
		}
		if s.hand >= len(s.clock) {
			s.hand = 0
		}
		s.reclaimFrom(s.clock[s.hand], int(over))
	}
}

// leftToEach is what a tree may keep that wasn't used of late, so that a large collection need not
// be counted anew. All together leave half of the memory to others. Where little would be left, who
// divides pieces and who joins them would undo each other's work: it is nothing then.
func (s *Trees) leftToEach() int64 {
	if left := s.limit() / 2 / int64(len(s.clock)); left >= smallTree {
		return left
	}
	return 0
}

// reclaimFrom frees memory of the tree under the hand, and moves the hand on if the next one is to
// give some.
func (s *Trees) reclaimFrom(t *Tree, over int) {
	t.mu.Lock()
	gone, resident, size, counts := t.gone.Load(), t.resident, t.bytes, t.pieces*pieceBytes+t.borders
	t.mu.Unlock()
	used := t.used.Load()
	switch {
	case gone:
		last := len(s.clock) - 1
		s.clock[s.hand], s.clock[last] = s.clock[last], nil
		s.clock = s.clock[:last]
		s.gone.Add(-1)
	case !used && int64(size) < min(smallTree, s.limit()/16):
		s.displace(t)
	case int64(counts) > s.limit(): // though it also has entries: who reads some all the time would have it grow without bound
		if !t.coarsen() {
			s.displace(t)
		}
	case resident > 0:
		if _, done := t.cool(over); done {
			t.used.Store(false)
			s.hand++
		}
	case used && int64(size) < s.limit():
		t.used.Store(false)
		s.hand++
	case int64(size) <= s.leftToEach():
		s.hand++
	case s.leftToEach() > 0 && t.thin(int(s.leftToEach())):
	default:
		s.displace(t)
	}
}
