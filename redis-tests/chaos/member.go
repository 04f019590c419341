package chaos

import (
	"crypto/sha1"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// answerTimeout is how long a server may take that is neither stopped nor killed.
const answerTimeout = 60 * time.Second

// Member is a server of a cluster. It keeps its data when it is killed, unless it is a Redis.
type Member struct {
	name     string
	server   atomic.Pointer[launch.Server] // another one after a restart
	down     bool                          // killed
	stopped  bool                          // by a signal
	diverged string                        // see findDivergence
	upstream *Member                       // whom it follows; nil is nobody
	links    map[*Member]*Link
}

func (m *Member) isRedis() bool { return m.server.Load().Program.IsRedis }

func (m *Member) dial() (*resp.Connection, error) {
	return resp.Dial(m.server.Load().Address, answerTimeout)
}

// do sends one request on a connection of its own.
func (m *Member) do(words ...string) (resp.Reply, error) {
	c, err := m.dial()
	if err != nil {
		return resp.Reply{}, fmt.Errorf("%s: %w", m.name, err)
	}
	defer c.Close()
	reply, err := c.Must(words...)
	if err != nil {
		return reply, fmt.Errorf("%s: %w", m.name, err)
	}
	return reply, nil
}

// digest stands for the member's data: its keys, and behind them its libraries of functions.
func (m *Member) digest() (string, error) {
	c, err := m.dial()
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	defer c.Close()
	keys, err := c.Must("debug", "digest")
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	libraries, err := launch.ListLibraries(c)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	return fmt.Sprintf("%s %x", keys.Text, sha1.Sum([]byte(libraries))), nil
}

// follow makes the member a replica of another one, or a primary.
func (m *Member) follow(upstream *Member) error {
	m.upstream = upstream
	if upstream == nil {
		_, err := m.do("replicaof", "no", "one")
		return err
	}
	_, err := m.do("replicaof", "127.0.0.1", strconv.Itoa(m.links[upstream].Port))
	return err
}

// divergence are the words in which a replica logs that what its primary sends doesn't fit its
// data: those of a Kedis, and of a Redis.
var divergence = []string{"the data here are not the primary's", "== CRITICAL == This replica is sending an error to its"}

// findDivergence looks for a divergence in what the member's process has printed, and keeps the
// first such line. It is called before another process takes the place of this one, too.
func (m *Member) findDivergence() {
	for line := range strings.Lines(m.server.Load().Output()) {
		for _, words := range divergence {
			if m.diverged == "" && strings.Contains(line, words) {
				m.diverged = strings.TrimSpace(line)
			}
		}
	}
}

func (m *Member) kill() {
	m.server.Load().Kill()
	m.findDivergence()
	m.down, m.stopped = true, false
}

// restart starts a member that was killed, on another port.
func (m *Member) restart() error {
	server, err := m.server.Load().Restart()
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	m.server.Store(server)
	m.down = false
	return nil
}

// signal stops the process, or lets it go on.
func (m *Member) signal(s syscall.Signal) error {
	m.stopped = s == syscall.SIGSTOP
	if err := syscall.Kill(m.server.Load().ProcessID(), s); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// status is what a member tells of its part in replication.
type status struct {
	fields map[string]string
}

func (m *Member) status() (status, error) {
	reply, err := m.do("info", "replication")
	if err != nil {
		return status{}, err
	}
	s := status{fields: map[string]string{}}
	for line := range strings.SplitSeq(string(reply.Text), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			s.fields[name] = value
		}
	}
	return s, nil
}

func (s status) history() string { return s.fields["master_replid"] }

// former is the history that the member was in before, and the first position that it has only in
// its own; 0 if there is none.
func (s status) former() (history string, left int64) {
	left, err := strconv.ParseInt(s.fields["second_repl_offset"], 10, 64)
	if err != nil || left < 0 {
		return "", 0
	}
	return s.fields["master_replid2"], left
}

// following tells that the member is a replica that gets the stream.
func (s status) following() bool {
	return s.fields["role"] == "slave" && s.fields["master_link_status"] == "up"
}

// position is how much of the stream the member has applied.
func (s status) position() int64 {
	field := "master_repl_offset"
	if s.fields["role"] == "slave" {
		field = "slave_repl_offset"
	}
	position, err := strconv.ParseInt(s.fields[field], 10, 64)
	if err != nil {
		return -1
	}
	return position
}

// fullSyncs is how often the member has sent all its data since it started.
func (m *Member) fullSyncs() (int, error) {
	reply, err := m.do("info", "stats")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(reply.Text), "sync_full:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	return strconv.Atoi(digits)
}
