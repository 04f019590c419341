package server

import "time"

// output is what is to be sent to the client, besides the session's reply and what waits for the
// socket.
type output struct {
	pushed    *pushed       // what comes behind the reply that is being composed; nil: nothing
	listed    bool          // it is among those that sendPushed looks at
	unasked   int           // bytes that were pushed since nothing waited
	sent      int           // bytes of a worker's reply that are on their way already
	patience  time.Duration // how long the next piece of it waits while the client takes nothing
	softSince time.Time     // when more than the soft limit began to wait to be sent; zero: it doesn't
}

// replyPiece is how much of a large reply is copied to the socket or into gnet's memory in one go.
const replyPiece = 256 << 10

// What gnet keeps for a client that takes nothing is a copy: the next piece waits while that is
// more than mostCopied. It waits longer each time.
const (
	mostCopied    = 4 * replyPiece
	leastPatience = time.Millisecond
	mostPatience  = 64 * time.Millisecond
)

// sendPiece sends the beginning of what is left of a worker's reply, and has next called for what
// follows, unless no more than a piece is left. It is another goroutine that asks for the next
// piece, since the loop goes on with what it is told to do by itself before it looks at sockets.
func (c *connection) sendPiece(next func(c *connection)) (goesOn bool) {
	if c.closed || c.killed || c.dropped {
		return false
	}
	if replicas, _ := c.server.engine.Held(c.session); replicas > 0 {
		return false
	}
	reply := c.session.Reply
	rest := reply.Len() - c.sent
	if rest <= replyPiece || c.exceeds(c.conn.OutboundBuffered()+rest) {
		return false
	}
	if c.conn.OutboundBuffered() > mostCopied {
		c.patience = min(max(2*c.patience, leastPatience), mostPatience)
	} else {
		c.patience = 0
		part := reply.From(c.sent)
		part = part[:min(len(part), replyPiece)]
		c.sent += len(part)
		c.write(part)
		reply.Sent(c.sent)
	}
	time.AfterFunc(c.patience, func() { c.post(func() { next(c) }) })
	return true
}

// waiting is how many bytes wait to be sent.
func (c *connection) waiting() int {
	waiting := c.conn.OutboundBuffered()
	if c.sent > 0 {
		waiting += c.session.Reply.Len() - c.sent
	}
	return waiting
}

// flush sends what was composed, and lets go of the requests that it answers.
func (c *connection) flush() {
	reply := c.session.Reply
	if c.closed {
		c.server.engine.ReleaseReply(c.session)
		return
	}
	if c.reactor.holdBack(c) {
		return
	}
	if reply.Len() > 0 {
		c.writeReply()
		c.server.engine.ReleaseReply(c.session)
	}
	c.writePushed()
	if c.empty() {
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

// writeReply sends what is left of the reply.
func (c *connection) writeReply() {
	reply, from := c.session.Reply, c.sent
	c.sent = 0
	if c.dropped || c.exceeds(c.conn.OutboundBuffered()+reply.Len()-from) {
		return
	}
	for from < reply.Len() {
		part := reply.From(from)
		from += len(part)
		c.write(part)
		reply.Sent(from)
	}
}

// dropWhenSent closes the connection as soon as the client has read all replies.
func (c *connection) dropWhenSent() {
	if c.conn.OutboundBuffered() > 0 {
		c.reactor.unsent[c] = struct{}{}
	} else {
		c.drop()
	}
}

// sendMost is how much is sent without telling Go's scheduler: a few microseconds' work.
const sendMost = 64 << 10

// write sends bytes as far as the socket takes them; gnet keeps the rest. A client that lets too
// much pile up is disconnected.
func (c *connection) write(b []byte) {
	s := c.server
	if c.closed || c.dropped || c.exceeds(c.waiting()+len(b)) {
		return
	}
	c.traffic = true
	if c.encryption != nil {
		c.seal(b)
	} else {
		c.transmit(b)
	}
	s.engine.Statistics.Writes.Add(c.reactor.number, 1)
	s.engine.Statistics.NetOutput.Add(c.reactor.number, int64(len(b)))
}

// transmit gives bytes to the socket.
func (c *connection) transmit(b []byte) {
	if c.closed {
		return
	}
	sent := 0
	if len(b) <= sendMost && c.conn.OutboundBuffered() == 0 {
		sent = send(c.conn.Fd(), b)
	}
	if sent < len(b) {
		if _, err := c.conn.Write(b[sent:]); err != nil {
			c.server.logger.Debug("sending", "client", c.remote, "error", err)
		}
	}
}
