package server

import (
	"github.com/panjf2000/gnet/v2"

	"kedis/internal/resp"
	"kedis/server/command"
)

// connection is a client. It is its reactor's, but for the methods of command.Peer.
type connection struct {
	conn    gnet.Conn
	reactor *reactor
	session *command.Session
	parser  *resp.Parser
	remote  string
	local   string

	parked  bool       // waits for a lock, the gate or a worker
	working bool       // a worker has the session
	closed  bool       // the socket is gone
	pending [][]byte   // the request that it is parked with
	retry   [][][]byte // requests that are to be executed before those in the parser
}

// next returns the next request: one that could not be executed before, or one from the parser.
func (c *connection) next() ([][]byte, error) {
	if c.pending != nil {
		args := c.pending
		c.pending = nil
		return args, nil
	}
	if len(c.retry) > 0 {
		args := c.retry[0]
		c.retry = c.retry[1:]
		return args, nil
	}
	c.session.Refuse = nil
	c.parser.Unauthenticated = !c.session.Authenticated
	return c.parser.Next()
}

func (c *connection) park(args [][]byte) { c.parked, c.pending = true, args }

// refuseProtocol answers what is no request, and closes the connection.
func (c *connection) refuseProtocol(err error) {
	c.session.Reply.Error(err.Error())
	c.session.CloseAfterReply()
	if !c.reactor.batch.Has(c.session) {
		c.flush()
	}
}

// flush sends what was composed, and lets go of the requests that it answers.
func (c *connection) flush() {
	reply := c.session.Reply
	if c.closed {
		reply.Reset()
		return
	}
	if reply.Len() > 0 {
		if _, err := c.conn.Write(reply.Bytes()); err != nil {
			c.reactor.server.logger.Debug("sending a reply", "client", c.remote, "error", err)
		}
		reply.Reset()
	}
	if c.pending == nil && len(c.retry) == 0 {
		c.parser.Release()
	}
	if c.session.Closing() {
		c.drop()
	}
}

// drop closes the connection from its reactor.
func (c *connection) drop() {
	if !c.closed {
		if err := c.conn.Close(); err != nil {
			c.reactor.server.logger.Debug("closing a connection", "client", c.remote, "error", err)
		}
	}
}

// RemoteAddress is the client's address.
func (c *connection) RemoteAddress() string { return c.remote }

// LocalAddress is the address that the client connected to.
func (c *connection) LocalAddress() string { return c.local }

// FileDescriptor is the socket's.
func (c *connection) FileDescriptor() int { return c.conn.Fd() }

// Send sends bytes from anywhere, as soon as the reactor can.
func (c *connection) Send(b []byte) {
	own := append([]byte(nil), b...)
	c.reactor.post(func() {
		if c.closed {
			return
		}
		if _, err := c.conn.Write(own); err != nil {
			c.reactor.server.logger.Debug("sending", "client", c.remote, "error", err)
		}
		c.reactor.server.limitOutput(c)
	})
}

// Close closes the connection from anywhere.
func (c *connection) Close() {
	c.session.CloseAfterReply()
	c.reactor.post(func() {
		if !c.working {
			c.drop()
		}
	})
}

// Buffered is how many bytes wait to be parsed, and to be sent. Both are the reactor's to know
// exactly; from elsewhere they are what they were a moment ago.
func (c *connection) Buffered() (query, output int) { return 0, 0 }
