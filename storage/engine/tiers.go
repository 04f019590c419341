package engine

import (
	"kedis/storage/cache"
	"kedis/storage/generation"
	"kedis/storage/layout"
)

// tiers are the memories that lie over RocksDB, in the order in which a record is looked for: what RocksDB hasn't got (recent), the kept
// generation, and the cache of clean copies. The newest version of a record is found first. A transaction looks into its own journal
// before. A view has only what was recent when it was taken, up to its marks, and a snapshot of RocksDB.
//
// The tiers never change: new ones take their place.
type tiers struct {
	recent    recent
	active    *generation.Generation // the first of recent: what commits go to
	frozen    []*frozen              // the others: on their way to RocksDB
	kept      *frozen                // RocksDB has it; nil if there is none (see keep.go)
	cache     *cache.Cache
	databases []*Namespace // by number of the database
}

// frozen is a generation that nothing is added to, the state that RocksDB has with it, and the collections whose bounds changed in it.
type frozen struct {
	*generation.Generation
	state layout.State
	moved movedSequences
}

// recent are generations that RocksDB hasn't got, or hadn't when a view was taken, the newest first.
type recent []marked

// marked is a generation up to a mark.
type marked struct {
	*generation.Generation
	mark generation.Mark
}

// setTiers has readers look through other tiers from now on. It is called with the commit lock held, or before there are readers.
func (s *Store) setTiers(active *generation.Generation, waiting []*frozen, kept *frozen, databases []*Namespace) {
	c := &tiers{active: active, frozen: waiting, kept: kept, cache: s.clean.records, databases: databases}
	c.recent = make(recent, 0, 1+len(waiting))
	c.recent = append(c.recent, marked{active, generation.End})
	for _, f := range waiting {
		c.recent = append(c.recent, marked{f.Generation, generation.End})
	}
	s.tiers.Store(c)
}

// marked returns the same generations as they are now: what is added to the active one stands behind its mark.
func (r recent) marked() recent {
	marks := append(recent(nil), r...)
	marks[0].mark = marks[0].Mark()
	return marks
}

// get looks for the newest version of a record.
func (r recent) get(hash uint64, space uint32, key []byte) (value []byte, state generation.State) {
	for i := range r {
		if value, state = r[i].Get(r[i].mark, hash, space, key); state != generation.Unknown {
			return value, state
		}
	}
	return nil, generation.Unknown
}

// get looks for the newest version of a record. again says that it is likely to be looked for again. copied tells that it is, or would be, among
// copies of what RocksDB has.
func (c *tiers) get(hash uint64, space uint32, key []byte, again bool) (value []byte, state generation.State, copied bool) {
	if value, state = c.active.Get(generation.End, hash, space, key); state != generation.Unknown {
		return value, state, false
	}
	if value, state = c.recent[1:].get(hash, space, key); state != generation.Unknown {
		return value, state, false
	}
	if c.kept != nil {
		if value, state = c.kept.Use(hash, space, key, again); state != generation.Unknown {
			return value, state, true
		}
	}
	value, present, known := c.cache.Get(hash, space, key)
	switch {
	case !known:
		return nil, generation.Unknown, true
	case present:
		return value, generation.Present, true
	}
	return nil, generation.Deleted, true
}

// probeOlder looks where a record seems to be that the active generation hasn't got: its slot, which is 0 if it is nowhere, and the
// generation that this is of, nil for the cache.
func (c *tiers) probeOlder(hash uint64) (slot uint64, holder *generation.Generation) {
	for _, g := range c.recent[1:] {
		if slot := g.Probe(hash); slot != 0 {
			return slot, g.Generation
		}
	}
	if c.kept != nil {
		if slot := c.kept.Probe(hash); slot != 0 {
			return slot, c.kept.Generation
		}
	}
	return c.cache.Probe(hash), nil
}

// Generations tells of the recent writes that RocksDB doesn't have: the records of the generation that
// is being filled, how many wait to be written, and the bytes of all.
func (s *Store) Generations() (records, frozen int, bytes int64) {
	s.commit.Lock()
	defer s.commit.Unlock()
	now := s.tiers.Load()
	bytes = now.active.Bytes()
	for _, f := range now.frozen {
		bytes += f.Bytes()
	}
	return now.active.Keys(), len(now.frozen), bytes
}

// Kept is the bytes that the generation takes which is kept although RocksDB has it.
func (s *Store) Kept() int64 {
	if kept := s.tiers.Load().kept; kept != nil {
		return kept.Bytes()
	}
	return 0
}
