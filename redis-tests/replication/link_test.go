package replication

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// proxy passes connections on, and can cut them.
type proxy struct {
	listener net.Listener
	port     int

	mu     sync.Mutex
	target string
	open   map[net.Conn]struct{}
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, port: listener.Addr().(*net.TCPAddr).Port, target: target, open: map[net.Conn]struct{}{}}
	go p.accept()
	t.Cleanup(func() {
		listener.Close()
		p.cut()
	})
	return p
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			near.Close()
			p.mu.Unlock()
			continue
		}
		p.open[near], p.open[far] = struct{}{}, struct{}{}
		p.mu.Unlock()
		go p.pass(near, far)
		go p.pass(far, near)
	}
}

func (p *proxy) pass(from, to net.Conn) {
	// An error is the end of the connection, which the other side is told.
	_, err := io.Copy(to, from)
	if err == nil || !errors.Is(err, net.ErrClosed) {
		from.Close()
		to.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, from)
	delete(p.open, to)
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		conn.Close()
	}
}

// redirect has connections from now on go to another server.
func (p *proxy) redirect(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.cut()
}

// position is how far a server is, and whether it is a primary or a replica that gets the stream.
func position(t *testing.T, s *launch.Server) (int64, bool) {
	t.Helper()
	c, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	role := do(t, c, "ROLE")
	if string(role.Elements[0].Text) == "master" {
		at, _ := role.Elements[1].Integer()
		return at, true
	}
	at, _ := role.Elements[4].Integer()
	return at, string(role.Elements[3].Text) == "connected"
}

// converge waits until a replica is where its primary is. Nobody writes meanwhile.
func converge(t *testing.T, primary, replica *launch.Server) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		want, _ := position(t, primary)
		if got, connected := position(t, replica); connected && got == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	want, _ := position(t, primary)
	got, connected := position(t, replica)
	t.Fatalf("after a minute the replica is at %d (connected: %v), the primary at %d", got, connected, want)
}

func follow(t *testing.T, replica *launch.Server, port int) {
	t.Helper()
	c := replica.MustDial(t)
	do(t, c, "REPLICAOF", "127.0.0.1", strconv.Itoa(port))
}

func dial(t *testing.T, s *launch.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
