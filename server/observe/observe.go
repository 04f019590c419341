// Package observe has the commands that show what a server does and has: INFO, MONITOR, SLOWLOG,
// LATENCY and MEMORY. The executor shows it every request that has run.
package observe

import (
	"math"
	"time"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/metrics"
	"kedis/server/execute"
)

// Observation is what is observed of a server, besides what its parts count themselves.
type Observation struct {
	engine   *execute.Engine
	monitors monitors

	startupMemory int64  // in use when the engine was made, in bytes
	machineMemory int64  // of the machine, in bytes
	runID         string // of this run of the server: 40 hexadecimal digits
}

func New(e *execute.Engine) *Observation {
	s := &Observation{engine: e, machineMemory: config.MachineMemory(), runID: binlog.NewID()}
	for _, option := range []string{"slowlog-log-slower-than", "latency-monitor-threshold"} {
		e.Config.OnChange(option, func() error {
			s.choose()
			return nil
		})
	}
	s.choose()
	if m, _, err := (report{e, s}).measureMemory(); err == nil {
		s.startupMemory = m.used()
	}
	return s
}

// Commands are the commands that show what is observed.
func Commands() []execute.Command {
	return []execute.Command{infoCommand(), monitorCommand(), slowlogCommand(), latencyCommand(), memoryCommand()}
}

// report is what INFO and its kin tell of an engine.
type report struct {
	*execute.Engine
	*Observation
}

// reportOf returns the report of an engine.
func reportOf(e *execute.Engine) report { return report{e, e.Observer.(*Observation)} }

// Forget ends what a session watches.
func (s *Observation) Forget(session *execute.Session) {
	if s.monitors.remove(session) {
		s.choose()
	}
}

// choose says which requests are to be shown: all while there are monitors, else those that take
// long enough for SLOWLOG or LATENCY.
func (s *Observation) choose() {
	s.monitors.mu.Lock()
	defer s.monitors.mu.Unlock()
	from := time.Duration(math.MaxInt64)
	if limit := s.engine.Config.SlowlogLogSlowerThan.Get(); limit >= 0 {
		from = saturated(limit, time.Microsecond)
	}
	if limit := s.engine.Config.LatencyMonitorThreshold.Get(); limit > 0 {
		from = min(from, saturated(limit, time.Millisecond))
	}
	if len(s.monitors.sessions) > 0 {
		from = 0
	}
	s.engine.ObserveFrom.Store(int64(from))
	s.engine.Monitored.Store(len(s.monitors.sessions) > 0)
}

// saturated is so many units, or the longest time that can be told.
func saturated(n int64, unit time.Duration) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(unit))) * unit
}

// Observe shows a request that has run to those who want to know of it.
func (s *Observation) Observe(ran *execute.Execution) {
	e := s.engine
	if limit := e.Config.LatencyMonitorThreshold.Get(); limit > 0 {
		e.NoteLatency(latencyEvent(ran.Command), ran.Took)
	}
	limit := e.Config.SlowlogLogSlowerThan.Get()
	if limit >= 0 && ran.Took.Microseconds() >= limit && ran.Command.Flags&execute.SkipSlowlog == 0 {
		address, name := slowCaller(ran)
		e.Slowlog.Add(metrics.SlowEntry{Time: time.UnixMilli(ran.Began), Duration: ran.Took, Arguments: shownArgs(ran), Address: address, Name: name})
	}
	if !ran.Begun {
		s.Begin(ran)
	}
}

// Begin shows a request to monitors.
func (s *Observation) Begin(ran *execute.Execution) {
	c := ran.Command
	if s.monitors.count.Load() > 0 && (c.RunsScript || c.Flags&(execute.SkipMonitor|execute.Admin) == 0) {
		s.monitors.feed(ran)
	}
}

// slowCaller is the address and the name in the slow log. For what a script calls they are those of
// Redis's client without a connection.
func slowCaller(ran *execute.Execution) (address, name string) {
	if ran.Script {
		return "?:0", ""
	}
	return ran.Session.Peer.RemoteAddress(), ran.Session.Name()
}

func latencyEvent(c *execute.Command) string {
	if c.Flags&execute.Fast != 0 {
		return "fast-command"
	}
	return "command"
}
