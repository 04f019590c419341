package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kedis/storage/layout"
)

func TestReplayMovesThePositionThoughNothingChanges(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true, Applying: true}, 0, 0)
	txn.Replay(42)
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
	if s.Position() != 42 {
		t.Fatalf("position %d after the replay of a record that ends at 42", s.Position())
	}
}

// pickyLog refuses what contains a word, and can be made to wait.
type pickyLog struct {
	testLog
	gate    sync.Mutex
	entered chan struct{} // told of the first that comes
}

var errRefused = errors.New("refused")

func (l *pickyLog) Append(database, after int, payload ...[]byte) (int64, error) {
	select {
	case l.entered <- struct{}{}:
	default:
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	for _, p := range payload {
		if strings.Contains(string(p), "BAD") {
			return 0, errRefused
		}
	}
	return l.testLog.Append(database, after, payload...)
}

func TestATransactionThatTheLogRefusesFailsAlone(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	log := &pickyLog{entered: make(chan struct{}, 1)}
	s.Attach(log, 1)
	log.gate.Lock()
	results := map[string]chan error{}
	for i := range 8 {
		key := fmt.Sprint("good", i)
		if i%3 == 1 {
			key = fmt.Sprint("BAD", i)
		}
		done := make(chan error, 1)
		results[key] = done
		txn := s.NewTxn()
		txn.Begin(Mode{Writing: true}, 1, 0)
		if err := txn.DB(0).Save([]byte(key), Key{}, layout.Metadata{Type: layout.String, Encoding: layout.Plain}); err != nil {
			t.Fatal(err)
		}
		txn.Effect(0, []byte("SET"), []byte(key))
		go func() { done <- s.Commit(txn) }()
		if i == 0 {
			<-log.entered // whoever has the commit lock commits for all that wait, so the first has to be alone
		}
	}
	waitFor(t, func() bool { // until all but the first wait for the commit lock
		return inside(s).WaitingCommits() == len(results)-1
	})
	log.gate.Unlock()
	for key, done := range results {
		err := <-done
		if bad := strings.HasPrefix(key, "BAD"); bad != errors.Is(err, errRefused) || bad == exists(t, s, 0, key) {
			t.Errorf("%s: %v, exists: %v", key, err, exists(t, s, 0, key))
		}
	}
	if keys, _ := s.Size(0); keys != 5 {
		t.Errorf("%d keys", keys)
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

func TestExpiredKeysAreCountedWhenTheyAreGone(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	in(t, s, 0, func(db DB) error {
		return db.Save([]byte("key"), Key{}, layout.Metadata{Type: layout.String, Encoding: layout.Plain, ExpireMs: 5})
	})
	txn := s.NewTxn()
	for range 3 { // a command that runs again, and one that is taken back
		savepoint := begin(txn, Mode{Writing: true}, 10, 0)
		if k, err := txn.DB(0).Lookup([]byte("key")); err != nil || k.Exists {
			t.Fatal(k, err)
		}
		txn.Rollback(savepoint)
	}
	if n := s.Counters().Expired.Load(); n != 0 {
		t.Errorf("%d before the commit", n)
	}
	txn.Begin(Mode{Writing: true}, 10, 0)
	if _, err := txn.DB(0).Lookup([]byte("key")); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
	if n := s.Counters().Expired.Load(); n != 1 {
		t.Errorf("%d expired", n)
	}
}

// unsyncedLog is a log whose syncs fail as long as it is told to.
type unsyncedLog struct {
	testLog
	failSync error
}

func (l *unsyncedLog) Sync(int64) error { return l.failSync }

// TestACommitInDoubtStands: its record is in the log, so the data has it, too, and once the log is
// repaired commits go on.
func TestACommitInDoubtStands(t *testing.T) {
	options := testOptions(t.TempDir(), 1<<20, 1<<20)
	options.SyncEveryCommit = constant(true)
	s := openStore(t, options)
	log := &unsyncedLog{failSync: errors.New("the disk is full")}
	s.Attach(log, 1)
	if err := s.commitString("key", "in doubt"); !errors.Is(err, ErrInDoubt) || !errors.Is(err, log.failSync) {
		t.Fatal(err)
	}
	if s.Position() != log.Position() || log.Position() == 0 {
		t.Errorf("the data is at position %d, the log at %d", s.Position(), log.Position())
	}
	if keys, _ := s.Size(0); keys != 1 {
		t.Errorf("%d keys", keys)
	}
	log.failSync = nil
	if err := s.commitString("other", "value"); err != nil {
		t.Error(err)
	}
	if s.Position() != log.Position() {
		t.Errorf("the data is at position %d, the log at %d", s.Position(), log.Position())
	}
}
