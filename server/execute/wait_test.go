package execute

import (
	"fmt"
	"testing"
	"time"
)

// TestBehindAScriptIsNotBlocked: a request that waits for a script, until it is refused, is none
// that CLIENT LIST shows as blocked, or that CLIENT UNBLOCK ends.
func TestBehindAScriptIsNotBlocked(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	request := read(e, c.session, "GET", "k")
	if outcome := c.batch.refuseAt(c.session, request, e.After(time.Hour), ErrBusyScript); outcome != Waiting {
		t.Fatalf("outcome %d", outcome)
	}
	blocked := c.session.Wait().Blocked
	if status := c.session.Status(); status.Blocked || status.Deadline || c.session.Unblock(nil) || c.session.Unblock(ErrBusyScript) || blocked.Ended() {
		t.Errorf("it counts as blocked: %+v", status)
	}
	c.session.HangUp()
	if !blocked.Ended() || !c.batch.Answered(c.session, request, blocked) {
		t.Error("it goes on waiting though the client sends no more")
	}
	if reply := string(c.session.Reply.Bytes()); reply != "-"+string(ErrBusyScript)+"\r\n" {
		t.Errorf("it is answered %q", reply)
	}
}

// TestLackWithoutARequest: what a batch that runs no request lacks is told, too.
func TestLackWithoutARequest(t *testing.T) {
	e, _ := newTestEngine(t)
	b := e.NewBatch(0)
	s := e.NewClient(Nowhere{})
	b.invocation(1, s, nil, s.Reply)
	if err := b.lack(1); err != errFurther {
		t.Error(err)
	}
}

// TestRoleChangesBeforeTheWait: who begins to wait when the server has become a replica, since it
// was decided that the request may run, is disconnected, too.
func TestRoleChangesBeforeTheWait(t *testing.T) {
	e, _ := newTestEngine(t)
	addTestCommand(e, Command{Name: "waits", Flags: Blocking, Run: func(c *Invocation) error {
		e.SetReplica(true, true)
		return c.Block(&Blocked{})
	}})
	c := newTestClient(t, e)
	e.Clients.Add(c.session)
	request := read(e, c.session, "WAITS")
	if outcome := c.batch.Execute(c.session, request); outcome != Waiting {
		t.Fatalf("outcome %d", outcome)
	}
	e.BeginWait(c.session)
	blocked := c.session.Wait().Blocked
	if !blocked.Ended() || !c.batch.Answered(c.session, request, blocked) {
		t.Fatal("it goes on waiting")
	}
	if reply := string(c.session.Reply.Bytes()); reply != "-"+string(errRoleChanged)+"\r\n" {
		t.Errorf("it is answered %q", reply)
	}
}

// TestRoleChangesBehindAWorker: a client that a worker has let wait before the server has become a
// replica isn't served from its primary's stream, until its reactor disconnects it.
func TestRoleChangesBehindAWorker(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	request := read(e, c.session, "BLPOP", "list", "0")
	if outcome := e.Work(c.session, request); outcome != Waiting {
		t.Fatalf("outcome %d", outcome)
	}
	e.SetReplica(true, true)
	applier := e.NewFileApplier(0)
	if err := applier.Apply(words("RPUSH", "list", "x"), []byte("*3\r\n$5\r\nRPUSH\r\n$4\r\nlist\r\n$1\r\nx\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := applier.Commit(); err != nil {
		t.Fatal(err)
	}
	applier.Close()
	e.BeginWait(c.session)
	blocked := c.session.Wait().Blocked
	if !c.batch.Answered(c.session, request, blocked) || string(c.session.Reply.Bytes()) != "-"+string(errRoleChanged)+"\r\n" {
		t.Errorf("it is answered %q", c.session.Reply.Bytes())
	}
	c.session.EndWait()
	if length := newTestClient(t, e).do("LLEN", "list"); length != ":1\r\n" {
		t.Errorf("the list has %q elements", length)
	}
}

// TestUnblockBehindServing: a client that was served by a request of the same batch doesn't wait
// any more for who unblocks it.
func TestUnblockBehindServing(t *testing.T) {
	e, _ := newTestEngine(t)
	waiter, other := newTestClient(t, e), newTestClient(t, e)
	e.Clients.Add(waiter.session)
	waiter.beginToWait("BLPOP", "list", "0")
	executesOn(t, other.batch)(other.session, "RPUSH", "list", "v")
	unblock := read(e, other.session, "CLIENT", "UNBLOCK", fmt.Sprint(waiter.session.ID))
	outcome := other.batch.Execute(other.session, unblock)
	if err := other.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	other.batch.Clear()
	if outcome == Separate {
		other.batch.Execute(other.session, unblock)
	}
	if reply := string(other.session.Reply.Bytes()); reply != ":1\r\n:0\r\n" {
		t.Errorf("RPUSH and CLIENT UNBLOCK: %q", reply)
	}
	waiter.session.EndWait()
}
