package replication

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/storage"
	"kedis/storage/engine"
	"kedis/storage/rocks"
)

func constant[T any](v T) func() T { return func() T { return v } }

// withData gives a node an empty store with a log, whose directory it returns.
func withData(t *testing.T, n *Node) (directory string) {
	t.Helper()
	directory = t.TempDir()
	log, err := binlog.Create(binlog.Options{Directory: directory}, binlog.History{ID: idA}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(storage.Options{Options: engine.Options{
		Rocks:           rocks.Options{Directory: t.TempDir(), BlockCacheBytes: 1 << 20, WriteBufferBytes: 1 << 20},
		Databases:       1,
		GenerationBytes: constant[int64](1 << 20),
		TreeBytes:       constant[int64](0),
		SyncEveryCommit: constant(false),
		FlushLogBytes:   constant[int64](1 << 30),
		FlushInterval:   constant(time.Hour),
		Logger:          hclog.NewNullLogger(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	store.Attach(log, 1)
	n.Store, n.Host = store, &loggedHost{log: log}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// commit puts an effect into the log of a store.
func commit(t *testing.T, s *storage.Store) {
	txn := s.NewTxn()
	txn.Begin(storage.Mode{Writing: true}, 1, 0)
	txn.Effect(0, []byte("NOTHING"))
	if err := s.Commit(txn); err != nil {
		t.Error(err)
	}
}

// TestPinBehindDamage: a full synchronization needs nothing of what is damaged in the log, however
// many commits come while it begins.
func TestPinBehindDamage(t *testing.T) {
	n := node(t, t.TempDir(), "")
	directory := withData(t, n)
	commit(t, n.Store)
	file, err := os.OpenFile(filepath.Join(directory, "0000000001.log"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const firstRecord = 4096 // offset in the file
	if _, err := file.WriteAt([]byte("damage"), firstRecord); err != nil {
		t.Fatal(err)
	}
	var ends atomic.Bool
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for !ends.Load() {
				commit(t, n.Store)
			}
		})
	}
	for range 10_000 {
		view, reader, _, err := n.pin()
		if err != nil {
			t.Error(err)
			break
		}
		view.Release()
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
	ends.Store(true)
	writers.Wait()
}
