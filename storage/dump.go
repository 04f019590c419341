package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// ErrDuplicate is what RESTORE refuses besides what package rdb does.
var ErrDuplicate = errors.New("storage: a payload has an element twice")

// Dump returns the value of a key that Lookup found as a payload for RESTORE, in the memory of dst.
func (d DB) Dump(dst []byte, k Key, w *rdb.PayloadWriter) ([]byte, error) {
	w.Begin(dst)
	if err := d.Encode(k, &w.Encoder); err != nil {
		return nil, err
	}
	return w.Finish()
}

// DumpTo writes the same payload to to, piece by piece: of a spread collection, an element at a
// time is held.
func (d DB) DumpTo(to io.Writer, k Key, w *rdb.PayloadWriter) error {
	w.BeginTo(to)
	if err := d.Encode(k, &w.Encoder); err != nil {
		return err
	}
	return w.FinishTo()
}

// Encode writes the value of a key that Lookup found. Packed collections are written as the bytes
// that they are; of a spread one, an element at a time is held. When it fails, what was written is
// of no use.
func (d DB) Encode(k Key, e *rdb.Encoder) error {
	if err := d.txn.SpendBytes(len(k.Value)); err != nil {
		return err
	}
	return TypeOf(k.Type).encode(d, &k.Metadata, e)
}

// Elements hands out the elements of a spread collection: a hash's fields with their values, a
// set's members, a list's elements from its head on, and a sorted set's members with their scores,
// the highest first, which is the order that Redis reads fastest. The bytes live until visit
// returns.
func (d DB) Elements(m *layout.Metadata, visit func(element, value []byte, score float64) error) error {
	return TypeOf(m.Type).elements(d, m, visit)
}

// spentAtOnce is how many bytes of elements are gone over before they are counted.
const spentAtOnce = 4 << 10

// scanAll visits all records of one kind of a spread collection. Their number must be what the
// key's metadata says. The bytes live until visit returns.
func (d DB) scanAll(m *layout.Metadata, records layout.Elements, reverse bool, visit func(element, value []byte) error) error {
	seen, bytes := uint64(0), 0
	err := d.walkAll(m, records, reverse, func(element, value []byte) error {
		if bytes += layout.ElementPrefix + len(element) + len(value); bytes >= spentAtOnce {
			if err := d.txn.SpendBytes(bytes); err != nil {
				return err
			}
			bytes = 0
		}
		seen++
		return visit(element, value)
	})
	if err == nil && seen != records.Count(m) {
		err = wrongCount(m, records, seen)
	}
	return err
}

// walkAll is scanAll without the check of the number. It reads records through their tree, if one
// is kept. Very large collections, and first reads from a view, pass trees by.
func (d DB) walkAll(m *layout.Metadata, records layout.Elements, reverse bool, visit func(element, value []byte) error) error {
	if count := records.Count(m); count <= manyRecords {
		x := d.txn.NewIndex(d.space, records.Kind, m.ID, int(count), true, nil)
		if layout.Kinds[records.Kind].Sequence {
			x.Within(extentOf(m))
		}
		if x.Kept() {
			var failed error
			err := x.Scan(nil, nil, reverse, func(element, value []byte) bool {
				failed = visit(element, value)
				return failed == nil
			})
			return cmp.Or(err, failed)
		}
	}
	it := d.iterateCollection(records.Kind, m, reverse)
	for it.Next() {
		if it.Fail(visit(it.Key()[layout.ElementPrefix:], it.Value())) {
			break
		}
	}
	return it.Close()
}

func wrongCount(m *layout.Metadata, records layout.Elements, found uint64) error {
	return fmt.Errorf("%w: a collection of %d elements has %d records of kind %c", layout.ErrCorrupt, m.Length(), found, records.Kind)
}
