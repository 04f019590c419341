package storage

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/storage/engine"
	"kedis/storage/rocks"
)

// testLog is a log in memory.
type testLog struct {
	content  []byte
	database int
	fail     error
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

func (l *testLog) Sync(int64) error                     { return nil }
func (l *testLog) Position() int64                      { return int64(len(l.content)) }
func (l *testLog) Database() int                        { return l.database }
func (l *testLog) Purge(int64) (removed int, err error) { return 0, nil }
func (l *testLog) AwaitsRoom() bool                     { return false }

func constant[T any](v T) func() T { return func() T { return v } }

// inTurns has every other generation go to RocksDB as tables, or be retained.
func inTurns() func() int64 {
	var asked atomic.Int64
	return func() int64 { return asked.Add(1) % 2 << 40 }
}

// testOptions makes everything small, so that records leave memory all the time.
func testOptions(directory string, generationBytes, cacheBytes int64) Options {
	return Options{
		Limits: Limits{HashEntries: constant[int64](512), HashValue: constant[int64](64), ListSize: constant[int64](-2),
			SetIntsetEntries: constant[int64](512), SetEntries: constant[int64](128), SetValue: constant[int64](64),
			ZSetEntries: constant[int64](128), ZSetValue: constant[int64](64),
			StreamBytes: constant[int64](4096), StreamEntries: constant[int64](100)},
		Options: engine.Options{
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
		},
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
		expectNothingRuledOut(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// expectNothingRuledOut asks the filters for every record that RocksDB has.
func expectNothingRuledOut(t *testing.T, s *Store) {
	t.Helper()
	wrong, _, err := inside(s).WronglyRuledOut()
	if errors.Is(err, rocks.ErrClosed) {
		return // by the test
	}
	if err != nil || len(wrong) > 0 {
		t.Errorf("filters rule out %d records that RocksDB has, %q, …; %v", len(wrong), wrong[:min(len(wrong), 3)], err)
	}
}
