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

// bytesOf is the bytes of those records that are a namespace's.
func bytesOf(entries []change, ns *Namespace) (bytes int64) {
	for i := range entries {
		if c := &entries[i]; c.space == ns.Number {
			bytes += int64(c.keyLength) + int64(max(c.length, 0))
		}
	}
	return bytes
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
