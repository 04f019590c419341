package engine

import (
	"testing"
	"time"
)

// TestRest: RocksDB is told when nothing was written for a while, now and then as long as that
// lasts, and when it has ended.
func TestRest(t *testing.T) {
	now := time.Unix(1000, 0)
	r := rest{since: now}
	for i, step := range []struct {
		later         time.Duration
		position      int64
		eagerly, tell bool
	}{
		{time.Second, 0, false, false},
		{restBegins, 0, true, true},
		{time.Second, 0, true, false},
		{tellAgain, 0, true, true},
		{time.Second, 1, false, true},
		{time.Second, 1, false, false},
		{restBegins - time.Second, 1, true, true},
		{restBegins, 2, false, true},
	} {
		now = now.Add(step.later)
		if eagerly, tell := r.compactsEagerly(step.position, now); eagerly != step.eagerly || tell != step.tell {
			t.Errorf("step %d: eagerly %t, told %t", i, eagerly, tell)
		}
	}
	r.failed()
	if eagerly, tell := r.compactsEagerly(2, now); eagerly || !tell {
		t.Errorf("after a failure: eagerly %t, told %t", eagerly, tell)
	}
}
