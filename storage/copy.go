package storage

import (
	"fmt"

	"kedis/storage/layout"
)

// CopyTo gives a key, which may be in another database, the value and the expiry of one that Lookup
// found. old is what it held. The elements of a spread collection are copied one by one.
func (d DB) CopyTo(k Key, to DB, key []byte, old Key) error {
	next := k.Metadata
	if k.Encoding == layout.Spread {
		id, err := d.copyElements(&k.Metadata, to)
		if err != nil {
			return err
		}
		next.ID = id
	}
	return to.Save(key, old, next)
}

// MoveTo moves a key to another database, where it isn't. The elements of a spread collection are
// copied: they belong to the database that they stand in.
func (d DB) MoveTo(key []byte, k Key, to DB) error {
	if err := d.CopyTo(k, to, key, Key{}); err != nil {
		return err
	}
	return d.Remove(key, k)
}

// copyElements makes a copy of a spread collection's elements, which nothing refers to yet.
func (d DB) copyElements(m *layout.Metadata, to DB) (id uint64, err error) {
	copied := to.newElements(m.Type)
	for _, kind := range elementKinds(m.Type) {
		before := copied.records
		it := d.walkElements(kind, m.ID, nil, false, false)
		for it.Next() {
			if it.err = copied.put(kind, it.Key()[layout.ElementPrefix:], it.Value()); it.err != nil {
				break
			}
		}
		if err := it.Close(); err != nil {
			return 0, err
		}
		if n := copied.records - before; n != m.Length() {
			return 0, fmt.Errorf("%w: a collection of %d elements has %d records of kind %c", layout.ErrCorrupt, m.Length(), n, kind)
		}
	}
	return copied.id, nil
}

// elements are those of a spread collection that is being made, under an id that nothing refers to
// before its key is saved.
type elements struct {
	db      DB
	kind    layout.Type
	id      uint64
	records uint64 // put so far
	known   int    // records that the transaction had written when it began
}

func (d DB) newElements(t layout.Type) *elements {
	return &elements{db: d, kind: t, id: d.txn.NewID(), known: d.txn.journal.keys + d.txn.spilled}
}

// put writes one record | kind | id | element |.
func (e *elements) put(kind byte, element, value []byte) error {
	e.records++
	return e.db.putElement(kind, e.id, element, value)
}

// distinct tells that no record was written twice.
func (e *elements) distinct() bool {
	return uint64(e.db.txn.journal.keys+e.db.txn.spilled-e.known) == e.records
}
