package storage

import (
	"fmt"
	"sync"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
)

// heldLog is a log in memory whose Sync can be held up: the flusher then stands in the midst of a
// generation.
type heldLog struct {
	testLog
	hold sync.Mutex
}

func (l *heldLog) Sync(int64) error {
	l.hold.Lock()
	defer l.hold.Unlock()
	return nil
}

// openHeld opens a store whose log can be held up.
func openHeld(t *testing.T, o Options) (*Store, *heldLog) {
	t.Helper()
	s := openStore(t, o)
	log := &heldLog{testLog: testLog{content: make([]byte, s.Position())}}
	s.Attach(log, 1)
	return s, log
}

// in runs commands in a transaction of their own.
func in(t *testing.T, s *Store, database int, f func(db DB) error) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	if err := f(txn.DB(database)); err != nil {
		t.Fatal(err)
	}
	txn.Effect(database, []byte("NOTHING"))
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, s *Store, database int, key string) {
	t.Helper()
	in(t, s, database, func(db DB) error {
		_, err := db.Delete([]byte(key))
		return err
	})
}

func exists(t *testing.T, s *Store, database int, key string) bool {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	k, err := txn.DB(database).Lookup([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return k.Exists
}

// inside shows the inside of a store's engine.
func inside(s *Store) engine.Inspect { return engine.Inspect{Store: s.Store} }

// insideTxn shows the inside of a transaction.
func insideTxn(t *Txn) engine.InspectTxn { return engine.InspectTxn{Txn: &t.Txn} }

func freeze(s *Store) { inside(s).Freeze() }

func settle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
}

// TestReapingLeavesViews: a set is deleted behind a view, and RocksDB persists that by itself.
// Whole files could go, which the view's snapshot wouldn't keep.
func TestReapingLeavesViews(t *testing.T) {
	const members = 3 * engine.InspectReapByPoints / 2
	o := testOptions(t.TempDir(), 64<<20, 0)
	o.Rocks.TargetFileBytes, o.Rocks.Compression, o.RetainedBytes = 64<<10, "none", nil
	s := openStore(t, o)
	for part := range 10 { // they overlap, so that compaction makes many tables of them
		inTxn(t, s, func(d DB) {
			set, err := d.Set([]byte("set"))
			must(t, err)
			for i := part; i < members; i += 10 {
				_, err := set.Add(fmt.Appendf(nil, "member%d", i))
				must(t, err)
			}
			must(t, set.Save(keyevent.Changed))
		})
		must(t, s.Persist())
	}
	must(t, s.Rocks().Compact(t.Context(), inside(s).Family(0)))
	view := s.View()
	remove(t, s, 0, "set")
	settle(t, s)
	must(t, s.Rocks().Flush())
	must(t, inside(s).Reap())
	txn := s.NewTxn()
	txn.ReadFrom(view)
	set, err := txn.DB(0).Set([]byte("set"))
	must(t, err)
	seen := 0
	must(t, set.All(func([]byte) bool { seen++; return true }))
	if seen != members {
		t.Errorf("the view shows %d members of %d", seen, members)
	}
	txn.Reset()
	view.Release()
	waitFor(t, func() bool { return s.Counters().Reaped.Load() > 0 }) // by maintenance: two at once would count twice
	if reaped := s.Counters().Reaped.Load(); reaped != members {
		t.Errorf("%d members are reaped without the view, want %d", reaped, members)
	}
}

func TestReapingPassesOverWhatIsNotPersisted(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<30, 0)
	o.Limits.ListSize = constant[int64](1)
	s := openStore(t, o)
	if err := s.PersistState(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"old", "young"} {
		in(t, s, 0, func(db DB) error {
			list, err := db.List([]byte(key))
			if err == nil {
				if err = list.Push(false, [][]byte{[]byte("a"), []byte("b"), []byte("c")}); err == nil {
					err = list.Save(keyevent.Changed)
				}
			}
			return err
		})
		settle(t, s) // what comes and goes within a generation isn't left to the reaper
	}
	remove(t, s, 0, "young")
	if err := s.Persist(); err != nil {
		t.Fatal(err)
	}
	remove(t, s, 0, "old")
	settle(t, s)
	if err := inside(s).Reap(); err != nil {
		t.Fatal(err)
	}
	if n := s.Counters().Reaped.Load(); n != 3 {
		t.Errorf("%d elements reaped", n)
	}
	if err := s.Persist(); err != nil {
		t.Fatal(err)
	}
	if err := inside(s).Reap(); err != nil {
		t.Fatal(err)
	}
	if n := s.Counters().Reaped.Load(); n != 6 {
		t.Errorf("%d elements reaped", n)
	}
}
