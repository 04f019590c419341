package quota

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRateAdmitsASecondsWorthAtOnce(t *testing.T) {
	var r Rate
	r.SetPerSecond(10)
	now := 5 * time.Second
	admitted := func() (n int) {
		for r.Admit(1, now) {
			n++
		}
		return n
	}
	if n := admitted(); n != 10 {
		t.Errorf("%d are admitted at once", n)
	}
	for range 5 {
		now += 300 * time.Millisecond
		if n := admitted(); n != 3 {
			t.Errorf("%d are admitted after 0.3 s", n)
		}
	}
	now += time.Hour
	if n := admitted(); n != 10 {
		t.Errorf("%d are admitted after an hour", n)
	}
}

// TestRefusalsAreHeldBack: those of many clients are told one after the other, as the rate has it,
// and each within the longest hold.
func TestRefusalsAreHeldBack(t *testing.T) {
	var r Rate
	r.SetPerSecond(1000)
	now := time.Second
	for i := range 30 {
		want := min(time.Duration(i)*time.Millisecond, longestHold)
		if hold := r.Refuse(1, now); hold != want {
			t.Errorf("refusal %d is held back for %v, not for %v", i, hold, want)
		}
	}
	if hold := r.Refuse(1, now+longestHold); hold != 0 {
		t.Errorf("one that comes after all others is held back for %v", hold)
	}
	if n := r.Refused(); n != 31 {
		t.Errorf("%d refusals are counted", n)
	}
}

func TestRateOfLargeAmounts(t *testing.T) {
	var r Rate
	r.SetPerSecond(1000)
	now := time.Second
	if !r.Admit(5000, now) || r.Admit(1, now) {
		t.Error("five seconds' worth isn't admitted once, and then nothing")
	}
	if now += 3900 * time.Millisecond; r.Admit(1, now) {
		t.Error("something is admitted while more than a second is owed")
	}
	if now += 200 * time.Millisecond; !r.Admit(1, now) {
		t.Error("nothing is admitted when less than a second is owed")
	}
	r.Charge(1<<40, now)
	if now += 9 * time.Second; !r.Admit(1, now+mostDebt) || r.Admit(1, now-time.Second) {
		t.Error("a huge amount is owed longer, or not at all")
	}
	r.SetPerSecond(0)
	if !r.Admit(1<<40, 0) {
		t.Error("without a limit something is refused")
	}
}

func TestRateForMany(t *testing.T) {
	var r Rate
	r.SetPerSecond(1000)
	var admitted atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if r.Admit(1, time.Second) {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if admitted.Load() != 1000 {
		t.Errorf("%d are admitted", admitted.Load())
	}
}
