package execute

import (
	"fmt"
	"slices"
	"testing"
)

// take waits for room.
func (w *largeWork) take(bytes int64) (giveBack func()) {
	taken := make(chan func(), 1)
	w.whenRoom(bytes, func(giveBack func()) { taken <- giveBack })
	return <-taken
}

// TestLargeWorkWaitsItsTurn: as many requests run as fit, in the order in which they came.
func TestLargeWorkWaitsItsTurn(t *testing.T) {
	var w largeWork
	first := w.take(largeAtOnce - 10)
	second := w.take(10)
	var began []int
	var ends []func()
	request := func(bytes int64) {
		w.whenRoom(bytes, func(giveBack func()) { began, ends = append(began, int(bytes)), append(ends, giveBack) })
	}
	request(2 * largeAtOnce) // larger than all that fits
	second()
	request(10) // there would be room
	if len(began) > 0 {
		t.Fatalf("requests of %v bytes run beside one that leaves no room, or before one that came first", began)
	}
	first()
	if !slices.Equal(began, []int{2 * largeAtOnce}) {
		t.Fatalf("requests of %v bytes run, of which the first takes all room", began)
	}
	ends[0]()
	if !slices.Equal(began, []int{2 * largeAtOnce, 10}) {
		t.Fatalf("requests of %v bytes have run when there is room for all", began)
	}
	ends[1]()
	w.take(largeAtOnce)()
	if w.taken != 0 {
		t.Errorf("%d bytes are taken in the end", w.taken)
	}
}

// TestLargeWorkHoldsNoLocks: while a request on a long string waits for its turn, others go on with
// its key.
func TestLargeWorkHoldsNoLocks(t *testing.T) {
	e, _ := newTestEngine(t)
	c, other := newTestClient(t, e), newTestClient(t, e)
	c.do("SETRANGE", "key", "0", string(make([]byte, 2*fromLarge)))
	request := read(e, c.session, "SET", "key", string(make([]byte, 2*fromLarge)))
	if outcome := c.batch.Execute(c.session, request); outcome != Waiting || c.session.Wait().Cause != ForWorker {
		t.Fatalf("outcome %d", outcome)
	}
	if err := c.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	if c.session.worked.large < 2*fromLarge {
		t.Fatalf("the request says that it is about %d bytes", c.session.worked.large)
	}
	full := e.large.take(largeAtOnce)
	done := make(chan Outcome)
	go func() { done <- e.Work(c.session, request) }()
	for waiting := 0; waiting == 0; {
		e.large.mu.Lock()
		waiting = len(e.large.waiting)
		e.large.mu.Unlock()
	}
	if reply := other.do("SET", "key", "short"); reply != "+OK\r\n" {
		t.Errorf("the reply is %q", reply)
	}
	if len(e.workers.free) != e.workers.count {
		t.Error("it has a worker's token")
	}
	full()
	if outcome := <-done; outcome != Done {
		t.Errorf("outcome %d", outcome)
	}
	if reply := other.do("STRLEN", "key"); reply != fmt.Sprintf(":%d\r\n", 2*fromLarge) {
		t.Errorf("the reply is %q", reply)
	}
}
