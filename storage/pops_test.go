package storage

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
)

// TestManyPopsInOneTransaction takes hundreds of members within one transaction, each within a
// budget that doesn't suffice to pass all that were taken before.
func TestManyPopsInOneTransaction(t *testing.T) {
	const members, taken, budget = 3000, 700, 300
	key := []byte("queue")
	store := queueInMemory(t, key, members)
	for _, last := range []bool{false, true} {
		txn := store.NewTxn()
		for i := range taken {
			want := float64(i)
			if last {
				want = float64(members - 1 - i)
			}
			if got := pop(t, txn, key, last, budget); got != want {
				t.Fatalf("pop %d, from the end %v, took %v, want %v", i, last, got, want)
			}
		}
		must(t, store.Commit(txn))
	}
}

// TestPopsReadAhead: who takes members from an end, has them read many at a time.
func TestPopsReadAhead(t *testing.T) {
	const members, first, taken = 6000, 40, 1500
	key := []byte("queue")
	for _, last := range []bool{false, true} {
		store := queueInMemory(t, key, members)
		var read int64
		for i := range first + taken {
			txn := store.NewTxn()
			pop(t, txn, key, last, 0)
			must(t, store.Commit(txn))
			switch _, bytes := store.Trees(); {
			case i >= first && bytes > read:
				t.Fatalf("pop %d, from the end %v, has read on", i, last)
			default:
				read = bytes
			}
			txn.Reset()
		}
	}
}

// TestWhatNobodyAskedForCostsLittle: behind the members that are left stand many that were taken
// from the other end, or out of the midst.
func TestWhatNobodyAskedForCostsLittle(t *testing.T) {
	const members, left, budget = 3000, 500, 600
	key := []byte("queue")
	store := queueInMemory(t, key, members)
	for range members - left {
		txn := store.NewTxn()
		pop(t, txn, key, true, 0)
		must(t, store.Commit(txn))
	}
	txn := store.NewTxn()
	pop(t, txn, key, false, budget)
	txn.Begin(Mode{Writing: true}, 1, budget)
	z, err := txn.DB(0).ZSet(key)
	must(t, err)
	seen := 0
	must(t, z.ByScore(ScoreRange{Min: math.Inf(-1), Max: math.Inf(1)}, 0, false, func([]byte, float64) bool { seen++; return true }))
	if seen != left-1 {
		t.Errorf("%d members are left, want %d", seen, left-1)
	}
	txn.Reset()

	midst := store.NewTxn()
	midst.Begin(Mode{Writing: true}, 1, 0)
	z, err = midst.DB(0).ZSet(key)
	must(t, err)
	for i := 4; i < left-1; i++ {
		must(t, z.Remove(fmt.Appendf(nil, "member%06d", i), float64(i)))
	}
	must(t, z.Save(keyevent.Changed))
	midst.Effect(0, []byte("EFFECT"))
	must(t, store.Commit(midst))
	txn = store.NewTxn()
	for i := range 4 { // the fourth reads ahead, where there is too much to be passed
		if got := pop(t, txn, key, false, 100); got != float64(i) {
			t.Errorf("pop took %v, want %d", got, i)
		}
	}
	must(t, store.Commit(txn))
}

// TestLargeMembersAreNotResident: what is held of an order is bounded.
func TestLargeMembersAreNotResident(t *testing.T) {
	x := newOrderedTest(t, testOptions(t.TempDir(), 16<<20, 1<<20))
	key := []byte("large")
	member := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte{'m'}, 20<<10), "%03d", i) }
	for !x.step(func(db DB) {
		z, err := db.ZSet(key)
		must(t, err)
		for i := range 40 {
			must(t, z.Put(member(i), float64(i), 0, false))
		}
		must(t, z.Save(keyevent.Changed))
	}) {
	}
	txn := x.store.NewTxn()
	for i := range 40 {
		if got := pop(t, txn, key, false, 0); got != float64(i) {
			t.Fatalf("pop took %v, want %d", got, i)
		}
		if _, held := x.store.Trees(); held > 200<<10 { // a quarter of them: a few borders are as long as a member
			t.Fatalf("%d bytes are held", held)
		}
	}
	txn.Reset()
}

// TestAWalkWithinAWalk: what is visited stays what it is, whatever else is walked meanwhile.
func TestAWalkWithinAWalk(t *testing.T) {
	const members = engine.MostFew + 1 // smaller ones are found by their group
	store := queueInMemory(t, []byte("one"), members)
	queue(t, store, []byte("two"), members)
	txn := store.NewTxn()
	for range 4 {
		pop(t, txn, []byte("one"), false, 0) // the others are read ahead
	}
	one, err := txn.DB(0).ZSet([]byte("one"))
	must(t, err)
	two, err := txn.DB(0).ZSet([]byte("two"))
	must(t, err)
	next := 4.0
	must(t, one.All(func(member []byte, score float64) bool {
		if want := fmt.Sprintf("member%06d", int(next)); string(member) != want || score != next {
			t.Fatalf("%s with %v is visited, want %s", member, score, want)
		}
		next++
		must(t, two.ByRank(0, 2, false, func([]byte, float64) bool { return true }))
		return true
	}))
	if next != members {
		t.Errorf("%v members, want %d", next, members)
	}
	txn.Reset()
}

// TestPopsAgainstModel pops, adds and moves members within transactions, and takes commands and
// whole transactions back.
func TestPopsAgainstModel(t *testing.T) { inAllTiers(t, popsAgainstModel) }

func popsAgainstModel(t *testing.T, o Options) {
	x := newOrderedTest(t, o)
	key, model := []byte("queue"), map[string]float64{}
	for range 80 {
		txn, now := x.store.NewTxn(), model
		for range 1 + x.random.IntN(60) {
			next := maps.Clone(now)
			savepoint := begin(txn, Mode{Writing: true}, 1, 0)
			for range 1 + x.random.IntN(3) {
				x.useQueue(txn.DB(0), key, next)
			}
			if x.random.IntN(8) == 0 {
				txn.Rollback(savepoint)
			} else {
				now = next
			}
		}
		txn.Effect(0, []byte("EFFECT"))
		if x.random.IntN(6) > 0 {
			must(t, x.store.Commit(txn))
			model = now
		}
		txn.Reset()
	}
}

// useQueue takes some members off an end, or puts some.
func (x *orderedTest) useQueue(db DB, key []byte, model map[string]float64) {
	x.t.Helper()
	z, err := db.ZSet(key)
	must(x.t, err)
	switch x.random.IntN(10) {
	case 0, 1: // anywhere
		x.enqueue(&z, model, x.random.IntN(40), 0, 1000)
	case 2: // near the beginning
		x.enqueue(&z, model, 1, 0, 20)
	case 3: // at the end
		x.enqueue(&z, model, 3, 1000, 1010)
	default:
		x.dequeue(&z, model, 1+x.random.IntN(3)*x.random.IntN(30), x.random.IntN(5) == 0)
	}
	must(x.t, z.Save(keyevent.Changed))
}

func (x *orderedTest) enqueue(z *ZSet, model map[string]float64, n, low, high int) {
	for range n {
		member := fmt.Sprint("m", x.random.IntN(2000))
		was, existed, err := z.Score([]byte(member))
		must(x.t, err)
		score := float64(low + x.random.IntN(high-low))
		must(x.t, z.Put([]byte(member), score, was, existed))
		model[member] = score
	}
}

func (x *orderedTest) dequeue(z *ZSet, model map[string]float64, n int, highest bool) {
	x.t.Helper()
	want := sortScored(model)
	var got []scoredMember
	must(x.t, z.ByRank(0, n, highest, func(member []byte, score float64) bool {
		got = append(got, scoredMember{append([]byte(nil), member...), score})
		return true
	}))
	if len(got) != min(n, len(want)) {
		x.t.Fatalf("%d members came, want %d of %d", len(got), n, len(want))
	}
	for i, m := range got {
		expected := want[i]
		if highest {
			expected = want[len(want)-1-i]
		}
		if string(m.member) != string(expected.member) || m.score != expected.score {
			x.t.Fatalf("member %d, from the highest %v, is %s with %v; want %s with %v", i, highest, m.member, m.score, expected.member, expected.score)
		}
		must(x.t, z.Remove(m.member, m.score))
		delete(model, string(m.member))
	}
}

// TestPopsBesideCounts: where the counts of other collections take the memory for trees, what was
// read ahead for who takes members stays until they are taken.
func TestPopsBesideCounts(t *testing.T) {
	const members, taken, budget = 200_000, 4000, 1 << 30
	o := testOptions(t.TempDir(), 1, 0)
	o.GenerationBytes, o.TreeBytes = constant[int64](64<<20), constant[int64](1<<18)
	store, _ := reopen(t, o, &testLog{})
	t.Cleanup(func() { must(t, store.Close()) })
	for _, key := range []string{"board", "queue"} {
		queue(t, store, []byte(key), members)
		txn := store.NewTxn()
		txn.Begin(Mode{}, 1, 0)
		z, err := txn.DB(0).ZSet([]byte(key))
		must(t, err)
		const rank = members / 2
		if got, err := z.Rank(fmt.Appendf(nil, "member%06d", rank), rank, false); err != nil || got != rank {
			t.Fatalf("rank %d, %v", got, err)
		}
		txn.Reset()
	}
	spent := 0
	for i := range taken {
		txn := store.NewTxn()
		if score := pop(t, txn, []byte("queue"), false, budget); score != float64(i) {
			t.Fatalf("pop %d took %v", i, score)
		}
		spent += budget - insideTxn(txn).Budget()
		must(t, store.Commit(txn))
		txn.Reset()
	}
	t.Logf("%d records for each", spent/taken)
	if spent > 20*taken {
		t.Errorf("%d records were touched for %d members", spent, taken)
	}
}
