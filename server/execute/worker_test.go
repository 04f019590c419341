package execute

import (
	"testing"
	"time"
)

// TestWorkersStopInTheEnd: stop may be called again, and succeeds when the last one has ended.
func TestWorkersStopInTheEnd(t *testing.T) {
	var w workers
	w.start(0, 2)
	working := w.take()
	if w.stop(time.Millisecond) {
		t.Fatal("a worker still works")
	}
	w.give(working)
	if !w.stop(10 * time.Second) {
		t.Error("no worker works any more")
	}
}
