package server

import "kedis/server/execute"

// pushing has the connections that are sent something which is no reply. What comes together for one of them, such as the messages that a
// pipeline publishes, is sent together.
type pushing struct {
	connections []*connection
	buffers     [][]byte // memory for what is put together
}

const (
	// pushBuffer is how much memory is taken for what is put together.
	pushBuffer = 1 << 10
	// mostPushBuffers is how many pieces of it are kept.
	mostPushBuffers = 4096
)

// composing reports whether a reply is being composed, which pushes have to stay behind.
func (c *connection) composing() bool { return c.working || c.held || c.reactor.batch.Has(c.session) }

// pushSoon sends bytes when the reactor has read its mail. They stay as they are.
func (c *connection) pushSoon(b []byte) {
	if c.exceeds(c.conn.OutboundBuffered() + len(c.pushed) + len(b)) {
		return
	}
	switch len(c.pushed) {
	case 0:
		c.pushed = b[:len(b):len(b)] // others may be sent the same bytes: they are copied when something is appended
	case cap(c.pushed):
		c.pushed = append(append(c.reactor.pushing.buffer(), c.pushed...), b...)
	default:
		c.pushed = append(c.pushed, b...)
	}
	c.reactor.pushing.connections = append(c.reactor.pushing.connections, c)
}

// buffer returns memory of which nothing is in use.
func (p *pushing) buffer() []byte {
	last := len(p.buffers) - 1
	if last < 0 {
		return make([]byte, 0, pushBuffer)
	}
	buffer := p.buffers[last]
	p.buffers = p.buffers[:last]
	return buffer
}

// sendPushed sends what was pushed, but to connections whose replies have begun to be composed meanwhile: it goes behind them.
func (r *reactor) sendPushed() {
	p := &r.pushing
	for i, c := range p.connections {
		p.connections[i] = nil
		if len(c.pushed) == 0 || c.closed || c.composing() {
			continue
		}
		c.write(c.pushed)
		if cap(c.pushed) == pushBuffer && len(c.pushed) < pushBuffer && len(p.buffers) < mostPushBuffers {
			p.buffers = append(p.buffers, c.pushed[:0])
		}
		c.pushed = nil
	}
	p.connections = p.connections[:0]
}

// deliver sends parcels. Each reactor gets its own at once, so that what goes to one connection is sent together.
func deliver(parcels []execute.Parcel) {
	byReactor := map[*reactor][]execute.Parcel{}
	for _, p := range parcels {
		c := p.To.(*connection)
		byReactor[c.reactor] = append(byReactor[c.reactor], p)
	}
	for r, own := range byReactor {
		r.post(func() {
			for _, p := range own {
				p.To.(*connection).push(p.Text)
			}
		})
	}
}
