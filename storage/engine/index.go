package engine

import (
	"bytes"

	"kedis/storage/layout"
	"kedis/storage/walks"
)

// Index is the records of one kind that a spread collection has, in the order of their keys.
type Index struct {
	txn      *Txn
	space    *Namespace
	kind     byte
	id       uint64
	entries  int
	key      []byte // of the collection
	keysOnly bool   // nobody looks at values, nor takes entries from the ends
}

// NewIndex returns an index; key is the collection's.
func (t *Txn) NewIndex(ns *Namespace, kind byte, id uint64, entries int, key []byte) Index {
	return Index{txn: t, space: ns, kind: kind, id: id, entries: entries, key: key}
}

// NewKeyIndex returns an index of which only keys are read, and whose ends are not remembered.
func (t *Txn) NewKeyIndex(ns *Namespace, kind byte, id uint64, entries int, key []byte) *Index {
	x := t.NewIndex(ns, kind, id, entries, key)
	x.keysOnly = true
	return &x
}

// indexKey is a key of the index; the shortest one with nil.
func (x *Index) indexKey(within []byte) []byte {
	return layout.AppendElementKey(nil, x.kind, x.id, within)
}

// PutEntry writes a record of an index whose ends are remembered.
func (t *Txn) PutEntry(ns *Namespace, key, value []byte) error {
	id := layout.ElementID(key)
	t.store.order.ends.cover(id, key)
	t.order.ahead.cover(id, key)
	return t.Put(ns, key, value)
}

// Scan visits the records of the index from lower on, before upper.
func (x *Index) Scan(lower, upper []byte, reverse bool, visit VisitRecord) error {
	if !x.keysOnly {
		return x.scanKeys(lower, upper, reverse, visit)
	}
	it := x.txn.Iterate(x.space, lower, upper, reverse, true)
	for it.Next() && visit(it.Key(), nil) {
	}
	return it.Close()
}

// scanKeys is Scan for an index whose values are read and whose ends are remembered.
func (x *Index) scanKeys(lower, upper []byte, reverse bool, visit VisitRecord) error {
	if t := x.txn; t.order.ahead.serves(x.id, lower, upper, reverse) && t.walksFromEnd() {
		return x.walkFromEnd(lower, upper, reverse, visit)
	}
	w := walks.Walk{Space: x.space.Number, Collection: x.id, Lower: lower, Upper: upper, Reverse: reverse}
	return x.txn.Repeat(w, visit, func(rest walks.Walk, visit VisitRecord) error {
		if handled, err := x.txn.walkFew(&rest, x.space, x.kind, uint64(x.entries), visit); handled {
			return err
		}
		return x.scanRecords(rest.Lower, rest.Upper, reverse, visit)
	})
}

// scanRecords is scanKeys for records that no earlier scan has found.
func (x *Index) scanRecords(lower, upper []byte, reverse bool, visit VisitRecord) error {
	t, atEnd := x.txn, false
	if t.view == nil {
		var err error
		if lower, upper, atEnd, err = x.narrow(lower, upper, reverse); err != nil || bytes.Compare(lower, upper) >= 0 {
			return err
		}
	}
	if atEnd && t.walksFromEnd() {
		from, to := x.fromEnd(lower, upper, reverse)
		t.order.ahead.begin(x.id, from, to, reverse)
		return x.walkFromEnd(lower, upper, reverse, visit)
	}
	it := t.Iterate(x.space, lower, upper, reverse, false)
	own := it.nextOwn()
	for it.Next() {
		if atEnd {
			t.store.order.ends.found(x.id, it.nearer(own, it.Key()), reverse)
			atEnd = false
		}
		if !visit(it.Key(), it.Value()) {
			break
		}
	}
	return it.Close()
}
