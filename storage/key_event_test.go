package storage

import (
	"fmt"
	"slices"
	"testing"

	"kedis/storage/layout"
)

func describeEvents(t *Txn, first int) []string {
	var events []string
	t.KeyEvents().Each(first, func(e KeyEvent) {
		events = append(events, fmt.Sprintf("%d %s %d %s", e.Database, e.Key, e.Type, e.Name))
	})
	return events
}

// TestKeyEvents collects events, takes some back, and finds the others there after the commit.
func TestKeyEvents(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	txn := s.NewTxn()
	d := txn.DB(0)
	changed := func(database int, key string, kind layout.Type) string {
		return fmt.Sprintf("%d %s %d ", database, key, kind)
	}
	set := func(d DB, key string) {
		t.Helper()
		if err := d.Save([]byte(key), Key{}, layout.Metadata{Type: layout.String, Encoding: layout.Raw}); err != nil {
			t.Fatal(err)
		}
	}
	set(d, "first")
	var savepoint Savepoint
	txn.Mark(&savepoint)
	set(d, "a longer key")
	txn.Rollback(&savepoint)
	set(txn.DB(3), "second")
	set(d, "third")
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
	want := []string{changed(0, "first", layout.String), changed(3, "second", layout.String), changed(0, "third", layout.String)}
	if got := describeEvents(txn, 0); !slices.Equal(got, want) {
		t.Errorf("after the commit: %q, want %q", got, want)
	}
	if got := describeEvents(txn, 2); !slices.Equal(got, want[2:]) {
		t.Errorf("but the first two: %q, want %q", got, want[2:])
	}
	if got := describeEvents(txn, txn.KeyEvents().Len()); len(got) > 0 {
		t.Errorf("none: %q", got)
	}
	txn.Reset()
	if txn.KeyEvents().Len() > 0 {
		t.Error("a transaction that was reset has events")
	}
}

// TestExpiredEvent: a key that a command finds expired is removed, which is another event than a change.
func TestExpiredEvent(t *testing.T) {
	txn := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20)).NewTxn()
	d := txn.DB(0)
	if err := d.Save([]byte("key"), Key{}, layout.Metadata{Type: layout.String, Encoding: layout.Raw, ExpireMs: 10}); err != nil {
		t.Fatal(err)
	}
	first := txn.KeyEvents().Len()
	txn.Begin(Mode{Writing: true}, 20, 0)
	if gone, err := d.RemoveExpired([]byte("key")); err != nil || !gone {
		t.Fatal(gone, err)
	}
	want := []string{fmt.Sprintf("0 key %d expired", layout.String)}
	if got := describeEvents(txn, first); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
