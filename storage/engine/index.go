package engine

import (
	"bytes"

	"kedis/storage/layout"
	"kedis/storage/walks"
)

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
