package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/panjf2000/gnet/v2"

	"kedis/server/command"
)

// moveSome moves connections that have just been served, and wait for nothing, to another reactor.
func (r *reactor) moveSome(to *reactor, number int) {
	r.executeGathered()
	r.commit()
	for i := len(r.connections) - 1; i >= 0 && number > 0; i-- {
		if i >= len(r.connections) {
			continue // others went with the last
		}
		if c := r.connections[i]; c.period >= r.load.period-1 && c.movable() {
			r.move(c, to)
			number--
		}
	}
}

// place has a new connection served by another reactor. If it can't be moved just then, the next look at the load moves it.
func (r *reactor) place(c *connection, to *reactor) {
	if r != to && c.movable() {
		r.move(c, to)
	}
}

// unmovable are sessions that are sent something at any time.
const unmovable = command.KindMonitor | command.KindReplica | command.KindPrimary | command.KindPubSub

// movable tells that nothing on the reactor knows of the connection but its list, and that no byte of it is anywhere but in the socket.
func (c *connection) movable() bool {
	waits := c.ended || c.parked || c.working || c.gathered || c.loading > 0 || c.serve != nil || c.halting() || c.closed
	holds := c.pending != nil || len(c.retry)+len(c.ahead)+len(c.pushed)+c.parser.Buffered()+c.conn.OutboundBuffered() > 0
	_, paused := c.reactor.paused[c]
	return !waits && !holds && !paused && !c.session.Is(unmovable) && !c.reactor.batch.Has(c.session)
}

// move gives a connection to another reactor: a copy of its socket is enrolled there, and the one that belongs to this reactor's loop is
// closed. Meanwhile it is nobody's; what others want of it waits (connection.post).
func (r *reactor) move(c *connection, to *reactor) {
	copied, err := duplicate(c.conn.Fd())
	if err != nil {
		r.server.logger.Debug("a connection can't be moved", "client", c.remote, "error", err)
		return
	}
	c.moving = true
	arrivals := c.leave()
	if err := r.loop.Close(c.conn.(gnet.Conn)); err != nil {
		r.server.logger.Debug("closing a socket whose copy is used on", "client", c.remote, "error", err)
	}
	arrived, err := to.loop.Enroll(gnet.NewContext(context.Background(), c), copied)
	if err != nil {
		r.server.lose(c, errors.Join(err, copied.Close()))
		return
	}
	go r.server.seeArrive(c, arrivals, arrived)
}

var errNotEnrolled = errors.New("the event loop has not taken it")

// seeArrive waits until the connection is on its new loop, or can't get there. gnet reports neither a panic of its own nor a socket that
// its epoll refuses, so the connection itself says whether it has arrived since it left.
func (s *Server) seeArrive(c *connection, arrivals int, arrived <-chan gnet.RegisteredResult) {
	select {
	case result := <-arrived:
		if c.arrivedSince(arrivals) {
			return
		}
		s.lose(c, cmp.Or(result.Err, errNotEnrolled))
	case <-s.stop: // the loop that it was to come to has ended, or closes it
	}
}

// lose ends a session whose socket was closed on the way to another reactor.
func (s *Server) lose(c *connection, err error) {
	s.logger.Warn("a connection was lost on the way to another event loop", "client", c.remote, "error", err)
	c.session.CloseAfterReply()
	s.forget(c)
}

// attach makes the connection a reactor's. It is called on the reactor's loop.
func (c *connection) attach(r *reactor, conn gnet.Conn) {
	c.conn, c.reactor, c.moving = conn, r, false
	c.descriptor.Store(int64(conn.Fd()))
	c.period = r.load.period
	c.keepAlive(conn)
	r.add(c)
	for _, f := range c.arrive(r) {
		f()
	}
}

// keepAlive has the kernel ask whether the client is still there, as tcp-keepalive says: Go has it asked every 15 s on each copy of a socket.
func (c *connection) keepAlive(conn gnet.Conn) {
	if c.overUnixSocket {
		return
	}
	silence := time.Duration(c.server.config.TCPKeepalive.Get()) * time.Second
	const questions = 5
	if err := conn.SetKeepAlive(silence > 0, silence, max(silence/questions, time.Second), questions); err != nil {
		c.server.logger.Debug("setting a connection's keepalive", "client", c.remote, "error", err)
	}
}

// leave makes others wait until the connection arrives somewhere. It returns how often it has arrived so far.
func (c *connection) leave() (arrivals int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.home = nil
	return c.arrivals
}

// arrive tells others where the connection is, and returns what they wanted of it since it left.
func (c *connection) arrive(r *reactor) (waiting []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.home = r
	c.arrivals++
	waiting, c.waiting = c.waiting, nil
	return waiting
}

// arrivedSince reports whether the connection has arrived on a loop after so many arrivals.
func (c *connection) arrivedSince(arrivals int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arrivals > arrivals
}

// post runs a function on the goroutine of the reactor that has the connection. It may be called from anywhere.
func (c *connection) post(f func()) {
	c.mu.Lock()
	home := c.home
	if home == nil {
		c.waiting = append(c.waiting, f)
	}
	c.mu.Unlock()
	if home == nil {
		return
	}
	home.post(func() {
		c.mu.Lock()
		left := c.home != home
		c.mu.Unlock()
		if left {
			c.post(f)
			return
		}
		f()
	})
}
