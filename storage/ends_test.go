package storage

import (
	"fmt"
	"slices"
	"testing"

	"kedis/internal/keyevent"
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
	must(t, z.Save(keyevent.Changed))
	txn.Effect(0, []byte("EFFECT"))
	must(t, s.Commit(txn))
}

// queueInMemory opens a store with such a set, in memory, where passing a deleted record counts
// against a command's budget.
func queueInMemory(t *testing.T, key []byte, members int) *Store {
	t.Helper()
	options := testOptions(t.TempDir(), 1, 0)
	options.GenerationBytes = constant[int64](16 << 20)
	store, _ := reopen(t, options, &testLog{})
	t.Cleanup(func() { must(t, store.Close()) })
	queue(t, store, key, members)
	return store
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
	must(t, z.Save(keyevent.Changed))
	txn.Effect(0, []byte("EFFECT"))
	return score
}

// TestQueue takes members from both ends of a large sorted set: none of them passes all that were
// taken before.
func TestQueue(t *testing.T) {
	const members, taken, budget = 3000, 1200, 60
	key := []byte("queue")
	store := queueInMemory(t, key, members)
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

// TestPoll looks for what is due from score 0 on, and removes it, as delayed queues do.
func TestPoll(t *testing.T) {
	const members, budget = 3000, 60
	key := []byte("queue")
	store := queueInMemory(t, key, members)
	for i := range members / 2 {
		txn := store.NewTxn()
		txn.Begin(Mode{Writing: true}, 1, budget)
		z, err := txn.DB(0).ZSet(key)
		must(t, err)
		var member []byte
		must(t, z.ByScore(ScoreRange{Min: 0, Max: 1e9}, 0, false, func(m []byte, _ float64) bool { member = slices.Clone(m); return false }))
		if want := fmt.Sprintf("member%06d", i); string(member) != want {
			t.Fatalf("%s is due, want %s", member, want)
		}
		must(t, z.Remove(member, float64(i)))
		must(t, z.Save(keyevent.Changed))
		txn.Effect(0, []byte("EFFECT"))
		must(t, store.Commit(txn))
	}
}

// TestEndsOfAnotherTime: what is taken back, or stands in a view that is older, isn't hidden; what
// comes beyond an end is seen.
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
	before := new(Savepoint)
	txn.Mark(before)
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
	must(t, z.Save(keyevent.Changed))
	txn.Effect(0, []byte("EFFECT"))
	must(t, store.Commit(txn))
	if got := lowest(nil); got != -5 {
		t.Fatalf("the lowest score is %v, want -5", got)
	}
}
