package server

import "golang.org/x/sys/unix"

// mostWaiting is how many bytes of requests may wait while none of them can be executed: the client
// doesn't read its replies, or the one before them waits. Beyond that the socket isn't read, so the
// kernel stops the client.
const mostWaiting = 32 << 20

// unnoticed is how much may wait without anybody looking why.
const unnoticed = 64 << 10

// restrain stops reading from a client whose requests can't be executed, when many wait. gnet
// begins to read again when it has sent everything, so restrain is called whenever something was
// read.
func (c *connection) restrain() {
	waiting := c.parser.Buffered()
	if waiting <= unnoticed || !c.stuck() || c.reactor.polled == nil {
		return
	}
	if int64(waiting) <= min(int64(c.server.mostWaiting), c.parser.QueryBuffer()/2) {
		return
	}
	c.unread = true
	c.watch(0)
}

// stuck reports whether the next request has to wait.
func (c *connection) stuck() bool {
	_, unsent := c.reactor.unsent[c]
	return c.parked() || unsent
}

// readOn reads from the client again.
func (c *connection) readOn() {
	if c.unread {
		c.unread = false
		c.watch(unix.EPOLLIN | unix.EPOLLPRI)
	}
}

// watch has the event loop look for events, and send what waits. It isn't asked often.
func (c *connection) watch(events uint32) {
	if c.closed || c.dropped {
		return
	}
	if c.conn.OutboundBuffered() > 0 {
		events |= unix.EPOLLOUT
	}
	if err := c.reactor.polled.watch(c.conn.Fd(), events); err != nil {
		c.server.logger.Error("closing a connection", "client", c.remote, "error", err)
		c.drop()
	}
}
