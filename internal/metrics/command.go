package metrics

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Command measures one command. Make it with NewCommand.
type Command struct {
	// Latency is what LATENCY HISTOGRAM and INFO latencystats show. It is apart from Record because
	// latency-tracking can be off.
	Latency *Histogram
	lanes   []commandLane
}

type commandLane struct {
	calls, nanoseconds, rejected, failed atomic.Int64
	_                                    [cacheLine - 4*8]byte
}

// CommandStats is what INFO commandstats shows of a command.
type CommandStats struct {
	Calls    int64         // it was executed
	Duration time.Duration // of all calls together
	Rejected int64         // it was refused before it was executed, as for a wrong number of arguments
	Failed   int64         // calls that answered an error
}

// NewCommand makes the measures of one command, with so many lanes.
func NewCommand(lanes int) *Command {
	return &Command{NewHistogram(lanes), make([]commandLane, lanes)}
}

// Record counts a call on behalf of a lane.
func (c *Command) Record(lane int, d time.Duration, failed bool) {
	l := &c.lanes[lane]
	l.calls.Add(1)
	l.nanoseconds.Add(int64(d))
	if failed {
		l.failed.Add(1)
	}
}

// Reject counts a call that was refused, on behalf of a lane.
func (c *Command) Reject(lane int) { c.lanes[lane].rejected.Add(1) }

// Stats is what has been counted on all lanes.
func (c *Command) Stats() CommandStats {
	var stats CommandStats
	for i := range c.lanes {
		l := &c.lanes[i]
		stats.Calls += l.calls.Load()
		stats.Duration += time.Duration(l.nanoseconds.Load())
		stats.Rejected += l.rejected.Load()
		stats.Failed += l.failed.Load()
	}
	return stats
}

// Reset forgets everything. What is recorded meanwhile may be lost.
func (c *Command) Reset() {
	c.Latency.Reset()
	for i := range c.lanes {
		l := &c.lanes[i]
		l.calls.Store(0)
		l.nanoseconds.Store(0)
		l.rejected.Store(0)
		l.failed.Store(0)
	}
}

// Seen reports whether there is anything to show; INFO leaves out the other commands.
func (s CommandStats) Seen() bool { return s.Calls > 0 || s.Rejected > 0 || s.Failed > 0 }

// Append appends the value of a field of INFO commandstats:
//
//	calls=2,usec=7,usec_per_call=3.50,rejected_calls=0,failed_calls=1
func (s CommandStats) Append(dst []byte) []byte {
	microseconds := s.Duration.Microseconds()
	var mean float64
	if s.Calls > 0 {
		mean = float64(microseconds) / float64(s.Calls)
	}
	dst = appendInt(dst, "calls=", s.Calls)
	dst = appendInt(dst, ",usec=", microseconds)
	dst = strconv.AppendFloat(append(dst, ",usec_per_call="...), mean, 'f', 2, 64)
	dst = appendInt(dst, ",rejected_calls=", s.Rejected)
	return appendInt(dst, ",failed_calls=", s.Failed)
}

func appendInt(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(dst, name...), n, 10)
}

// AppendPercentiles appends the value of a field of INFO latencystats, in microseconds:
//
//	p50=1.003,p99=5.023,p99.9=5.023
func (d *Distribution) AppendPercentiles(dst []byte, percentiles []float64) []byte {
	for i, p := range percentiles {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, 'p'), percentileName(p)...)
		microseconds := float64(d.Percentile(p)) / float64(time.Microsecond)
		dst = strconv.AppendFloat(append(dst, '='), microseconds, 'f', 3, 64)
	}
	return dst
}

// percentileName has at most six decimals and no zeros at its end.
func percentileName(p float64) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(p, 'f', 6, 64), "0"), ".")
}
