package execute

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/server/enginetest"
	"kedis/storage"
)

// newEngineOfFamilies is command.NewEngine. Package command imports this one, so that only an
// external test can name it.
var newEngineOfFamilies func(store *storage.Store, c *config.Config, log Log, logger hclog.Logger, reactors int) *Engine

// SetFamilies says what makes the engines of the tests.
func SetFamilies(make func(store *storage.Store, c *config.Config, log Log, logger hclog.Logger, reactors int) *Engine) {
	newEngineOfFamilies = make
}

// newTestEngine makes an engine with all families and one reactor.
func newTestEngine(t testing.TB) (*Engine, *enginetest.Log) {
	t.Helper()
	store, c, log := enginetest.Open(t)
	return newEngineOfFamilies(store, c, log, hclog.NewNullLogger(), 1), log
}

func words(w ...string) [][]byte { return enginetest.Words(w...) }

// read makes a session's request.
func read(e *Engine, s *Session, w ...string) *Request {
	r := requestReader{table: e.Table, store: e.Store}
	return r.read(s.Database, words(w...))
}

// testClient runs requests on an engine as a reactor does, each in a commit of its own.
type testClient struct {
	t       testing.TB
	engine  *Engine
	batch   *Batch
	session *Session
}

func newTestClient(t testing.TB, e *Engine) *testClient {
	return &testClient{t, e, e.NewBatch(0), e.NewClient(Nowhere{})}
}

// do returns the reply, in RESP; "" to a client that was killed.
func (c *testClient) do(w ...string) string {
	c.t.Helper()
	request := read(c.engine, c.session, w...)
	c.batch.Tick()
	outcome := c.batch.Execute(c.session, request)
	if err := c.batch.Commit(); err != nil {
		c.t.Fatalf("%q: %v", w, err)
	}
	c.batch.Clear()
	switch {
	case outcome == Done, outcome == Separate && c.session.Killed():
	case outcome == Waiting:
		if cause := c.session.Wait().Cause; cause != ForWorker {
			c.t.Fatalf("%q waits: cause %d", w, cause)
		}
		c.engine.Work(c.session, request)
	default:
		c.t.Fatalf("%q: outcome %d", w, outcome)
	}
	reply := string(c.session.Reply.Bytes())
	c.session.Reply.Reset()
	return reply
}

// info returns a field of INFO.
func (c *testClient) info(name string) string {
	c.t.Helper()
	for line := range strings.Lines(c.do("INFO", "everything")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}
