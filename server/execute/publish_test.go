package execute

import (
	"strings"
	"testing"
	"time"
)

// TestSlowPatternsOfNobody: a message isn't matched with a pattern that nobody listens to any more,
// and counts as long as it waits for that.
func TestSlowPatternsOfNobody(t *testing.T) {
	e, _ := newTestEngine(t)
	listener := e.NewClient(Nowhere{})
	e.Listeners.Add(listener, PatternKind, "*"+strings.Repeat("a", 1<<20)+"b*")
	busy := make(chan struct{})
	e.Listeners.slow.do(func() { <-busy }, 0)
	channel := []byte(strings.Repeat("a", 2<<20)) // ten minutes and more
	if sent := e.announceTo(nil, channel, []byte("message")); len(sent) != 0 {
		t.Errorf("%d messages are sent at once", len(sent))
	}
	if waiting := e.Listeners.Unmatched(); waiting < int64(len(channel)) {
		t.Errorf("%d bytes wait", waiting)
	}
	e.Listeners.Forget(listener)
	close(busy)
	for deadline := time.Now().Add(20 * time.Second); e.Listeners.Unmatched() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is matched with what nobody listens to")
		}
	}
}
