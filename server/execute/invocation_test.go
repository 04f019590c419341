package execute

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kedis/internal/resp"
	"kedis/server/enginetest"
)

// addTestCommand adds a command to an engine's table.
func addTestCommand(e *Engine, c Command) {
	c.Arity, c.Summary, c.Group, c.Since, c.Immediate = -1, "A test.", "generic", "1.0.0", true
	e.Table.add(&c)
	e.Table.measure(2)
}

// program is a command that runs requests, which stand in its words with a "|" between them. A
// request "fail" ends it with an error, and "retreat" takes it back until it runs on a worker. Its
// reply is what the last request replied.
func program(c *Invocation) error {
	reply := resp.NewWriter(2)
	reader := requestReader{table: c.Engine.Table, store: c.Engine.Store}
	for _, request := range strings.Split(string(c.Args[1]), "|") {
		switch request {
		case "fail":
			return Error("ERR the program failed")
		case "retreat":
			if c.OnReactor() {
				return c.Offload()
			}
			continue
		case "publish":
			c.AfterCommit(func() { c.Engine.CountError("PUBLISHED x") })
			continue
		}
		reply.Reset()
		if err := c.Invoke(reader.read(c.Session.Database, words(strings.Fields(request)...)), reply); err != nil {
			return err
		}
	}
	c.Reply.Raw(reply.Bytes())
	c.NoEffect()
	return nil
}

func newProgramEngine(t *testing.T) (*Engine, *enginetest.Log, *testClient) {
	engine, log := newTestEngine(t)
	addTestCommand(engine, Command{Name: "program", Run: program, Flags: NoBatch})
	return engine, log, newTestClient(t, engine)
}

func calls(e *Engine, name string) int64 {
	command, _ := e.Table.Lookup(words(name))
	return command.Measures.Stats().Calls
}

// TestNesting runs EXEC, in it a program, and in that a command: one commit, and each is counted
// once.
func TestNesting(t *testing.T) {
	engine, log, c := newProgramEngine(t)
	c.do("MULTI")
	c.do("SET", "a", "1")
	engine.Table.byName["program"].Immediate = false
	c.do("PROGRAM", "INCR a|GET a|INCR a")
	c.do("GET", "a")
	if got, want := c.do("EXEC"), "*3\r\n+OK\r\n:3\r\n$1\r\n3\r\n"; got != want {
		t.Errorf("EXEC: %q, want %q", got, want)
	}
	if got, want := enginetest.Requests(t, log.Content), []string{"MULTI", "SET a 1", "INCR a", "INCR a", "EXEC"}; !slices.Equal(got, want) {
		t.Errorf("effects: %q, want %q", got, want)
	}
	for name, want := range map[string]int64{"set": 1, "incr": 2, "get": 2, "program": 1, "exec": 1} {
		if got := calls(engine, name); got != want {
			t.Errorf("%s was counted %d times, want %d", name, got, want)
		}
	}
}

// TestNestedFailure: a nested request that fails leaves what was done before it, one that ends the
// outer request with it takes all back.
func TestNestedFailure(t *testing.T) {
	engine, log, c := newProgramEngine(t)
	if got := c.do("PROGRAM", "SET a x|INCR a|GET a"); got != "$1\r\nx\r\n" {
		t.Errorf("behind an error: %q", got)
	}
	if got := c.do("PROGRAM", "SET a y|publish|SELECT 3|fail"); got != "-ERR the program failed\r\n" {
		t.Errorf("a program that fails: %q", got)
	}
	c.do("SELECT", "0")
	if got := c.do("GET", "a"); got != "$1\r\nx\r\n" {
		t.Errorf("what failed has written: %q", got)
	}
	if got, want := enginetest.Requests(t, log.Content), []string{"SET a x"}; !slices.Equal(got, want) {
		t.Errorf("effects: %q, want %q", got, want)
	}
	codes := errorCodes(engine)
	if codes["PUBLISHED"] != 0 || codes["ERR"] != 2 {
		t.Errorf("errors: %v", codes)
	}
}

// TestTakenBack: what is taken back leaves nothing behind when it runs again on a worker: no reply,
// no count, no message, no database.
func TestTakenBack(t *testing.T) {
	engine, log, c := newProgramEngine(t)
	if got := c.do("PROGRAM", "SET a 1|SELECT 3|publish|LPUSH a x|SET b 2|retreat|GET b"); got != "$1\r\n2\r\n" {
		t.Errorf("%q", got)
	}
	if got, want := enginetest.Requests(t, log.Content), []string{"MULTI", "SET a 1", "SELECT 3", "LPUSH a x", "SET b 2", "EXEC"}; !slices.Equal(got, want) {
		t.Errorf("effects: %q, want %q", got, want)
	}
	for name, want := range map[string]int64{"set": 2, "lpush": 1, "program": 1} {
		if got := calls(engine, name); got != want {
			t.Errorf("%s was counted %d times, want %d", name, got, want)
		}
	}
	if codes := errorCodes(engine); codes["PUBLISHED"] != 1 {
		t.Errorf("errors: %v", codes)
	}
}

func errorCodes(e *Engine) map[string]int64 {
	codes := map[string]int64{}
	e.Statistics.Errors.Each(func(code string, count int64) { codes[code] = count })
	return codes
}

// TestAbandonKeepsOthers: a request that panics before it runs takes nothing of those before it
// with it, and one that panics underway takes its own back.
func TestAbandonKeepsOthers(t *testing.T) {
	engine, log := newTestEngine(t)
	addTestCommand(engine, Command{Name: "panics", Flags: Write, Run: func(c *Invocation) error {
		reader := requestReader{table: c.Engine.Table, store: c.Engine.Store}
		if err := c.Invoke(reader.read(0, words("SET", "b", "2")), c.Reply); err != nil {
			return err
		}
		panic("underway")
	}})
	addTestCommand(engine, Command{Name: "unplanned", Plan: func(*Invocation, *Plan) error { panic("before") }, Run: func(*Invocation) error {
		return errors.New("it can't run")
	}})
	batch, s := engine.NewBatch(0), NewSession(Nowhere{}, true)
	for _, name := range []string{"panics", "unplanned"} {
		batch.Execute(s, batch.Read(s, words("SET", name, "1")))
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s didn't panic", name)
				}
				batch.Abandon()
			}()
			batch.Execute(s, batch.Read(s, words(name)))
		}()
	}
	commitPipeline(t, batch, s)
	if got, want := fmt.Sprint(enginetest.Requests(t, log.Content)), "[SET panics 1 SET unplanned 1]"; got != want {
		t.Errorf("effects: %s, want %s", got, want)
	}
}

// TestExecutionCostsNothing: a request that is read, executed, observed and committed costs no
// allocation.
func TestExecutionCostsNothing(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.do("SET", "key", "value")
	args := words("GET", "key")
	execute := func() {
		c.batch.Execute(c.session, c.batch.Read(c.session, args))
		if err := c.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.batch.Clear()
		c.session.Reply.Reset()
	}
	execute()
	if allocations := testing.AllocsPerRun(1000, execute); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}
