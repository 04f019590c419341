package storage

import (
	"errors"
	"strings"
	"testing"

	"kedis/storage/engine"
	"kedis/storage/layout"
)

const longValue = 3*engine.LargeValue + 17

// commitChange runs a command of a transaction, and commits it.
func commitChange(t *testing.T, s *Store, f func(db DB) error) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	if err := f(txn.DB(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
	txn.Reset()
}

func stringOf(t *testing.T, db DB, key string) []byte {
	t.Helper()
	k, err := db.LookupString([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return k.Value
}

// setWhole stores a string in one record, however long it is, as earlier versions have stored it.
func setWhole(d DB, key, value []byte) error {
	k, err := d.Lookup(key)
	if err != nil {
		return err
	}
	return d.Save(key, k, layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: value})
}

// TestLargeRecordsAreTakenBack: a transaction sees its own versions of a long record, and those
// before them once it has taken them back.
func TestLargeRecordsAreTakenBack(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	long := strings.Repeat("long", engine.LargeValue/2)
	commitChange(t, s, func(db DB) error { return db.SetString([]byte("key"), &Key{}, []byte("short"), 0) })
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	var savepoints [3]Savepoint
	for i, value := range []string{long, long + "er", "short again"} {
		txn.Mark(&savepoints[i])
		must(t, setWhole(db, []byte("key"), []byte(value)))
		if got := stringOf(t, db, "key"); string(got) != value {
			t.Fatalf("%d bytes where %d were written", len(got), len(value))
		}
	}
	for i, value := range []string{long + "er", long, "short"} {
		txn.Rollback(&savepoints[len(savepoints)-1-i])
		if got := stringOf(t, db, "key"); string(got) != value {
			t.Fatalf("%d bytes where %d were before", len(got), len(value))
		}
	}
	if _, size := insideTxn(txn).JournalBytes(); size != 0 {
		t.Errorf("%d bytes are left", size)
	}
}

// TestReactorsLeaveLargeRecords: a record that is known to be large isn't read from RocksDB by a
// command with a budget.
func TestReactorsLeaveLargeRecords(t *testing.T) {
	o := testOptions(t.TempDir(), 64<<20, 1<<20)
	o.RetainedBytes = nil
	s := openStore(t, o)
	long := append(make([]byte, longValue-1), 'x')
	commitChange(t, s, func(db DB) error { return setWhole(db, []byte("key"), long) })
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	const budget = longValue/engine.InspectBytesPerRecord - 1
	reads := s.Counters().RocksReads.Load()
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, budget)
	if _, err := txn.DB(0).Lookup([]byte("key")); !errors.Is(err, ErrBudget) {
		t.Errorf("the error is %v", err)
	}
	if asked := txn.AskedBytes(); asked < longValue {
		t.Errorf("%d bytes were asked for", asked)
	}
	if read := s.Counters().RocksReads.Load() - reads; read != 0 {
		t.Errorf("RocksDB was asked %d times", read)
	}
	txn.Begin(Mode{}, 1, 0)
	if got := stringOf(t, txn.DB(0), "key"); len(got) != longValue || got[longValue-1] != 'x' {
		t.Errorf("%d bytes were read", len(got))
	}
}
