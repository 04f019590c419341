// Package quota counts what is used of limits: how much comes in a second, and what a database
// takes.
//
// It knows neither users nor commands: package execute says what to count and for whom. It imports
// the standard library only.
package quota

import (
	"sync/atomic"
	"time"
)

// Rate admits so much a second, and a second's worth at once. The zero value admits everything. All
// methods may be called from any goroutine.
//
// It keeps one number, the moment up to which what was admitted uses the rate up: each unit moves
// it on by its part of a second, and none is admitted while it is more than a second ahead.
type Rate struct {
	perSecond atomic.Int64
	used      atomic.Int64 // ns of the clock that callers have
	told      atomic.Int64 // the same for what was refused
	refused   atomic.Int64
}

// SetPerSecond changes how much is admitted; 0 is everything.
func (r *Rate) SetPerSecond(most int64) {
	if r.perSecond.Swap(most) != most {
		r.used.Store(0)
		r.told.Store(0)
	}
}

// PerSecond is how much is admitted; 0 is everything.
func (r *Rate) PerSecond() int64 { return r.perSecond.Load() }

// Refused is how often Refuse was called.
func (r *Rate) Refused() int64 { return r.refused.Load() }

// Admit takes up some units unless more than a second's worth would be ahead of now. A larger
// amount than that is admitted when nothing is ahead.
func (r *Rate) Admit(units int64, now time.Duration) bool {
	most := r.perSecond.Load()
	if most == 0 {
		return true
	}
	cost := costOf(units, most)
	for {
		before := r.used.Load()
		from := max(before, int64(now))
		if ahead := from - int64(now); ahead > 0 && ahead+cost > int64(time.Second) {
			return false
		}
		if r.used.CompareAndSwap(before, from+cost) {
			return true
		}
	}
}

// longestHold is how long Refuse has a refusal held back at most, so that a long pipeline gets its
// answers.
const longestHold = 10 * time.Millisecond

// Refuse counts what Admit has refused. It returns how long to hold the refusal back: who doesn't
// heed it is told so no more often than the rate, and costs others as little as one who keeps
// within it.
func (r *Rate) Refuse(units int64, now time.Duration) (hold time.Duration) {
	r.refused.Add(1)
	most := r.perSecond.Load()
	if most == 0 {
		return 0
	}
	latest := int64(now + longestHold)
	for {
		before := r.told.Load()
		from := min(max(before, int64(now)), latest)
		if r.told.CompareAndSwap(before, min(from+costOf(units, most), latest)) {
			return time.Duration(from) - now
		}
	}
}

// Charge takes up units that can't be refused any more.
func (r *Rate) Charge(units int64, now time.Duration) {
	most := r.perSecond.Load()
	if most == 0 {
		return
	}
	cost := costOf(units, most)
	for {
		before := r.used.Load()
		if r.used.CompareAndSwap(before, max(before, int64(now))+cost) {
			return
		}
	}
}

// mostDebt bounds what one call takes up, so that a reply of gigabytes doesn't shut its reader out
// for long.
const mostDebt = 10 * time.Second

func costOf(units, perSecond int64) int64 {
	cost := float64(units) / float64(perSecond) * float64(time.Second)
	return int64(min(cost, float64(mostDebt)))
}
