package server

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"kedis/server/execute"
)

// reactor is an event loop and the transaction that it runs. Everything of it happens on the loop's
// goroutine but post, which brings a function there.
//
// What one pass of the loop reads from all of its connections is executed at once and committed by
// one task behind the pass; the replies leave after that.
type reactor struct {
	server *Server
	loop   gnet.EventLoop
	polled *polled // the loop's epoll; nil if it can't be had
	number int
	batch  *execute.Batch

	scheduled bool // the end of the pass is on its way
	executed  int  // requests since the last commit
	waits     waits
	awaited   awaited
	unsent    map[*connection]struct{} // who has to read replies before more is executed
	roster
	mailbox
	arrivals   arrivals
	pushing    pushing
	encryption encryptionMemory
}

// roster is the list of a reactor's connections.
type roster struct {
	connections []*connection
	held        atomic.Int32 // how many, for others
	lookedAfter int          // the one that was looked after last
}

// mailbox has what others want done on the reactor.
type mailbox struct {
	mu   sync.Mutex
	mail []func()
}

const (
	// requestsPerCommit bounds how long the first of a pass waits for the last.
	requestsPerCommit = 4096
	// repliesPerCommit is how much a session may have composed before it is sent: half of what its
	// writer keeps, so that long pipelines of long replies cost no allocation.
	repliesPerCommit = 64 << 10
	// bytesPerCommit bounds the memory of what is written and waits for the commit: that of many
	// large results would be found and cleared anew each time, and be in none of the processor's
	// caches.
	bytesPerCommit = 512 << 10
)

func newReactor(s *Server, loop gnet.EventLoop, number int) *reactor {
	r := &reactor{server: s, loop: loop, polled: newPolled(loop), number: number, batch: s.engine.NewBatch(number),
		waits: waits{shared: map[sharedWait][]*connection{}}, awaited: awaited{}, unsent: map[*connection]struct{}{},
		arrivals: arrivals{period: 1}}
	if r.polled == nil {
		s.logger.Warn("clients whose requests wait can't be kept from sending more, and deadlines come late")
		r.waits.alarm = &alarm{descriptor: -1}
		return r
	}
	r.replaceAlarm()
	return r
}

// replaceAlarm gives the reactor an alarm, instead of one for which there was no descriptor.
func (r *reactor) replaceAlarm() {
	a, err := newAlarm(r.loop)
	if err != nil {
		r.server.logger.Debug("deadlines come late until there is an alarm", "error", err)
		a = &alarm{descriptor: -1, failed: true}
	}
	if former := r.waits.alarm; former != nil {
		a.rings = former.rings
	}
	r.waits.alarm = a
}

// post runs a function on the reactor's goroutine. It may be called from anywhere.
func (r *reactor) post(f func()) {
	r.mu.Lock()
	r.mail = append(r.mail, f)
	first := len(r.mail) == 1
	r.mu.Unlock()
	if first {
		r.execute(r.readMail)
	}
}

func (r *reactor) readMail() {
	r.mu.Lock()
	mail := r.mail
	r.mail = nil
	r.mu.Unlock()
	for _, f := range mail {
		f()
	}
	r.sendPushed()
}

// execute has the loop run a function after what it is doing.
func (r *reactor) execute(f func()) {
	err := r.loop.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
		f()
		return nil
	}))
	if err != nil {
		r.server.logger.Debug("an event loop takes no more tasks", "error", err)
	}
}

// schedule makes sure that the end of the pass comes.
func (r *reactor) schedule() {
	if !r.scheduled {
		r.scheduled = true
		r.execute(r.endPass)
	}
}

func (r *reactor) endPass() {
	r.scheduled = false
	r.commit()
}

// arrive executes what a connection has sent. Deadlines are looked at with each arrival, since the
// alarm stands in a row with all that has come at the same time.
func (r *reactor) arrive(c *connection) {
	r.batch.Tick()
	if r.waits.due(r.batch.Now()) {
		r.expire(r.batch.Now())
	}
	if !c.parked() {
		r.process(c)
	}
}

// warm has memory fetch what the requests that are expected will look for. Connections whose
// requests have to wait for the disk are parked, so that the others don't wait with them, and the
// disk works for many at once.
func (r *reactor) warm() {
	for _, cold := range r.batch.Prefetch() {
		r.load(cold.Session.Peer.(*connection), cold.Wait(r.server.engine))
	}
}

// process executes what a connection has sent, as far as it can.
func (r *reactor) process(c *connection) {
	r.batch.Tick()
	r.executeSent(c)
	r.finish()
}

// executeSent executes what a connection has sent, as far as it can, and leaves the replies to
// finish.
func (r *reactor) executeSent(c *connection) {
	defer r.contain(c)
	publish(&c.queryBytes, c.parser.Buffered())
	for !c.parked() && !c.halting() && !c.closed {
		if r.overfull(c) {
			break
		}
		request, err := c.nextRequest()
		if err != nil {
			c.refuseProtocol(err)
			break
		}
		if request == nil {
			c.drained()
			break
		}
		if !r.dispatch(c, request) {
			continue // it may have been executed all the same, and the session be somebody else's now
		}
		r.executed++
		if r.executed >= requestsPerCommit || r.batch.Gathered() > bytesPerCommit || c.session.Reply.Len() > repliesPerCommit {
			r.commit()
		}
	}
}

// finish lets the replies leave at once when there is nothing to commit, and else with all others
// of the pass.
func (r *reactor) finish() {
	if r.batch.Idle() {
		r.commit()
	} else {
		r.schedule()
	}
}

// contain ends a connection whose command panicked: an invariant is broken, but others' are not.
func (r *reactor) contain(c *connection) {
	p := recover()
	if p == nil {
		return
	}
	r.server.logger.Error("a command panicked; its connection is closed", "panic", p, "client", c.RemoteAddress(), "stack", string(debug.Stack()))
	r.batch.Abandon()
	c.drop()
	r.schedule()
}

// overfull pauses a connection that doesn't read its replies, so that they don't pile up, and any
// connection while too many messages are on their way.
func (r *reactor) overfull(c *connection) bool {
	waiting := c.conn.OutboundBuffered()
	unread := waiting > r.server.outboundPause && waiting > c.pauseAt()
	if !unread && r.server.undelivered.Load()+r.server.engine.Listeners.Unmatched() <= mostUndelivered {
		return false
	}
	r.unsent[c] = struct{}{}
	return true
}

// dispatch executes one request, or has the connection wait until it can be executed.
func (r *reactor) dispatch(c *connection, request *execute.Request) bool {
	switch r.batch.Execute(c.session, request) {
	case execute.Separate:
		c.pending = request
		r.commit()
		return false
	case execute.Waiting:
		r.wait(c, request)
		return false
	}
	return true
}

// commit commits what the reactor has executed, sends the replies, and lets those wait who
// have to.
func (r *reactor) commit() {
	r.arrivals.now.requests += int64(r.executed)
	r.executed = 0
	if !r.batch.Open() {
		r.beginWaits()
		return
	}
	undone := false
	if err := r.batch.Commit(); err != nil {
		r.server.logger.Error("a commit failed", "error", err)
		undone = r.batch.Undo(err)
	}
	r.arrivals.now.followed += int64(r.batch.Followed())
	members := r.batch.Members()
	again := make([]*connection, 0, 8)
	for i := range members {
		c := members[i].Session.Peer.(*connection)
		if undone {
			c.repeat(members[i].Executed)
			again = append(again, c)
			continue
		}
		c.flush()
	}
	r.batch.Clear()
	for _, c := range again {
		r.process(c)
	}
	r.beginWaits()
}

// end closes what isn't the loop's, and gives back the locks of what was executed when the loop
// ended, and those that its connections wait for; workers may wait for them. The replies can't
// leave any more.
func (r *reactor) end() {
	for _, c := range r.connections {
		c.drop()
	}
	for key := range r.waits.shared {
		if key.cause == execute.ForLock {
			r.batch.Renounce(key.stripe)
		}
	}
	if !r.batch.Open() {
		return
	}
	if err := r.batch.Commit(); err != nil {
		r.server.logger.Error("a commit failed", "error", err)
	}
	r.batch.Clear()
}

// workDone sends the reply that a worker has made, piece by piece, so that others are served
// between.
func (r *reactor) workDone(c *connection) {
	if c.sendPiece(r.workDone) {
		return
	}
	request := c.pending
	c.working, c.pending = false, nil
	c.trust()
	switch {
	case c.closed:
		r.abandon(c)
		r.server.forget(c)
		return
	case c.killed:
		c.drop()
		return
	case c.session.Waiting():
		c.waits--
		r.wait(c, request)
		return
	}
	c.flush()
	r.resume(c)
}

// add and remove keep the list of connections.
func (r *roster) add(c *connection) {
	c.index = len(r.connections)
	r.connections = append(r.connections, c)
	r.held.Store(int32(len(r.connections)))
}

func (r *roster) remove(c *connection) {
	last := len(r.connections) - 1
	moved := r.connections[last]
	r.connections[c.index], moved.index = moved, c.index
	r.connections[last] = nil
	r.connections = r.connections[:last]
	r.held.Store(int32(last))
}

// tick looks after what no event tells of: replies that were read meanwhile, clients that are idle,
// and scripts that take too long.
func (r *reactor) tick(now time.Time) {
	r.arrivals.turn()
	r.lookAfter(now)
	r.giveUpScripts()
	if elapsed := r.server.engine.Elapsed(); r.waits.due(elapsed) { // the alarm has failed
		r.expire(elapsed)
	}
	for c := range r.unsent {
		waiting := c.conn.OutboundBuffered()
		switch {
		case c.session.Closing() && waiting > 0, waiting > c.pauseAt()/2:
			continue
		case c.session.Closing():
			c.drop()
		}
		delete(r.unsent, c)
		r.process(c)
	}
	if r.waits.alarm.failed {
		r.replaceAlarm()
	}
}
