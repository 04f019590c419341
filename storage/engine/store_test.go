package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/storage/rocks"
)

// testLog is a log in memory.
type testLog struct {
	content  []byte
	database int
	fail     error
	purgedTo atomic.Int64 // the last position that Purge was given
}

func (l *testLog) Append(_, after int, payload ...[]byte) (int64, error) {
	if l.fail != nil {
		return 0, l.fail
	}
	for _, p := range payload {
		l.content = append(l.content, p...)
	}
	l.database = after
	return int64(len(l.content)), nil
}

func (l *testLog) Sync(int64) error { return nil }
func (l *testLog) Position() int64  { return int64(len(l.content)) }
func (l *testLog) Database() int    { return l.database }
func (l *testLog) AwaitsRoom() bool { return false }

func (l *testLog) Purge(upTo int64) (removed int, err error) {
	l.purgedTo.Store(upTo)
	return 0, nil
}

func constant[T any](v T) func() T { return func() T { return v } }

// inTurns has every other generation go to RocksDB as tables, or be retained.
func inTurns() func() int64 {
	var asked atomic.Int64
	return func() int64 { return asked.Add(1) % 2 << 40 }
}

// testOptions makes everything small, so that records leave memory all the time.
func testOptions(directory string, generationBytes, cacheBytes int64) Options {
	return Options{
		Rocks:           rocks.Options{Directory: directory, BlockCacheBytes: 8 << 20, WriteBufferBytes: 1 << 20},
		Databases:       4,
		GenerationBytes: constant(generationBytes),
		TablesFrom:      inTurns(),
		RetainedBytes:   inTurns(),
		CacheBytes:      cacheBytes,
		TreeBytes:       constant[int64](1 << 20),
		SyncEveryCommit: constant(false),
		FlushLogBytes:   constant[int64](1 << 20),
		FlushInterval:   constant(time.Hour),
		Logger:          hclog.NewNullLogger(),
	}
}

// openStore opens a store with a log in memory, and closes it at the end of the test.
func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Attach(&testLog{content: make([]byte, s.Position())}, 1)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
