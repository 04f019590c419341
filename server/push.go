package server

import (
	"slices"

	"kedis/server/execute"
)

// pushing has the connections that are sent something which is no reply. What comes together for
// one of them, such as the messages that a pipeline publishes, is sent together.
type pushing struct {
	connections []*connection
	first       pushed // what has had nothing pushed yet
}

// pushed is what is to be sent to a connection behind its replies. Connections that are sent the
// same share it, so many subscribers of a channel cost no copy each.
//
//	first -> "message 1" -> "message 1, message 2" -> …
type pushed struct {
	text   []byte
	behind []byte  // what was pushed behind it last
	next   *pushed // both together
}

// push is what results when b is pushed behind what there is. The bytes stay as they are.
func (p *pushed) push(b []byte) *pushed {
	if p.next != nil && len(p.behind) == len(b) && &p.behind[0] == &b[0] {
		return p.next
	}
	next := new(pushed)
	switch {
	case len(p.text) == 0:
		next.text = b[:len(b):len(b)]
	case p.next == nil: // nobody else has written behind the text
		next.text = append(p.text, b...)
	default:
		next.text = append(slices.Clip(p.text), b...)
	}
	p.behind, p.next = b, next
	return next
}

// composing reports whether a reply is being composed, which pushes have to stay behind.
func (c *connection) composing() bool { return c.working || c.held || c.reactor.batch.Has(c.session) }

// push sends bytes that are no reply: behind the reply that is being composed, or when the reactor
// has read its mail.
func (c *connection) push(b []byte) {
	if len(b) == 0 || c.closed || c.dropped {
		return
	}
	waiting := c.waiting() + c.pushedBytes()
	if waiting == 0 {
		c.unasked = 0
	}
	c.unasked += len(b)
	if c.exceedsPushed(waiting + len(b)) {
		return
	}
	p := &c.reactor.pushing
	if c.pushed == nil {
		c.pushed = &p.first
	}
	c.pushed = c.pushed.push(b)
	if !c.listed {
		c.listed = true
		p.connections = append(p.connections, c)
	}
}

// pushedBytes is how much waits behind the reply.
func (c *connection) pushedBytes() int {
	if c.pushed == nil {
		return 0
	}
	return len(c.pushed.text)
}

// writePushed sends what was pushed.
func (c *connection) writePushed() {
	if c.pushed != nil {
		text := c.pushed.text
		c.pushed = nil
		c.write(text)
	}
}

// sendPushed sends what was pushed, but to connections whose replies have begun to be composed
// meanwhile: it goes behind them.
func (r *reactor) sendPushed() {
	p := &r.pushing
	for i, c := range p.connections {
		p.connections[i] = nil
		c.listed = false
		if !c.composing() {
			c.writePushed()
		}
	}
	p.connections = p.connections[:0]
	p.first = pushed{}
}

// mostUndelivered is how many bytes of messages may be on their way to the reactors of those who
// are sent them, or wait to be matched with slow patterns, before no more requests are executed:
// who publishes waits for who delivers, as it would with a single thread.
const mostUndelivered = 32 << 20

// deliver sends messages. Each reactor gets those to its own at once, so that what goes to one
// connection is sent together.
func (s *Server) deliver(messages []execute.Message) {
	size := 0
	for i := range messages {
		size += messages[i].Size()
	}
	for lane := 0; ; lane++ {
		r, more := laneOf(messages, lane)
		if r != nil {
			s.undelivered.Add(int64(size))
			r.post(func() {
				r.push(messages)
				s.undelivered.Add(-int64(size))
			})
		}
		if !more {
			return
		}
	}
}

// laneOf is the reactor with a number, if any message goes to one of its clients. more says that
// there may be higher numbers.
func laneOf(messages []execute.Message, lane int) (r *reactor, more bool) {
	for i := range messages {
		lanes := messages[i].To.Lanes
		if lane < len(lanes) && len(lanes[lane]) > 0 {
			r = lanes[lane][0].Peer.(*connection).reactor
		}
		more = more || lane+1 < len(lanes)
	}
	return r, more
}

// push pushes messages to the reactor's own clients.
func (r *reactor) push(messages []execute.Message) {
	listeners := &r.server.engine.Listeners
	for i := range messages {
		m := &messages[i]
		if r.number >= len(m.To.Lanes) {
			continue
		}
		for _, session := range m.To.Lanes[r.number] {
			if session != m.But && m.To.Belongs(listeners, session) {
				session.Peer.(*connection).push(m.Text(session))
			}
		}
	}
}
