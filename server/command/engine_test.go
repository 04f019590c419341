package command

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/storage"
	"kedis/storage/rocks"
)

// memoryLog is a log in memory that may be told to fail.
type memoryLog struct {
	content  []byte
	database int
	discard  bool // for benchmarks
	length   int64
	fail     error
}

func (l *memoryLog) Append(_, after int, payload ...[]byte) (int64, error) {
	if l.fail != nil {
		return 0, l.fail
	}
	for _, p := range payload {
		l.length += int64(len(p))
		if !l.discard {
			l.content = append(l.content, p...)
		}
	}
	l.database = after
	return l.length, nil
}

func (l *memoryLog) Sync(int64) error         { return nil }
func (l *memoryLog) Position() int64          { return l.length }
func (l *memoryLog) Database() int            { return l.database }
func (l *memoryLog) Purge(int64) (int, error) { return 0, nil }
func (l *memoryLog) Ready() error             { return l.fail }

func constant[T any](v T) func() T { return func() T { return v } }

// newTestEngine opens a store in a directory of the test's, and an engine with one reactor on it.
func newTestEngine(t testing.TB) (*Engine, *memoryLog) {
	t.Helper()
	c := config.New()
	store, err := storage.Open(storage.Options{
		Rocks:     rocks.Options{Directory: t.TempDir(), BlockCacheBytes: 8 << 20, WriteBufferBytes: 8 << 20},
		Databases: 16,
		Limits: storage.Limits{
			HashEntries: c.HashMaxListpackEntries.Get, HashValue: c.HashMaxListpackValue.Get,
			ListSize: c.ListMaxListpackSize.Get, SetIntsetEntries: c.SetMaxIntsetEntries.Get,
			SetEntries: c.SetMaxListpackEntries.Get, SetValue: c.SetMaxListpackValue.Get,
			ZSetEntries: c.ZSetMaxListpackEntries.Get, ZSetValue: c.ZSetMaxListpackValue.Get,
		},
		GenerationBytes: constant[int64](64 << 20),
		CacheBytes:      16 << 20,
		SyncEveryCommit: constant(false),
		FlushLogBytes:   constant[int64](1 << 40),
		FlushInterval:   constant(time.Hour),
		Logger:          hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	log := &memoryLog{}
	store.Attach(log, 1)
	return NewEngine(store, c, log, hclog.NewNullLogger(), 1), log
}

// words are a request's words.
func words(w ...string) [][]byte {
	args := make([][]byte, len(w))
	for i := range w {
		args[i] = []byte(w[i])
	}
	return args
}
