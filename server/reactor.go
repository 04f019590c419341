package server

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"kedis/server/execute"
	"kedis/storage"
)

// reactor is an event loop and the transaction that it runs. Everything of it happens on the loop's
// goroutine but post, which brings a function there.
//
// What one pass of the loop reads from all of its connections is executed at once and committed by
// one task behind the pass; the replies leave after that.
type reactor struct {
	server *Server
	loop   gnet.EventLoop
	batch  *execute.Batch
	number int

	scheduled bool                     // the end of the pass is on its way
	gathered  []*connection            // whose requests are executed together
	parked    map[uint32][]*connection // who waits for which stripe
	outside   []*connection            // who waits for the gate
	halted    []*connection            // who waits for the end of a pause
	work      []*connection            // whose request goes to a worker after the commit
	executed  int                      // requests since the last commit
	paused    map[*connection]struct{} // whose replies are not read

	connections []*connection
	next        int // the one that was looked after last

	linger linger
	load   load

	mu   sync.Mutex
	mail []func()
}

const (
	// requestsPerCommit bounds how long the first of a pass waits for the last.
	requestsPerCommit = 4096
	// repliesPerCommit is how much a session may have composed before it is sent: half of what its writer
	// keeps, so that long pipelines of long replies cost no allocation.
	repliesPerCommit = 64 << 10
)

func newReactor(s *Server, loop gnet.EventLoop, number int) *reactor {
	r := &reactor{server: s, loop: loop, number: number, batch: s.engine.NewBatch(number),
		parked: map[uint32][]*connection{}, paused: map[*connection]struct{}{}}
	r.load.last.Store(&counts{})
	if r.linger.ready = newReadiness(loop); r.linger.ready == nil {
		s.logger.Warn("an event loop's sockets can't be looked at between, so busy-poll has no effect")
	}
	return r
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
}

func (r *reactor) hasMail() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mail) > 0
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
	r.executeGathered()
	r.commit()
	r.lingerAfterPass()
}

// gatherWithin is how soon one connection has to follow on what the reactor did last for the two to be
// taken for part of the same pass.
const gatherWithin = 20 * time.Microsecond

// arrive executes what a connection has sent: at once, if it comes alone or has sent much, or else together
// with others, so that memory is waited for once for all of them, and their replies leave behind each other.
func (r *reactor) arrive(c *connection) {
	if c.gathered {
		return
	}
	passed := r.batch.Tick()
	r.expectSoon(passed)
	alone := passed > gatherWithin
	if alone || !c.foresees() {
		r.process(c)
		return
	}
	c.gathered = true
	r.gathered = append(r.gathered, c)
	if len(r.gathered) < storage.PrefetchBatch {
		r.schedule()
	} else {
		r.executeGathered()
	}
}

// executeGathered executes what was gathered.
func (r *reactor) executeGathered() {
	if len(r.gathered) == 0 {
		return
	}
	r.batch.Tick()
	r.warm()
	for i, c := range r.gathered {
		r.gathered[i] = nil
		c.gathered = false
		if !c.parked {
			r.executeSent(c)
		}
	}
	r.gathered = r.gathered[:0]
	r.finish()
}

// expect says that a request of a connection comes soon.
func (r *reactor) expect(c *connection, request *execute.Request) {
	if !r.batch.Expect(c.session, request) {
		r.warm()
		r.batch.Expect(c.session, request)
	}
}

// warm has memory fetch what the requests that are expected will look for. Connections whose requests have to wait for
// the disk are parked, so that the others don't wait with them, and the disk works for many at once.
func (r *reactor) warm() {
	for _, cold := range r.batch.Warm() {
		c := cold.Session.Peer.(*connection)
		if r.server.engine.Load(cold, func() { r.post(func() { r.loaded(c) }) }) {
			c.loading++
			c.parked = true
		}
	}
}

func (r *reactor) loaded(c *connection) {
	if c.loading--; c.loading > 0 {
		return
	}
	c.parked = false
	r.process(c)
}

// process executes what a connection has sent, as far as it can.
func (r *reactor) process(c *connection) {
	r.batch.Tick()
	r.executeSent(c)
	r.finish()
}

// executeSent executes what a connection has sent, as far as it can, and leaves the replies to finish.
func (r *reactor) executeSent(c *connection) {
	defer r.contain(c)
	publish(&c.query, c.parser.Buffered())
	for !c.parked && !c.halting() && !c.closed {
		if r.overfull(c) {
			break
		}
		request, err := c.next()
		if err != nil {
			c.refuseProtocol(err)
			break
		}
		if request == nil {
			c.drained()
			break
		}
		if r.dispatch(c, request) {
			r.executed++
			r.load.now.requests++
		}
		if r.executed >= requestsPerCommit || c.session.Reply.Len() > repliesPerCommit {
			r.commit()
		}
	}
}

// finish lets the replies leave at once when there is nothing to commit, and else with all others of
// the pass.
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

// overfull pauses a connection that doesn't read its replies, so that they don't pile up.
func (r *reactor) overfull(c *connection) bool {
	waiting := c.conn.OutboundBuffered()
	if waiting <= r.server.outboundPause || waiting <= c.pauseAt() {
		return false
	}
	r.paused[c] = struct{}{}
	return true
}

// dispatch executes one request, or parks the connection until it can be executed.
func (r *reactor) dispatch(c *connection, request *execute.Request) bool {
	switch r.batch.Execute(c.session, request) {
	case execute.Busy:
		stripe := r.batch.BusyStripe()
		c.park(request)
		waiting := r.parked[stripe]
		r.parked[stripe] = append(waiting, c)
		r.commit()
		if len(waiting) == 0 {
			r.server.engine.Locks.Wait(stripe, r.batch.Owner(), r.granted)
		}
		return false
	case execute.Closed:
		c.park(request)
		r.outside = append(r.outside, c)
		r.commit()
		if len(r.outside) == 1 {
			r.server.engine.Gate.WhenOpen(func() { r.post(r.gateOpened) })
		}
		return false
	case execute.Offload:
		c.park(request)
		r.work = append(r.work, c)
		return false
	case execute.Separate:
		c.pending = request
		r.commit()
		return false
	case execute.Paused:
		c.park(request)
		r.halted = append(r.halted, c)
		r.commit()
		if len(r.halted) == 1 {
			r.server.engine.WhenUnpaused(func() { r.post(r.unpaused) })
		}
		return false
	}
	return true
}

// granted is called from wherever a lock became this reactor's.
func (r *reactor) granted(stripe uint32) {
	r.post(func() {
		r.batch.Adopt(stripe)
		r.schedule()
		waiting := r.parked[stripe]
		delete(r.parked, stripe)
		r.resume(waiting)
	})
}

func (r *reactor) gateOpened() {
	waiting := r.outside
	r.outside = nil
	r.resume(waiting)
}

func (r *reactor) unpaused() {
	waiting := r.halted
	r.halted = nil
	r.resume(waiting)
}

func (r *reactor) resume(waiting []*connection) {
	for _, c := range waiting {
		c.parked = false
		r.process(c)
	}
}

// commit commits what the reactor has executed, sends the replies, and lets workers begin with what
// is theirs.
func (r *reactor) commit() {
	r.executed = 0
	if !r.batch.Open() {
		r.startWork()
		return
	}
	err := r.batch.Commit()
	if err != nil {
		r.server.logger.Error("a commit failed", "error", err)
		r.batch.Undo(err)
	}
	members := r.batch.Members()
	again := make([]*connection, 0, 8)
	for i := range members {
		c := members[i].Session.Peer.(*connection)
		if err != nil {
			c.repeat(members[i].Requests)
			again = append(again, c)
			continue
		}
		c.flush()
	}
	r.batch.Clear()
	for _, c := range again {
		r.process(c)
	}
	r.startWork()
}

// end closes what isn't the loop's, and gives back the locks of what was executed when the loop ended; workers may wait for
// them. The replies can't leave any more.
func (r *reactor) end() {
	for _, c := range r.connections {
		c.drop()
	}
	if !r.batch.Open() {
		return
	}
	if err := r.batch.Commit(); err != nil {
		r.server.logger.Error("a commit failed", "error", err)
	}
	r.batch.Clear()
}

func (r *reactor) startWork() {
	if len(r.work) == 0 {
		return
	}
	work := r.work
	r.work = nil
	for _, c := range work {
		switch {
		case c.closed:
		case c.pending == nil: // it comes behind what has to be repeated
			c.parked = false
			r.process(c)
		default:
			c.working = true
			request := c.pending
			c.pending = nil
			go r.runWork(c, request)
		}
	}
}

// runWork runs a request on a goroutine of its own; the session is the worker's until it is done.
func (r *reactor) runWork(c *connection, request *execute.Request) {
	panicked := true
	defer func() {
		if p := recover(); panicked && p != nil {
			r.server.logger.Error("a command panicked; its connection is closed", "panic", p, "client", c.RemoteAddress(), "stack", string(debug.Stack()))
			c.session.Reply.Reset() // half of a reply
			c.session.CloseAfterReply()
		}
		r.post(func() { r.workDone(c) })
	}()
	if r.server.engine.Work(c.session, request) == execute.Paused {
		c.pending = request // the reactor finds out what it has to wait for
	}
	panicked = false
}

// workDone sends the reply that a worker has made, piece by piece, so that others are served between. It is another goroutine that
// asks for the next piece, since the loop goes on with what it is told to do by itself before it looks at sockets.
func (r *reactor) workDone(c *connection) {
	if !c.closed && !c.killed && c.sendPiece() {
		go r.post(func() { r.workDone(c) })
		return
	}
	c.working, c.parked = false, false
	if c.closed {
		r.server.forget(c)
		return
	}
	if c.killed {
		c.drop()
		return
	}
	c.flush()
	r.process(c)
}

// add and remove keep the list of connections.
func (r *reactor) add(c *connection) {
	c.place = len(r.connections)
	r.connections = append(r.connections, c)
	r.load.held.Store(int32(len(r.connections)))
}

func (r *reactor) remove(c *connection) {
	last := len(r.connections) - 1
	moved := r.connections[last]
	r.connections[c.place], moved.place = moved, c.place
	r.connections[last] = nil
	r.connections = r.connections[:last]
	r.load.held.Store(int32(last))
}

// tick looks after what no event tells of: replies that were read meanwhile, and clients that are idle.
func (r *reactor) tick(now time.Time) {
	r.load.now.followed = r.batch.Followed()
	r.load.turn()
	r.lookAfter(now)
	for c := range r.paused {
		waiting := c.conn.OutboundBuffered()
		switch {
		case c.session.Closing() && waiting > 0, waiting > c.pauseAt()/2:
			continue
		case c.session.Closing():
			c.drop()
		}
		delete(r.paused, c)
		r.process(c)
	}
}
