package execute

import "testing"

// TestLargeGarbage: what large requests leave is collected once, when none of them runs any more.
func TestLargeGarbage(t *testing.T) {
	var w largeWork
	var ends []func()
	for range 2 {
		w.whenRoom(collectFrom/2+1, func(giveBack func()) { ends = append(ends, giveBack) })
	}
	ends[0]()
	if w.collect(); w.left == 0 {
		t.Error("collected beside a large request")
	}
	ends[1]()
	if w.left < collectFrom {
		t.Errorf("%d bytes are left", w.left)
	}
	if w.collect(); w.left != 0 {
		t.Errorf("%d bytes are left after they were collected", w.left)
	}
}
