package execute

import (
	"runtime"
	"testing"
	"time"
	"weak"
)

// TestTrackingClientsLeaveNoSession: what a client has read is remembered when it is gone, but not
// the client with its buffers.
func TestTrackingClientsLeaveNoSession(t *testing.T) {
	e, _ := newTestEngine(t)
	stays := newTestClient(t, e) // else the table is cleared
	stays.do("HELLO", "3")
	stays.do("CLIENT", "TRACKING", "ON")
	stays.do("GET", "hot")
	var gone []weak.Pointer[Session]
	for range 100 {
		c := newTestClient(t, e)
		c.do("HELLO", "3")
		c.do("CLIENT", "TRACKING", "ON")
		c.do("GET", "hot")
		gone = append(gone, weak.Make(c.session))
		e.Disconnect(c.session)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		runtime.GC()
		kept := 0
		for _, session := range gone {
			if session.Value() != nil {
				kept++
			}
		}
		if kept == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions of clients that are gone are kept", kept)
		}
	}
	if items := e.Caching.Statistics().Items; items == 0 || items > 3 {
		t.Errorf("%d readers are remembered, of whom one is there", items)
	}
	stays.do("SET", "hot", "value")
	if items := e.Caching.Statistics().Items; items != 0 {
		t.Errorf("%d readers are remembered of a key that has changed", items)
	}
}
