package storage

import (
	"kedis/storage/engine"
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
	for _, records := range m.Type.Elements() {
		if records.Count(m) == 0 {
			continue
		}
		before := copied.Records()
		if err := d.copyRecords(m, records.Kind, copied); err != nil {
			return 0, err
		}
		if n := copied.Records() - before; n != records.Count(m) {
			return 0, wrongCount(m, records, n)
		}
	}
	return copied.ID(), copied.Finish()
}

// copyRecords copies the records of one kind.
func (d DB) copyRecords(m *layout.Metadata, kind byte, to *engine.Elements) error {
	if layout.OfStreamGroup(kind) {
		return d.copyOfGroups(m, kind, to)
	}
	if kind == layout.KindListElement {
		return d.copySingle(m, to)
	}
	return copyAll(d.iterateCollection(kind, m, false), kind, to)
}

// copySingle copies the elements of a list that stand in no block.
func (d DB) copySingle(m *layout.Metadata, to *engine.Elements) error {
	for _, row := range singleOf(m) {
		if row.Length() == 0 {
			continue
		}
		if err := copyAll(d.iterateSingle(m, row), layout.KindListElement, to); err != nil {
			return err
		}
	}
	return nil
}

func copyAll(it *Iterator, kind byte, to *engine.Elements) error {
	for it.Passing(); it.Next(); {
		if it.Fail(to.Put(kind, it.Key()[layout.ElementPrefix:], it.Value())) {
			break
		}
	}
	return it.Close()
}
