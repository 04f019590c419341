package storage

import (
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

// scanAll visits all records of one kind of a spread collection. Their number must be what the
// key's metadata says. The bytes live until visit returns.
func (d DB) scanAll(m *layout.Metadata, records layout.Elements, reverse bool, visit func(element, value []byte) error) error {
	seen := uint64(0)
	it := d.iterateCollection(records.Kind, m, reverse)
	for it.Next() {
		if it.Fail(d.txn.SpendBytes(len(it.Key()) + len(it.Value()))) {
			break
		}
		seen++
		if it.Fail(visit(it.Key()[layout.ElementPrefix:], it.Value())) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if seen != records.Count(m) {
		return wrongCount(m, records, seen)
	}
	return nil
}

func wrongCount(m *layout.Metadata, records layout.Elements, found uint64) error {
	return fmt.Errorf("%w: a collection of %d elements has %d records of kind %c", layout.ErrCorrupt, m.Length(), found, records.Kind)
}
