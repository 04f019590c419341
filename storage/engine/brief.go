package engine

import "kedis/storage/layout"

// brief are the collections that came and went within a generation, by their ids: results that were
// replaced by the next ones, what was built under another name. Neither RocksDB nor an older
// generation has anything of them, so their records and those of their deletion never leave the
// generation. Views that are older than the deletion read them there.
type brief map[uint64]struct{}

// noteBrief notes which of some collections that a commit has abandoned have all their records in
// the active generation: those whose ids were given out since it began.
func (s *Store) noteBrief(abandoned []uint64) {
	for _, id := range abandoned {
		if id >= s.commit.firstID {
			s.commit.brief[id] = struct{}{}
		}
	}
}

// has reports whether a record belongs to one of them, or to the deletion of one.
func (b brief) has(key []byte) bool {
	if len(b) == 0 || !layout.Kinds[key[0]].Element && key[0] != layout.KindDeleted {
		return false
	}
	_, is := b[layout.ElementID(key)]
	return is
}

// leave is has for Merge.
func (b brief) leave() func(key []byte) bool {
	if len(b) == 0 {
		return nil
	}
	return b.has
}
