// Package metrics holds what the server counts and measures, in the forms that it is asked for:
// counters, durations of commands, rates, the slow log, latency events, INFO's sections, and
// Prometheus's text format.
//
// It knows no command, no configuration and no protocol; who uses it writes the replies. It imports
// only the standard library.
//
// What every request touches is kept once for each lane, and put together when somebody asks. A
// lane belongs to a reactor, so that processors don't take cache lines from each other; it may be
// used by other goroutines too, only slower.
package metrics

import "sync/atomic"

// cacheLine is the size in bytes of the pieces of memory that processors exchange. Two lanes never
// share one.
const cacheLine = 64

// Counter counts events. Make it with NewCounter.
type Counter struct{ lanes []counterLane }

type counterLane struct {
	n atomic.Int64
	_ [cacheLine - 8]byte
}

// NewCounter makes a counter with so many lanes, from 0.
func NewCounter(lanes int) *Counter { return &Counter{make([]counterLane, lanes)} }

// Add adds n on behalf of a lane.
func (c *Counter) Add(lane int, n int64) { c.lanes[lane].n.Add(n) }

// Sum is what has been added on all lanes.
func (c *Counter) Sum() int64 {
	var sum int64
	for i := range c.lanes {
		sum += c.lanes[i].n.Load()
	}
	return sum
}

// Reset sets the sum to 0. What is added meanwhile may be lost.
func (c *Counter) Reset() {
	for i := range c.lanes {
		c.lanes[i].n.Store(0)
	}
}
