package execute

import (
	"math"
	"sync/atomic"
	"time"

	"kedis/internal/resp"
)

// Wait is what has to happen before a request goes on. Nothing of the request is in the batch
// meanwhile, and no lock is held for it.
//
// Most waits end by themselves, and the request is executed again. A wait with Blocked is a client
// that waits for other clients: it has a deadline, and others may end it.
type Wait struct {
	Cause   Cause
	Stripe  uint32   // of the lock, for ForLock
	Blocked *Blocked // when not nil: the client counts as blocked

	begin func(wake func()) bool
}

// Cause is what a request waits for.
type Cause uint8

const (
	// ForLock: somebody else holds a lock.
	ForLock Cause = iota
	// ForGate: a command on whole databases runs.
	ForGate
	// ForPause: CLIENT PAUSE or a failover holds the request.
	ForPause
	// ForDisk: records are read from the disk.
	ForDisk
	// ForWorker: a worker is to run the request, and has when the wait ends.
	ForWorker
	// ForClients: other clients, or replicas, are to do something.
	ForClients
)

// Shared reports whether one end of such a wait is the end for all requests of a reactor that wait
// for the same.
func (w *Wait) Shared() bool { return w.Cause <= ForPause }

// Begin has wake called once when the wait ends, from any goroutine, perhaps before Begin returns.
// It returns false when there is nothing to wait for after all. What is waited for may be held by
// the batch of the caller, so that has to be committed first.
func (w *Wait) Begin(wake func()) bool { return w.begin(wake) }

// Answer writes the reply to a request that has waited.
type Answer func(reply *resp.Writer)

// Blocked is a client that waits for others. It ends once: whoever claims it first (what it waits
// for, its deadline, CLIENT UNBLOCK, the end of the connection) says what it is answered.
type Blocked struct {
	// Deadline is when the wait ends by itself, as Engine.Elapsed tells the time; 0: never.
	Deadline time.Duration
	// Expired is the answer at the deadline.
	Expired Answer
	// Again is when the request is executed again, unless the wait has ended before; 0: never. It
	// is then as if the client had just begun to wait, but for its deadline.
	Again time.Duration
	// Register tells those whom the client waits for to call End; Cancel has them forget it. Both
	// may be nil.
	Register func()
	Cancel   func()

	// When it waits for keys. Places don't move; what is in them, missed, arrival and queued are
	// guarded by blockedOnKeys.mu.
	queues  *blockedOnKeys
	wanted  WaitForKeys
	places  []placeInQueue
	one     [1]placeInQueue // memory of places
	missed  []*placeInQueue // whose keys others had to offer while it was reserved
	arrival int64           // rises with each client that comes
	queued  bool

	role int64 // role.changes when it was decided that the request may run
	// refusal is what the request is refused with at the deadline, instead of Expired. It waits for
	// nobody then who would serve it, and counts as no client that is blocked.
	refusal string

	// HeapIndex is the deadline's among those of the reactor, which keeps it.
	HeapIndex int

	session *Session
	request *Request
	state   atomic.Int32
	late    atomic.Pointer[lateEnd] // an end that came while it was reserved: release takes it up
	answer  Answer                  // nil: the request is executed again, unless there is a reply, or it is refused
	reply   []byte                  // that who served the client has composed
	failure string                  // the error that the answer is, or that the request is refused with; "" if it is none
	written int64                   // position in the log that the answer depends on
}

// lateEnd is how somebody has ended a wait while another had it reserved.
type lateEnd struct {
	answer  Answer
	failure string
}

// States of a Blocked. Who has it reserved ends it or frees it again.
const (
	blockedFree int32 = iota
	blockedReserved
	blockedEnded
)

// Ended reports whether somebody has claimed the wait.
func (b *Blocked) Ended() bool { return b.state.Load() == blockedEnded }

// isFree reports whether the client, which waits for keys, may be served. A kill can't claim the
// wait while somebody has it reserved, who may free it again. One that a worker has let wait is
// disconnected only by its reactor, when the server follows another meanwhile: to serve it from
// that one's stream would change what only the stream may.
func (b *Blocked) isFree() bool {
	return b.state.Load() == blockedFree && !b.session.Killed() && b.role == b.queues.engine.role.changes.Load()
}

// End claims the wait with an answer; nil has the request executed again. It returns false when
// another was faster. While somebody has the wait reserved it ends in any case: with this answer,
// unless the client is served. It may be called from any goroutine.
func (b *Blocked) End(answer Answer) bool {
	return b.end(answer, "")
}

// Fail is End with an error.
func (b *Blocked) Fail(err error) bool {
	text := err.Error()
	return b.end(func(reply *resp.Writer) { reply.Error(text) }, text)
}

func (b *Blocked) end(answer Answer, failure string) bool {
	if !b.claim(answer, failure) {
		if b.Ended() {
			return false
		}
		b.late.CompareAndSwap(nil, &lateEnd{answer, failure})
		if !b.claimLate() { // else it was freed before there was what release looks for
			return true
		}
	}
	b.session.Peer.Unblock(b)
	return true
}

// claimLate takes up an end that came while the wait was reserved.
func (b *Blocked) claimLate() bool {
	late := b.late.Load()
	return late != nil && b.claim(late.answer, late.failure)
}

// Until is when the reactor that has the client ends the wait; 0: never.
func (b *Blocked) Until() time.Duration {
	if b.runsAgain() {
		return b.Again
	}
	return b.Deadline
}

func (b *Blocked) runsAgain() bool { return b.Again != 0 && (b.Deadline == 0 || b.Again < b.Deadline) }

// Expire ends the wait, for the reactor that has the client, when its time has come.
func (b *Blocked) Expire() bool {
	if b.runsAgain() {
		return b.claim(nil, "")
	}
	return b.claim(b.Expired, b.refusal)
}

// Abandon ends the wait of a client that is gone, or of a request that is executed again.
func (b *Blocked) Abandon() {
	b.claim(nil, "")
	b.session.blocked.Store(nil)
	b.cancel()
}

func (b *Blocked) claim(answer Answer, failure string) bool {
	if !b.state.CompareAndSwap(blockedFree, blockedReserved) {
		return false
	}
	b.answer, b.failure = answer, failure
	b.state.Store(blockedEnded)
	return true
}

// register tells those whom the client waits for; cancel has them forget it.
func (b *Blocked) register() {
	if b.queues != nil {
		b.queues.enter(b)
	}
	if b.Register != nil {
		b.Register()
	}
}

func (b *Blocked) cancel() {
	if b.queues != nil {
		b.queues.leave(b)
	}
	if b.Cancel != nil {
		b.Cancel()
	}
}

// MayBlock reports whether the request may wait for other clients: not inside of another one, nor
// when it is repeated from the log.
func (c *Invocation) MayBlock() bool { return !c.Nested() && !c.Applying() }

// Settled reports whether nothing that the batch has executed waits for a commit. What is to be
// known of earlier requests, such as their position in the log, is known then.
func (c *Invocation) Settled() bool { return c.batch.settled() }

func (b *Batch) settled() bool { return b.txn.Empty() && len(b.members.list) == 0 }

// Settle, returned by a command on a reactor, has it run again when everything before it is
// committed.
func (c *Invocation) Settle() error { return errSeparate }

// Seal has what comes behind the request join another batch: it has effects outside of the
// transaction, as a NoBatch command.
func (c *Invocation) Seal() { c.batch.running.sealed = true }

// MayBeUnfinished reports whether the request may do a part of its work in a commit of its own: on
// a worker, and not inside of another one.
func (c *Invocation) MayBeUnfinished() bool { return !c.Nested() && !c.OnReactor() && !c.Applying() }

// Unfinished, returned by a command that MayBeUnfinished, has what it has written committed, and
// the command run again when others have had their turn. What it writes must be a change that no
// client sees.
func (c *Invocation) Unfinished() error { return errUnfinished }

// MayKeep reports whether the request may keep what it has written, though it waits then: it may
// block, and hasn't kept anything yet.
func (c *Invocation) MayKeep() bool { return c.MayBlock() && !c.Session.kept }

// Keep, returned by a command that MayKeep, has what it has written committed, and the command run
// again at once.
func (c *Invocation) Keep() error {
	c.Session.kept = true
	return errUnfinished
}

// Block has the client wait: the command returns what Block returns. It may do so if MayBlock says
// so. When the wait ends without an answer, the command runs again, and keeps its first deadline.
func (c *Invocation) Block(blocked *Blocked) error {
	if !c.MayBlock() {
		panic("execute: a request waits that may not")
	}
	if !c.Settled() {
		return errSeparate
	}
	s := c.Session
	blocked.session, blocked.request, blocked.role = s, c.Request, c.batch.roleThen
	if s.waited {
		blocked.Deadline = s.waitsUntil
	} else {
		begun := &c.batch.running.shown
		*begun = Execution{Request: c.Request, Session: s, Database: c.selected, Redacted: c.redacted, Began: c.Now}
		c.Engine.Observer.Begin(begun)
	}
	s.waited, s.waitsUntil = true, blocked.Deadline
	s.waits(Wait{Cause: ForClients, Blocked: blocked, begin: func(func()) bool { return true }})
	blocked.register()
	if s.HungUp() {
		s.Unblock(nil)
	}
	if s.Closing() { // on a worker: the connection may be gone
		s.AbandonWait()
	}
	return errBlocked
}

// refuseAt has a request wait and be refused at a time (Engine.Elapsed), unless it may run before.
func (b *Batch) refuseAt(s *Session, r *Request, at time.Duration, refusal error) Outcome {
	return s.waits(Wait{Cause: ForClients, begin: func(func()) bool { return true },
		Blocked: &Blocked{Deadline: at, refusal: refusal.Error(), session: s, request: r, role: b.engine.role.changes.Load()}})
}

const (
	// errBlocked is what the function of a command returns that called Block.
	errBlocked = Error("the client waits")
	// errUnfinished has what a command has written committed, and the command run again.
	errUnfinished = Error("the command has done a part")
	// errSeparate has what was executed committed before the command.
	errSeparate = Error("the command runs when those before it are committed")
)

// waits is the outcome of a request that waits. Who ends the waits of clients finds a Blocked from
// now on, though it is noted by a worker: what has happened to the client before, Block looks at.
func (s *Session) waits(w Wait) Outcome {
	s.wait = w
	if w.Blocked != nil {
		s.blocked.Store(w.Blocked)
	}
	return Waiting
}

// Wait is what the request waits for that was executed last.
func (s *Session) Wait() *Wait { return &s.wait }

// Waiting reports whether the request that a worker has executed waits for something.
func (s *Session) Waiting() bool { return s.wait.begin != nil }

// BeginWait notes that a session's request has begun to wait, when it counts as blocked.
func (e *Engine) BeginWait(s *Session) {
	w := &s.wait
	switch {
	case w.Blocked != nil:
		if w.Blocked.role != e.role.changes.Load() { // whoever changed it may not have seen the session
			e.role.disconnect(s)
		}
	case w.Cause == ForPause:
		s.paused.Store(true)
	}
}

// EndWait notes that what the session's request has waited for has ended.
func (s *Session) EndWait() {
	w := &s.wait
	switch {
	case w.Blocked != nil:
		s.blocked.Store(nil)
		w.Blocked.cancel()
		s.wait = Wait{}
	case w.Cause == ForPause:
		s.paused.Store(false)
	}
}

// Unblock ends a session's wait for others as its deadline would, or with an error; false says that
// it doesn't wait for any.
func (s *Session) Unblock(reply error) bool {
	blocked := s.blocked.Load()
	switch {
	case blocked == nil || blocked.refusal != "":
		return false
	case reply == nil:
		return blocked.end(blocked.Expired, "")
	}
	return blocked.Fail(reply)
}

// Paused reports whether the session's request waits for the end of a pause.
func (s *Session) Paused() bool { return s.paused.Load() }

// isBlocked reports whether the session counts as blocked.
func (s *Session) isBlocked() bool {
	blocked := s.blocked.Load()
	return blocked != nil && blocked.refusal == "" && !blocked.Ended() || s.paused.Load()
}

// hasDeadline reports whether the session waits for others, and not for ever.
func (s *Session) hasDeadline() bool {
	blocked := s.blocked.Load()
	return blocked != nil && blocked.refusal == "" && blocked.Deadline != 0 && !blocked.Ended()
}

// AbandonWait has nobody serve the session any more: its connection is about to be closed.
func (s *Session) AbandonWait() {
	if blocked := s.blocked.Load(); blocked != nil {
		blocked.claim(nil, "")
	}
}

// HangUp notes that the client sends no more. It can't be told from one that is gone, so nobody
// else is waited for on its behalf: it is answered as if its time were over.
func (s *Session) HangUp() {
	s.hungUp.Store(true)
	if blocked := s.blocked.Load(); blocked != nil {
		blocked.end(blocked.Expired, blocked.refusal)
	}
}

// HungUp reports whether the client sends no more.
func (s *Session) HungUp() bool { return s.hungUp.Load() }

// Answered ends a request whose wait is over. It reports whether the reply is composed, which may
// leave at once; else the request is to be executed again.
func (b *Batch) Answered(s *Session, r *Request, blocked *Blocked) bool {
	mark := s.Reply.Mark()
	b.running.begin(r)
	switch {
	case blocked.reply != nil:
		s.Reply.Raw(blocked.reply)
	case blocked.answer != nil:
		blocked.answer(s.Reply)
	case blocked.failure != "":
		s.answered(r)
		b.turnDown(s, r, Error(blocked.failure))
		b.finishReply(s, mark)
		return true
	default:
		return false
	}
	s.Written = max(s.Written, blocked.written)
	if b.engine.Synchronous.active.Load() {
		s.depends = max(s.depends, blocked.written)
	}
	s.answered(r)
	b.running.shown = Execution{Request: r, Session: s, Database: s.Database, Began: b.engine.Now(), Begun: true, failure: blocked.failure}
	b.account(&b.running.shown)
	b.running.shown = Execution{}
	b.finishReply(s, mark)
	return true
}

// Elapsed is the time since the engine was made, by the monotonic clock.
func (e *Engine) Elapsed() time.Duration {
	now, _ := e.clock.now()
	return time.Duration(now)
}

// After is when so much time has passed, as Elapsed tells it; no later than can be told.
func (e *Engine) After(wait time.Duration) time.Duration {
	now := e.Elapsed()
	return now + min(wait, math.MaxInt64-now)
}
