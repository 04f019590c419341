package observe

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kedis/server/execute"
)

// monitors are the sessions that asked for MONITOR.
type monitors struct {
	count    atomic.Int32
	mu       sync.Mutex
	sessions map[*execute.Session]struct{}
}

func (m *monitors) add(s *execute.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions == nil {
		m.sessions = map[*execute.Session]struct{}{}
	}
	m.sessions[s] = struct{}{}
	m.count.Store(int32(len(m.sessions)))
}

// remove reports whether the session was one of them.
func (m *monitors) remove(s *execute.Session) (was bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, was = m.sessions[s]
	delete(m.sessions, s)
	m.count.Store(int32(len(m.sessions)))
	return was
}

// feed sends a command to the monitors, as Redis does: time, database, client and words.
func (m *monitors) feed(ran *execute.Execution) {
	now := time.Now()
	line := append([]byte{'+'}, strconv.FormatInt(now.Unix(), 10)...)
	line = append(line, '.')
	micro := strconv.Itoa(now.Nanosecond() / 1000)
	line = append(append(line, bytes.Repeat([]byte{'0'}, 6-len(micro))...), micro...)
	line = append(line, " ["...)
	line = strconv.AppendInt(line, int64(ran.Database), 10)
	line = append(append(append(line, ' '), monitoredCaller(ran)...), ']')
	for _, word := range shownArgs(ran) {
		line = appendQuoted(append(line, ' '), word)
	}
	line = append(line, "\r\n"...)
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.sessions {
		if !s.Muted() {
			s.Peer.Send(line, func() bool { return s.Is(execute.KindMonitor) })
		}
	}
}

// monitoredCaller is the caller's name in MONITOR: "lua" for a script, the address for a client.
func monitoredCaller(ran *execute.Execution) string {
	peer := ran.Session.Peer
	if ran.Script {
		return "lua"
	}
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

func monitorCommand() execute.Command {
	return execute.Command{Name: "monitor", Arity: 1, Flags: execute.Admin | execute.NoScript | execute.Loading | execute.Stale | execute.NoBatch, Run: cmdMonitor,
		Group: "server", Since: "1.0.0",
		Summary: "Lists every command that the server executes, as it does."}
}

func cmdMonitor(c *execute.Invocation) error {
	if c.Nested() {
		return execute.Error("ERR MONITOR isn't allowed for DENY BLOCKING client")
	}
	if c.Session.Is(execute.KindMonitor) {
		return nil // without a reply, as Redis
	}
	c.Session.Mark(execute.KindMonitor, true)
	observation := reportOf(c.Engine).Observation
	observation.monitors.add(c.Session)
	observation.choose()
	c.Engine.CheckBegun(c.Session)
	c.Reply.OK()
	return nil
}

// shownArgs are the words that others may see.
func shownArgs(x *execute.Execution) [][]byte {
	if x.Redacted == 0 {
		return x.Args
	}
	shown := make([][]byte, len(x.Args))
	for i, word := range x.Args {
		if x.Redacted.Has(i) {
			word = redactedWord
		}
		shown[i] = word
	}
	return shown
}

var redactedWord = []byte("(redacted)")
