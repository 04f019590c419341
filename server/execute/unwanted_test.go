package execute

import (
	"errors"
	"strings"
	"testing"

	"kedis/internal/metrics"
	"kedis/storage"
)

// addUnwanted adds a command that runs on a worker, has its session killed, and reads.
func addUnwanted(e *Engine, name string, flags Flags, read func(err error)) {
	row := &Command{Name: name, Arity: 2, Flags: flags | Worker, Summary: "Is killed.", Group: "string", Since: "1.0.0",
		Keys: []KeySpec{{Flags: RO | Access, Index: 1, Step: 1}}}
	if flags&Write != 0 {
		row.Keys[0].Flags = RW | Update
	}
	row.Run = func(c *Invocation) error {
		if flags&Write != 0 {
			if err := c.Invoke(requestOf(c, "SET", string(c.Args[1]), "written"), c.Reply); err != nil {
				return err
			}
		}
		c.Engine.kill(c.Session)
		_, err := c.DB.Lookup(c.Args[1])
		read(err)
		return err
	}
	e.Table.add(row)
	row.Measures = metrics.NewCommand(e.Statistics.Lanes)
}

func requestOf(c *Invocation, words ...string) *Request { return read(c.Engine, c.Session, words...) }

// TestKilledWhileAWorkerReads: what a worker reads for a client that was killed ends, alone and in
// a transaction; what it writes is committed as a whole.
func TestKilledWhileAWorkerReads(t *testing.T) {
	for name, writes := range map[string]bool{"reads": false, "writes": true} {
		for _, queued := range []bool{false, true} {
			e, _ := newTestEngine(t)
			victim, other := newTestClient(t, e), &testClient{t, e, e.NewBatch(1), e.NewClient(Nowhere{})}
			flags := ReadOnly
			if writes {
				flags = Write
			}
			var failure error
			addUnwanted(e, "test", flags, func(err error) { failure = err })
			if queued {
				victim.do("MULTI")
				victim.do("TEST", "key")
				victim.do("EXEC")
			} else {
				victim.do("TEST", "key")
			}
			if writes && failure != nil || !writes && !errors.Is(failure, storage.ErrUnwanted) {
				t.Errorf("%s, in a transaction %v: its read: %v", name, queued, failure)
			}
			want := "$-1\r\n"
			if writes {
				want = "$7\r\nwritten\r\n"
			}
			if reply := other.do("GET", "key"); reply != want {
				t.Errorf("%s, in a transaction %v: GET is %q", name, queued, reply)
			}
			if reply := other.do("SET", "key", "1"); reply != "+OK\r\n" { // the lock was given back
				t.Errorf("SET: %q", reply)
			}
		}
	}
}

// TestKilledWhileItWaitsForAWorker: the worker doesn't begin, and is free for others.
func TestKilledWhileItWaitsForAWorker(t *testing.T) {
	e, _ := newTestEngine(t)
	victim, other := newTestClient(t, e), &testClient{t, e, e.NewBatch(1), e.NewClient(Nowhere{})}
	var taken []token
	for range e.workers.count {
		taken = append(taken, e.workers.take())
	}
	keys := read(e, victim.session, "KEYS", "*")
	if outcome := victim.batch.Execute(victim.session, keys); outcome != Waiting || victim.session.Wait().Cause != ForWorker {
		t.Fatalf("KEYS: outcome %d", outcome)
	}
	if err := victim.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	woken := make(chan struct{})
	victim.session.Wait().Begin(func() { close(woken) })
	victim.session.Abandon()
	e.LeaveWorkers(victim.session)
	select {
	case <-woken:
	default:
		t.Error("it waits on, and what it has sent is kept")
	}
	for _, t := range taken {
		t.of.give(t)
	}
	<-woken
	if ran := e.Statistics.Offloads.Load(); ran != 0 || victim.session.Waiting() || victim.session.Reply.Len() > 0 {
		t.Errorf("a worker ran %d requests; it waits: %v; the reply is %q", ran, victim.session.Waiting(), victim.session.Reply.Bytes())
	}
	if reply := other.do("KEYS", "*"); !strings.HasPrefix(reply, "*0") {
		t.Errorf("KEYS of another client: %q", reply)
	}
}
