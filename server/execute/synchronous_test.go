package execute

import (
	"strings"
	"testing"

	"kedis/internal/psync"
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

func (s sending) Send(text []byte) { s.sent.Write(text) }

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
