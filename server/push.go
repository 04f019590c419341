package server

// pushing has the connections that are sent something which is no reply. What comes together for one of them, such as the messages that a
// pipeline publishes, is sent together.
type pushing struct{ connections []*connection }

// composing reports whether a reply is being composed, which pushes have to stay behind.
func (c *connection) composing() bool { return c.working || c.reactor.batch.Has(c.session) }

// pushSoon sends bytes when the reactor has read its mail. They stay as they are.
func (c *connection) pushSoon(b []byte) {
	if c.exceeds(c.conn.OutboundBuffered() + len(c.pushed) + len(b)) {
		return
	}
	if len(c.pushed) == 0 {
		c.pushed = b[:len(b):len(b)] // it is copied when something is appended
	} else {
		c.pushed = append(c.pushed, b...)
	}
	c.reactor.pushing.connections = append(c.reactor.pushing.connections, c)
}

// sendPushed sends what was pushed, but to connections whose replies have begun to be composed meanwhile: it goes behind them.
func (r *reactor) sendPushed() {
	for i, c := range r.pushing.connections {
		r.pushing.connections[i] = nil
		if len(c.pushed) > 0 && !c.closed && !c.composing() {
			c.write(c.pushed)
			c.pushed = nil
		}
	}
	r.pushing.connections = r.pushing.connections[:0]
}
