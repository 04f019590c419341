package command

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kedis/server/execute"
)

// TestDenialsCountOnce: what is denied inside of a request is in the log once, though a worker runs
// the request anew, or its commit fails.
func TestDenialsCountOnce(t *testing.T) {
	const denied = "redis.pcall('get', 'key') redis.pcall('get', 'key') "
	const goesToWorker = "redis.call('keys', '*') return 1"
	for name, test := range map[string]struct {
		requests [][]string
		want     int64
	}{
		"Script":           {[][]string{{"eval", denied + goesToWorker, "0"}}, 2},
		"ScriptInExec":     {[][]string{{"multi"}, {"eval", denied, "0"}, {"eval", denied + goesToWorker, "0"}, {"exec"}}, 4},
		"PasswordInExec":   {[][]string{{"multi"}, {"auth", "bob", "x"}, {"eval", goesToWorker, "0"}, {"auth", "bob", "x"}, {"exec"}}, 2},
		"ByItself":         {[][]string{{"get", "key"}}, 1},
		"ByItselfInScript": {[][]string{{"eval", "return redis.call('get', 'key')", "0"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := newTestEngine(t)
			newTestClient(t, e).Do("acl", "setuser", "alice", "on", "nopass", "~*", "&*", "+@all", "-get")
			c := newTestClient(t, e)
			c.Do("auth", "alice", "x")
			for _, request := range test.requests {
				c.Do(request...)
			}
			expectDenials(t, e, test.want)
		})
	}
	t.Run("FailedCommit", func(t *testing.T) {
		e, log := newTestEngine(t)
		newTestClient(t, e).Do("acl", "setuser", "alice", "on", "nopass", "~*", "&*", "+@all", "-get")
		c := newTestClient(t, e)
		c.Do("auth", "alice", "x")
		writer := e.NewClient(execute.Nowhere{})
		run := func(session *Session, request *Request) {
			t.Helper()
			if outcome := c.Batch.Execute(session, request); outcome != execute.Done {
				t.Fatalf("%q: outcome %d", request.Args, outcome)
			}
		}
		c.Batch.Tick()
		run(writer, c.Batch.Read(writer, words("set", "key", "v")))
		for _, request := range [][]string{{"multi"}, {"eval", denied, "0"}, {"exec"}} {
			run(c.Session, c.Batch.Read(c.Session, words(request...)))
		}
		log.Fail = errors.New("the log takes nothing")
		err := c.Batch.Commit()
		if err == nil || !c.Batch.Undo(err) {
			t.Fatalf("the commit: %v", err)
		}
		again := slices.Clone(c.Batch.Members()[1].Executed)
		c.Batch.Clear()
		for _, executed := range again {
			run(c.Session, c.Batch.Again(c.Session, executed))
		}
		expectDenials(t, e, 2)
	})
}

func expectDenials(t *testing.T, e *Engine, want int64) {
	t.Helper()
	counted := int64(0)
	for _, entry := range e.Denials.Latest(10) {
		counted += entry.Count
	}
	if counted != want {
		t.Errorf("%d denials are counted, want %d: %+v", counted, want, e.Denials.Latest(10))
	}
}

// TestErrorsOfExecCountOnce: EXEC that is taken back, and runs again on a worker, counts what it
// refuses once, as it answers it.
func TestErrorsOfExecCountOnce(t *testing.T) {
	e, _ := newTestEngine(t)
	admin, c := newTestClient(t, e), newTestClient(t, e)
	admin.Do("acl", "setuser", "alice", "on", "nopass", "~*", "&*", "+@all")
	c.Do("auth", "alice", "x")
	for _, request := range [][]string{{"multi"}, {"get", "key"}, {"eval", "redis.call('keys', '*') return 1", "0"}} {
		c.Do(request...)
	}
	admin.Do("acl", "setuser", "alice", "-get")
	if reply := c.Do("exec"); !strings.HasPrefix(reply, "*2\r\n-NOPERM") {
		t.Errorf("EXEC: %q", reply)
	}
	if count := admin.Info("errorstat_NOPERM"); count != "count=1" {
		t.Errorf("it is counted as %s", count)
	}
}
