package server

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"kedis/internal/resp"
	"kedis/server/execute"
)

// connection is a client. It is its reactor's, but for the methods of execute.Peer.
type connection struct {
	server  *Server
	reactor *reactor
	conn    socket
	session *execute.Session

	encryption *encryption // nil: there is none

	ends
	intake
	output
	course
	silence
	buffers
	abode

	index int // in the reactor's list
}

// ends are where the client is, and where it connected to.
type ends struct {
	remote, local  string
	overUnixSocket bool
}

// course is how far the connection is on its way to its end.
type course struct {
	waits   int  // for how much its next request waits: for more than one thing only on the disk
	working bool // a worker has the session
	held    bool // its composed replies wait for replicas
	ended   bool // the client sends no more; see halfClosed
	killed  bool // is dropped as soon as no worker has the session; its replies are lost
	dropped bool // the socket is about to be closed
	closed  bool // the socket is gone

	serve      func(net.Conn)           // takes the connection over when all is sent
	handedOver atomic.Pointer[net.Conn] // the one that it got
}

// silence is since when the client has been silent.
type silence struct {
	traffic bool      // something was read or written since the reactor last looked
	seen    time.Time // when it last found that, or that the client waits or takes what was sent
	slim    bool      // holds no memory that it doesn't need
	alone   time.Time // since when a worker has had the session though the client sends no more; zero: it hasn't
}

// buffers is what the reactor knows of the buffers, for others.
type buffers struct{ queryBytes, outputBytes, descriptor atomic.Int64 }

// parked reports whether the next request waits for something.
func (c *connection) parked() bool { return c.waits > 0 }

// park has a request wait.
func (c *connection) park(r *execute.Request) {
	c.pending = r
	c.waits++
}

// halting tells that no more requests are to be executed. Those that a failed commit has taken back
// were executed before the session was to be closed, unless it was killed.
func (c *connection) halting() bool {
	return c.session.Closing() && (len(c.retry) == 0 || c.session.Killed()) || c.session.Suspended() || c.dropped || c.serve != nil
}

// refuseProtocol answers what is no request, and closes the connection.
func (c *connection) refuseProtocol(err error) {
	if c.reactor.batch.Has(c.session) {
		c.reactor.commit() // which may fail, and then has all executed again, up to here
	}
	if c.session.Closing() || c.parked() || c.pending != nil || len(c.retry) > 0 { // the parser says so again
		return
	}
	if c.session.ReplyMode == execute.ReplyOn {
		c.session.Reply.Error(err.Error())
	}
	c.server.engine.CountError(err.Error())
	c.session.CloseAfterReply()
	c.flush()
}

// publish tells others how much is in the buffers.
func (c *connection) publish() {
	publish(&c.queryBytes, c.parser.Buffered())
	publish(&c.outputBytes, c.waiting())
}

// publish stores a number if it is another one, since storing takes longer than looking.
func publish(n *atomic.Int64, value int) {
	if n.Load() != int64(value) {
		n.Store(int64(value))
	}
}

// attach makes the connection a reactor's. It is called on that one.
func (c *connection) attach(r *reactor, conn gnet.Conn) {
	c.conn, c.reactor = conn, r
	c.descriptor.Store(int64(conn.Fd()))
	c.period = 0
	c.keepAlive(conn)
	r.add(c)
	c.settle(r)
}

// drop closes the connection from its reactor.
func (c *connection) drop() {
	if !c.closed && !c.dropped {
		c.endEncryption()
		c.dropped = true
		if err := c.conn.Close(); err != nil {
			c.server.logger.Debug("closing a connection", "client", c.remote, "error", err)
		}
	}
}

// RemoteAddress is the client's address.
func (c *connection) RemoteAddress() string { return c.remote }

// LocalAddress is the address that the client connected to.
func (c *connection) LocalAddress() string { return c.local }

// OverUnixSocket tells that the client came through the Unix socket.
func (c *connection) OverUnixSocket() bool { return c.overUnixSocket }

// FileDescriptor is the socket's.
func (c *connection) FileDescriptor() int { return int(c.descriptor.Load()) }

// Lane is the number of the reactor.
func (c *connection) Lane() int { return c.reactor.number }

// Send sends bytes from anywhere, as soon as the reactor can. Behind RESET, say, they would be
// taken for the reply to the next request.
func (c *connection) Send(b []byte, wanted func() bool) {
	undelivered := &c.server.undelivered
	undelivered.Add(int64(len(b)))
	c.post(func() {
		if wanted() {
			c.push(b)
		}
		undelivered.Add(-int64(len(b)))
	})
}

// Unblock goes on with the request whose wait was claimed, from anywhere.
func (c *connection) Unblock(b *execute.Blocked) { c.post(func() { c.reactor.unblock(c, b) }) }

// Close closes the connection from anywhere.
func (c *connection) Close() {
	c.session.CloseAfterReply()
	c.session.AbandonWait()
	if conn := c.handedOver.Load(); conn != nil {
		if err := (*conn).Close(); err != nil {
			c.server.logger.Debug("closing a connection", "client", c.remote, "error", err)
		}
		return
	}
	c.post(func() {
		c.killed = true
		switch {
		case !c.working:
			c.drop()
		case c.session.Killed():
			c.server.engine.LeaveWorkers(c.session)
		}
	})
}

// Buffered is how many bytes wait to be parsed or belong to requests that are being executed, and
// how many wait to be sent, as the reactor last told.
func (c *connection) Buffered() (query, output int) {
	return int(c.queryBytes.Load()), int(c.outputBytes.Load())
}

// newConnection makes the connection of a client that has just come.
func (s *Server) newConnection(e ends) *connection {
	c := &connection{server: s, ends: e, intake: intake{parser: resp.NewParser(s.limits)}, silence: silence{traffic: true}}
	c.session = s.engine.NewClient(c)
	c.session.Reply.OnGrowth(c.composed)
	return c
}
