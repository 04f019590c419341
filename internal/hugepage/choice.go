package hugepage

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Choice asks for pages of the size that costs least, for memory that is made again and again, much
// of which is used only once or twice.
//
// Where a machine has its memory for itself, a large page is cheaper to find and clear than 512
// small ones. On a virtual machine that gives what is free back to its host it may cost ten times
// as much (docs/performance.md), presumably because whole large pages are what is given back, and
// have to be fetched again. So a large page that costs much is compared with small ones, again and
// again.
type Choice struct {
	large, small estimate
	made         int // since those that aren't preferred were last tried
	useSmall     atomic.Bool
}

const (
	// worth is what large pages may cost more than small ones, for each megabyte, since what lies
	// in them is found faster.
	worth = 500 * time.Microsecond
	// tryAgain says how often those that aren't preferred are tried: once in so many times.
	tryAgain = 64
)

// Advise asks for those pages under a slice that was just made. It may be called from anywhere.
func (c *Choice) Advise(made []byte) { c.ask(made, !c.useSmall.Load()) }

// Make returns an empty slice, the memory of which is there. It is for one goroutine.
func (c *Choice) Make(bytes int) []byte {
	made := make([]byte, bytes)
	large := c.next()
	c.ask(made, large)
	c.learn(large, measure(made))
	return made
}

func (c *Choice) ask(made []byte, large bool) {
	if len(made) == 0 {
		return
	}
	from, to := around(made)
	if large {
		advise(from, to)
	} else {
		refuse(from, to)
	}
}

// next decides which pages are asked for next.
func (c *Choice) next() (large bool) {
	large = !c.useSmall.Load()
	if c.large.cost <= worth {
		return large
	}
	if c.made++; c.made == tryAgain || !c.small.known {
		c.made = 0
		return !large
	}
	return large
}

// learn takes note of what a megabyte cost.
func (c *Choice) learn(large bool, cost time.Duration) {
	if large {
		c.large.add(cost)
	} else {
		c.small.add(cost)
	}
	c.useSmall.Store(c.small.known && c.large.cost > c.small.cost+worth)
}

// estimate is what a megabyte costs, more or less: two slices may share a large page, which the
// first of them pays for.
type estimate struct {
	cost  time.Duration
	known bool
}

func (e *estimate) add(cost time.Duration) {
	const weight = 4
	if !e.known {
		e.cost, e.known = cost, true
	}
	e.cost += (cost - e.cost) / weight
}

// measure populates a slice, and returns how much of the processor's time that took for each
// megabyte.
func measure(made []byte) time.Duration {
	if len(made) == 0 {
		return 0
	}
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	before := threadTime()
	Populate(made)
	return (threadTime() - before) * (1 << 20) / time.Duration(len(made))
}
