package engine

import (
	"bytes"
	"errors"
	"fmt"

	"kedis/storage/layout"
	"kedis/storage/mergesort"
	"kedis/storage/rocks"
)

// NewSortedImport is NewImport for a store that nobody uses yet. Records are sorted in temporary
// files, with runs of runBytes, of which two are in memory. Finish makes table files of them, which
// RocksDB takes as they are: nothing goes through a memtable, and nothing has to be compacted. The
// directory has to exist, and is the import's own.
func (s *Store) NewSortedImport(t *Txn, directory string, runBytes int) (*Import, error) {
	i, err := s.NewImport(t)
	if err != nil {
		return nil, err
	}
	i.tables = &sortedTables{sorter: mergesort.New(directory, runBytes)}
	for _, ns := range i.spaces {
		ns.presence.complete.Store(nil) // nobody asks, and it would have to know what comes
	}
	return i, nil
}

// sortedTables makes RocksDB's table files of records that come in any order.
type sortedTables struct {
	sorter *mergesort.Sorter

	space uint32 // of the record before
	last  []byte // and its key; empty when there is none
}

// tableBytes is about how large a table file gets.
const tableBytes = 64 << 20

// take sorts a journal's records in.
func (t *sortedTables) take(j *journal) error {
	for n := range j.entries {
		c := &j.entries[n]
		if c.superseded {
			continue
		}
		if c.length < 0 {
			return errors.New("storage: a sorted import deletes something")
		}
		if err := t.sorter.Add(c.space, j.key(c), j.value(c)); err != nil {
			return fmt.Errorf("storage: importing: %w", err)
		}
	}
	return nil
}

// ingest brings all records to RocksDB as one step.
func (t *sortedTables) ingest(i *Import) error {
	db := i.store.db()
	tables, err := db.NewTables(rocks.TableOptions{FileBytes: tableBytes, Bottommost: true})
	if err != nil {
		return fmt.Errorf("storage: importing: %w", err)
	}
	err = t.sorter.Merge(func(space uint32, key, value []byte) error {
		if err := t.follows(space, key); err != nil {
			return err
		}
		tables.Put(i.namespaceOf(space).family.Load(), key, value)
		return tables.Err()
	})
	err = errors.Join(err, t.sorter.Close())
	if err == nil {
		err = db.Ingest(tables)
	} else {
		err = errors.Join(err, tables.Discard())
	}
	if err != nil {
		return fmt.Errorf("storage: importing: %w", err)
	}
	return nil
}

// follows returns an error if a record is the same as the one before.
func (t *sortedTables) follows(space uint32, key []byte) error {
	if len(t.last) > 0 && space == t.space && bytes.Equal(key, t.last) {
		return duplicate(key)
	}
	t.space, t.last = space, append(t.last[:0], key...)
	return nil
}

// duplicate is the error for a record that came twice.
func duplicate(key []byte) error {
	if key[0] == layout.KindMetadata {
		return fmt.Errorf("%w: key %q", ErrIncomplete, key[1:])
	}
	return fmt.Errorf("%w: an element of a collection", ErrIncomplete)
}
