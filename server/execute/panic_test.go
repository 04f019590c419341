package execute

import (
	"fmt"
	"strings"
	"testing"

	"kedis/internal/metrics"
	"kedis/server/enginetest"
)

// addPanicking adds a command that works as SET does, and then panics.
func addPanicking(e *Engine, name string, flags Flags, run func(c *Invocation) error) {
	row := &Command{Name: name, Arity: 3, Flags: flags, Summary: "Panics.", Group: "string", Since: "1.0.0", Run: run}
	if flags&NoBatch == 0 { // a command that waits for others holds no locks
		row.Keys = []KeySpec{{Flags: RW | Update, Index: 1, Step: 1}}
	}
	e.Table.add(row)
	row.Measures = metrics.NewCommand(e.Statistics.Lanes)
}

func setAndPanic(c *Invocation) error {
	if err := c.Invoke(read(c.Engine, c.Session, "SET", string(c.Args[1]), string(c.Args[2])), c.Reply); err != nil {
		return err
	}
	c.AfterCommit(func() { panic("what a command has left behind, which panicked") })
	panic("what the test wants")
}

// panics runs a function that has to panic.
func panics(t *testing.T, run func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("nothing panicked")
		}
	}()
	run()
}

// TestPanicOnWorker has commands panic that hold a lock, the gate, a view, or nothing while they
// wait: others then get all of it.
func TestPanicOnWorker(t *testing.T) {
	for name, row := range map[string]struct {
		flags Flags
		run   func(c *Invocation) error
	}{
		"lock": {Write | Worker, setAndPanic},
		"gate": {Write | Exclusive, setAndPanic},
		"view": {ReadOnly | Worker, func(*Invocation) error { panic("what the test wants") }},
		"wait": {Worker | NoBatch, func(c *Invocation) error {
			c.Yield(func() { panic("what the test wants") })
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e, log := newTestEngine(t)
			addPanicking(e, "test", row.flags, row.run)
			for range 2 * e.workers.count {
				panics(t, func() {
					e.Work(NewSession(Nowhere{}, true), read(e, NewSession(Nowhere{}, true), "test", "key", "value"))
				})
			}
			if len(e.workers.free) != e.workers.count {
				t.Fatalf("%d of %d tokens are left", len(e.workers.free), e.workers.count)
			}
			if len(log.Content) > 0 {
				t.Errorf("the log holds %q", log.Content)
			}
			c := newTestClient(t, e)
			for _, step := range []struct{ request, want string }{{"get key", "$-1\r\n"}, {"set key other", "+OK\r\n"}, {"flushall sync", "+OK\r\n"}} {
				if reply := c.do(strings.Fields(step.request)...); reply != step.want {
					t.Errorf("%s: %q", step.request, reply)
				}
			}
		})
	}
}

// TestPanicOnReactor has a command panic between others of the same batch: they are committed
// without it.
func TestPanicOnReactor(t *testing.T) {
	e, log := newTestEngine(t)
	addPanicking(e, "test", Write, setAndPanic)
	c := newTestClient(t, e)
	b, bystander := c.batch, NewSession(Nowhere{}, true)
	b.Execute(bystander, read(e, bystander, "set", "a", "1"))
	panics(t, func() { b.Execute(NewSession(Nowhere{}, true), read(e, bystander, "test", "b", "2")) })
	b.Abandon()
	b.Execute(bystander, read(e, bystander, "set", "c", "3"))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Clear()
	if got := fmt.Sprint(enginetest.Requests(t, log.Content)); got != "[MULTI set a 1 set c 3 EXEC]" && got != "[set a 1 set c 3]" {
		t.Errorf("the log holds %s", got)
	}
	if reply := c.do("get", "b"); reply != "$-1\r\n" {
		t.Errorf("GET: %q", reply)
	}
}
