package engine

import (
	"slices"
	"time"

	"kedis/storage/filter"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// Filters are built in the background: when a store is opened, of the namespaces that have
// something, and anew of those that have changed so much that the filter knows mostly what is gone.

// rebuiltFrom is how many records of a filter must be gone for it to be built anew.
const rebuiltFrom = 16 << 10

// spareShare is the part, one in so many, of the records that are expected that a filter is made
// for beyond these.
const spareShare = 16

// buildFilters keeps the filters, and what they take, as they should be.
func (s *Store) buildFilters() {
	defer s.background.running.Done()
	failing := trouble{logger: s.logger, doing: "finding out which records there are"}
	for open := true; open; open = s.pause(time.Second) {
		s.balance()
		failing.note(s.buildDue(), time.Now())
	}
}

// buildDue builds the filters that are due.
func (s *Store) buildDue() error {
	s.presences.building.Lock()
	defer s.presences.building.Unlock()
	for _, ns := range s.tiers.Load().databases {
		if !s.filterDue(ns) {
			continue
		}
		if err := s.buildFilter(ns); err != nil {
			return err
		}
	}
	return nil
}

// filterDue tells whether a filter of a namespace is to be built: there is none, half of what it
// knows is gone, or it has taken more than it was made for and there is room now. So to build it
// costs no more than what was deleted, or added, meanwhile. And so it is when memory was made less.
func (s *Store) filterDue(ns *Namespace) bool {
	f := ns.presence.complete.Load()
	if f == nil {
		return true
	}
	if s.presences.memory.shrinks(f) {
		return true
	}
	records, gone := f.Records(), ns.presence.gone.Load()
	return gone >= rebuiltFrom && gone > records/2 || f.Crowded() && filter.BytesFor(2*records) < s.presences.memory.free.Load()
}

// buildFilter builds the filter of a namespace, in place of another one if it has one.
func (s *Store) buildFilter(ns *Namespace) error {
	p, expected := &ns.presence, s.expected(ns)
	expected += expected / spareShare
	if p.complete.Load() != nil && filter.BytesFor(expected) > s.presences.memory.free.Load() {
		p.complete.Store(nil) // there isn't room for both
		s.balance()
	}
	coming := s.newFilter(expected)
	p.coming.Store(coming)
	defer p.coming.Store(nil)
	gone := p.gone.Load()
	s.presences.writes.settle()
	whole, err := s.takeIn(ns)
	if err != nil || !whole {
		return err
	}
	p.complete.Store(coming)
	p.gone.Add(-gone)
	return nil
}

// expected is about how many records a filter of a namespace will know, as far as can be told. One
// that is made for fewer grows by layers, and each lookup asks all of them.
func (s *Store) expected(ns *Namespace) int64 {
	keys := ns.keys.Load()
	if f := ns.presence.complete.Load(); f != nil {
		return max(keys, f.Records()-ns.presence.gone.Load())
	}
	family := ns.family.Load()
	if family == nil {
		return keys
	}
	elements, err := s.expectedElements(family, keys)
	if err != nil {
		return keys // the family is gone, which takeIn finds out
	}
	return keys + elements
}

// expectedElements is about how many elements a family has that filters know: as large a part of
// all elements as of their bytes.
func (s *Store) expectedElements(family *rocks.Family, keys int64) (int64, error) {
	records, err := s.db().FamilyRecords(family)
	if err != nil {
		return 0, err
	}
	var known, all float64
	for kind := range layout.Kinds {
		if !layout.Kinds[kind].Element {
			continue
		}
		bytes, err := s.db().ApproximateSize(family, []byte{byte(kind)}, []byte{byte(kind) + 1})
		if err != nil {
			return 0, err
		}
		all += float64(bytes)
		if filtered([]byte{byte(kind)}) {
			known += float64(bytes)
		}
	}
	return int64(float64(max(records-keys, 0)) * known / max(all, 1)), nil
}

// takeIn adds all records that RocksDB has of a namespace now to the filter that is coming; whole
// is false when that is of no use any more.
func (s *Store) takeIn(ns *Namespace) (whole bool, err error) {
	s.presences.walked.Store(ns)
	defer s.presences.walked.Store(nil)
	if !slices.Contains(s.tiers.Load().databases, ns) {
		return false, nil // its family may be gone already
	}
	family := ns.family.Load()
	if family == nil {
		return true, nil
	}
	snapshot := s.db().Snapshot()
	defer snapshot.Release()
	for kind := range layout.Kinds {
		if !filtered([]byte{byte(kind)}) {
			continue
		}
		if whole, err = s.takeInKind(ns, family, snapshot, byte(kind)); err != nil || !whole {
			return false, err
		}
	}
	return true, nil
}

const (
	stepRecords   = 4096    // that are taken in before others have their turn, for as long as that took
	walkReadAhead = 1 << 20 // bytes
)

// takeInKind is takeIn for one kind of records.
func (s *Store) takeInKind(ns *Namespace, family *rocks.Family, snapshot *rocks.Snapshot, kind byte) (whole bool, err error) {
	it := s.db().NewIterator(family, snapshot, rocks.IteratorOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1},
		KeysOnly: true, NoFillCache: true, ReadAheadBytes: walkReadAhead})
	defer it.Close()
	coming, hashes := ns.presence.coming.Load(), make([]filter.Hash, 0, PrefetchBatch)
	began := time.Now()
	for walked := 1; it.Next(); walked++ {
		if hashes = append(hashes, filter.HashOf(it.Key())); len(hashes) == cap(hashes) {
			addTogether(coming, hashes)
			hashes = hashes[:0]
		}
		if walked%stepRecords != 0 {
			continue
		}
		if !s.pause(time.Since(began)) || !slices.Contains(s.tiers.Load().databases, ns) {
			return false, nil
		}
		began = time.Now()
	}
	addTogether(coming, hashes)
	return true, it.Err()
}
