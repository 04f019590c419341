package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/layout"
)

// The records of one namespace, as plain Go has them.
type records map[string]string

// walker is whatever reads records: a transaction, or one that reads from a view.
func check(t *testing.T, txn *Txn, want records, random *rand.Rand) {
	t.Helper()
	ns := txn.Namespace(0)
	txn.running.budget = unlimited
	for range 20 {
		key := randomKey(random)
		value, found, err := txn.Get(ns, key)
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[string(key)]; ok != found || w != string(value) {
			t.Fatalf("%q: got %q, %v; want %q, %v", key, value, found, w, ok)
		}
	}
	for _, reverse := range []bool{false, true} {
		lower, upper := randomKey(random), randomKey(random)
		if random.IntN(3) == 0 {
			lower, upper = []byte{layout.KindMetadata}, []byte{layout.KindMetadata + 1}
		}
		checkWalk(t, txn, want, lower, upper, reverse)
	}
}

func checkWalk(t *testing.T, txn *Txn, want records, lower, upper []byte, reverse bool) {
	t.Helper()
	var expected, got []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if key >= string(lower) && key < string(upper) {
			expected = append(expected, key+"="+want[key])
		}
	}
	if reverse {
		slices.Reverse(expected)
	}
	it := txn.Iterate(txn.Namespace(0), lower, upper, IteratorOptions{Reverse: reverse})
	for it.Next() {
		got = append(got, string(it.Key())+"="+string(it.Value()))
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, expected) {
		t.Fatalf("[%q, %q) reverse %v: got %d records, want %d\n%q\n%q", lower, upper, reverse, len(got), len(expected), got, expected)
	}
}

func randomKey(random *rand.Rand) []byte { return fmt.Appendf(nil, "Mkey%03d", random.IntN(300)) }

// TestTxnAgainstModel does the same to a store and to a map: writes, savepoints, commits, failed
// commits, views that stay open, everything settled or persisted in between, and reopening.
func TestTxnAgainstModel(t *testing.T) {
	for _, tier := range []struct {
		name              string
		generation, cache int64
	}{{"everything leaves memory", 1, 0}, {"small generations", 64 << 10, 1 << 20}, {"in memory", 64 << 20, 64 << 20}} {
		t.Run(tier.name, func(t *testing.T) {
			seed := seed.Of(t)
			modelTest(t, rand.New(rand.NewPCG(seed, 1)), testOptions(t.TempDir(), tier.generation, tier.cache))
		})
	}
}

type openView struct {
	view *View
	want records
}

func modelTest(t *testing.T, random *rand.Rand, o Options) {
	s, log := reopen(t, o, &testLog{})
	committed, views := records{}, []openView(nil)
	for range 300 {
		txn := s.NewTxn()
		want := maps.Clone(committed)
		runSteps(t, txn, want, random)
		log.fail = nil
		if random.IntN(10) == 0 {
			log.fail = errors.New("no space")
		}
		txn.Effect(0, []byte("EFFECT"))
		txn.Count(txn.Namespace(0), 1, 0) // a namespace without keys is not kept
		if err := s.Commit(txn); err == nil {
			committed = want
		} else if log.fail == nil {
			t.Fatal(err)
		}
		log.fail = nil
		switch random.IntN(12) {
		case 0:
			views = append(views, openView{s.View(), maps.Clone(committed)})
		case 1:
			must(t, s.Settle())
		case 2:
			must(t, s.Persist())
		case 3:
			for _, v := range views {
				v.view.Release()
			}
			views = nil
			must(t, s.Close())
			s, log = reopen(t, o, log)
		case 4:
			if len(views) == 0 {
				must(t, s.Reopen())
			}
		}
		for _, v := range views {
			reader := s.NewTxn()
			reader.ReadFrom(v.view)
			check(t, reader, v.want, random)
		}
		check(t, s.NewTxn(), committed, random)
	}
	for _, v := range views {
		v.view.Release()
	}
	must(t, s.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func reopen(t *testing.T, o Options, log *testLog) (*Store, *testLog) {
	t.Helper()
	s, err := Open(o)
	must(t, err)
	if s.Position() != log.Position() {
		t.Fatalf("opened at position %d, the log ends at %d", s.Position(), log.Position())
	}
	s.Attach(log, 1)
	return s, log
}

// runSteps writes in a transaction, and takes some of it back.
func runSteps(t *testing.T, txn *Txn, want records, random *rand.Rand) {
	ns := txn.Namespace(0)
	for range random.IntN(4) {
		savepoint, before := begin(txn, Mode{Writing: true}, 0, 0), maps.Clone(want)
		for range random.IntN(30) {
			key := randomKey(random)
			if random.IntN(3) == 0 {
				must(t, txn.Delete(ns, key))
				delete(want, string(key))
				continue
			}
			value := bytes.Repeat([]byte{byte('a' + random.IntN(26))}, random.IntN(60))
			must(t, txn.Put(ns, key, value))
			want[string(key)] = string(value)
		}
		check(t, txn, want, random)
		if random.IntN(3) == 0 {
			txn.Rollback(savepoint)
			clear(want)
			maps.Copy(want, before)
			check(t, txn, want, random)
		}
	}
}

func TestBudget(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 0, 0)
	for i := range 1000 {
		must(t, txn.Put(txn.Namespace(0), fmt.Appendf(nil, "Mkey%04d", i), nil))
	}
	txn.Begin(Mode{}, 0, 100)
	it := txn.Iterate(txn.Namespace(0), []byte("M"), []byte("N"), IteratorOptions{})
	seen := 0
	for it.Next() {
		seen++
	}
	if err := it.Close(); !errors.Is(err, ErrBudget) || seen > 100 {
		t.Fatalf("after %d records: %v", seen, err)
	}
}

// begin begins a command and returns what it can be rolled back to.
func begin(txn *Txn, mode Mode, nowMs int64, budget int) *Savepoint {
	txn.Begin(mode, nowMs, budget)
	savepoint := new(Savepoint)
	txn.Mark(savepoint)
	return savepoint
}
