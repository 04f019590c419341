package command

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/metrics"
)

// observe shows a request that has run to those who want to know of it.
func (e *Engine) observe(ran *execution, lane int) {
	if e.Config.LatencyTracking.Get() {
		ran.Command.measures.Latency.Record(lane, ran.took)
	}
	if limit := e.Config.LatencyMonitorThreshold.Get(); limit > 0 {
		e.noteLatency(ran.Command.latencyEvent(), ran.took)
	}
	limit := e.Config.SlowlogLogSlowerThan.Get()
	if limit >= 0 && ran.took.Microseconds() >= limit && ran.Command.Flags&SkipSlowlog == 0 {
		e.Slowlog.Add(metrics.SlowEntry{Time: time.UnixMilli(ran.began), Duration: ran.took, Arguments: ran.shownArgs(),
			Address: ran.session.Peer.RemoteAddress(), Name: ran.session.Name()})
	}
	if e.monitors.count.Load() > 0 && ran.Command.Flags&(SkipMonitor|Admin) == 0 {
		e.monitors.feed(ran)
	}
}

func (c *Command) latencyEvent() string {
	if c.Flags&Fast != 0 {
		return "fast-command"
	}
	return "command"
}

// noteLatency records an event for LATENCY if it took long enough. Names come from a fixed set.
func (e *Engine) noteLatency(event string, took time.Duration) {
	limit := e.Config.LatencyMonitorThreshold.Get()
	if limit > 0 && took.Milliseconds() >= limit {
		e.Latency.Add(event, time.Now(), took.Truncate(time.Millisecond))
	}
}

var redactedWord = []byte("(redacted)")

// shownArgs are the words that others may see.
func (x *execution) shownArgs() [][]byte {
	if x.redacted == 0 {
		return x.Args
	}
	shown := make([][]byte, len(x.Args))
	for i, word := range x.Args {
		if i < 64 && x.redacted&(1<<i) != 0 {
			word = redactedWord
		}
		shown[i] = word
	}
	return shown
}

// monitors are the sessions that asked for MONITOR.
type monitors struct {
	count    atomic.Int32
	mu       sync.Mutex
	sessions map[*Session]struct{}
}

func (m *monitors) add(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions == nil {
		m.sessions = map[*Session]struct{}{}
	}
	m.sessions[s] = struct{}{}
	m.count.Store(int32(len(m.sessions)))
}

func (m *monitors) remove(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, s)
	m.count.Store(int32(len(m.sessions)))
}

// feed sends a command to the monitors, as Redis does: time, database, client and words.
func (m *monitors) feed(ran *execution) {
	now := time.Now()
	line := append([]byte{'+'}, strconv.FormatInt(now.Unix(), 10)...)
	line = append(line, '.')
	micro := strconv.Itoa(now.Nanosecond() / 1000)
	line = append(append(line, bytes.Repeat([]byte{'0'}, 6-len(micro))...), micro...)
	line = append(line, " ["...)
	line = strconv.AppendInt(line, int64(ran.database), 10)
	line = append(append(append(line, ' '), monitoredAddress(ran.session.Peer)...), ']')
	for _, word := range ran.shownArgs() {
		line = appendQuoted(append(line, ' '), word)
	}
	line = append(line, "\r\n"...)
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.sessions {
		s.Peer.Send(line)
	}
}

// monitoredAddress is where a client is, as MONITOR tells it.
func monitoredAddress(peer Peer) string {
	if peer.OverUnixSocket() {
		return "unix:" + strings.TrimSuffix(peer.RemoteAddress(), ":0")
	}
	return peer.RemoteAddress()
}

// appendQuoted appends a word as Redis quotes it.
func appendQuoted(dst, word []byte) []byte {
	dst = append(dst, '"')
	for _, b := range word {
		switch b {
		case '\\', '"':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\a':
			dst = append(dst, `\a`...)
		case '\b':
			dst = append(dst, `\b`...)
		default:
			if b >= ' ' && b < 0x7F {
				dst = append(dst, b)
			} else {
				dst = append(dst, '\\', 'x', "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
			}
		}
	}
	return append(dst, '"')
}
