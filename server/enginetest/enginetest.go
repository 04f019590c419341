// Package enginetest opens what an engine needs, for tests: a store in a directory of the test's,
// and a log in memory.
package enginetest

import (
	"bytes"
	"cmp"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/internal/resp"
	"kedis/storage"
	"kedis/storage/engine"
	"kedis/storage/rocks"
)

// Log is a log in memory that may be told to fail.
type Log struct {
	Content  []byte
	database int
	Discard  bool // for benchmarks
	Length   int64
	Fail     error
	Full     error // of what makes the data larger
	FailSync error // appendfsync is always, and this is what syncs meet
}

func (l *Log) Append(_, after int, payload ...[]byte) (int64, error) {
	if l.Fail != nil {
		return 0, l.Fail
	}
	for _, p := range payload {
		l.Length += int64(len(p))
		if !l.Discard {
			l.Content = append(l.Content, p...)
		}
	}
	l.database = after
	return l.Length, nil
}

func (l *Log) Sync(int64) error         { return l.FailSync }
func (l *Log) Position() int64          { return l.Length }
func (l *Log) Database() int            { return l.database }
func (l *Log) Purge(int64) (int, error) { return 0, nil }
func (l *Log) AwaitsRoom() bool         { return false }
func (l *Log) Ready() error             { return cmp.Or(l.Fail, l.Full) }
func (l *Log) ReadyForLess() error      { return l.Fail }

func constant[T any](v T) func() T { return func() T { return v } }

// Open opens a store in a directory of the test's, with a log, and makes the configuration that it
// is opened with.
func Open(t testing.TB) (*storage.Store, *config.Config, *Log) {
	t.Helper()
	c, log := config.New(), &Log{}
	store, err := storage.Open(storage.Options{
		Limits: storage.Limits{
			HashEntries: c.HashMaxListpackEntries.Get, HashValue: c.HashMaxListpackValue.Get,
			ListSize: c.ListMaxListpackSize.Get, SetIntsetEntries: c.SetMaxIntsetEntries.Get,
			SetEntries: c.SetMaxListpackEntries.Get, SetValue: c.SetMaxListpackValue.Get,
			ZSetEntries: c.ZSetMaxListpackEntries.Get, ZSetValue: c.ZSetMaxListpackValue.Get,
			StreamBytes: c.StreamNodeMaxBytes.Get, StreamEntries: c.StreamNodeMaxEntries.Get,
		},
		Options: engine.Options{
			Rocks:           rocks.Options{Directory: t.TempDir(), BlockCacheBytes: 8 << 20, WriteBufferBytes: 8 << 20},
			Databases:       16,
			TreeBytes:       constant[int64](64 << 20),
			GenerationBytes: constant[int64](64 << 20),
			CacheBytes:      16 << 20,
			SyncEveryCommit: func() bool { return log.FailSync != nil },
			FlushLogBytes:   constant[int64](1 << 40),
			FlushInterval:   constant(time.Hour),
			Logger:          hclog.NewNullLogger(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	store.Attach(log, 1)
	return store, c, log
}

// Words are a request's words.
func Words(w ...string) [][]byte {
	args := make([][]byte, len(w))
	for i := range w {
		args[i] = []byte(w[i])
	}
	return args
}

// Requests are the requests in a log's content, each as its words with spaces between them.
func Requests(t testing.TB, content []byte) []string {
	t.Helper()
	var found []string
	r := resp.NewReader(bytes.NewReader(content), 1<<30)
	for {
		args, _, err := r.ReadRequest()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(bytes.Join(args, []byte(" "))))
	}
}
