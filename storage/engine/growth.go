package engine

import "fmt"

// Grown returns how many keys a database has gained since a savepoint, and how many bytes of
// records were written to it, staged ones included. A commit since then has taken away what was
// before.
func (t *Txn) Grown(s *Savepoint, database int) (keys, bytes int64) {
	ns := t.Namespace(database)
	for _, change := range t.changes.deltas[min(s.changes.deltas, len(t.changes.deltas)):] {
		if change.namespace == ns {
			keys += int64(change.keys)
		}
	}
	for _, staged := range t.staging.collections[min(s.staged, len(t.staging.collections)):] {
		if staged.space == ns.Number {
			bytes += staged.bytes
		}
	}
	return keys, bytes + bytesOf(t.journal.entries[min(s.entries, len(t.journal.entries)):], ns)
}

// Staged is how many bytes of records were written ahead of the commit.
func (t *Txn) Staged() (bytes int64) {
	for i := range t.staging.collections {
		bytes += t.staging.collections[i].bytes
	}
	return bytes
}

// bytesOf is the bytes of those records that are a namespace's.
func bytesOf(entries []change, ns *Namespace) (bytes int64) {
	for i := range entries {
		if c := &entries[i]; c.space == ns.Number {
			bytes += int64(c.keyLength) + int64(max(c.length, 0))
		}
	}
	return bytes
}

// DatabaseBytes returns what those databases that are wanted take in RocksDB's files and memory, by
// the numbers of their namespaces: a database has another one when it gets other keys altogether.
func (s *Store) DatabaseBytes(wanted func(database int, namespace uint32) bool) (map[uint32]int64, error) {
	bytes := map[uint32]int64{}
	err := s.whileOpen(func() error {
		for database, ns := range s.tiers.Load().databases[:s.Databases()] {
			if !wanted(database, ns.Number) {
				continue
			}
			taken, err := s.familyBytes(ns)
			if err != nil {
				return fmt.Errorf("storage: size of database %d: %w", database, err)
			}
			bytes[ns.Number] = taken
		}
		return nil
	})
	return bytes, err
}

func (s *Store) familyBytes(ns *Namespace) (int64, error) {
	family := ns.family.Load()
	if family == nil {
		return 0, nil
	}
	return s.db().FamilyBytes(family)
}

// Written is the position of the log up to which RocksDB has everything, in its memory or its
// files.
func (s *Store) Written() int64 { return s.positions.written.Load() }
