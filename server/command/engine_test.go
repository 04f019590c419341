package command

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

// memoryLog is a log in memory that may be told to fail.
type memoryLog struct {
	content  []byte
	database int
	discard  bool // for benchmarks
	length   int64
	fail     error
	full     error // of what makes the data larger
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
func (l *memoryLog) AwaitsRoom() bool         { return false }
func (l *memoryLog) Ready() error             { return cmp.Or(l.fail, l.full) }
func (l *memoryLog) ReadyForLess() error      { return l.fail }

func constant[T any](v T) func() T { return func() T { return v } }

// newTestEngine opens a store in a directory of the test's, and an engine with one reactor on it.
func newTestEngine(t testing.TB) (*Engine, *memoryLog) {
	t.Helper()
	c := config.New()
	store, err := storage.Open(storage.Options{
		Limits: storage.Limits{
			HashEntries: c.HashMaxListpackEntries.Get, HashValue: c.HashMaxListpackValue.Get,
			ListSize: c.ListMaxListpackSize.Get, SetIntsetEntries: c.SetMaxIntsetEntries.Get,
			SetEntries: c.SetMaxListpackEntries.Get, SetValue: c.SetMaxListpackValue.Get,
			ZSetEntries: c.ZSetMaxListpackEntries.Get, ZSetValue: c.ZSetMaxListpackValue.Get,
		},
		Options: engine.Options{
			Rocks:           rocks.Options{Directory: t.TempDir(), BlockCacheBytes: 8 << 20, WriteBufferBytes: 8 << 20},
			Databases:       16,
			RankBytes:       constant[int64](64 << 20),
			GenerationBytes: constant[int64](64 << 20),
			CacheBytes:      16 << 20,
			SyncEveryCommit: constant(false),
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

// testClient runs requests on an engine as a reactor does, each in a commit of its own.
type testClient struct {
	t       testing.TB
	engine  *Engine
	batch   *Batch
	session *Session
}

func newTestClient(t testing.TB, e *Engine) *testClient {
	return &testClient{t, e, e.NewBatch(0), NewSession(nowhere{}, true)}
}

// do returns the reply, in RESP.
func (c *testClient) do(w ...string) string {
	c.t.Helper()
	args := words(w...)
	c.batch.Tick()
	outcome := c.batch.Execute(c.session, args)
	if err := c.batch.Commit(); err != nil {
		c.t.Fatalf("%q: %v", w, err)
	}
	c.batch.Clear()
	switch outcome {
	case Done:
	case Offload:
		c.engine.Work(c.session, args)
	default:
		c.t.Fatalf("%q: outcome %d", w, outcome)
	}
	reply := string(c.session.Reply.Bytes())
	c.session.Reply.Reset()
	return reply
}

// flush empties database 0.
func (c *testClient) flush() {
	c.t.Helper()
	txn := c.engine.Store.NewTxn()
	txn.Flush(0)
	if err := c.engine.Store.Commit(txn); err != nil {
		c.t.Fatal(err)
	}
}

// requests are the requests in a log's content, each as its words with spaces between them.
func requests(t testing.TB, content []byte) []string {
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
