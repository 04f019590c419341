package engine

import (
	"testing"
	"time"
)

// TestRest: RocksDB is told when nothing was written for a while, now and then as long as that
// lasts, and when it has ended; and again when that has failed.
func TestRest(t *testing.T) {
	now := time.Unix(1000, 0)
	r := rest{since: now}
	for i, step := range []struct {
		later                time.Duration
		position             int64
		eagerly, tell, fails bool
	}{
		{later: time.Second},
		{later: restBegins, eagerly: true, tell: true},
		{later: time.Second, eagerly: true},
		{later: tellAgain, eagerly: true, tell: true},
		{later: time.Second, position: 1, tell: true},
		{later: time.Second, position: 1},
		{later: restBegins, position: 1, eagerly: true, tell: true, fails: true},
		{later: time.Second, position: 1, eagerly: true, tell: true},
		{later: tellAgain, position: 1, eagerly: true, tell: true, fails: true},
		{later: time.Second, position: 2, tell: true, fails: true}, // it was told before
		{later: time.Second, position: 2, tell: true},
		{later: time.Second, position: 2},
	} {
		now = now.Add(step.later)
		eagerly, tell := r.compactsEagerly(step.position, now)
		if eagerly != step.eagerly || tell != step.tell {
			t.Errorf("step %d: eagerly %t, told %t", i, eagerly, tell)
		}
		if step.fails {
			r.failed()
		}
	}
}
