package engine

import (
	"kedis/storage/cache"
	"kedis/storage/generation"
	"kedis/storage/layout"
)

// tiers are the memories above RocksDB in the order of a lookup: the generations that RocksDB lacks
// (recent), the retained generation, and the cache of clean copies. So the newest version of a
// record is found first. A transaction looks into its own journal before. A view has only the
// generations that were recent when it was taken, up to its marks, and a snapshot of RocksDB.
//
// The tiers are immutable: new ones replace them.
type tiers struct {
	recent    recent
	active    *generation.Generation // the first of recent: what commits go to
	frozen    []*frozen              // the others: on their way to RocksDB
	retained  *frozen                // RocksDB has it; nil if there is none (see retain.go)
	cache     *cache.Cache
	databases []*Namespace // by number of the database
}

// frozen is a generation that takes no more records, with the state that goes to RocksDB with it,
// the collections whose bounds changed in it, and those that came and went in it.
type frozen struct {
	*generation.Generation
	state layout.State
	moved movedSequences
	brief brief

	counted, copied bool // by an attempt to write it: not again by the next one
}

// recent are the generations that RocksDB lacks, or lacked when a view was taken, the newest first.
type recent []marked

// marked is a generation up to a mark.
type marked struct {
	*generation.Generation
	mark generation.Mark
}

// setTiers replaces the tiers. The caller holds the commit lock, or is alone.
func (s *Store) setTiers(active *generation.Generation, waiting []*frozen, retained *frozen, databases []*Namespace) {
	c := &tiers{active: active, frozen: waiting, retained: retained, cache: s.clean.records, databases: databases}
	c.recent = make(recent, 0, 1+len(waiting))
	c.recent = append(c.recent, marked{active, generation.End})
	for _, f := range waiting {
		c.recent = append(c.recent, marked{f.Generation, generation.End})
	}
	s.tiers.Store(c)
}

// marked returns the same generations as they are now: later records of the active one are behind
// its mark.
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

// get looks for the newest version of a record. again says that it is likely to be read again.
// copied reports whether the record is, or would be, among the copies of what RocksDB has. Records
// that are mostly scanned aren't looked for there: nobody brings their copies up to date.
func (c *tiers) get(hash uint64, space uint32, key []byte, again bool) (value []byte, state generation.State, copied bool) {
	if value, state = c.active.Get(generation.End, hash, space, key); state != generation.Unknown {
		return value, state, false
	}
	if value, state = c.recent[1:].get(hash, space, key); state != generation.Unknown {
		return value, state, false
	}
	if !layout.Kinds[key[0]].Read {
		return nil, generation.Unknown, true
	}
	if c.retained != nil {
		if value, state = c.retained.Use(hash, space, key, again); state != generation.Unknown {
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

// probeOlder looks for a record that the active generation lacks. It returns the slot where it
// seems to be, 0 if nowhere, and the generation of that slot, nil for the cache.
func (c *tiers) probeOlder(hash uint64) (slot uint64, holder *generation.Generation) {
	for _, g := range c.recent[1:] {
		if slot := g.Probe(hash); slot != 0 {
			return slot, g.Generation
		}
	}
	if c.retained != nil {
		if slot := c.retained.Probe(hash); slot != 0 {
			return slot, c.retained.Generation
		}
	}
	return c.cache.Probe(hash), nil
}

// Generations returns the number of records in the active generation, the number of frozen
// generations, and the bytes of all.
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

// RetainedBytes is the memory of the retained generation.
func (s *Store) RetainedBytes() int64 {
	if retained := s.tiers.Load().retained; retained != nil {
		return retained.Bytes()
	}
	return 0
}
