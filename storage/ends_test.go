package storage

import (
	"fmt"
	"slices"
	"testing"

	"kedis/storage/layout"
)

// queue makes a spread sorted set of so many members, the scores of which are their numbers.
func queue(t *testing.T, s *Store, key []byte, members int) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	z, err := txn.DB(0).ZSet(key)
	must(t, err)
	for i := range members {
		must(t, z.Put(fmt.Appendf(nil, "member%06d", i), float64(i), 0, false))
	}
	must(t, z.Save())
	txn.Effect(0, []byte("EFFECT"))
	must(t, s.Commit(txn))
}

// pop takes the first member, or the last one, within a budget of records.
func pop(t *testing.T, txn *Txn, key []byte, last bool, budget int) (score float64) {
	t.Helper()
	txn.Begin(Mode{Writing: true}, 1, budget)
	z, err := txn.DB(0).ZSet(key)
	must(t, err)
	var member []byte
	must(t, z.ByRank(0, 1, last, func(m []byte, s float64) bool {
		member, score = slices.Clone(m), s
		return false
	}))
	must(t, z.Remove(member, score))
	must(t, z.Save())
	txn.Effect(0, []byte("EFFECT"))
	return score
}

// TestQueue takes members from both ends of a large sorted set: none of them passes all that were taken before.
func TestQueue(t *testing.T) {
	const members, taken, budget = 3000, 1200, 60
	options := testOptions(t.TempDir(), 1, 0)
	options.GenerationBytes = constant[int64](16 << 20) // in memory, where passing a deleted record counts against the budget
	store, _ := reopen(t, options, &testLog{})
	defer func() { must(t, store.Close()) }()
	key := []byte("queue")
	queue(t, store, key, members)
	for i := range taken {
		txn := store.NewTxn()
		for j := range 2 { // in one commit, as a pipeline
			if got := pop(t, txn, key, false, budget); got != float64(2*i+j) {
				t.Fatalf("the lowest score is %v, want %d", got, 2*i+j)
			}
		}
		must(t, store.Commit(txn))
	}
	for i := range 200 {
		txn := store.NewTxn()
		if got := pop(t, txn, key, true, budget); got != float64(members-1-i) {
			t.Fatalf("the highest score is %v, want %d", got, members-1-i)
		}
		must(t, store.Commit(txn))
	}
}

// TestEndsOfAnotherTime: what is taken back, or stands in a view that is older, isn't hidden; what comes beyond an end is seen.
func TestEndsOfAnotherTime(t *testing.T) {
	store, _ := reopen(t, testOptions(t.TempDir(), 1, 0), &testLog{})
	defer func() { must(t, store.Close()) }()
	key := []byte("queue")
	queue(t, store, key, 500)
	lowest := func(v *View) (score float64) {
		txn := store.NewTxn()
		txn.Begin(Mode{}, 1, 0)
		if v != nil {
			txn.ReadFrom(v)
		}
		z, err := txn.DB(0).ZSet(key)
		must(t, err)
		must(t, z.ByRank(0, 1, false, func(_ []byte, s float64) bool { score = s; return false }))
		return score
	}
	view := store.View()
	defer view.Release()

	txn := store.NewTxn()
	before := txn.Savepoint()
	pop(t, txn, key, false, 0)
	pop(t, txn, key, false, 0) // walks over what it has deleted itself
	txn.Rollback(before)
	if got := lowest(nil); got != 0 {
		t.Fatalf("after what was taken back the lowest score is %v", got)
	}
	txn = store.NewTxn()
	pop(t, txn, key, false, 0)
	must(t, store.Commit(txn))
	if got := lowest(nil); got != 1 {
		t.Fatalf("the lowest score is %v, want 1", got)
	}
	if got := lowest(view); got != 0 {
		t.Fatalf("an older view's lowest score is %v, want 0", got)
	}
	txn = store.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	z, err := txn.DB(0).ZSet(key)
	must(t, err)
	must(t, z.Put([]byte("new"), -5, 0, false))
	must(t, z.Save())
	txn.Effect(0, []byte("EFFECT"))
	must(t, store.Commit(txn))
	if got := lowest(nil); got != -5 {
		t.Fatalf("the lowest score is %v, want -5", got)
	}
}

func TestIndexEnds(t *testing.T) {
	var e indexEnds
	key := func(score float64) []byte { return layout.AppendScoreKey(nil, 7, score, []byte("m")) }
	lower, upper := layout.AppendElementKey(nil, layout.KindZSetScore, 7, nil), layout.Successor(nil, layout.AppendElementKey(nil, layout.KindZSetScore, 7, nil))
	expect := func(from, to []byte, reverse, atEnd bool) {
		t.Helper()
		if l, u, end := e.narrow(7, lower, upper, reverse); string(l) != string(from) || string(u) != string(to) || end != atEnd {
			t.Errorf("%x to %x, %v; want %x to %x, %v", l, u, end, from, to, atEnd)
		}
	}
	behind := func(key []byte) []byte { return append(slices.Clone(key), 0) }
	expect(lower, upper, false, true)
	expect(lower, upper, true, true)
	e.found(7, key(3), false)
	e.found(7, key(9), true)
	expect(key(3), behind(key(9)), false, true)
	e.cover(7, key(5))
	expect(key(3), behind(key(9)), true, true)
	e.cover(7, key(1))
	e.cover(7, key(11))
	expect(key(1), behind(key(11)), false, true)
	if _, _, end := e.narrow(7, key(4), upper, false); end {
		t.Error("a walk from the midst is taken for one from the end")
	}
	e.found(7+uint64(len(e.slots)), key(1), false) // takes the slot
	expect(lower, upper, false, true)
}
