package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestAnyKeys asks for many keys: those of each part of the database come evenly, and no key that
// is gone.
func TestAnyKeys(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<10, 1<<20))
	const keys, draws = 5000, 50_000
	inTxn(t, s, func(d DB) {
		for i := range keys {
			putString(t, d, fmt.Sprintf("user:%04d", 2*i), 0)
			putString(t, d, fmt.Sprintf("user:%04d", 2*i+1), 1) // has expired
		}
	})
	settle(t, s)
	random := rand.New(rand.NewPCG(2, 8))
	txn := s.NewTxn()
	count := func(draws int) (single, parts map[string]int) {
		single, parts = map[string]int{}, map[string]int{}
		for range draws {
			txn.Begin(Mode{}, 1000, 0)
			key, found, err := txn.DB(0).AnyKey(random.IntN)
			must(t, err)
			if k, err := txn.DB(0).Lookup(key); err != nil || !found || !k.Exists {
				t.Fatalf("%q, %v: it isn't there, %v", key, found, err)
			}
			single[string(key)]++
			parts[string(key[:6])]++
			txn.Reset()
		}
		return single, parts
	}
	reads := s.Counters().RocksReads.Load()
	single, parts := count(draws)
	t.Logf("%d different keys, %d records read", len(single), s.Counters().RocksReads.Load()-reads)
	for part, times := range parts { // with runs of 128, of which every other key has expired, the standard deviation is 8 times that of single picks
		if times < draws/10-2200 || times > draws/10+2200 {
			t.Errorf("%q came %d times of %d", part, times, draws)
		}
	}
	if len(parts) != 10 || len(single) < keys*9/10 {
		t.Errorf("%d parts, %d different keys", len(parts), len(single))
	}
	inTxn(t, s, func(d DB) {
		for i := range keys {
			if i%10 != 0 {
				_, err := d.Delete(fmt.Appendf(nil, "user:%04d", 2*i))
				must(t, err)
			}
		}
	})
	if single, _ := count(500); len(single) < 200 {
		t.Errorf("%d different keys", len(single))
	}
}

// TestAnyKeyIsOfThisDatabase, whatever was asked for before, and when.
func TestAnyKeyIsOfThisDatabase(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<10, 1<<20))
	fill := func(prefix string) {
		inTxn(t, s, func(d DB) {
			for i := range 3000 {
				putString(t, d, fmt.Sprintf("%s%04d", prefix, i), 0)
			}
		})
	}
	txn := s.NewTxn()
	now := int64(1000)
	expect := func(prefix string) {
		t.Helper()
		for range 200 {
			txn.Begin(Mode{}, now, 0)
			if key, _, err := txn.DB(0).AnyKey(rand.IntN); err != nil || string(key[:1]) != prefix {
				t.Fatalf("%q came instead of one that begins with %q, %v", key, prefix, err)
			}
			txn.Reset()
		}
	}
	fill("a")
	expect("a")
	flush := s.NewTxn()
	flush.Flush(0)
	flush.Effect(0, []byte("FLUSHDB"))
	must(t, s.Commit(flush))
	fill("b")
	expect("b")
	now += poolLastsMs + 1
	txn.Begin(Mode{}, now, 0)
	if _, _, err := txn.DB(0).AnyKey(rand.IntN); err != nil || len(txn.pool.keys) > runKeys {
		t.Errorf("%d keys are kept that nobody has asked for lately, %v", len(txn.pool.keys), err)
	}
}
