package storage

import (
	"fmt"
	"maps"
	"testing"
)

// TestManyPopsInOneTransaction takes hundreds of members within one transaction, each within a budget that doesn't suffice to pass all that
// were taken before.
func TestManyPopsInOneTransaction(t *testing.T) {
	const members, taken, budget = 3000, 700, 300
	options := testOptions(t.TempDir(), 1, 0)
	options.GenerationBytes = constant[int64](16 << 20)
	store, _ := reopen(t, options, &testLog{})
	defer func() { must(t, store.Close()) }()
	key := []byte("queue")
	queue(t, store, key, members)
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

// TestPopsAgainstModel pops, adds and moves members within transactions, and takes commands and whole transactions back.
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
	must(x.t, z.Save())
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
