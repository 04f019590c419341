package storage

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"kedis/storage/bits"
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
	k, err := db.LookupType([]byte(key), layout.String)
	if err != nil {
		t.Fatal(err)
	}
	return k.Value
}

// TestLargeStringsAreComposedInPlace: the commit takes the memory in which a long string was
// composed, and copies nothing.
func TestLargeStringsAreComposedInPlace(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	key := []byte("key")
	for _, command := range []struct {
		name string
		run  func(db DB) error
	}{
		{"SETRANGE", func(db DB) error { _, err := db.SetRange(key, longValue-3, []byte("abc"), MaxStringBytes); return err }},
		{"SETBIT", func(db DB) error { _, err := db.SetBit(key, 8*1000+7, 1); return err }},
		{"APPEND", func(db DB) error { _, err := db.Append(key, []byte("def"), MaxStringBytes); return err }},
		{"BITFIELD", func(db DB) error {
			return db.BitField(key, []FieldOperation{{Action: FieldSet, Type: bits.Type{Bits: 8}, Offset: 16, Number: 'y'}}, func(int64, bool) {})
		}},
		{"BITOP", func(db DB) error { _, err := db.CombineBits(key, bits.Or, [][]byte{key}); return err }},
	} {
		t.Run(command.name, func(t *testing.T) {
			txn := s.NewTxn()
			txn.Begin(Mode{Writing: true}, 1, 0)
			if err := command.run(txn.DB(0)); err != nil {
				t.Fatal(err)
			}
			before := stringOf(t, txn.DB(0), "key")
			if copied, _ := insideTxn(txn).JournalBytes(); copied > 1<<10 {
				t.Errorf("%d bytes were copied into the journal", copied)
			}
			if err := s.Commit(txn); err != nil {
				t.Fatal(err)
			}
			txn.Reset()
			txn.Begin(Mode{}, 1, 0)
			if after := stringOf(t, txn.DB(0), "key"); &before[0] != &after[0] || len(before) != len(after) {
				t.Error("the commit has made a copy")
			}
		})
	}
	want := make([]byte, longValue, longValue+3)
	copy(want[longValue-3:], "abc")
	want[1000], want[2] = 1, 'y'
	want = append(want, "def"...)
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	if got := stringOf(t, txn.DB(0), "key"); !bytes.Equal(got, want) {
		t.Error("something else stands there")
	}
}

// TestLargeRecordsAreTakenBack: a transaction sees its own versions of a long string, and those
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
		k, err := db.Lookup([]byte("key"))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.SetString([]byte("key"), &k, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
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
	commitChange(t, s, func(db DB) error {
		_, err := db.SetRange([]byte("key"), longValue-1, []byte("x"), MaxStringBytes)
		return err
	})
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
