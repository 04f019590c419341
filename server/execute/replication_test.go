package execute

import (
	"net"
	"strings"
	"testing"
	"time"

	"kedis/internal/resp"
	"kedis/lock"
)

// A command that waits for a lock on a worker while the server becomes a replica must not write:
// the next effect in the log is the primary's.
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
		e.Work(c.session, read(e, c.session, "set", "key", "1"))
	}()
	for c.session.LastCommand.Load() == nil {
		time.Sleep(time.Millisecond) // until it was admitted
	}
	time.Sleep(time.Millisecond)
	e.SetReplica(true, true)
	e.Locks.ReleaseExclusive(stripe, holder)
	<-done
	if reply := string(c.session.Reply.Bytes()); !strings.HasPrefix(reply, "-READONLY") || len(log.Content) > 0 {
		t.Fatalf("the reply is %q, the log holds %q", reply, log.Content)
	}
}

// PFCOUNT stores what it has counted, on the primary and, from the stream, on its replicas: their
// bytes are the same.
func TestFollowerStoresWhatPFCountStores(t *testing.T) {
	primary, _ := newTestEngine(t)
	replica, _ := newTestEngine(t)
	replica.SetReplica(true, false)
	c := newTestClient(t, primary)
	here, there := net.Pipe()
	defer there.Close()
	f := replica.NewStreamApplier(here, 0)
	defer f.Close()
	for _, line := range [][]string{{"pfadd", "h", "a", "b", "c"}, {"pfcount", "h"}} {
		c.do(line...)
		raw := resp.AppendRequest(nil, words(line...)...)
		if err := f.Apply(words(line...), raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	want, have := c.do("get", "h"), newTestClient(t, replica).do("get", "h")
	if want != have {
		t.Fatalf("the primary holds %q, the replica %q", want, have)
	}
}

// TestCommandsThatChangeNothing: of a stream only these may be cut off.
func TestCommandsThatChangeNothing(t *testing.T) {
	e, _ := newTestEngine(t)
	for _, line := range []string{"PING", "ping", "PUBLISH c m", "SPUBLISH c m", "SELECT 3", "REPLCONF GETACK *", "MULTI", "EXEC"} {
		if e.ChangesData(words(strings.Fields(line)...)) {
			t.Errorf("%s is said to change data", line)
		}
	}
	for _, line := range []string{"SET a 1", "del a", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "PFCOUNT h", "PEXPIREAT a 1", "RESTORE a 0 x", "GETEX a", "XADD s * a 1", "NOSUCH",
		"FUNCTION LOAD x", "EVAL x 0", "GET a"} {
		if !e.ChangesData(words(strings.Fields(line)...)) {
			t.Errorf("%s is said to change nothing", line)
		}
	}
}
