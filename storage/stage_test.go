package storage

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// stageHash copies a spread hash to a key, which stages the copy, and returns that.
func stageHash(t *testing.T, txn *Txn, from, to string) Key {
	t.Helper()
	d := txn.DB(0)
	k, err := d.Lookup([]byte(from))
	must(t, err)
	must(t, d.CopyTo(k, d, []byte(to), Key{}))
	if k, err = d.Lookup([]byte(to)); err != nil || insideTxn(txn).StagedCollections() == 0 {
		t.Fatalf("nothing was staged; %v", err)
	}
	return k
}

const hashFields = 50

func openWithHash(t *testing.T, o Options) *Store {
	t.Helper()
	s := openStore(t, o)
	putHash(t, s)
	return s
}

func putHash(t *testing.T, s *Store) {
	t.Helper()
	inside(s).StageFrom(100)
	inTxn(t, s, func(d DB) {
		h, err := d.Hash([]byte("h"))
		must(t, err)
		for i := range hashFields {
			_, err := h.Set(fmt.Appendf(nil, "f%d", i), strconv.AppendInt(nil, int64(i), 10))
			must(t, err)
		}
		must(t, h.Save(keyevent.Changed))
	})
}

// standing counts the records in RocksDB of a hash's fields, and reports whether they are on the
// reaper's list.
func standing(t *testing.T, s *Store, id uint64) (fields int, abandoned bool) {
	t.Helper()
	family := inside(s).Family(0)
	lower := layout.AppendElementKey(nil, layout.KindHashField, id, nil)
	it := s.Rocks().NewIterator(family, nil, rocks.IteratorOptions{LowerBound: lower, UpperBound: layout.Successor(nil, lower)})
	defer it.Close()
	for it.Next() {
		fields++
	}
	must(t, it.Err())
	_, abandoned, err := s.Rocks().Get(family, nil, layout.AppendDeletedKey(nil, id), nil)
	must(t, err)
	return fields, abandoned
}

func expectStanding(t *testing.T, s *Store, when string, id uint64, wantFields int, wantAbandoned bool) {
	t.Helper()
	fields, abandoned := standing(t, s, id)
	if fields != wantFields || abandoned != wantAbandoned {
		t.Errorf("%s: %d fields in RocksDB, to be reaped %v; want %d, %v", when, fields, abandoned, wantFields, wantAbandoned)
	}
}

func expectHash(t *testing.T, d DB, key string) {
	t.Helper()
	h, err := d.Hash([]byte(key))
	must(t, err)
	if h.Len() != hashFields {
		t.Errorf("%q has %d fields, want %d", key, h.Len(), hashFields)
	}
	for i := range hashFields {
		value, found, err := h.Get(fmt.Appendf(nil, "f%d", i))
		must(t, err)
		if !found || string(value) != strconv.Itoa(i) {
			t.Fatalf("%q, field %d: %q, %v", key, i, value, found)
		}
	}
}

func persistAndReap(t *testing.T, s *Store) {
	t.Helper()
	must(t, s.Persist())
	must(t, inside(s).Reap())
}

// TestStagedElementsStayUntilTheirCommit, whatever RocksDB has persisted of them, and beyond it.
func TestStagedElementsStayUntilTheirCommit(t *testing.T) {
	s := openWithHash(t, tinyOptions(t))
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	k := stageHash(t, txn, "h", "copy")
	expectHash(t, txn.DB(0), "copy")
	persistAndReap(t, s)
	expectStanding(t, s, "before the commit", k.ID, hashFields, true)
	txn.Effect(0, []byte("COPY"))
	must(t, s.Commit(txn))
	txn.Reset()
	must(t, inside(s).Reap()) // the deletion of the record may still be in a generation
	expectHash(t, s.NewTxn().DB(0), "copy")
	persistAndReap(t, s)
	expectStanding(t, s, "when the commit is in RocksDB", k.ID, hashFields, false)
	if inside(s).Staged(k.ID) {
		t.Error("the id is kept for good")
	}
	inTxn(t, s, func(d DB) {
		expectHash(t, d, "copy")
		gone, err := d.Delete([]byte("copy"))
		if err != nil || !gone {
			t.Errorf("deleting the copy: %v, %v", gone, err)
		}
	})
	persistAndReap(t, s)
	expectStanding(t, s, "when it was deleted", k.ID, 0, false)
}

// TestStagedElementsAreGivenUp with what they were made for: a command, a transaction or a commit.
func TestStagedElementsAreGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(s *Store, txn *Txn, before *Savepoint){
		"rollback": func(_ *Store, txn *Txn, before *Savepoint) { txn.Rollback(before) },
		"reset":    func(_ *Store, txn *Txn, _ *Savepoint) { txn.Reset() },
		"failed commit": func(s *Store, txn *Txn, _ *Savepoint) {
			log := inside(s).CommitLog().(*testLog)
			log.fail = errRefused
			txn.Effect(0, []byte("COPY"))
			if err := s.Commit(txn); err == nil {
				t.Error("a commit without a log")
			}
			log.fail = nil
			txn.Reset()
		},
		"deleted at once": func(s *Store, txn *Txn, _ *Savepoint) {
			_, err := txn.DB(0).Delete([]byte("copy"))
			must(t, err)
			txn.Effect(0, []byte("COPY"))
			must(t, s.Commit(txn))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openWithHash(t, tinyOptions(t))
			txn := s.NewTxn()
			before := begin(txn, Mode{Writing: true}, 1000, 0)
			k := stageHash(t, txn, "h", "copy")
			giveUp(s, txn, before)
			persistAndReap(t, s)
			expectStanding(t, s, name, k.ID, 0, false)
			inTxn(t, s, func(d DB) {
				expectHash(t, d, "h")
				if k, err := d.Lookup([]byte("copy")); err != nil || k.Exists {
					t.Errorf("the copy is there, %v", err)
				}
			})
		})
	}
}

// TestGivenUpElementsAreReapedTogether: not while some are on their way to RocksDB, when the reaper
// could take away the record that comes with them, and leave them for good.
func TestGivenUpElementsAreReapedTogether(t *testing.T) {
	s := openWithHash(t, tinyOptions(t))
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	e := txn.NewElements(txn.Namespace(0), layout.Hash, txn.NewID())
	put := func(from int) {
		for i := range hashFields {
			must(t, e.Put(layout.KindHashField, fmt.Appendf(nil, "f%d", from+i), []byte("value")))
		}
	}
	put(0)
	must(t, s.Persist())
	first, _ := standing(t, s, e.ID())
	put(hashFields)
	txn.Reset()
	must(t, inside(s).Reap())
	if fields, abandoned := standing(t, s, e.ID()); first == 0 || fields < first || !abandoned {
		t.Errorf("%d fields, and %d with a generation to come, to be reaped %v", first, fields, abandoned)
	}
	persistAndReap(t, s)
	expectStanding(t, s, "when RocksDB has that", e.ID(), 0, false)
	if inside(s).Staged(e.ID()) {
		t.Error("the id is kept for good")
	}
}

// TestStagedElementsAfterACrash: RocksDB has them, and of their commit nothing. They are reaped,
// and their id is not used again.
func TestStagedElementsAfterACrash(t *testing.T) {
	o := tinyOptions(t)
	s, log := reopen(t, o, &testLog{})
	putHash(t, s)
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	k := stageHash(t, txn, "h", "copy")
	must(t, s.Persist())
	must(t, s.Close()) // without the transaction
	s, _ = reopen(t, o, log)
	defer func() { must(t, s.Close()) }()
	if next := inside(s).NextID(); next <= k.ID {
		t.Errorf("the next id is %d, and %d has been staged", next, k.ID)
	}
	expectStanding(t, s, "after the crash", k.ID, hashFields, true)
	must(t, inside(s).Reap())
	expectStanding(t, s, "after the reaper", k.ID, 0, false)
	inTxn(t, s, func(d DB) { expectHash(t, d, "h") })
}

// TestFilesGoBehindTheDeletion: a collection is staged, which is persisted, committed and deleted.
// The record that was staged with it is not the one of its deletion, which is persisted before
// whole files may go.
func TestFilesGoBehindTheDeletion(t *testing.T) {
	const members = engine.InspectReapByPoints + 10
	o := testOptions(t.TempDir(), 256<<20, 0)
	o.Rocks.WriteBufferBytes, o.TablesFrom = 256<<20, constant[int64](1<<40) // nothing is persisted by itself
	o.FlushInterval = constant[time.Duration](math.MaxInt64)
	s := openStore(t, o)
	inside(s).StageFrom(64 << 10)
	var id uint64
	inTxn(t, s, func(d DB) {
		made := d.newElements(layout.Set)
		for i := range members {
			must(t, made.Put(layout.KindSetMember, strconv.AppendInt(nil, int64(i), 10), nil))
		}
		id = made.ID()
		must(t, s.Persist())
		must(t, made.Finish())
		must(t, d.Save([]byte("set"), Key{}, layout.Metadata{Type: layout.Set, Encoding: layout.Spread, ID: id, Count: members}))
	})
	settle(t, s)
	remove(t, s, 0, "set")
	settle(t, s)
	_, staged, err := s.Rocks().GetPersisted(inside(s).Family(0), layout.AppendDeletedKey(nil, id))
	must(t, err)
	if !staged || s.Persisted() >= s.Written() {
		t.Fatalf("persisted: %v, up to %d of %d", staged, s.Persisted(), s.Written())
	}
	must(t, inside(s).Reap())
	if n := s.Counters().Reaped.Load(); n != members {
		t.Errorf("%d members are reaped, want %d", n, members)
	}
	if s.Persisted() != s.Written() {
		t.Errorf("files are gone when RocksDB has persisted up to %d; the deletion is at %d", s.Persisted(), s.Written())
	}
}

// TestIDsStagedByEarlierVersions went to RocksDB ahead of its state, with the highest of them.
func TestIDsStagedByEarlierVersions(t *testing.T) {
	o := tinyOptions(t)
	s, log := reopen(t, o, &testLog{})
	highest := inside(s).NextID() + 100
	must(t, s.Close())
	db, err := rocks.Open(o.Rocks)
	must(t, err)
	batch := new(rocks.Batch)
	batch.Put(db.Family("default"), layout.HighestKey, binary.BigEndian.AppendUint64(nil, highest))
	must(t, db.Write(batch))
	must(t, db.Flush())
	must(t, db.Close())
	s, _ = reopen(t, o, log)
	defer func() { must(t, s.Close()) }()
	if next := inside(s).NextID(); next <= highest {
		t.Errorf("the next id is %d, and %d has been staged", next, highest)
	}
}

// TestMoveIsStaged: a hash goes to another database ahead of the commit, and is in one of them,
// whether that comes or not.
func TestMoveIsStaged(t *testing.T) {
	for _, commits := range []bool{true, false} {
		s := openWithHash(t, tinyOptions(t))
		txn := s.NewTxn()
		txn.Begin(Mode{Writing: true}, 1000, 0)
		d, other := txn.DB(0), txn.DB(1)
		k, err := d.Lookup([]byte("h"))
		must(t, err)
		must(t, d.MoveTo([]byte("h"), k, other))
		if insideTxn(txn).StagedCollections() == 0 {
			t.Fatal("nothing was staged")
		}
		if commits {
			txn.Effect(0, []byte("EFFECT"))
			must(t, s.Commit(txn))
		}
		txn.Reset()
		inTxn(t, s, func(d DB) {
			at := d
			if commits {
				at = d.txn.DB(1)
			}
			expectHash(t, at, "h")
			for _, db := range []DB{d, d.txn.DB(1)} {
				k, err := db.Lookup([]byte("h"))
				if must(t, err); k.Exists != (db.Number() == at.Number()) {
					t.Errorf("committed: %v; in database %d it exists: %v", commits, db.Number(), k.Exists)
				}
			}
		})
	}
}

// TestGrowthCountsStagedElements: a database grows by as much, staged or not, but for the record
// that says that nothing refers to the elements.
func TestGrowthCountsStagedElements(t *testing.T) {
	s := openWithHash(t, tinyOptions(t))
	txn := s.NewTxn()
	defer txn.Reset()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	var before Savepoint
	txn.Mark(&before)
	k := stageHash(t, txn, "h", "copy")
	keys, staged := txn.Grown(&before, 0)
	txn.Rollback(&before)
	if keys, bytes := txn.Grown(&before, 0); keys != 0 || bytes != 0 {
		t.Errorf("what is taken back is counted: %d keys, %d bytes", keys, bytes)
	}
	inside(s).StageFrom(1 << 20)
	h, err := txn.DB(0).Lookup([]byte("h"))
	must(t, err)
	must(t, txn.DB(0).CopyTo(h, txn.DB(0), []byte("copy"), Key{}))
	_, whole := txn.Grown(&before, 0)
	if want := whole + int64(len(layout.AppendDeletedKey(nil, k.ID))); keys != 1 || staged != want {
		t.Errorf("staged it is %d keys and %d bytes, want 1 and %d", keys, staged, want)
	}
	if keys, bytes := txn.Grown(&before, 1); keys != 0 || bytes != 0 {
		t.Errorf("another database has grown by %d keys and %d bytes", keys, bytes)
	}
}

// TestReactorsDoNotStage: a command with a budget is going to be run again.
func TestReactorsDoNotStage(t *testing.T) {
	s := openWithHash(t, tinyOptions(t))
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1000, 10000)
	d := txn.DB(0)
	k, err := d.Lookup([]byte("h"))
	must(t, err)
	must(t, d.CopyTo(k, d, []byte("copy"), Key{}))
	if insideTxn(txn).StagedCollections() != 0 {
		t.Error("staged on a reactor")
	}
	expectHash(t, d, "copy")
}

// TestStagingLeavesOtherWrites of the transaction where they are, also those that came in between.
func TestStagingLeavesOtherWrites(t *testing.T) {
	s := openWithHash(t, tinyOptions(t))
	const members = 100
	var id uint64
	inTxn(t, s, func(d DB) {
		made := d.newElements(layout.Set)
		for i := range members {
			must(t, made.Put(layout.KindSetMember, strconv.AppendInt(nil, int64(i), 10), nil))
			if i == 1 {
				must(t, d.SetString([]byte("between"), &Key{}, []byte("v"), 0))
			}
		}
		if insideTxn(d.txn).StagedCollections() == 0 {
			t.Fatal("nothing was staged")
		}
		must(t, made.Finish())
		id = made.ID()
		must(t, d.Save([]byte("set"), Key{}, layout.Metadata{Type: layout.Set, Encoding: layout.Spread, ID: id, Count: members}))
	})
	persistAndReap(t, s)
	inTxn(t, s, func(d DB) {
		k, err := d.Lookup([]byte("between"))
		must(t, err)
		if string(k.Value) != "v" {
			t.Errorf("the other key holds %q", k.Value)
		}
		set, err := d.Lookup([]byte("set"))
		must(t, err)
		must(t, d.scanAll(&set.Metadata, set.Type.Elements()[0], false, func(_, _ []byte) error { return nil }))
	})
}

// TestStagedSortedSetsAndLists are what a command makes in place of what a key held.
func TestStagedSortedSetsAndLists(t *testing.T) {
	s := openStore(t, tinyOptions(t))
	inTxn(t, s, func(d DB) { // so that there is a namespace, and something to take the place of
		for _, key := range []string{"z", "l"} {
			must(t, d.SetString([]byte(key), &Key{}, []byte("x"), 0))
		}
	})
	inside(s).StageFrom(100)
	const count = 1000
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	z, err := txn.DB(0).ReplaceZSet([]byte("z"))
	must(t, err)
	l, err := txn.DB(0).ReplaceList([]byte("l"))
	must(t, err)
	for i := range count {
		must(t, z.AddNew(fmt.Appendf(nil, "m%04d", i), float64(-i)))
		must(t, l.Push(false, [][]byte{fmt.Appendf(nil, "e%04d", i)}))
	}
	must(t, z.Save(keyevent.Changed))
	must(t, l.Save(keyevent.Changed))
	if insideTxn(txn).StagedCollections() != 2 {
		t.Fatalf("%d collections were staged", insideTxn(txn).StagedCollections())
	}
	txn.Effect(0, []byte("EFFECT"))
	must(t, s.Commit(txn))
	txn.Reset()
	compare := func(d DB) {
		z, err := d.ZSet([]byte("z"))
		must(t, err)
		l, err := d.List([]byte("l"))
		must(t, err)
		if z.Len() != count || l.Len() != count {
			t.Fatalf("%d members and %d elements, want %d", z.Len(), l.Len(), count)
		}
		for i := range count {
			score, found, err := z.Score(fmt.Appendf(nil, "m%04d", i))
			must(t, err)
			if !found || score != float64(-i) {
				t.Fatalf("member %d: score %v (%v)", i, score, found)
			}
		}
		must(t, l.Range(0, count, false, func(i int, value []byte) bool {
			if string(value) != fmt.Sprintf("e%04d", i) {
				t.Fatalf("element %d: %q", i, value)
			}
			return true
		}))
	}
	inTxn(t, s, compare)
	persistAndReap(t, s)
	inTxn(t, s, compare)
	must(t, s.Reopen())
	inTxn(t, s, compare)
}
