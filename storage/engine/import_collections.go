package engine

import (
	"bytes"
	"errors"

	"kedis/storage/rocks"
)

// collectionTables are table files for the elements of an import's collections, one after the other
// for each kind of record. Snapshots come database by database, ids ascend, and a collection is
// sorted as a whole unless it is very large. So nearly all elements come in the order of their
// families and keys: they pass by memtables, and need not be compacted.
type collectionTables struct {
	open []*collectionTable
	used *collectionTable // that took the last record
	err  error            // the first one; nothing is written after it
}

// collectionTable takes the elements of one kind.
type collectionTable struct {
	*rocks.Tables
	kind   byte
	family *rocks.Family // of the last element; nil: there is none
	last   []byte        // its key
}

// take adds an element. It returns false when one that comes behind it was added before.
func (t *collectionTables) take(db *rocks.DB, family *rocks.Family, key, value []byte) bool {
	if t.err != nil {
		return true
	}
	if t.used == nil || t.used.kind != key[0] {
		if t.used, t.err = t.of(db, key[0]); t.err != nil {
			return true
		}
	}
	if !t.used.precedes(family, key) {
		return false
	}
	t.used.family, t.used.last = family, append(t.used.last[:0], key...)
	t.used.Put(family, key, value)
	t.err = t.used.Err()
	return true
}

// precedes reports whether an element comes behind all that were added. Families have their ids in
// the order in which the first key of each came.
func (c *collectionTable) precedes(family *rocks.Family, key []byte) bool {
	if c.family != family {
		return c.family == nil || c.family.ID() < family.ID()
	}
	return bytes.Compare(c.last, key) < 0
}

// of returns what takes the elements of a kind.
func (t *collectionTables) of(db *rocks.DB, kind byte) (*collectionTable, error) {
	for _, c := range t.open {
		if c.kind == kind {
			return c, nil
		}
	}
	tables, err := db.NewTables(rocks.TableOptions{FileBytes: tableBytes, Bottommost: true})
	if err != nil {
		return nil, err
	}
	c := &collectionTable{Tables: tables, kind: kind}
	t.open = append(t.open, c)
	return c, nil
}

// ingest brings all that was taken to RocksDB.
func (t *collectionTables) ingest(db *rocks.DB) error {
	for _, c := range t.open {
		if t.err == nil {
			t.err = db.Ingest(c.Tables)
		}
	}
	if t.err == nil {
		t.open, t.used = nil, nil
	}
	return t.err
}

// discard throws away what was taken and not ingested.
func (t *collectionTables) discard() (err error) {
	for _, c := range t.open {
		err = errors.Join(err, c.Discard())
	}
	t.open, t.used = nil, nil
	return err
}
