package engine

import "kedis/storage/rocks"

// freshShare is the part of a generation's records, one in so many, that have to be of one kind to
// get table files of their own: smaller files are not worth it.
const freshShare = 16

// freshRanges finds the kinds of records of which RocksDB has nothing between the first and the
// last in a merged generation: a list that grows at its ends, new collections, keys that come in
// their order. In table files of their own they go to RocksDB's last level at once, and don't have
// to be compacted.
//
// It only decides where records go. So a range that can't be read is not fresh, and no error.
func (s *Store) freshRanges(f *frozen, families map[uint32]*rocks.Family) (fresh []rocks.Fresh) {
	spans := f.Spans()
	records := 0
	for _, span := range spans {
		records += span.Records
	}
	for _, span := range spans {
		family := families[span.Space]
		if family == nil || span.Records < records/freshShare {
			continue
		}
		empty, err := s.holdsNothing(family, span.First, span.Last)
		if err != nil {
			s.logger.Warn("looking for room on the last level", "error", err)
		}
		if empty {
			fresh = append(fresh, rocks.Fresh{Family: family, First: span.First, Last: span.Last})
		}
	}
	return fresh
}

// holdsNothing reports whether RocksDB has no record of a family from one key to another, both
// included.
func (s *Store) holdsNothing(family *rocks.Family, first, last []byte) (bool, error) {
	upper := append(append([]byte(nil), last...), 0)
	it := s.db().NewIterator(family, nil, rocks.IteratorOptions{LowerBound: first, UpperBound: upper, KeysOnly: true, Expected: 1})
	defer it.Close()
	found := it.Next()
	return !found && it.Err() == nil, it.Err()
}
