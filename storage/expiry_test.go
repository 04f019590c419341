package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
	"kedis/ttl"
)

// expire gives a key a value that expires at a time (Unix ms).
func expire(t *testing.T, db DB, key string, expireMs int64) error {
	t.Helper()
	k, err := db.Lookup([]byte(key))
	must(t, err)
	return db.SetString([]byte(key), &k, []byte("value"), expireMs)
}

// TestFirstDue: nobody walks over the index of expiries before the first key's time has come, and
// no key that is to expire earlier is overlooked, whenever it is committed.
func TestFirstDue(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	txn := s.NewTxn()
	due := func(now int64, first int64, want ...string) {
		t.Helper()
		txn.Begin(Mode{}, 1, 0)
		defer txn.Reset()
		db := txn.DB(0)
		found, err := db.Due(ttl.Due{}, now, 10)
		must(t, err)
		var keys []string
		for _, d := range found {
			keys = append(keys, string(d.Key))
		}
		if !slices.Equal(keys, want) {
			t.Errorf("at %d %q are due, want %q", now, keys, want)
		}
		if got := db.space.FirstDue(); got != first {
			t.Errorf("at %d the first is due at %d, want %d", now, got, first)
		}
	}
	set := func(key string, expireMs int64) {
		in(t, s, 0, func(db DB) error { return expire(t, db, key, expireMs) })
	}
	set("a", 1000)
	due(500, 1000)
	set("b", 300)
	due(200, 300)
	due(500, 300, "b")

	open := s.NewTxn()
	open.Begin(Mode{Writing: true}, 1, 0)
	must(t, expire(t, open.DB(0), "c", 100))
	due(200, 300) // it isn't there yet
	must(t, s.Commit(open))
	open.Reset()
	due(200, 100, "c")

	open.Begin(Mode{Writing: true}, 1, 0)
	must(t, expire(t, open.DB(0), "d", 50))
	open.Reset()
	due(80, 100)

	for _, key := range []string{"b", "c"} {
		in(t, s, 0, func(db DB) error {
			k, err := db.LookupAny([]byte(key))
			must(t, err)
			return db.Remove([]byte(key), k)
		})
	}
	due(500, 1000)
	due(1500, 1000, "a")
	txn.Begin(Mode{}, 1, 0)
	behind, err := txn.DB(0).Due(ttl.Due{ExpireMs: 1000, Key: []byte("a")}, 1500, 10)
	must(t, err)
	if len(behind) > 0 {
		t.Errorf("%v are due behind the last", behind)
	}
	txn.Reset()
}

// TestDueComesBackForWhatIsLate: a commit that takes longer than its keys and fields live brings
// some before the place that a walk has come to.
func TestDueComesBackForWhatIsLate(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	field := func(db DB, key string, expireMs int64) error {
		h, err := db.Hash([]byte(key))
		must(t, err)
		_, err = h.Set([]byte("field"), []byte("value"))
		must(t, err)
		must(t, h.Expire([]byte("field"), 0, expireMs))
		return h.Save(keyevent.HSet)
	}
	for _, c := range []struct {
		name string
		give func(db DB, key string, expireMs int64) error
		due  func(db DB, behind ttl.Due, now int64, limit int) ([]ttl.Due, error)
	}{
		{"keys", func(db DB, key string, expireMs int64) error { return expire(t, db, key, expireMs) }, DB.Due},
		{"fields", field, DB.DueHashes},
	} {
		give := func(key string, expireMs int64) {
			in(t, s, 0, func(db DB) error { return c.give(db, c.name+key, expireMs) })
		}
		due := func(behind ttl.Due, want ...string) ttl.Due {
			t.Helper()
			txn := s.NewTxn()
			txn.Begin(Mode{}, 1, 0)
			defer txn.Reset()
			found, err := c.due(txn.DB(0), behind, 1000, 10)
			must(t, err)
			var keys []string
			for _, d := range found {
				keys = append(keys, string(d.Key[len(c.name):]))
			}
			if !slices.Equal(keys, want) {
				t.Errorf("%s: %q are due, want %q", c.name, keys, want)
			}
			if len(found) == 0 {
				return behind
			}
			return found[len(found)-1]
		}
		give("a", 500)
		give("z", 1500)
		at := due(due(ttl.Due{}, "a"))
		give("late", 400)
		give("b", 600)
		at = due(due(at, "late", "a", "b"))
		give("", 600) // the very time that the walk has come to, and a key before it in the order
		give("y", 2000)
		due(due(at, "", "b"))
	}
}

// indexed returns where keys stand in the index of expiries, in its order.
func indexed(t *testing.T, s *Store) (at []ttl.Due) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	defer txn.Reset()
	must(t, txn.DB(0).scanDue(layout.KindExpiry, ttl.Due{}, 1<<60, 1<<20, func(expireMs int64, key []byte) {
		at = append(at, ttl.Due{ExpireMs: expireMs, Key: slices.Clone(key)})
	}))
	return at
}

// at changes a database at a time (Unix ms).
func at(t *testing.T, s *Store, now int64, change func(db DB) error) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, now, 0)
	must(t, change(txn.DB(0)))
	must(t, s.Commit(txn))
	txn.Reset()
}

// TestTimeThatIsPutOff: a key stays where it is in the index when it is to expire later, and is
// moved when that time has come.
func TestTimeThatIsPutOff(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	want := func(places ...int64) {
		t.Helper()
		var got []int64
		for _, due := range indexed(t, s) {
			got = append(got, due.ExpireMs)
		}
		if !slices.Equal(got, places) {
			t.Errorf("it stands at %v, want %v", got, places)
		}
	}
	expires := func(now, expireMs int64) {
		t.Helper()
		at(t, s, now, func(db DB) error { return expire(t, db, "key", expireMs) })
	}
	sweep := func(now int64, gone bool) {
		t.Helper()
		at(t, s, now, func(db DB) error {
			removed, err := db.RemoveExpired([]byte("key"))
			if removed != gone {
				t.Errorf("at %d it is removed: %v", now, removed)
			}
			return err
		})
	}
	expires(1, 1000)
	expires(2, 2000)
	expires(3, 3000)
	want(1000)
	sweep(999, false)
	want(1000)
	sweep(1000, false)
	want(3000)
	expires(1001, 2500) // earlier
	want(2500)
	expires(1002, 4000)
	want(2500)
	expires(2500, 5000) // when the time has come that it stands at, it is moved at once
	want(5000)
	expires(2501, 6000)
	at(t, s, 2502, func(db DB) error { // another name
		k, err := db.Lookup([]byte("key"))
		must(t, err)
		return db.Move([]byte("key"), k, []byte("other"))
	})
	want(6000)
	expires(2503, 7000)
	expires(2504, 8000)
	want(6000, 7000)
	at(t, s, 2505, func(db DB) error { _, err := db.Delete([]byte("other")); return err })
	want(7000)
	sweep(8000, true)
	want()
}

// TestIndexOfExpiries compares the index with the keys, whatever happens to them.
func TestIndexOfExpiries(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	random := rand.New(rand.NewPCG(1, 2))
	putOff := 0
	for now := int64(1); now < 4000; now++ {
		key, other := fmt.Appendf(nil, "key%d", random.IntN(20)), fmt.Appendf(nil, "key%d", random.IntN(20))
		expireMs := now + random.Int64N(300)
		at(t, s, now, func(db DB) error {
			k, err := db.Lookup(key)
			must(t, err)
			switch random.IntN(9) {
			case 0:
				return db.SetString(key, &k, []byte("value"), 0)
			case 1, 2:
				return db.SetString(key, &k, []byte("value"), expireMs)
			case 3:
				_, err = db.RemoveExpired(key)
				return err
			case 4:
				if !k.Exists || k.Type == layout.String {
					_, err = db.Append(key, []byte("more"), 1<<20)
				}
				return err
			case 5:
				if k.Exists && string(key) != string(other) {
					return db.Move(key, k, other)
				}
			case 6:
				z, err := db.ReplaceZSet(key)
				must(t, err)
				must(t, z.Put([]byte("member"), 1, 0, false))
				return z.Save(keyevent.ZAdd)
			case 7:
				_, err = db.Delete(key)
				return err
			default:
				if k.Exists {
					return db.SetExpiry(key, &k, expireMs)
				}
			}
			return nil
		})
		var want []ttl.Due
		at(t, s, now, func(db DB) error {
			for i := range 20 {
				k, err := db.LookupAny(fmt.Appendf(nil, "key%d", i))
				must(t, err)
				if k.Exists && k.ExpireMs != 0 {
					want = append(want, ttl.Due{ExpireMs: k.IndexMs(), Key: fmt.Appendf(nil, "key%d", i)})
				}
				if k.IndexedMs != 0 {
					putOff++
				}
			}
			return nil
		})
		slices.SortFunc(want, func(a, b ttl.Due) int {
			if a.ExpireMs != b.ExpireMs {
				return int(a.ExpireMs - b.ExpireMs)
			}
			return slices.Compare(a.Key, b.Key)
		})
		if got := indexed(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("at %d the index is %v, and the keys have %v", now, got, want)
		}
	}
	if putOff == 0 {
		t.Error("no time was put off")
	}
}
