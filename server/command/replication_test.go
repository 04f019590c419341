package command

import (
	"strings"
	"testing"
	"time"

	"kedis/lock"
)

// A command that waits for a lock on a worker while the server becomes a replica must not write: the next
// effect in the log is the primary's.
func TestWaitingWriteFindsItselfOnAReplica(t *testing.T) {
	e, log := newTestEngine(t)
	c := newTestClient(t, e)
	stripe, holder := e.Store.Stripe(0, []byte("key")), lock.Owner(1)
	if e.Locks.TryExclusive(stripe, holder) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Work(c.session, words("set", "key", "1"))
	}()
	for c.session.LastCommand.Load() == nil {
		time.Sleep(time.Millisecond) // until it was admitted
	}
	time.Sleep(time.Millisecond)
	e.SetReplica(true, true)
	e.Locks.ReleaseExclusive(stripe, holder)
	<-done
	if reply := string(c.session.Reply.Bytes()); !strings.HasPrefix(reply, "-READONLY") || len(log.content) > 0 {
		t.Fatalf("the reply is %q, the log holds %q", reply, log.content)
	}
}
