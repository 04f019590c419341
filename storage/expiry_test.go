package storage

import (
	"slices"
	"testing"

	"kedis/internal/keyevent"
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
