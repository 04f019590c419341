package storage

import (
	"bytes"
	"slices"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// Taking the lowest member of a sorted set again and again, as a queue does, makes a walk from the index's end for each. A transaction that runs many such
// commands would look for that end each time, and pass what those before have deleted. So it reads some records more than are asked for,
// twice as many each time, and the commands that follow go on among those.

// mostAhead are the records that are read ahead.
const mostAhead = 64

// ahead are the records that stand at an end of a sorted set's index, as they were when they were read. Those that the transaction has deleted since are passed over;
// one that it puts among them makes it forget all, as Rollback and Reset do. Nobody else changes them: it holds the key's lock until
// it has committed.
type ahead struct {
	id           uint64 // 0: there are none
	reverse      bool
	from         []byte // where the first walk began: nothing that lives stands nearer to the end
	lower, upper []byte // what hasn't been read
	begun        bool   // something has been
	complete     bool   // everything has
	records      []aheadRecord
	extra        int // how many are read next besides what is asked for
}

type aheadRecord struct{ key, value []byte } // valid until the transaction is reset

func (a *ahead) forget() {
	clear(a.records)
	*a = ahead{records: a.records[:0]}
}

// begin forgets what was read, and will read from an end on.
func (a *ahead) begin(id uint64, lower, upper []byte, reverse bool) {
	a.forget()
	a.id, a.reverse, a.lower, a.upper, a.from = id, reverse, lower, upper, lower
	if reverse {
		a.from = upper
	}
}

// serves tells whether a walk can begin among the records.
func (a *ahead) serves(id uint64, lower, upper []byte, reverse bool) bool {
	switch {
	case a.id != id || a.reverse != reverse:
		return false
	case reverse:
		return bytes.Compare(upper, a.from) >= 0
	}
	return bytes.Compare(lower, a.from) <= 0
}

// cover notes that the transaction puts a record into an index.
func (a *ahead) cover(id uint64, key []byte) {
	if a.id == id && (a.complete || !a.reverse && bytes.Compare(key, a.lower) < 0 || a.reverse && bytes.Compare(key, a.upper) >= 0) {
		a.forget()
	}
}

// add keeps a record that was read; false when there are enough.
func (a *ahead) add(key, value []byte) bool {
	if len(a.records) == mostAhead {
		return false
	}
	a.records = append(a.records, aheadRecord{key, value})
	if a.reverse {
		a.upper = key
	} else {
		a.lower = append(bytes.Clone(key), 0)
	}
	return true
}

// walkFromEnd visits the records of the index between two keys, from an end of it on, in a transaction that writes. visit doesn't put any into it.
func (z *ZSet) walkFromEnd(lower, upper []byte, reverse bool, visit visitRecord) error {
	a := &z.db.txn.ahead
	wanted := func(key, value []byte) bool {
		return bytes.Compare(key, lower) >= 0 && bytes.Compare(key, upper) < 0 && visit(key, value)
	}
	more, err := z.walkAhead(a, wanted)
	if !more || err != nil || a.complete {
		return err
	}
	return z.readAhead(a, wanted)
}

// walkAhead visits the records that were read before; more tells that the visit goes on behind them.
func (z *ZSet) walkAhead(a *ahead, visit visitRecord) (more bool, err error) {
	t := z.db.txn
	deleted := func(r aheadRecord) bool {
		_, state := t.journal.get(t.hash(z.db.space, r.key), z.db.space.number, r.key)
		return state == generation.Deleted
	}
	live := slices.IndexFunc(a.records, func(r aheadRecord) bool { return !deleted(r) })
	if live < 0 {
		live = len(a.records)
	}
	a.records = slices.Delete(a.records, 0, live)
	for i, r := range a.records {
		if i > 0 && deleted(r) {
			continue
		}
		if err := t.spend(1); err != nil || !visit(r.key, r.value) {
			return false, err
		}
	}
	return true, nil
}

// readAhead visits the records behind those, and keeps some of them.
func (z *ZSet) readAhead(a *ahead, visit visitRecord) error {
	t := z.db.txn
	it := t.walk(z.db.space, a.lower, a.upper, a.reverse, false)
	own := it.nextOwn()
	wanted, keeping, extra := true, true, a.extra
	a.extra = min(2*extra+1, mostAhead)
	for wanted || keeping && extra > 0 {
		if !it.Next() {
			a.complete = keeping && it.Err() == nil
			break
		}
		if !a.begun {
			t.store.ends.found(z.next.ID, it.nearer(own, it.Key()), a.reverse)
			a.begun = true
		}
		keeping = keeping && a.add(it.Key(), it.Value())
		if !wanted {
			extra--
		} else {
			wanted = visit(it.Key(), it.Value())
		}
	}
	return it.Close()
}

// walksFromEnd tells whether walks from an end of an index read ahead. What was spilled can't be looked up any more.
func (t *Txn) walksFromEnd() bool { return t.mode.Writing && t.spill == nil && t.view == nil }

// wholeIndex are the bounds of what a set's index has between two keys and beyond the one at which a walk ends.
func (z *ZSet) wholeIndex(lower, upper []byte, reverse bool) (from, to []byte) {
	if reverse {
		return z.indexKey(nil), upper
	}
	return lower, layout.Successor(nil, z.indexKey(nil))
}
