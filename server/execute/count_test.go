package execute

import "testing"

// TestCountsBesideReaders: PFCOUNT shares its key with those that read it, unless it stores its estimate.
func TestCountsBesideReaders(t *testing.T) {
	e, log := newTestEngine(t)
	c := newTestClient(t, e)
	c.do("PFADD", "h", "a", "b", "c")
	stripe := e.Store.Stripe(0, []byte("h"))
	e.Locks.TryShared(stripe, 2)
	r := read(e, c.session, "PFCOUNT", "h")
	if outcome := c.batch.Execute(c.session, r); outcome != Waiting || c.session.Wait().Cause != ForLock || c.batch.Open() && !c.batch.Idle() {
		t.Fatalf("outcome %d beside a reader while the estimate is out of date", outcome)
	}
	if err := c.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	e.Locks.ReleaseShared(stripe)
	before := len(log.Content)
	if reply := c.do("PFCOUNT", "h"); reply != ":3\r\n" || len(log.Content) == before {
		t.Fatalf("the reply is %q, the log has %d more bytes", reply, len(log.Content)-before)
	}
	before = len(log.Content)
	e.Locks.TryShared(stripe, 2)
	for _, keys := range [][]string{{"h"}, {"h", "h"}, {"h", "none"}} {
		if reply := c.do(append([]string{"PFCOUNT"}, keys...)...); reply != ":3\r\n" || len(log.Content) != before {
			t.Errorf("%v beside a reader: the reply is %q, the log has %d more bytes", keys, reply, len(log.Content)-before)
		}
	}
	e.Locks.ReleaseShared(stripe)
	c.do("PFADD", "h", "d")
	c.batch.Execute(c.session, read(e, c.session, "PFCOUNT", "h"))
	if holder := e.Locks.Holder(stripe); holder != c.batch.Owner() {
		t.Errorf("%d has the lock of a key that was written", holder)
	}
	if err := c.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	if holder := e.Locks.Holder(stripe); holder != 0 {
		t.Errorf("%d has the lock after the commit", holder)
	}
}
