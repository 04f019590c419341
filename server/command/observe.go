package command

import (
	"bytes"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// observe tells those who want to know of a command that has run.
func (e *Engine) observe(c *Context, took time.Duration) {
	if e.monitors.count.Load() > 0 && c.Command.Flags&(SkipMonitor|Admin) == 0 {
		e.monitors.feed(c)
	}
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
func (m *monitors) feed(c *Context) {
	now := time.Now()
	line := append([]byte{'+'}, strconv.FormatInt(now.Unix(), 10)...)
	line = append(line, '.')
	micro := strconv.Itoa(now.Nanosecond() / 1000)
	line = append(append(line, bytes.Repeat([]byte{'0'}, 6-len(micro))...), micro...)
	line = append(line, " ["...)
	line = strconv.AppendInt(line, int64(c.selected), 10)
	line = append(append(append(line, ' '), c.Session.Peer.RemoteAddress()...), ']')
	for _, word := range c.Args {
		line = appendQuoted(append(line, ' '), word)
	}
	line = append(line, "\r\n"...)
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.sessions {
		s.Peer.Send(line)
	}
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
