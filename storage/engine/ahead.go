package engine

import (
	"bytes"
	"slices"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// Taking the first entry of an index again and again, as a queue does, makes a walk from the index's end for each. A transaction that runs many such
// commands would look for that end each time, and pass what those before have deleted. So it reads some records more than are asked for,
// twice as many each time, and the commands that follow go on among those.

const (
	// mostAhead are the records that are read ahead.
	mostAhead = 64
	// aheadBytes are what they may take together, since members may be large.
	aheadBytes = 64 << 10
	// aheadCost is how many records may be passed for those that nobody has asked for yet: many that were deleted may stand before them.
	aheadCost = 4 * mostAhead
)

// ahead are the records that stand at an end of an index, as they were when they were read. Those that the transaction has deleted since are passed over;
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
	bytes        int  // that the records take
	extra        int  // how many are read next besides what is asked for
	walking      bool // a walk is under way; another one, that it calls for, does without
}

type aheadRecord struct{ key, value []byte } // valid until the transaction is reset

func (r aheadRecord) size() int { return len(r.key) + len(r.value) }

func (a *ahead) forget() {
	clear(a.records)
	*a = ahead{records: a.records[:0], walking: a.walking}
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

// cover notes that the transaction puts a record into an index. It is seen later only if it lies in what hasn't been read.
func (a *ahead) cover(id uint64, key []byte) {
	if a.id == id && (a.complete || bytes.Compare(key, a.lower) < 0 || bytes.Compare(key, a.upper) >= 0) {
		a.forget()
	}
}

// add keeps a record that was read; false when there are enough.
func (a *ahead) add(key, value []byte) bool {
	r := aheadRecord{key, value}
	if len(a.records) == mostAhead || a.bytes+r.size() > aheadBytes {
		return false
	}
	a.records = append(a.records, r)
	a.bytes += r.size()
	if a.reverse {
		a.upper = key
	} else {
		a.lower = append(bytes.Clone(key), 0)
	}
	return true
}

// walkFromEnd visits the records of the index between two keys, from an end of it on, in a transaction that writes. visit doesn't put any into it.
func (x *Index) walkFromEnd(lower, upper []byte, reverse bool, visit VisitRecord) error {
	a := &x.txn.order.ahead
	a.walking = true
	defer func() { a.walking = false }()
	wanted := func(key, value []byte) bool {
		return bytes.Compare(key, lower) >= 0 && bytes.Compare(key, upper) < 0 && visit(key, value)
	}
	more, err := x.walkAhead(a, wanted)
	if !more || err != nil || a.complete {
		return err
	}
	return x.readAhead(a, wanted)
}

// walkAhead visits the records that were read before; more tells that the visit goes on behind them.
func (x *Index) walkAhead(a *ahead, visit VisitRecord) (more bool, err error) {
	t := x.txn
	deleted := func(r aheadRecord) bool {
		_, state := t.journal.get(t.hash(x.space, r.key), x.space.Number, r.key)
		return state == generation.Deleted
	}
	first := 0
	for first < len(a.records) && deleted(a.records[first]) {
		a.bytes -= a.records[first].size()
		first++
	}
	a.records = slices.Delete(a.records, 0, first)
	for i, r := range a.records {
		if i > 0 && deleted(r) {
			continue
		}
		if err := t.Spend(1); err != nil || !visit(r.key, r.value) {
			return false, err
		}
	}
	return true, nil
}

// readAhead visits the records behind those, and keeps them and some more.
func (x *Index) readAhead(a *ahead, visit VisitRecord) error {
	t := x.txn
	it := t.Iterate(x.space, a.lower, a.upper, a.reverse, false)
	own, keeping := it.nextOwn(), true
	for wanted := true; wanted; wanted = visit(it.Key(), it.Value()) {
		if !it.Next() {
			a.complete = keeping && it.Err() == nil
			return it.Close()
		}
		if !a.begun {
			t.store.order.ends.found(x.id, it.nearer(own, it.Key()), a.reverse)
			a.begun = true
		}
		keeping = keeping && a.add(it.Key(), it.Value())
	}
	if keeping {
		a.readMore(t, it)
	}
	it.Close() // what may have failed by now was asked for by nobody: who needs it reads it again
	return nil
}

// readMore keeps some records that nobody has asked for yet, unless that is much work.
func (a *ahead) readMore(t *Txn, it *Iterator) {
	extra, budget := a.extra, t.running.budget
	a.extra = min(2*extra+1, mostAhead)
	t.running.budget = min(budget/2, aheadCost)
	defer func(allowed int) { t.running.budget = budget - (allowed - t.running.budget) }(t.running.budget)
	for ; extra > 0; extra-- {
		if !it.Next() {
			a.complete = it.Err() == nil
			return
		}
		if !a.add(it.Key(), it.Value()) {
			return
		}
	}
}

// walksFromEnd tells whether walks from an end of an index read ahead. What was spilled can't be looked up any more.
func (t *Txn) walksFromEnd() bool {
	return t.running.mode.Writing && t.staging.spill == nil && t.view == nil && !t.order.ahead.walking
}

// fromEnd are the bounds of all that lives in an index from the end on at which a walk between two keys begins.
func (x *Index) fromEnd(lower, upper []byte, reverse bool) (from, to []byte) {
	first, behind := x.txn.store.order.ends.bounds(x.id)
	from, to = lower, upper
	if reverse {
		if from = first; from == nil {
			from = x.indexKey(nil)
		}
	} else if to = behind; to == nil {
		to = layout.Successor(nil, x.indexKey(nil))
	}
	return from, to
}
