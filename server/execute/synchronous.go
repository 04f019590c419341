package execute

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/psync"
	"kedis/lock"
)

// synchronous says how far replicas have to be before a reply may leave. With synchronous-replicas
// N a reply, message or notification waits until N replicas have everything that it depends on, so
// no client sees what a failover to one of them would lose. Requests of other connections go on
// meanwhile, and no lock is held.
//
// A write depends on the position behind its effects. A read depends on the position behind the
// last write under each of its locks' stripes. What reads more than it locks depends on all that
// was committed before. Package server holds the replies back.
type synchronous struct {
	active   condition                                  // somebody waits for replicas
	written  atomic.Pointer[[lock.Stripes]atomic.Int64] // position behind the last write under a stripe; made when first needed
	all      atomic.Int64                               // position that every read depends on: behind the last write of all keys
	reached  atomic.Int64                               // position that as many replicas have as the configuration asks for
	messages messagesHeld

	mu  sync.Mutex            // held while active changes
	own map[*Session]struct{} // those with a number of their own
	// Reconsider has the server look again at the replies that it holds back: the configuration or
	// the role is another. It is set before anything is executed.
	Reconsider func()
}

// initSynchronous takes up the configuration.
func (e *Engine) initSynchronous() {
	change := func() error {
		e.configureSynchronous()
		return nil
	}
	e.Synchronous.own = map[*Session]struct{}{}
	e.Config.OnChange("synchronous-replicas", change)
	e.configureSynchronous()
}

func (e *Engine) configureSynchronous() {
	y := &e.Synchronous
	y.reached.Store(0)
	e.activateSynchronous()
	e.deliverReached()
	if y.Reconsider != nil {
		y.Reconsider()
	}
}

// activateSynchronous begins or ends to note what is written. What was written before isn't known
// by stripe: everything depends on it. A commit that doesn't see active yet has a position before
// that.
func (e *Engine) activateSynchronous() {
	y := &e.Synchronous
	y.mu.Lock()
	defer y.mu.Unlock()
	active := e.Config.SynchronousReplicas.Get() > 0 || len(y.own) > 0
	if y.active.Load() == active {
		return
	}
	if !active {
		y.active.Store(false)
		return
	}
	y.written.CompareAndSwap(nil, new([lock.Stripes]atomic.Int64))
	y.active.Store(true)
	y.raise(e.Store.Position())
}

// leaveSynchronous ends the time as a primary. Replies that as many replicas have as they wait for
// may still leave; for others nobody knows.
func (e *Engine) leaveSynchronous() {
	y := &e.Synchronous
	if !y.active.Load() {
		return
	}
	e.deliverReached()
	y.messages.forget()
	if y.Reconsider != nil {
		y.Reconsider()
	}
}

// beginSynchronous begins another time as a primary: positions of the last one may lie behind the
// log's end.
func (e *Engine) beginSynchronous() {
	y := &e.Synchronous
	y.reached.Store(0)
	if y.written.Load() != nil {
		y.written.Store(new([lock.Stripes]atomic.Int64))
		y.all.Store(e.Store.Position())
	}
}

// raise has everything depend on a position.
func (y *synchronous) raise(position int64) {
	for {
		all := y.all.Load()
		if position <= all || y.all.CompareAndSwap(all, position) {
			return
		}
	}
}

// ConfiguredReplicas is a session's number of replicas when it has none of its own.
const ConfiguredReplicas = -1

// WaitForReplicas has the session's replies wait for a number of replicas of its own, or for
// ConfiguredReplicas. Those to the requests before have to leave first, by the number of then: an
// error is to be returned, and the request runs again behind them. A request inside of another one
// runs on a worker, which begins when they have left.
func (c *Invocation) WaitForReplicas(replicas int) error {
	if c.Session.replicas == replicas {
		return nil
	}
	if !c.Nested() && !c.Settled() {
		return c.Settle()
	}
	c.Engine.setReplicas(c.Session, replicas)
	return nil
}

func (e *Engine) setReplicas(s *Session, replicas int) {
	s.replicas = replicas
	y := &e.Synchronous
	y.mu.Lock()
	if replicas > 0 {
		y.own[s] = struct{}{}
	} else {
		delete(y.own, s)
	}
	y.mu.Unlock()
	e.activateSynchronous()
}

// forgetReplicas is WaitForReplicas for a session that ends.
func (e *Engine) forgetReplicas(s *Session) {
	if s.replicas > 0 {
		e.setReplicas(s, ConfiguredReplicas)
	}
}

// wantedReplicas is how many replicas have to have what a session is told.
func (e *Engine) wantedReplicas(s *Session) int {
	if s.replicas >= 0 {
		return s.replicas
	}
	return int(e.Config.SynchronousReplicas.Get())
}

// noteWritten notes what a batch has written, before its locks are given back.
func (b *Batch) noteWritten(position int64) {
	y := &b.engine.Synchronous
	if b.locks.reopen != nil {
		y.raise(position)
		return
	}
	written := y.written.Load()
	for _, stripe := range b.locks.exclusive {
		written[stripe].Store(position)
	}
}

// noteDependence notes what the reply to a request depends on. The locks are held, but for a
// request that has read from a view.
func (b *Batch) noteDependence(s *Session, r *Request, planned bool) {
	y := &b.engine.Synchronous
	if !y.active.Load() || b.repeat.applying || b.onReplica || !showsData(r) {
		return
	}
	switch {
	case planned && b.plan.Writes && !b.txn.Empty(): // on the commit, which lies behind all that it has seen
	case b.view != nil, planned && b.readsMore():
		s.depends = max(s.depends, b.engine.Store.Position())
	case planned:
		s.depends = max(s.depends, b.lastWritten())
	}
	s.uncommitted = s.uncommitted || !planned || b.plan.Writes || b.locks.met || len(b.running.turnedUp) > 0
	if b.engine.Config.SynchronousReads.Get() {
		// Replicas acknowledge what lies behind this position only when they are asked after the
		// read: the server was still their primary then.
		s.depends = max(s.depends, b.engine.Store.Position()+1)
	}
}

// showsData reports whether a reply may depend on data: not that of INFO, CLIENT or PSYNC.
func showsData(r *Request) bool {
	return r.flags&(Write|ReadOnly) != 0 || r.Command.RunsQueue || r.Command.RunsScript
}

// readsMore reports whether the request may have read what its plan doesn't lock.
func (b *Batch) readsMore() bool {
	return b.plan.Everything || b.plan.Walk || b.plan.Follow || len(b.plan.locks) == 0 || len(b.running.turnedUp) > 0 || b.running.readMore
}

// lastWritten is the position behind the last write under one of the plan's locks.
func (b *Batch) lastWritten() int64 {
	y := &b.engine.Synchronous
	last, written := y.all.Load(), y.written.Load()
	for _, l := range b.plan.locks {
		last = max(last, written[l.stripe].Load())
	}
	return last
}

// dependOnCommit has a session's reply depend on what was committed.
func (s *Session) dependOnCommit(position int64) {
	if s.uncommitted {
		s.uncommitted = false
		s.depends = max(s.depends, position)
	}
}

// Held is what a session's composed replies wait for: so many replicas that have everything up to a
// position. No replicas: they may leave.
func (e *Engine) Held(s *Session) (replicas int, position int64) {
	if s.depends == 0 {
		return 0, 0
	}
	replicas, position = e.wantedReplicas(s), s.depends
	if replicas == 0 || e.reached(replicas) >= position {
		s.depends = 0
		return 0, 0
	}
	return replicas, position
}

// reached is the position up to which so many replicas have everything; for the configured number
// it is the one that was last asked for.
func (e *Engine) reached(replicas int) int64 {
	if replicas == int(e.Config.SynchronousReplicas.Get()) {
		return e.Synchronous.reached.Load()
	}
	return e.role.part.Reached(replicas)
}

// Reached is the position up to which so many replicas have everything.
func (e *Engine) Reached(replicas int) int64 {
	position := e.role.part.Reached(replicas)
	if replicas == int(e.Config.SynchronousReplicas.Get()) {
		e.Synchronous.reached.Store(position)
	}
	return position
}

// SynchronousTimeout is for how long replies wait for replicas; 0: for ever.
func (e *Engine) SynchronousTimeout() time.Duration {
	return time.Duration(e.Config.SynchronousTimeout.Get()) * time.Millisecond
}

// errUnknownOutcome is the reply when too few replicas have acknowledged in time.
const errUnknownOutcome = Error("NOREPLICAS Too few replicas have acknowledged in time. Writes that were not acknowledged may or may not last.")

// GiveUp replaces the session's composed replies by the error that their outcome is unknown, and
// has the connection closed behind it: nobody could tell which request an error stands for.
func (e *Engine) GiveUp(s *Session) {
	e.CountError(string(errUnknownOutcome))
	s.depends = 0
	s.Reply.Reset()
	s.Reply.Error(string(errUnknownOutcome))
	s.CloseAfterReply()
}

// requireSynchronousReplicas keeps writes out while fewer replicas are connected than have to
// acknowledge them.
func requireSynchronousReplicas(b *Batch, s *Session, r *Request) error {
	e := b.engine
	if !e.Synchronous.active.Load() || b.repeat.applying || e.IsReplica() {
		return nil
	}
	if wanted := e.wantedReplicas(s); wanted > 0 && e.writesNow(s, r) && e.role.part.Online() < wanted {
		return Error("NOREPLICAS Not enough replicas are connected to acknowledge the write.")
	}
	return nil
}

// messagesHeld are published messages that wait for replicas, in the order of their commits.
type messagesHeld struct {
	mu      sync.Mutex
	waiting []heldMessages
	cancel  func() // the wait for the first; nil: there is none
}

type heldMessages struct {
	position int64
	messages []Message
}

// holdsMessages reports whether messages of a primary's batch wait for replicas: of one that wrote
// always, since its replicas may have gone away behind its admission; of another one while there
// are replicas, and when the server has become one meanwhile, and has sent its own away.
func (e *Engine) holdsMessages(wrote bool) bool {
	return e.Synchronous.active.Load() && e.Config.SynchronousReplicas.Get() > 0 && (wrote || e.HasReplicas() || e.IsReplica())
}

// deliverWhenReached sends messages once replicas have reached a position. It drops them if the
// server has become a replica, as forget drops those that were waiting at that time.
func (e *Engine) deliverWhenReached(messages []Message, position int64) {
	m := &e.Synchronous.messages
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.IsReplica() {
		return
	}
	m.waiting = append(m.waiting, heldMessages{position, messages})
	if len(m.waiting) == 1 {
		e.awaitMessages()
	}
}

// awaitMessages waits until replicas have the write behind the first message. It needs messages.mu
// to be held.
func (e *Engine) awaitMessages() {
	m, wanted := &e.Synchronous.messages, int(e.Config.SynchronousReplicas.Get())
	m.cancel = e.role.part.WhenAcknowledged(m.waiting[0].position, func(a psync.Acknowledged) bool { return a.Replicas >= wanted },
		func(psync.Acknowledged) { go e.deliverReached() })
}

// deliverReached sends what as many replicas have as are configured now.
func (e *Engine) deliverReached() {
	m := &e.Synchronous.messages
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return
	}
	m.cancel()
	reached := int64(math.MaxInt64)
	if wanted := int(e.Config.SynchronousReplicas.Get()); wanted > 0 {
		reached = e.Reached(wanted)
	}
	for len(m.waiting) > 0 && m.waiting[0].position <= reached {
		e.deliver(m.waiting[0].messages)
		m.waiting[0] = heldMessages{}
		m.waiting = m.waiting[1:]
	}
	if len(m.waiting) > 0 {
		e.awaitMessages()
	}
}

// forget throws away what was held: the server is no primary any more.
func (m *messagesHeld) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) > 0 {
		m.cancel()
		m.waiting = nil
	}
}
