package port

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"kedis/redis-tests/launch"
)

// gate is a proxy that can be shut: what comes for the server waits in it until it is opened, even
// if who has sent that is gone by then.
type gate struct {
	address  string
	listener net.Listener
	shut     atomic.Bool
	opened   chan struct{}
	waiting  chan struct{} // has something as soon as something waits
	carriers sync.WaitGroup
}

func newGate(t *testing.T, target string) *gate {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: listener.Addr().String(), listener: listener, opened: make(chan struct{}), waiting: make(chan struct{}, 1)}
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
		if n > 0 && g.shut.Load() {
			select {
			case g.waiting <- struct{}{}:
			default:
			}
			<-g.opened
		}
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

// TestLateBatch kills the tool while what it has sent last is on its way. That comes to the target
// when the next attempt has done it, and isn't done again.
func TestLateBatch(t *testing.T) {
	for name, program := range map[string]launch.Program{"redis": launch.MustOracle(t), "kedis": launch.MustUnderTest(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := start(t, launch.MustUnderTest(t)), start(t, program)
			c, d := from.MustDial(t), to.MustDial(t)
			directory := t.TempDir()
			position := filepath.Join(directory, "position")
			line := func(to string) []string {
				return []string{"port", "--from", from.Address, "--to", to, "--position", position, "--until", "forever"}
			}
			g := newGate(t, to.Address)
			p := startTool(t, directory, line(g.address)...)
			p.says("has caught up")
			g.shut.Store(true)
			do(t, c, "INCR", "counter")
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
			reaches(t, d, "counter", "1")
			g.drain()
			do(t, c, "SET", "last", "1")
			reaches(t, d, "last", "1")
			p.signal(syscall.SIGINT)
			p.ends(0)
			until(t, "the tool's connections have ended", func() bool {
				return !bytes.Contains(do(t, d, "CLIENT", "LIST").Text, []byte("name=kedis:port:"))
			})
			if got := do(t, d, "GET", "counter").String(); got != do(t, c, "GET", "counter").String() {
				t.Errorf("the target has counted to %s", got)
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
