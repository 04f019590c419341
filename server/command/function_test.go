package command

import (
	"errors"
	"net"
	"testing"

	"kedis/internal/resp"
	"kedis/server/execute"
	"kedis/storage"
)

// stream is what a replica applies in a test.
type stream struct {
	*execute.StreamApplier
	t      *testing.T
	client *testClient
	engine *Engine
}

func newStream(t *testing.T) *stream {
	e, _ := newTestEngine(t)
	e.SetReplica(true, false)
	here, there := net.Pipe()
	f := e.NewStreamApplier(here, 0)
	t.Cleanup(func() { f.Close(); there.Close() })
	return &stream{StreamApplier: f, t: t, client: newTestClient(t, e), engine: e}
}

func (s *stream) apply(line ...string) error {
	return s.Apply(words(line...), resp.AppendRequest(nil, words(line...)...))
}

// has fails the test unless clients and the store find a library, or none.
func (s *stream) has(found bool) {
	s.t.Helper()
	stored := false
	err := s.engine.Store.LibrariesOf(nil, func(string, []byte) error {
		stored = true
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	listed := s.client.Do("FUNCTION", "LIST") != "*0\r\n"
	if listed != found || stored != found {
		s.t.Errorf("a library is listed: %v, and stored: %v; it should be: %v", listed, stored, found)
	}
}

// slowLibrary takes some ten milliseconds to be loaded.
const slowLibrary = "#!lua name=slow\nfor i = 1, 10000000 do end\nredis.register_function('slow', function() end)"

// What a replica takes back of a primary's stream changes no libraries, and nobody is told of it.
// Otherwise a replica that is promoted in the midst of a FUNCTION LOAD would have a library that
// neither its store nor its log has, and its FUNCTION DELETE would be in the log.
func TestTakenBackOfAStream(t *testing.T) {
	t.Run("Failed", func(t *testing.T) {
		s := newStream(t)
		for _, line := range [][]string{{"MULTI"}, {"FUNCTION", "LOAD", slowLibrary}, {"FUNCTION", "DELETE", "none"}} {
			if err := s.apply(line...); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.apply("EXEC"); !errors.Is(err, storage.ErrDiverged) {
			t.Fatalf("it is applied: %v", err)
		}
		s.has(false)
	})
	t.Run("Stopped", func(t *testing.T) {
		s := newStream(t)
		applied := make(chan error)
		go func() { applied <- s.apply("FUNCTION", "LOAD", slowLibrary) }()
		for s.engine.Gate.TryEnter(0) { // until it runs
			s.engine.Gate.Leave(0)
		}
		s.Stop()
		err := <-applied
		if err != nil && !errors.Is(err, execute.ErrStopped) {
			t.Fatal(err)
		}
		s.has(err == nil) // it was faster
	})
	t.Run("Message", func(t *testing.T) {
		s := newStream(t)
		sent := 0
		s.engine.Courier = func(messages []execute.Message) { sent += len(messages) }
		s.client.Do("SUBSCRIBE", "channel")
		if err := s.apply("PUBLISH", "channel", "message"); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if err := s.Commit(); !errors.Is(err, execute.ErrStopped) || sent > 0 {
			t.Fatalf("%v, and %d messages are sent", err, sent)
		}
	})
}
