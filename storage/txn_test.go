package storage

import (
	"testing"

	"kedis/storage/layout"
)

func TestCountersAndNamespaces(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	s, log := reopen(t, o, &testLog{})
	set := func(database int, key string, expireMs int64) {
		txn := s.NewTxn()
		txn.Begin(Mode{Writing: true}, 1000, 0)
		db := txn.DB(database)
		old, err := db.Lookup([]byte(key))
		must(t, err)
		must(t, db.Save([]byte(key), old, layout.Metadata{Type: layout.String, Encoding: layout.Plain, ExpireMs: expireMs}))
		txn.Effect(database, []byte("SET"), []byte(key))
		must(t, s.Commit(txn))
	}
	size := func(database int, keys, expires int64) {
		t.Helper()
		if k, e := s.Size(database); k != keys || e != expires {
			t.Fatalf("database %d has %d keys, %d that expire; want %d, %d", database, k, e, keys, expires)
		}
	}
	set(0, "a", 0)
	set(0, "b", 5000)
	set(0, "b", 6000)
	set(1, "c", 0)
	size(0, 2, 1)
	must(t, s.Persist())
	txn := s.NewTxn()
	txn.Swap(0, 1)
	txn.Flush(0)
	txn.Effect(0, []byte("SWAPDB"))
	must(t, s.Commit(txn))
	size(0, 0, 0)
	size(1, 2, 1)
	must(t, s.Close())
	s, _ = reopen(t, o, log)
	size(0, 0, 0)
	size(1, 2, 1)
	if got := len(s.Rocks().Families()); got > 3 {
		t.Errorf("families %q: the flushed one should be gone", s.Rocks().Families())
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

// begin begins a command and returns what it can be rolled back to.
func begin(txn *Txn, mode Mode, nowMs int64, budget int) *Savepoint {
	txn.Begin(mode, nowMs, budget)
	savepoint := new(Savepoint)
	txn.Mark(savepoint)
	return savepoint
}
