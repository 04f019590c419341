package storage

import (
	"testing"

	"kedis/storage/layout"
)

// TestFlushOfNothing gives a database another namespace only when its own has been used.
func TestFlushOfNothing(t *testing.T) {
	s, _ := reopen(t, testOptions(t.TempDir(), 1<<20, 1<<20), &testLog{})
	defer func() { must(t, s.Close()) }()
	space := func() uint32 { return inside(s).Namespace(0) }
	save := func(txn *Txn) {
		txn.Begin(Mode{Writing: true}, 1000, 0)
		must(t, txn.DB(0).Save([]byte("a"), Key{}, layout.Metadata{Type: layout.String, Encoding: layout.Plain}))
		txn.Effect(0, []byte("SET"))
	}
	flush := func(txn *Txn) {
		txn.Flush(0)
		txn.Effect(0, []byte("FLUSHALL"))
	}
	commit := func(steps ...func(txn *Txn)) (changed bool) {
		t.Helper()
		before, txn := space(), s.NewTxn()
		for _, step := range steps {
			step(txn)
		}
		must(t, s.Commit(txn))
		if keys, _ := s.Size(0); keys != 0 && len(steps) > 1 {
			t.Fatalf("%d keys are left", keys)
		}
		return space() != before
	}
	if commit(flush) || commit(flush, flush) {
		t.Error("a database that never held a key got a new namespace")
	}
	commit(save)
	if !commit(flush) || commit(flush) {
		t.Error("the keys were not flushed away once")
	}
	if !commit(save, flush) {
		t.Error("keys of the same transaction were not flushed away")
	}
	txn := s.NewTxn()
	save(txn)
	flush(txn)
	first := txn.Namespace(0)
	flush(txn)
	if txn.Namespace(0) != first {
		t.Error("the second flush of a transaction made a namespace")
	}
	must(t, s.Commit(txn))
	commit(save)
	must(t, s.Persist())
	if !commit(flush) || commit(flush) {
		t.Error("what RocksDB has was not flushed away once")
	}
	families := len(s.Rocks().Families())
	for range 100 {
		commit(save)
		commit(flush)
	}
	must(t, s.Persist())
	if got := len(s.Rocks().Families()); got > families {
		t.Errorf("%d families, and %d before: what never went to RocksDB needs none", got, families)
	}
}
