package execute

import (
	"errors"
	"strings"
	"testing"

	"kedis/internal/psync"
	"kedis/lock"
	"kedis/storage"
)

// oneReplica is a primary's part in replication, whose only replica has acknowledged nothing.
type oneReplica struct{ Replication }

func (oneReplica) HasReplicas() bool { return true }
func (oneReplica) Online() int       { return 1 }
func (oneReplica) Reached(int) int64 { return 0 }
func (oneReplica) WhenAcknowledged(int64, func(psync.Acknowledged) bool, func(psync.Acknowledged)) func() {
	return func() {}
}

// sending is a client that keeps what it is sent.
type sending struct {
	Nowhere
	sent *strings.Builder
}

func (s sending) Send(text []byte, _ func() bool) { s.sent.Write(text) }

// newSynchronousEngine makes an engine whose replies wait for a replica.
func newSynchronousEngine(t *testing.T) *Engine {
	t.Helper()
	e, _ := newTestEngine(t)
	e.SetReplication(oneReplica{})
	if err := e.Config.Set([][2]string{{"synchronous-replicas", "1"}, {"notify-keyspace-events", "KAm"}}); err != nil {
		t.Fatal(err)
	}
	return e
}

// deposing has the server become a replica while a request's command runs.
func deposing(e *Engine, r *Request) *Request {
	command, run := *r.Command, r.Command.Run
	command.Run = func(c *Invocation) error {
		e.SetReplica(true, true)
		return run(c)
	}
	r.Command = &command
	return r
}

// TestDeposedWhileACommandRuns: a reply waits for replicas, and listeners are told nothing, when
// the server was a primary as the command began, and is a replica when it ends.
func TestDeposedWhileACommandRuns(t *testing.T) {
	for _, where := range []string{"reactor", "worker"} {
		for _, line := range []string{"set key 2", "get key"} {
			t.Run(where+" "+line, func(t *testing.T) {
				e := newSynchronousEngine(t)
				var sent strings.Builder
				e.Listeners.Add(e.NewClient(sending{sent: &sent}), PatternKind, "*")
				c := newTestClient(t, e)
				c.do("set", "key", "1")
				c.session.depends = 0
				r := deposing(e, read(e, c.session, strings.Fields(line)...))
				if where == "worker" {
					e.Work(c.session, r)
				} else if outcome := c.batch.Execute(c.session, r); outcome != Done {
					t.Fatalf("the outcome is %d", outcome)
				} else if err := c.batch.Commit(); err != nil {
					t.Fatal(err)
				}
				if replicas, _ := e.Held(c.session); replicas != 1 {
					t.Errorf("the reply %q leaves", c.session.Reply.Bytes())
				}
				if sent.Len() > 0 {
					t.Errorf("a listener was told %q", &sent)
				}
			})
		}
	}
}

// TestReadTellsOfWhatIsNotAcknowledged: that a key is missing may be what no replica has yet.
func TestReadTellsOfWhatIsNotAcknowledged(t *testing.T) {
	e := newSynchronousEngine(t)
	var sent strings.Builder
	e.Listeners.Add(e.NewClient(sending{sent: &sent}), PatternKind, "*")
	c := newTestClient(t, e)
	c.do("get", "missing")
	if sent.Len() > 0 {
		t.Errorf("a listener was told %q", &sent)
	}
	e.SetReplica(true, false)
	c.do("get", "missing")
	if !strings.Contains(sent.String(), "keymiss") {
		t.Errorf("of a replica's key a listener was told %q", &sent)
	}
}

// lostReplica is oneReplica's until the replica goes away.
type lostReplica struct {
	oneReplica
	lost *bool
}

func (r lostReplica) HasReplicas() bool { return !*r.lost }

// TestLastReplicaGoesWhileACommandRuns: listeners aren't told of a write that no replica is left to
// acknowledge.
func TestLastReplicaGoesWhileACommandRuns(t *testing.T) {
	e := newSynchronousEngine(t)
	lost := false
	e.SetReplication(lostReplica{lost: &lost})
	var sent strings.Builder
	e.Listeners.Add(e.NewClient(sending{sent: &sent}), PatternKind, "*")
	c := newTestClient(t, e)
	r := read(e, c.session, "set", "key", "1")
	if outcome := c.batch.Execute(c.session, r); outcome != Done {
		t.Fatalf("the outcome is %d", outcome)
	}
	lost = true
	if err := c.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	if sent.Len() > 0 {
		t.Errorf("a listener was told %q", &sent)
	}
	if err := e.Config.Set([][2]string{{"synchronous-replicas", "0"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(sent.String(), "keyspace") {
		t.Errorf("when nobody has to acknowledge, a listener is told %q", &sent)
	}
}

// holds reports whether a session's reply waits for replicas.
func holds(e *Engine, s *Session) bool {
	replicas, _ := e.Held(s)
	return replicas > 0
}

// TestReadsBesideThePlanWait: a request that reads more than the keys that it names waits for all
// that was committed.
func TestReadsBesideThePlanWait(t *testing.T) {
	e := newSynchronousEngine(t)
	newTestClient(t, e).do("set", "key", "1")
	for _, requests := range [][]string{
		{"eval_ro", "return redis.call('get', 'key')", "1", "untouched"},
		{"eval", "return redis.call('dbsize')", "1", "untouched"},
		{"multi|get untouched|dbsize|exec"},
		{"multi|get untouched|randomkey|exec"},
	} {
		c := newTestClient(t, e)
		c.do("get", "untouched")
		if holds(e, c.session) {
			t.Fatal("a read of what nobody has written waits")
		}
		if len(requests) > 1 {
			c.do(requests...)
		} else {
			for line := range strings.SplitSeq(requests[0], "|") {
				c.do(strings.Fields(line)...)
			}
		}
		if !holds(e, c.session) {
			t.Errorf("%q is answered %q at once", requests, c.session.Reply.Bytes())
		}
	}
}

// TestWriteUnderAGrantedLock: what a reactor has written under a lock that was granted, and that it
// hasn't adopted yet, is waited for by the next that reads the key.
func TestWriteUnderAGrantedLock(t *testing.T) {
	e := newSynchronousEngine(t)
	reader, writer := newTestClient(t, e), newTestClient(t, e)
	writer.batch = reader.batch
	stripe, holder := e.Store.Stripe(0, []byte("key")), lock.Owner(99)
	if e.Locks.TryExclusive(stripe, holder) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	request := read(e, reader.session, "get", "key")
	if outcome := reader.batch.Execute(reader.session, request); outcome != Waiting {
		t.Fatalf("outcome %d", outcome)
	}
	granted := false
	reader.session.Wait().Begin(func() { granted = true })
	e.Locks.ReleaseExclusive(stripe, holder)
	if !granted {
		t.Fatal("the lock isn't granted")
	}
	writer.do("set", "key", "1")
	reader.batch.Adopt(stripe)
	if outcome := reader.batch.Execute(reader.session, request); outcome != Done {
		t.Fatalf("outcome %d", outcome)
	}
	if err := reader.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	if !holds(e, reader.session) {
		t.Errorf("the reply %q leaves", reader.session.Reply.Bytes())
	}
}

// TestStepsWait: the reply of a request in steps waits for what each of them has written.
func TestStepsWait(t *testing.T) {
	e := newSynchronousEngine(t)
	addTestCommand(e, Command{Name: "steps", Flags: Write | Worker, Run: func(c *Invocation) error {
		set := func(db storage.DB) error {
			c.Effect(words("set", "key", "1")...)
			return db.SetString([]byte("key"), new(storage.Key), []byte("1"), 0)
		}
		none := func(storage.DB) error { return nil }
		c.Reply.OK()
		return errors.Join(c.Step(words("key"), true, set), c.Step(words("other"), true, none))
	}})
	c := newTestClient(t, e)
	if outcome := e.Work(c.session, read(e, c.session, "steps")); outcome != Done || string(c.session.Reply.Bytes()) != "+OK\r\n" {
		t.Fatalf("outcome %d: %q", outcome, c.session.Reply.Bytes())
	}
	if !holds(e, c.session) {
		t.Error("the reply leaves")
	}
}
