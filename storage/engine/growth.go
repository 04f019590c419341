package engine

import "fmt"

// Grown returns how many keys a database has gained since a savepoint, and how many bytes of
// records were written to it.
func (t *Txn) Grown(s *Savepoint, database int) (keys, bytes int64) {
	ns := t.Namespace(database)
	for _, change := range t.changes.deltas[min(s.changes.deltas, len(t.changes.deltas)):] {
		if change.namespace == ns {
			keys += int64(change.keys)
		}
	}
	entries := t.journal.entries
	for i := min(s.entries, len(entries)); i < len(entries); i++ {
		if entries[i].space == ns.Number {
			bytes += int64(entries[i].keyLength) + int64(max(entries[i].length, 0))
		}
	}
	return keys, bytes
}

// DatabaseBytes returns what a database takes in RocksDB's files and memory, and the number of its
// namespace, which changes when the database gets other keys altogether.
func (s *Store) DatabaseBytes(database int) (bytes int64, namespace uint32, err error) {
	err = s.whileOpen(func() error {
		ns := s.tiers.Load().databases[database]
		namespace = ns.Number
		family := ns.family.Load()
		if family == nil {
			return nil
		}
		if bytes, err = s.db().FamilyBytes(family); err != nil {
			return fmt.Errorf("storage: size of database %d: %w", database, err)
		}
		return nil
	})
	return bytes, namespace, err
}

// Written is the position of the log up to which RocksDB has everything, in its memory or its
// files.
func (s *Store) Written() int64 { return s.positions.written.Load() }
