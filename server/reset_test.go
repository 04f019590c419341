package server

import (
	"bufio"
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"

	"kedis/internal/psync"
)

// rawClient is a client's socket. The replies to what it sends are read as lines.
type rawClient struct {
	stream
	socket *net.TCPConn
	t      *testing.T
	lines  *bufio.Reader
}

// stream is a socket, or TLS over it.
type stream interface {
	net.Conn
	CloseWrite() error
}

func (r *running) dialRaw() *rawClient {
	r.t.Helper()
	socket, err := net.Dial("tcp", r.address())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { socket.Close() })
	var conn stream = socket.(*net.TCPConn)
	if r.clients != nil {
		conn = tls.Client(socket, r.clients)
	}
	return &rawClient{conn, socket.(*net.TCPConn), r.t, bufio.NewReader(conn)}
}

// send sends bytes, and fails the test when they can't be sent. It may be called on any goroutine.
func (c *rawClient) send(text string) {
	c.t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		c.t.Error(err)
	}
}

// wantLine expects a line of a reply.
func (c *rawClient) wantLine(want string) {
	c.t.Helper()
	if got, err := c.lines.ReadString('\n'); err != nil || got != want+"\r\n" {
		c.t.Fatalf("the reply is %q (%v), want %q", got, err, want)
	}
}

// reset ends the connection with RST instead of FIN.
func (c *rawClient) reset() {
	if err := c.socket.SetLinger(0); err != nil {
		c.t.Error(err)
	}
	if err := c.socket.Close(); err != nil {
		c.t.Error(err)
	}
}

// at runs a function on the reactor that serves the client.
func (r *running) at(client *rawClient, run func(c *connection)) {
	r.t.Helper()
	client.send("PING\r\n")
	client.wantLine("+PONG")
	for _, s := range r.engine.Clients.All() {
		if c := s.Peer.(*connection); c.remote == client.LocalAddr().String() {
			done := make(chan struct{})
			c.post(func() { defer close(done); run(c) })
			<-done
			return
		}
	}
	r.t.Fatal("the server doesn't know the client")
}

func (r *running) wantNoClients() {
	r.t.Helper()
	eventually(r.t, "no session is left", func() bool { return r.engine.Clients.Count() == 0 })
}

// TestGoneConnectionIsNotHandedOver drops a connection just before it becomes a replica's, or has
// its client end what it sends.
func TestGoneConnectionIsNotHandedOver(t *testing.T) {
	r := startServer(t)
	for how, goes := range map[string]func(c *connection){
		"dropped": (*connection).drop,
		"ended":   func(c *connection) { c.ended = true },
	} {
		r.at(r.dialRaw(), func(c *connection) {
			c.Detach(func(conn net.Conn) {
				t.Errorf("one that is %s was handed over", how)
				conn.Close()
			})
			goes(c)
			c.handOver()
		})
		r.wantNoClients()
	}
}

// TestKilledConnectionIsClosed kills a client just before its connection becomes a replica's.
func TestKilledConnectionIsClosed(t *testing.T) {
	r := startServer(t)
	served := make(chan error, 1)
	r.at(r.dialRaw(), func(c *connection) {
		c.Detach(func(conn net.Conn) {
			_, err := conn.Write([]byte("a snapshot"))
			served <- err
		})
		c.Close()
		c.handOver()
	})
	if err := <-served; err == nil {
		t.Error("it is served")
	}
	r.wantNoClients()
}

// TestResetConnectionIsNotHandedOver resets a connection just before it becomes a replica's.
func TestResetConnectionIsNotHandedOver(t *testing.T) {
	r := startServer(t)
	client := r.dialRaw()
	r.at(client, func(c *connection) {
		client.reset()
		c.Detach(func(conn net.Conn) {
			t.Errorf("a connection with the address %v was handed over", conn.RemoteAddr())
			conn.Close()
		})
		c.handOver()
	})
	r.wantNoClients()
}

// sendingPrimary stands for replication: it notes each connection that is handed over to it.
type sendingPrimary struct {
	silentReplica
	served chan struct{}
}

func (*sendingPrimary) Sendable() error { return nil }

func (p *sendingPrimary) Serve(conn net.Conn, _ psync.Replica) {
	conn.Close()
	p.served <- struct{}{}
}

// TestHandedOverBehindAFailedCommit: a connection becomes a replica's though the commit of what was
// executed in the same pass fails.
func TestHandedOverBehindAFailedCommit(t *testing.T) {
	primary := &sendingPrimary{served: make(chan struct{}, 1)}
	r := startPrepared(t, func(r *running) { r.engine.SetReplication(primary) })
	for _, request := range []string{"PSYNC ? -1", "SYNC"} {
		r.log.broken.Store(true)
		r.dialRaw().send("CLIENT REPLY OFF\r\nSET key value\r\n" + request + "\r\n")
		select {
		case <-primary.served:
		case <-time.After(patience):
			t.Fatalf("%s: the connection isn't handed over", request)
		}
		r.log.broken.Store(false)
		r.wantNoClients()
	}
}

// TestResetWhileItWaitsForAWorker: nothing is kept of a client that is gone while all workers are
// busy.
func TestResetWhileItWaitsForAWorker(t *testing.T) {
	r := startServer(t)
	busy, victim := make([]*rawClient, max(4, 2*runtime.NumCPU())), r.dialRaw()
	open := r.engine.Gate.Close(runtime.Gosched)
	for i := range busy {
		busy[i] = r.dialRaw()
		busy[i].send("KEYS *\r\n")
	}
	working := func() (n int) {
		for _, s := range r.engine.Clients.All() {
			c, counted := s.Peer.(*connection), make(chan bool)
			c.post(func() { counted <- c.working })
			if <-counted {
				n++
			}
		}
		return n
	}
	eventually(t, "all workers are busy", func() bool { return working() == len(busy) })
	victim.send("KEYS *\r\n")
	eventually(t, "a request waits for a worker", func() bool { return working() == len(busy)+1 })
	victim.reset()
	eventually(t, "the client is forgotten", func() bool { return r.engine.Clients.Count() == len(busy) })
	open()
	for _, c := range busy {
		c.wantLine("*0")
	}
}
