package storage

import (
	"fmt"

	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
)

// spreadElements are the elements of a spread hash or set: records of one kind under one id.
type spreadElements struct {
	db    DB
	kind  byte
	id    uint64
	fresh bool // the id is of this command: nothing but its own writes can stand under it
}

// visitPair is called for elements and their values (nil in a set); it returns false to stop.
type visitPair func(element, value []byte) bool

// get reads an element. With a fresh id a look at the transaction's own writes is enough.
func (r *spreadElements) get(element []byte) (value []byte, found bool, err error) {
	if !r.fresh {
		return r.db.getElement(r.kind, r.id, element)
	}
	t, key := r.db.txn, r.db.elementKey(r.kind, r.id, element)
	if err := t.Spend(1); err != nil {
		return nil, false, err
	}
	value, found = t.Own(r.db.space, key)
	return value, found, nil
}

// put writes an element that isn't there yet.
func (r *spreadElements) put(element, value []byte) error {
	return r.db.putElement(r.kind, r.id, element, value)
}

// replace writes an element that is there.
func (r *spreadElements) replace(element, value []byte) error {
	return r.db.txn.Replace(r.db.space, r.db.elementKey(r.kind, r.id, element), value)
}

func (r *spreadElements) delete(element []byte) error {
	return r.db.deleteElement(r.kind, r.id, element)
}

// index is the order of all count elements.
func (r *spreadElements) index(count uint64, values bool) engine.Index {
	return r.db.txn.NewIndex(r.db.space, r.kind, r.id, int(count), values, nil)
}

// scan visits the elements from one on (nil: from the first), in the order of their bytes. What it
// shows stays valid until the transaction is reset.
func (r *spreadElements) scan(from []byte, keysOnly bool, expected int, visit visitPair) error {
	it := r.db.iterateElements(r.kind, r.id, from, IteratorOptions{KeysOnly: keysOnly, Expected: expected})
	for it.Next() {
		if !visit(it.Key()[layout.ElementPrefix:], it.Value()) {
			break
		}
	}
	return r.db.txn.Often(it.Close())
}

// lastWith returns the last element with a prefix.
func (r *spreadElements) lastWith(prefix []byte) (last []byte, err error) {
	lower := layout.AppendElementKey(nil, r.kind, r.id, prefix)
	it := r.db.txn.Iterate(r.db.space, lower, layout.Successor(nil, lower), IteratorOptions{Reverse: true, KeysOnly: true, Expected: 1})
	if it.Next() {
		last = it.Key()[layout.ElementPrefix:]
	}
	return last, r.db.txn.Often(it.Close())
}

// all walks all of count elements: a reply tells their number first, so it has to be right.
func (r *spreadElements) all(count uint64, keysOnly bool, visit visitPair) error {
	seen, stopped := uint64(0), false
	x := r.index(count, !keysOnly)
	err := x.Scan(nil, nil, false, func(element, value []byte) bool {
		seen++
		stopped = seen > count || !visit(element, value)
		return !stopped
	})
	if err == nil && (seen > count || !stopped && seen < count) {
		err = r.miscounted(count)
	}
	return err
}

func (r *spreadElements) miscounted(count uint64) error {
	return fmt.Errorf("%w: collection %d has not the %d elements that it should have", layout.ErrCorrupt, r.id, count)
}

// text is an element of a listpack as text: in scratch memory if it is an integer.
func text(e listpack.Element, scratch *[]byte) []byte {
	if !e.IsInt() {
		return e.Bytes
	}
	*scratch = e.AppendTo((*scratch)[:0])
	return *scratch
}

// pairs visits the elements of a listpack by twos. They are valid during the call.
func pairs(pack listpack.Listpack, firstScratch, secondScratch *[]byte, visit visitPair) {
	for at := pack.First(); at != listpack.None; {
		first, behind := pack.Step(at)
		second, next := pack.Step(behind)
		if !visit(text(first, firstScratch), text(second, secondScratch)) {
			return
		}
		at = next
	}
}
