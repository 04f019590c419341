package server

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/panjf2000/gnet/v2"

	"kedis/server/execute"
)

// abode is which reactor has the connection.
type abode struct {
	period int // of its reactor's, when it last sent something

	mu       sync.Mutex
	home     *reactor // nil: the connection is on its way to another one
	arrivals int      // how often it has come to one
	expected []func() // what others want done there
}

// moveSome moves connections that have just been served, and wait for nothing, to another reactor.
func (r *reactor) moveSome(to *reactor, number int) {
	r.commit()
	for i := len(r.connections) - 1; i >= 0 && number > 0; i-- {
		if c := r.connections[i]; c.period >= r.arrivals.period-1 && c.movable() {
			r.move(c, to)
			number--
		}
	}
}

// movable reports whether nothing on the reactor knows of the connection but its list, and nothing
// waits to be sent or executed. Those who are sent something at any time stay, and so do those whom
// Audience has among the clients of their reactor.
func (c *connection) movable() bool {
	waits := c.stuck() || c.working || c.held || c.listed || c.pushed != nil || c.reactor.batch.Has(c.session)
	if waits { // while it is working, the session is its worker's
		return false
	}
	const addressed = execute.KindMonitor | execute.KindReplica | execute.KindPrimary | execute.KindPubSub
	s := c.session
	stays := s.Is(addressed) || s.EverListened() || s.Tracking() != nil || s.Transaction.Active
	ends := c.ended || c.killed || c.closed || c.halting()
	holds := c.unread || !c.empty() || c.parser.Buffered()+c.conn.OutboundBuffered() > 0
	return !stays && !ends && !holds
}

// move gives a connection to another reactor: a copy of its socket is enrolled there, and the one
// that belongs to this reactor's loop is closed. Meanwhile it is nobody's; what others want of it
// waits (connection.post).
func (r *reactor) move(c *connection, to *reactor) {
	copied, err := duplicate(c.conn.Fd())
	if err != nil {
		r.server.logger.Debug("a connection can't be moved", "client", c.remote, "error", err)
		return
	}
	arrivals := c.leave()
	r.remove(c)
	former := c.conn.(gnet.Conn)
	former.SetContext(nil) // its end is not the connection's
	if err := r.loop.Close(former); err != nil {
		r.server.logger.Debug("closing a socket whose copy is used on", "client", c.remote, "error", err)
	}
	r.server.engine.Statistics.Moves.Add(1)
	r.server.moves.Add(1)
	registered, err := to.loop.Enroll(gnet.NewContext(context.Background(), c), copied)
	if err != nil {
		r.lose(c, errors.Join(err, copied.Close()))
		r.server.moves.Done()
		return
	}
	go func() {
		defer r.server.moves.Done()
		if result := <-registered; !c.arrivedSince(arrivals) { // gnet doesn't report a socket that its epoll refuses
			r.post(func() { r.lose(c, cmp.Or(result.Err, errNotEnrolled)) })
		}
	}()
}

// endMoves waits for the connections that are on their way, and has no more moved.
func (s *Server) endMoves() {
	s.mu.Lock()
	s.balance.fixed = true
	s.mu.Unlock()
	s.moves.Wait()
}

var errNotEnrolled = errors.New("the event loop has not taken it")

// lose ends a session whose socket was closed on the way to another reactor. It is called on the
// former one.
func (r *reactor) lose(c *connection, err error) {
	r.server.logger.Warn("a connection was lost on the way to another event loop", "client", c.remote, "error", err)
	c.closed = true
	c.session.CloseAfterReply()
	c.settle(r)
	r.server.forget(c)
}

// leave makes others wait until the connection has settled. It returns how often it has until now.
func (c *connection) leave() (arrivals int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.home = nil
	return c.arrivals
}

// settle says which reactor has the connection from now on, and does what others expect there. It
// is called on that one.
func (c *connection) settle(r *reactor) {
	c.mu.Lock()
	c.home = r
	c.arrivals++
	expected := c.expected
	c.expected = nil
	c.mu.Unlock()
	for _, f := range expected {
		f()
	}
}

// arrivedSince reports whether the connection has come to a reactor once more; it may have left
// that one, too.
func (c *connection) arrivedSince(arrivals int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arrivals > arrivals
}

// post runs a function on the goroutine of the reactor that has the connection. It may be called
// from anywhere.
func (c *connection) post(f func()) {
	if home := c.orExpect(f); home != nil {
		home.post(func() {
			if c.livesWith(home) {
				f()
			} else {
				c.post(f)
			}
		})
	}
}

// orExpect returns the reactor that has the connection. If none has, the function is run by the one
// that it comes to.
func (c *connection) orExpect(f func()) *reactor {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.home == nil {
		c.expected = append(c.expected, f)
	}
	return c.home
}

func (c *connection) livesWith(r *reactor) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.home == r
}
