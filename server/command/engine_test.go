package command

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/server/enginetest"
	"kedis/server/execute"
)

// newTestEngine makes an engine with one reactor.
func newTestEngine(t testing.TB) (*Engine, *enginetest.Log) {
	t.Helper()
	store, c, log := enginetest.Open(t)
	return NewEngine(store, c, log, hclog.NewNullLogger(), 1), log
}

func words(w ...string) [][]byte { return enginetest.Words(w...) }

// testClient runs requests on an engine as a reactor does, each in a commit of its own.
type testClient struct {
	T       testing.TB
	Engine  *Engine
	Batch   *execute.Batch
	Session *Session
}

func newTestClient(t testing.TB, e *Engine) *testClient {
	return &testClient{t, e, e.NewBatch(0), e.NewClient(execute.Nowhere{})}
}

// Do returns the reply, in RESP.
func (c *testClient) Do(w ...string) string {
	c.T.Helper()
	request := c.Batch.Read(c.Session, words(w...))
	c.Batch.Tick()
	outcome := c.Batch.Execute(c.Session, request)
	if err := c.Batch.Commit(); err != nil {
		c.T.Fatalf("%q: %v", w, err)
	}
	c.Batch.Clear()
	switch outcome {
	case execute.Done:
	case execute.Waiting:
		if cause := c.Session.Wait().Cause; cause != execute.ForWorker && cause != execute.ForDisk {
			c.T.Fatalf("%q waits: cause %d", w, cause)
		}
		c.Engine.Work(c.Session, request)
	default:
		c.T.Fatalf("%q: outcome %d", w, outcome)
	}
	reply := string(c.Session.Reply.Bytes())
	c.Session.Reply.Reset()
	return reply
}

// Info returns a field of INFO.
func (c *testClient) Info(name string) string {
	c.T.Helper()
	for line := range strings.Lines(c.Do("INFO", "everything")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// Set changes an option.
func (c *testClient) Set(option, value string) {
	c.T.Helper()
	if reply := c.Do("CONFIG", "SET", option, value); reply != "+OK\r\n" {
		c.T.Fatalf("CONFIG SET %s %s: %s", option, value, reply)
	}
}

// Flush empties database 0.
func (c *testClient) Flush() {
	c.T.Helper()
	txn := c.Engine.Store.NewTxn()
	txn.Flush(0)
	if err := c.Engine.Store.Commit(txn); err != nil {
		c.T.Fatal(err)
	}
}
