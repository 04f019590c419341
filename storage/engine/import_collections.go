package engine

import (
	"bytes"
	"errors"

	"kedis/storage/rocks"
)

// collectionTables are table files for the elements of an import's collections, one after the other
// for each namespace and kind of record. Ids ascend, and a collection is sorted as a whole unless
// it is very large. So nearly all elements come in the order of their keys: they pass by memtables,
// and need not be compacted.
type collectionTables struct {
	open []*collectionTable
	used *collectionTable // that took the last record
	err  error            // the first one; nothing is written after it
}

// collectionTable takes the elements of one kind.
type collectionTable struct {
	*rocks.Tables
	family *rocks.Family
	kind   byte
	last   []byte // key
}

// take adds an element. It returns false when one that comes behind it was added before.
func (t *collectionTables) take(db *rocks.DB, family *rocks.Family, key, value []byte) bool {
	if t.err != nil {
		return true
	}
	if t.used == nil || t.used.family != family || t.used.kind != key[0] {
		if t.used, t.err = t.of(db, family, key[0]); t.err != nil {
			return true
		}
	}
	if bytes.Compare(t.used.last, key) >= 0 {
		return false
	}
	t.used.last = append(t.used.last[:0], key...)
	t.used.Put(family, key, value)
	t.err = t.used.Err()
	return true
}

// of returns what takes the elements of a kind.
func (t *collectionTables) of(db *rocks.DB, family *rocks.Family, kind byte) (*collectionTable, error) {
	for _, c := range t.open {
		if c.family == family && c.kind == kind {
			return c, nil
		}
	}
	tables, err := db.NewTables(rocks.TableOptions{FileBytes: tableBytes, Bottommost: true})
	if err != nil {
		return nil, err
	}
	c := &collectionTable{Tables: tables, family: family, kind: kind}
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
