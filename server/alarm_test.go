package server

import (
	"testing"
	"time"
)

// TestAlarmHasATimer: a reactor's alarm is a timer of its own, which is set for the first deadline
// of those who wait, and not set when nobody waits.
func TestAlarmHasATimer(t *testing.T) {
	r := startServer(t)
	c, other := r.dial(), r.dial()
	for _, wait := range []string{"0.002", "0.02", "0.001"} {
		c.want("nil-array", "blpop", "nothing", wait)
	}
	other.Queue("blpop", "nothing", "1000")
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	r.wantSome("waits", func(c *connection) bool { return c.session.Status().Blocked })
	c.want("nil-array", "blpop", "nothing", "0.002") // it comes before the other's, whichever reactor has that
	r.wantSome("has a timer", func(c *connection) bool {
		a := c.reactor.waits.alarm
		return a.descriptor >= 0 && a.rings > 900*time.Second
	})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	r.wantSome("is alone", func(*connection) bool { return r.engine.Clients.Count() == 1 })
	c.want("nil-array", "blpop", "nothing", "0.002")
	if left := r.sum(func(reactor *reactor) int { return len(reactor.waits.deadlines) }); left > 0 {
		t.Errorf("%d deadlines are left of who has gone", left)
	}
}
