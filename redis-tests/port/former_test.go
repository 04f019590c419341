package port

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// gate is a proxy that can be shut. It keeps what comes for the server until it is opened again,
// also from senders that are gone.
type gate struct {
	address  string
	listener net.Listener
	shut     atomic.Bool
	trigger  []byte        // what shuts it when it comes; nil: nothing
	delay    time.Duration // of all that comes
	opened   chan struct{}
	waiting  chan struct{} // has something as soon as something waits
	carriers sync.WaitGroup
}

func newGate(t *testing.T, target, trigger string) *gate {
	return startGate(t, target, &gate{trigger: []byte(trigger)})
}

func startGate(t *testing.T, target string, g *gate) *gate {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.address, g.listener, g.opened, g.waiting = listener.Addr().String(), listener, make(chan struct{}), make(chan struct{}, 1)
	g.carriers.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				return
			}
			g.carriers.Go(func() { g.carry(near, far) })
		}
	})
	return g
}

func (g *gate) carry(near, far net.Conn) {
	g.carriers.Go(func() {
		_, _ = io.Copy(near, far) // ends when either is closed
		near.Close()
	})
	defer far.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := near.Read(buffer)
		if len(g.trigger) > 0 && bytes.Contains(buffer[:n], g.trigger) {
			g.shut.Store(true)
		}
		if n > 0 && g.shut.Load() {
			select {
			case g.waiting <- struct{}{}:
			default:
			}
			<-g.opened
		}
		time.Sleep(g.delay)
		if _, failed := far.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// drain opens the gate, and waits until all that was on its way is delivered, or can't be.
func (g *gate) drain() {
	close(g.opened)
	g.listener.Close()
	g.carriers.Wait()
}

// TestLateRequests kills the tool while what it has sent last is on its way. That comes to the
// target when the next attempt has done it, and isn't done again.
func TestLateRequests(t *testing.T) {
	increments := func(t *testing.T, c *resp.Connection, g *gate) {
		g.shut.Store(true)
		do(t, c, "INCR", "a")
	}
	flushes := func(t *testing.T, c *resp.Connection, _ *gate) { do(t, c, "FLUSHDB") }
	for name, test := range map[string]struct {
		target  launch.Program
		trigger string
		last    func(*testing.T, *resp.Connection, *gate)
	}{
		"a batch to Redis":    {launch.MustOracle(t), "", increments},
		"a batch to Kedis":    {launch.MustUnderTest(t), "", increments},
		"removals from Redis": {launch.MustOracle(t), "\r\ndel\r\n$1\r\na\r\n", flushes},
		"removals from Kedis": {launch.MustUnderTest(t), "\r\ndel\r\n$1\r\na\r\n", flushes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := start(t, launch.MustUnderTest(t)), start(t, test.target)
			c, d := from.MustDial(t), to.MustDial(t)
			directory := t.TempDir()
			position := filepath.Join(directory, "position")
			line := func(to string) []string {
				return []string{"port", "--from", from.Address, "--to", to, "--prefix", "a", "--prefix", "last", "--position", position, "--until", "forever"}
			}
			do(t, c, "SET", "a", "10")
			g := newGate(t, to.Address, test.trigger)
			p := startTool(t, directory, line(g.address)...)
			p.says("has caught up")
			test.last(t, c, g)
			<-g.waiting
			p.kill()

			state, err := os.ReadFile(position)
			if err == nil {
				err = os.WriteFile(position, bytes.ReplaceAll(state, []byte(g.address), []byte(to.Address)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			p = startTool(t, directory, line(to.Address)...)
			do(t, c, "INCR", "a")
			want := do(t, c, "GET", "a")
			reaches(t, d, "a", string(want.Text))
			g.drain()
			do(t, c, "SET", "last", "1")
			reaches(t, d, "last", "1")
			p.signal(syscall.SIGINT)
			p.ends(0)
			until(t, "the tool's connections have ended", func() bool {
				return !bytes.Contains(do(t, d, "CLIENT", "LIST").Text, []byte("name=kedis:port:"))
			})
			if got := do(t, d, "GET", "a"); got.String() != want.String() {
				t.Errorf("the target has %s, and not %s", got, want)
			}
		})
	}
}

// TestFormerConnectionsStay has a user who may not end the connections of former attempts.
func TestFormerConnectionsStay(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustOracle(t))
	do(t, to.MustDial(t), "ACL", "SETUSER", "mover", "on", "nopass", "~*", "&*", "+@all", "-client")
	directory := t.TempDir()
	line := port(from, to, "--to-user", "mover", "--until", "forever")
	p := startTool(t, directory, line...)
	p.says("has caught up")
	p.kill()
	p = startTool(t, directory, line...)
	p.says("doesn't let connections of former attempts be ended")
	p.says("has caught up")
	do(t, from.MustDial(t), "SET", "last", "1")
	reaches(t, to.MustDial(t), "last", "1")
	p.signal(syscall.SIGINT)
	p.ends(0)
}

// TestNothingComesAfterTheSwitch: a move whose clients were told that they can be switched, and
// that fails behind that, takes no more of the source's stream.
func TestNothingComesAfterTheSwitch(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustOracle(t))
	c, d := from.MustDial(t), to.MustDial(t)
	do(t, c, "SET", "session", "1", "EX", "1000")
	do(t, c, "SET", "kept", "1", "EX", "1000")
	want := do(t, c, "PEXPIRETIME", "kept").String()
	do(t, d, "ACL", "SETUSER", "mover", "on", "nopass", "~*", "&*", "+@all", "-watch")
	directory := t.TempDir()
	line := port(from, to, "--to-user", "mover")
	if output := startTool(t, directory, line...).ends(5); !strings.Contains(output, "clients can be switched") {
		t.Fatalf("said %s", output)
	}
	do(t, d, "SET", "session", "live", "EX", "600")
	do(t, c, "DEL", "session")
	do(t, d, "ACL", "SETUSER", "mover", "+watch")
	startTool(t, directory, line...).ends(0)
	if got := do(t, d, "GET", "session"); string(got.Text) != "live" {
		t.Errorf("what a client has written after the switch is %s", got)
	}
	if got := do(t, d, "PEXPIRETIME", "kept").String(); got != want {
		t.Errorf("the key expires at %s, and not at %s", got, want)
	}
}
