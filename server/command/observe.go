package command

import (
	"time"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/metrics"
)

// Observation is what is observed of a server, besides what its parts count themselves.
type Observation struct {
	engine   *Engine
	monitors monitors

	startupMemory int64  // in use when the engine was made, in bytes
	machineMemory int64  // of the machine, in bytes
	runID         string // of this run of the server: 40 hexadecimal digits
}

func newObservation(e *Engine) *Observation {
	s := &Observation{engine: e, machineMemory: config.MachineMemory(), runID: binlog.NewID()}
	if m, _, err := (report{e, s}).measureMemory(); err == nil {
		s.startupMemory = m.used()
	}
	return s
}

// observingCommands are the commands that show what is observed.
func observingCommands() []Command {
	return []Command{infoCommand(), monitorCommand(), slowlogCommand(), latencyCommand(), memoryCommand()}
}

// report is what INFO and its kin tell of an engine.
type report struct {
	*Engine
	*Observation
}

// reportOf returns the report of an engine.
func reportOf(e *Engine) report { return report{e, e.Observer.(*Observation)} }

// Forget ends what a session watches.
func (s *Observation) Forget(session *Session) { s.monitors.remove(session) }

// Observe shows a request that has run to those who want to know of it.
func (s *Observation) Observe(ran *execution, lane int) {
	e := s.engine
	if e.Config.LatencyTracking.Get() {
		ran.Command.measures.Latency.Record(lane, ran.took)
	}
	if limit := e.Config.LatencyMonitorThreshold.Get(); limit > 0 {
		e.noteLatency(latencyEvent(ran.Command), ran.took)
	}
	limit := e.Config.SlowlogLogSlowerThan.Get()
	if limit >= 0 && ran.took.Microseconds() >= limit && ran.Command.Flags&SkipSlowlog == 0 {
		e.Slowlog.Add(metrics.SlowEntry{Time: time.UnixMilli(ran.began), Duration: ran.took, Arguments: shownArgs(ran),
			Address: ran.session.Peer.RemoteAddress(), Name: ran.session.Name()})
	}
	if s.monitors.count.Load() > 0 && ran.Command.Flags&(SkipMonitor|Admin) == 0 {
		s.monitors.feed(ran)
	}
}

func latencyEvent(c *Command) string {
	if c.Flags&Fast != 0 {
		return "fast-command"
	}
	return "command"
}
