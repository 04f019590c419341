package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/resp"
	"kedis/server/execute"
	"kedis/storage"
)

// connection is a client. It is its reactor's, but for the methods of execute.Peer.
type connection struct {
	server  *Server
	conn    socket
	reactor *reactor
	session *execute.Session
	parser  *resp.Parser
	remote  string
	local   string

	overUnixSocket bool

	parked     bool               // waits for a lock, the gate, the end of a pause, a worker or the disk
	loading    int                // requests ahead that wait for the disk
	working    bool               // a worker has the session
	killed     bool               // is dropped as soon as no worker has the session; its replies are lost
	dropped    bool               // the socket is about to be closed
	closed     bool               // the socket is gone
	ended      bool               // the client sends no more; see halfClosed
	unread     bool               // nothing is read from the socket for the time being
	pending    *execute.Request   // the request that it is parked with
	retry      []*execute.Request // requests that are to be executed before those in ahead
	ahead      []*execute.Request // requests that were parsed ahead of their execution
	aheadStart []*execute.Request // the memory of ahead
	pushed     []byte             // what was sent besides replies while some of them wait for the commit
	sent       int                // bytes of the reply that a worker made which are on their way already

	place     int       // in the reactor's list
	period    int       // in which it last sent something, as the reactor counts them
	moving    bool      // another reactor is about to have it
	gathered  bool      // waits in the reactor's list of those whose next request is parsed
	traffic   bool      // something was read or written since the reactor last looked
	seen      time.Time // when it last found that, or that the client waits or takes what was sent
	slim      bool      // holds no memory that it doesn't need
	softSince time.Time // when more than the soft limit began to wait to be sent; zero: it doesn't

	// What the reactor knows of its buffers, for others.
	query, output, descriptor atomic.Int64

	mu       sync.Mutex
	home     *reactor // who has it, for others; nil: it is on its way
	arrivals int      // on reactors
	waiting  []func() // what others want of it meanwhile

	serve      func(net.Conn)           // takes the connection over when all is sent
	handedOver atomic.Pointer[net.Conn] // the one that it got
}

// next returns the next request: one that could not be executed before, or one from the parser.
func (c *connection) next() (*execute.Request, error) {
	if c.pending != nil {
		r := c.pending
		c.pending = nil
		return r, nil
	}
	if len(c.retry) > 0 {
		r := c.retry[0]
		c.retry = c.retry[1:]
		return r, nil
	}
	c.session.Refuse = nil
	if len(c.ahead) == 0 {
		if err := c.lookAhead(); err != nil {
			return nil, err
		}
		c.warm()
	}
	if len(c.ahead) == 0 || c.parked {
		return nil, nil
	}
	r := c.ahead[0]
	c.ahead[0] = nil
	c.ahead = c.ahead[1:]
	return r, nil
}

// drained is called when no complete request is left.
func (c *connection) drained() {
	if c.parked {
		return
	}
	c.readOn()
	if c.ended {
		c.endIfDone()
	}
}

// lookAhead parses a few requests. An error of the parser comes when all before it is
// executed. Before AUTH only one request is parsed at a time, since the limits of the next depend on it. So it is while
// replies wait to be sent: the parser can only let go of what was executed when nothing is ahead.
func (c *connection) lookAhead() error {
	if !c.session.Authenticated || c.parser.Unauthenticated {
		c.parser.Unauthenticated = c.server.engine.AuthenticationRequired(c.session)
	}
	first, err := c.parser.Next()
	if first == nil {
		return err
	}
	c.ahead = append(c.aheadStart[:0], c.reactor.batch.Read(c.session, first))
	alone := c.parser.Unauthenticated || c.conn.OutboundBuffered() > 0
	for !alone && len(c.ahead) < storage.PrefetchBatch {
		args, err := c.parser.Next()
		if args == nil || err != nil {
			break // the parser says so again
		}
		c.ahead = append(c.ahead, c.reactor.batch.Read(c.session, args))
	}
	c.aheadStart = c.ahead
	return nil
}

// foresees parses ahead and says what is expected. It tells that this is a single request, which can wait for
// those of others.
func (c *connection) foresees() bool {
	if c.pending != nil || len(c.retry) > 0 || len(c.ahead) > 0 || c.halting() || c.lookAhead() != nil {
		return false
	}
	if len(c.ahead) > 1 {
		c.warm()
		return false
	}
	if len(c.ahead) == 1 {
		c.reactor.expect(c, c.ahead[0])
	}
	return len(c.ahead) == 1
}

// warm has memory fetch what the requests ahead will look for. When the disk has to, the connection is parked.
func (c *connection) warm() {
	for _, r := range c.ahead {
		c.reactor.expect(c, r)
	}
	c.reactor.warm()
}

// halting tells that no more requests are to be executed. Those that a failed commit has taken back were executed before the
// session was to be closed.
func (c *connection) halting() bool {
	return c.session.Closing() && len(c.retry) == 0 || c.session.Suspended() || c.dropped || c.serve != nil
}

// repeat has requests executed again, before the one that the connection is parked with.
func (c *connection) repeat(requests []*execute.Request) {
	again := append([]*execute.Request(nil), requests...)
	if c.pending != nil {
		again = append(again, c.pending)
		c.pending = nil
	}
	c.retry = append(again, c.retry...)
}

func (c *connection) park(r *execute.Request) { c.parked, c.pending = true, r }

// refuseProtocol answers what is no request, and closes the connection.
func (c *connection) refuseProtocol(err error) {
	if c.reactor.batch.Has(c.session) {
		c.reactor.commit() // which may fail, and then has all executed again, up to here
	}
	if c.session.Closing() {
		return
	}
	c.session.Reply.Error(err.Error())
	c.server.engine.CountError(err.Error())
	c.session.CloseAfterReply()
	c.flush()
}

// replyPiece is how much of a large reply is copied to the socket or into gnet's memory in one go.
const replyPiece = 256 << 10

// sendPiece sends the beginning of what is left of a worker's reply, unless that isn't more than a piece.
func (c *connection) sendPiece() (sent bool) {
	rest := c.session.Reply.Bytes()[c.sent:]
	if len(rest) <= replyPiece || c.dropped || c.exceeds(c.conn.OutboundBuffered()+len(rest)) {
		return false
	}
	c.write(rest[:replyPiece])
	c.sent += replyPiece
	return true
}

// flush sends what was composed, and lets go of the requests that it answers.
func (c *connection) flush() {
	reply := c.session.Reply
	if c.closed {
		reply.Reset()
		return
	}
	if reply.Len() > 0 {
		c.write(reply.Bytes()[c.sent:])
		c.sent = 0
		reply.Reset()
	}
	if len(c.pushed) > 0 {
		c.write(c.pushed)
		c.pushed = nil
	}
	if c.pending == nil && len(c.retry) == 0 && len(c.ahead) == 0 {
		c.parser.Release()
	}
	if c.closed {
		return
	}
	c.publish()
	if c.serve != nil {
		c.handOver()
		return
	}
	if c.session.Closing() {
		c.dropWhenSent()
	}
}

// dropWhenSent closes the connection as soon as the client has read all replies.
func (c *connection) dropWhenSent() {
	if c.conn.OutboundBuffered() > 0 {
		c.reactor.paused[c] = struct{}{}
	} else {
		c.drop()
	}
}

// sendMost is how much is sent without telling Go's scheduler: a few microseconds' work.
const sendMost = 64 << 10

// write sends bytes as far as the socket takes them; gnet keeps the rest. A client that lets too much
// pile up is disconnected.
func (c *connection) write(b []byte) {
	s := c.server
	if c.closed || c.dropped || c.exceeds(c.conn.OutboundBuffered()+len(b)) {
		return
	}
	c.traffic = true
	sent := 0
	if len(b) <= sendMost && c.conn.OutboundBuffered() == 0 {
		sent = send(c.conn.Fd(), b)
	}
	if sent < len(b) {
		if _, err := c.conn.Write(b[sent:]); err != nil {
			s.logger.Debug("sending", "client", c.remote, "error", err)
		}
	}
	s.engine.Statistics.Writes.Add(c.reactor.number, 1)
	s.engine.Statistics.NetOutput.Add(c.reactor.number, int64(len(b)))
}

// publish tells others how much is in the buffers.
func (c *connection) publish() {
	publish(&c.query, c.parser.Buffered())
	publish(&c.output, c.conn.OutboundBuffered())
}

// publish stores a number if it is another one, since storing takes longer than looking.
func publish(n *atomic.Int64, value int) {
	if n.Load() != int64(value) {
		n.Store(int64(value))
	}
}

// drop closes the connection from its reactor.
func (c *connection) drop() {
	if !c.closed && !c.dropped {
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

// Send sends bytes from anywhere, as soon as the reactor can.
func (c *connection) Send(b []byte) {
	own := append([]byte(nil), b...)
	c.post(func() {
		switch {
		case c.closed || c.dropped:
		case !c.working && !c.reactor.batch.Has(c.session):
			c.write(own)
		case !c.exceeds(c.conn.OutboundBuffered() + len(c.pushed) + len(own)):
			c.pushed = append(c.pushed, own...) // it goes behind what was replied before
		}
	})
}

// Close closes the connection from anywhere.
func (c *connection) Close() {
	c.session.CloseAfterReply()
	if conn := c.handedOver.Load(); conn != nil {
		if err := (*conn).Close(); err != nil {
			c.server.logger.Debug("closing a connection", "client", c.remote, "error", err)
		}
		return
	}
	c.post(func() {
		c.killed = true
		if !c.working {
			c.drop()
		}
	})
}

// Buffered is how many bytes wait to be parsed or belong to requests that are being executed, and how
// many wait to be sent, as the reactor last told.
func (c *connection) Buffered() (query, output int) {
	return int(c.query.Load()), int(c.output.Load())
}

// slimAhead lets go of the memory for requests ahead, which is empty.
func (c *connection) slimAhead() {
	if len(c.ahead) == 0 {
		c.ahead, c.aheadStart = nil, nil
	}
}
