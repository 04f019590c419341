package engine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/storage/layout"
	"kedis/storage/rocks"
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

// write gives a key a value in a transaction of its own.
func write(t *testing.T, s *Store, database int, key string) {
	t.Helper()
	commit(t, s, database, func(txn *Txn, ns *Namespace) error {
		txn.Count(ns, 1, 0)
		return txn.Put(ns, layout.AppendMetadataKey(nil, []byte(key)), []byte("value"))
	})
}

func remove(t *testing.T, s *Store, database int, key string) {
	t.Helper()
	commit(t, s, database, func(txn *Txn, ns *Namespace) error {
		txn.Count(ns, -1, 0)
		return txn.Delete(ns, layout.AppendMetadataKey(nil, []byte(key)))
	})
}

func commit(t *testing.T, s *Store, database int, f func(txn *Txn, ns *Namespace) error) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	must(t, f(txn, txn.Namespace(database)))
	txn.Effect(database, []byte("NOTHING"))
	must(t, s.Commit(txn))
}

func exists(t *testing.T, s *Store, database int, key string) bool {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	_, found, err := txn.Get(txn.Namespace(database), layout.AppendMetadataKey(nil, []byte(key)))
	must(t, err)
	return found
}

func freeze(s *Store) {
	s.commit.Lock()
	s.freeze()
	s.commit.Unlock()
}

func settle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
}

// TestTheFlusherKeepsItsMemoryForAWhile gives a batch back, and takes it again as long as it isn't
// idle.
func TestTheFlusherKeepsItsMemoryForAWhile(t *testing.T) {
	var f flusher
	first := f.takeBatch(1 << 20)
	f.giveBack(first)
	f.slim(f.since.Add(batchIdle))
	if again := f.takeBatch(1 << 20); again != first {
		t.Error("the batch that was given back is not used again")
	}
	f.giveBack(first)
	f.slim(f.since.Add(batchIdle + 1))
	if f.batch != nil {
		t.Error("an idle flusher keeps its batch")
	}
}

func TestADeletionReachesANamespaceThatIsOnItsWay(t *testing.T) {
	s, log := openHeld(t, testOptions(t.TempDir(), 1<<30, 0))
	log.hold.Lock()
	write(t, s, 1, "other")
	freeze(s) // keeps the flusher busy
	write(t, s, 0, "key")
	freeze(s)
	remove(t, s, 0, "key")
	freeze(s) // database 0 is empty, and RocksDB doesn't have its namespace yet
	log.hold.Unlock()
	settle(t, s)
	if exists(t, s, 0, "key") {
		t.Error("the key is back")
	}
	if keys, _ := s.Size(0); keys != 0 {
		t.Errorf("%d keys", keys)
	}
}

func TestANamespaceIsKeptWhileAStateThatNamesItMayBePersisted(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<30, 0)
	s := openStore(t, o)
	if err := s.PersistState(); err != nil {
		t.Fatal(err)
	}
	write(t, s, 0, "key")
	settle(t, s) // RocksDB has the key and a state that names the namespace, in memory
	txn := s.NewTxn()
	txn.Flush(0)
	txn.Effect(0, []byte("FLUSHDB"))
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
	if err := s.dropNamespaces(); err != nil {
		t.Fatal(err)
	}
	// RocksDB persists its memory when it likes.
	if err := s.db().Flush(); err != nil {
		t.Fatal(err)
	}
	o.Rocks.Directory = crash(t, o)
	s = openStore(t, o)
	if keys, _ := s.Size(0); keys != 1 {
		t.Errorf("at position %d: %d keys", s.Position(), keys)
	}
	if !exists(t, s, 0, "key") {
		t.Errorf("at position %d the key is gone", s.Position())
	}
}

// TestANamespaceIsDroppedWhileOthersAreRead: only a view that has it, or an iterator, keeps it.
func TestANamespaceIsDroppedWhileOthersAreRead(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	write(t, s, 0, "key")
	must(t, s.PersistState())
	family := s.tiers.Load().databases[0].family.Load()
	before := s.View()
	txn := s.NewTxn()
	txn.Flush(0)
	txn.Effect(0, []byte("FLUSHDB"))
	must(t, s.Commit(txn))
	must(t, s.PersistState())
	after := s.View()
	defer after.Release()
	iterator := s.db().NewIterator(family, nil, rocks.IteratorOptions{})
	for _, release := range []func(){before.Release, iterator.Close} {
		must(t, s.dropNamespaces())
		if s.db().Family(family.Name()) == nil {
			t.Fatal("the namespace was dropped while it was in use")
		}
		release()
	}
	must(t, s.dropNamespaces())
	if s.db().Family(family.Name()) != nil {
		t.Error("the namespace is kept by a view that doesn't have it")
	}
}

// crash returns a copy of a store's directory as a kill would leave it now.
func crash(t *testing.T, o Options) (directory string) {
	t.Helper()
	directory = t.TempDir()
	if err := os.CopyFS(directory, os.DirFS(o.Rocks.Directory)); err != nil {
		t.Fatal(err)
	}
	return directory
}

// failingLog is a log whose Sync fails when told so, so that no generation comes to RocksDB.
type failingLog struct {
	testLog
	fails  atomic.Bool
	failed atomic.Int64
}

func (l *failingLog) Sync(int64) error {
	if l.fails.Load() {
		l.failed.Add(1)
		return errRefused
	}
	return nil
}

func TestMemoryIsBoundedWhileRocksDBTakesNothing(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	log := &failingLog{}
	s.Attach(log, 1)
	log.fails.Store(true)
	for i := range frozenRefused {
		if err := s.Ready(); err != nil {
			t.Fatalf("after %d generations: %v", i, err)
		}
		write(t, s, 0, fmt.Sprint("key", i))
		freeze(s)
	}
	waitFor(t, func() bool { return errors.Is(s.Ready(), errRefused) })
	log.fails.Store(false)
	waitFor(t, func() bool { return s.Ready() == nil })
	settle(t, s)
	for i := range frozenRefused {
		if key := fmt.Sprint("key", i); !exists(t, s, 0, key) {
			t.Errorf("%s is gone", key)
		}
	}
}

// TestAFailedFlushIsCountedOnce, however often it is tried again, and puts copies into the cache
// once.
func TestAFailedFlushIsCountedOnce(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<30, 64<<20)
	o.TablesFrom = constant[int64](1 << 40)
	s := openStore(t, o)
	must(t, Inspect{s}.BuildFilters())
	log := &failingLog{}
	s.Attach(log, 1)
	write(t, s, 0, "gone")
	write(t, s, 0, "stays")
	settle(t, s)
	flushed := s.counters.FlushedRecords.Load()
	log.fails.Store(true)
	remove(t, s, 0, "gone")
	write(t, s, 0, "added")
	freeze(s)
	waitFor(t, func() bool { return log.failed.Load() == 1 })
	s.forgetCopies()
	waitFor(t, func() bool { return log.failed.Load() == 2 })
	log.fails.Store(false)
	waitFor(t, func() bool { return s.waitingGenerations() == 0 })
	if n := s.counters.FlushedRecords.Load() - flushed; n != 2 {
		t.Errorf("%d records were counted, want 2", n)
	}
	ns := s.tiers.Load().databases[0]
	if gone := ns.presence.gone.Load(); gone != 1 {
		t.Errorf("%d records are said to be gone, want 1", gone)
	}
	if (Inspect{s}).Cached(ns.Number, layout.AppendMetadataKey(nil, []byte("added"))) {
		t.Error("a copy was put again")
	}
	if exists(t, s, 0, "gone") || !exists(t, s, 0, "added") {
		t.Error("what was written is not there")
	}
}

// TestStagingWaitsForRocksDB: one command, of which no request tells how much it will write, may
// fill as many generations as memory is meant for, and not as many as the commits of all together.
func TestStagingWaitsForRocksDB(t *testing.T) {
	s, log := openHeld(t, testOptions(t.TempDir(), 64<<10, 0))
	Inspect{s}.StageFrom(64 << 10)
	log.hold.Lock()
	release := sync.OnceFunc(log.hold.Unlock)
	defer release()
	time.AfterFunc(300*time.Millisecond, release) // by then what doesn't wait is far behind that
	txn, most := s.NewTxn(), 0
	txn.Begin(Mode{Writing: true}, 1, 0)
	e := txn.NewElements(txn.Namespace(0), layout.Hash, txn.NewID())
	for i := range 400 {
		must(t, e.Put(layout.KindHashField, fmt.Append(nil, i), make([]byte, 4<<10)))
		most = max(most, s.waitingGenerations())
	}
	txn.Reset()
	if most >= frozenRefused { // a slow machine may come beyond frozenUnslowed+1
		t.Errorf("%d generations waited", most)
	}
	settle(t, s)
}

// TestCommitsWaitForRocksDB: however long it is busy with a generation, nothing is committed while
// as many wait as memory is to hold.
func TestCommitsWaitForRocksDB(t *testing.T) {
	s, log := openHeld(t, testOptions(t.TempDir(), 1<<20, 0))
	log.hold.Lock()
	release := sync.OnceFunc(log.hold.Unlock)
	defer release()
	for range frozenLimit {
		freeze(s)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		write(t, s, 0, "key")
	}()
	select {
	case <-written:
		t.Error("it is committed")
	case <-time.After(2 * longestWait):
	}
	release()
	<-written
	settle(t, s)
}

// TestReplayStagesWhileRocksDBTakesNothing makes a large collection by an effect, which recovery
// applies, and by a command, which is refused.
func TestReplayStagesWhileRocksDBTakesNothing(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	log := &failingLog{}
	s.Attach(log, 1)
	log.fails.Store(true)
	for i := range frozenRefused {
		write(t, s, 0, fmt.Sprint("key", i))
		freeze(s)
	}
	waitFor(t, func() bool { return errors.Is(s.Ready(), errRefused) })
	Inspect{s}.StageFrom(1)
	for _, mode := range []Mode{{Writing: true}, {Writing: true, Applying: true}} {
		txn := s.NewTxn()
		txn.Begin(mode, 1, 0)
		e := txn.NewElements(txn.Namespace(0), layout.Set, txn.NewID())
		if err := e.Put(layout.KindSetMember, []byte("member"), nil); mode.Applying != (err == nil) {
			t.Errorf("applying: %v: %v", mode.Applying, err)
		}
		txn.Reset()
	}
	log.fails.Store(false)
	waitFor(t, func() bool { return s.Ready() == nil })
	settle(t, s)
}

// TestViewsOfAnotherLog exchanges the log for a shorter one while a view is open: nothing that it
// may read is reaped.
func TestViewsOfAnotherLog(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	s.Attach(&testLog{}, 1)
	for i := range 10 {
		write(t, s, 0, fmt.Sprint("key", i))
	}
	view := s.View()
	must(t, s.Rebase(&testLog{}, 2))
	write(t, s, 0, "other")
	settle(t, s)
	if s.oldestView() >= s.handedOver() {
		t.Errorf("the view counts as of %d, and %d is in files", s.oldestView(), s.handedOver())
	}
	view.Release()
	if s.oldestView() < s.handedOver() {
		t.Error("a view that was released keeps others from being reaped")
	}
}

// TestReleasedViewKeepsNothing: a view that was released keeps no generation in memory.
func TestReleasedViewKeepsNothing(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	s.Attach(&testLog{}, 1)
	write(t, s, 0, "key")
	view := s.View()
	view.Release()
	view.Release()
	if len(view.recent) > 0 {
		t.Errorf("%d generations can't go", len(view.recent))
	}
}

// TestPersistWhenDue writes while a generation is held up on its way to RocksDB: the next one isn't
// ended before it has enough for itself, or has waited for long.
func TestPersistWhenDue(t *testing.T) {
	options := testOptions(t.TempDir(), 1<<20, 1<<20)
	var interval atomic.Int64
	interval.Store(math.MaxInt64)
	options.FlushLogBytes, options.FlushInterval = constant[int64](1000), func() time.Duration { return time.Duration(interval.Load()) }
	s, log := openHeld(t, options)
	grow := func(bytes int64) {
		for from := s.positions.visible.Load(); s.positions.visible.Load()-from <= bytes; {
			write(t, s, 0, fmt.Sprint("key", s.positions.visible.Load()))
		}
	}
	l := lags{lag{since: time.Now()}, lag{since: time.Now()}}
	persist := func() {
		t.Helper()
		if err := s.persistWhenDue(&l); err != nil {
			t.Fatal(err)
		}
	}
	log.hold.Lock()
	grow(1000)
	freeze(s)
	grow(900)
	persist() // or it would wait without end
	if keys := s.tiers.Load().active.Keys(); keys == 0 {
		t.Error("a generation that had little was ended")
	}
	log.hold.Unlock()
	settle(t, s)
	grow(1001)
	persist()
	if at := s.positions.persisted.Load(); at != s.positions.visible.Load() {
		t.Errorf("persisted up to %d, want %d: there was too much", at, s.positions.visible.Load())
	}
	write(t, s, 0, "key")
	persist()
	if s.positions.persisted.Load() == s.positions.visible.Load() {
		t.Error("what has just come was persisted")
	}
	interval.Store(int64(time.Hour))
	l.active.since = time.Now().Add(-2 * time.Hour)
	persist()
	if at := s.positions.persisted.Load(); at != s.positions.visible.Load() {
		t.Errorf("persisted up to %d, want %d: it waited for long", at, s.positions.visible.Load())
	}
	write(t, s, 0, "key")
	settle(t, s)
	persist()
	l.written.since = time.Now().Add(-2 * time.Hour)
	persist()
	if at := s.positions.persisted.Load(); at != s.positions.visible.Load() {
		t.Errorf("persisted up to %d, want %d: RocksDB has had it in memory for long", at, s.positions.visible.Load())
	}
}

// TestOnlyWhatIsInFilesIsPurged writes what stays in the active generation, and what RocksDB has in
// its memory: a kill leaves nothing of it but what the log has.
func TestOnlyWhatIsInFilesIsPurged(t *testing.T) {
	options := testOptions(t.TempDir(), 1<<30, 0)
	options.TablesFrom = constant[int64](1 << 40)
	s := openStore(t, options)
	log := &testLog{}
	s.Attach(log, 1)
	purge := func() (upTo int64) {
		t.Helper()
		must(t, s.cleanUp())
		killed := options
		killed.Rocks.Directory = crash(t, options)
		left := openStore(t, killed)
		if upTo = log.purgedTo.Load(); upTo > left.Position() {
			t.Errorf("the log is purged up to %d, and RocksDB's files have %d", upTo, left.Position())
		}
		return upTo
	}
	write(t, s, 0, "in files")
	must(t, s.PersistState())
	inFiles := s.positions.visible.Load()
	write(t, s, 0, "in RocksDB's memory")
	settle(t, s)
	write(t, s, 0, "active")
	if upTo := purge(); upTo != inFiles {
		t.Errorf("the log is purged up to %d, want %d", upTo, inFiles)
	}
	must(t, s.Persist())
	if upTo := purge(); upTo != s.positions.visible.Load() {
		t.Errorf("the log is purged up to %d, want %d: all is in files", upTo, s.positions.visible.Load())
	}
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited for too long")
		}
	}
}

var errRefused = errors.New("refused")
