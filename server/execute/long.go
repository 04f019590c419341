package execute

import (
	"context"
	"sync"
	"time"

	"kedis/lock"
)

// longWork are the requests with scripts that workers run. Such a request may go on for seconds, or
// for ever, and holds the locks of its keys until it ends: who wants one of them, or all databases,
// waits for so long as busy-reply-threshold says, and is answered BUSY then. Nobody else waits: who
// wants all databases closes the gate only when no such request runs any more, and meanwhile none
// begins. Replication, which wants them and can't be answered, waits for as long as it takes; a
// script that comes behind it is answered BUSY for the one that it waits for.
type longWork struct {
	mu      sync.Mutex
	changed *sync.Cond
	running map[lock.Owner]*longRequest
	whole   *longRequest // has the databases to itself
	closing int          // who wants them, or has them
}

// longRequest is a request with a script that a worker runs.
type longRequest struct {
	began    time.Duration // with its locks, as Engine.Elapsed tells the time; 0: it waits for them
	function bool          // that is what it runs
}

// scriptWorkers is how many requests with scripts workers run at the same time. They have workers
// of their own, so that others find one.
const scriptWorkers = 8

const (
	ErrBusyScript   = Error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
	ErrBusyFunction = Error("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.")
)

// busy is what who waits for the request is answered when that takes too long.
func (r *longRequest) busy() error {
	if r.function {
		return ErrBusyFunction
	}
	return ErrBusyScript
}

func (l *longWork) init() {
	l.changed = sync.NewCond(&l.mu)
	l.running = map[lock.Owner]*longRequest{}
}

// longPart is a worker's batch's part in longWork.
type longPart struct {
	entered  *longRequest
	excludes bool
}

// enterLong makes the batch's request one of longWork, if it has a script, or has it wait until
// none runs, if it wants all databases. An error says that this takes too long.
func (b *Batch) enterLong() error {
	l := &b.engine.long
	switch {
	case b.plan.Everything && !b.long.excludes:
		b.leaveLong() // it has turned out that the script needs everything
		return l.exclude(b)
	case b.plan.Long && !b.plan.Everything && !b.plan.readsView() && b.long.entered == nil:
		return l.enter(b)
	}
	return nil
}

// awaitTurn waits for all that a worker's batch's request needs. An error says that a script is in
// its way for too long; some of it may be held then.
func (b *Batch) awaitTurn() error {
	if err := b.enterLong(); err != nil {
		return err
	}
	if err := b.locks.await(&b.plan, b.engine.patience); err != nil {
		return err
	}
	b.engine.long.begin(b)
	return nil
}

// patience has who waits for a script be answered BUSY when that takes too long.
func (e *Engine) patience(w Wait) (again time.Duration, refusal error) {
	threshold := e.busyThreshold()
	if threshold == 0 {
		return 0, nil
	}
	script, since := e.behind(w)
	if script == nil {
		return threshold, nil // which one that comes meanwhile can't pass before
	}
	left := since + threshold - e.Elapsed()
	if left <= 0 {
		return 0, script.busy()
	}
	return left, nil
}

// leaveLong ends what enterLong began.
func (b *Batch) leaveLong() {
	if b.long != (longPart{}) {
		b.engine.long.leave(b)
		b.long = longPart{}
	}
}

func (b *Batch) newLong() *longRequest {
	return &longRequest{function: b.plan.Functions}
}

// begin notes that a batch's request, if it is one of longWork, has its locks.
func (l *longWork) begin(b *Batch) { l.setBegan(b, b.engine.Elapsed()) }

// pause notes that it has given them back, and is to have them anew.
func (l *longWork) pause(b *Batch) { l.setBegan(b, 0) }

func (l *longWork) setBegan(b *Batch, at time.Duration) {
	if b.long.entered == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.long.entered.began = at
}

// since is when a request has begun to hold up others. One that waits for its locks does so now at
// the earliest. The mutex is held.
func (r *longRequest) since(e *Engine) time.Duration {
	if r.began == 0 {
		return e.Elapsed()
	}
	return r.began
}

// enter waits until nobody wants all databases. The error says that a script which has them, or is
// in the way of who wants them, is given up waiting for.
func (l *longWork) enter(b *Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.closing > 0 {
		if first := l.first(); !l.await(b.engine, first) {
			return first.busy()
		}
	}
	b.long.entered = b.newLong()
	l.running[b.locks.owner] = b.long.entered
	return nil
}

// exclude waits until no script runs; none begins until leave. The error says that this takes too
// long.
func (l *longWork) exclude(b *Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing++
	for first := l.first(); first != nil; first = l.first() {
		if !l.await(b.engine, first) {
			l.closing--
			l.changed.Broadcast()
			return first.busy()
		}
	}
	b.long.excludes = true
	if b.plan.Long {
		b.long.entered = b.newLong()
		l.whole = b.long.entered
		l.changed.Broadcast() // who waits in enter needs this script's deadline
	}
	return nil
}

// excludePatiently is exclude for who waits as long as it takes, or until ctx is done: then it
// returns false. readmit ends it.
func (l *longWork) excludePatiently(ctx context.Context) bool {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing++
	for l.first() != nil && ctx.Err() == nil {
		l.changed.Wait()
	}
	if ctx.Err() != nil {
		l.closing--
		l.changed.Broadcast()
		return false
	}
	return true
}

func (l *longWork) readmit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing--
	l.changed.Broadcast()
}

// first returns the request that has run for longest, and one that waits for its locks if there are
// only such; nil if there is none.
func (l *longWork) first() *longRequest {
	first := l.whole
	for _, r := range l.running {
		if first == nil || r.began != 0 && (first.began == 0 || r.began < first.began) {
			first = r
		}
	}
	return first
}

// await waits until something changes, or a request has run for too long: then it returns false.
// The mutex is held.
func (l *longWork) await(e *Engine, r *longRequest) bool {
	if threshold := e.busyThreshold(); r != nil && threshold > 0 {
		left := r.since(e) + threshold - e.Elapsed()
		if left <= 0 {
			return false
		}
		defer time.AfterFunc(left, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.changed.Broadcast()
		}).Stop()
	}
	l.changed.Wait()
	return true
}

func (l *longWork) leave(b *Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.long.excludes {
		l.closing--
	}
	switch r := b.long.entered; {
	case r == nil:
	case l.whole == r:
		l.whole = nil
	default:
		delete(l.running, b.locks.owner)
	}
	l.changed.Broadcast()
}

// busyThreshold is how long a script may hold up others; 0: as long as it likes.
func (e *Engine) busyThreshold() time.Duration {
	return time.Duration(e.Config.BusyReplyThreshold.Get()) * time.Millisecond
}

// behind returns the request with a script that a wait is for, and since when that holds up others;
// nil if it is for something else.
func (e *Engine) behind(w Wait) (script *longRequest, since time.Duration) {
	l := &e.long
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case w.Cause == ForGate:
		script = l.whole
	case w.Cause == ForLock && len(l.running) > 0:
		script = l.running[e.Locks.Holder(w.Stripe)]
	}
	if script != nil {
		since = script.since(e)
	}
	return script, since
}

// Overdue reports whether a wait is for a script that holds up others for too long: who waits is
// answered BUSY when he tries again.
func (e *Engine) Overdue(cause Cause, stripe uint32) bool {
	_, refusal := e.patience(Wait{Cause: cause, Stripe: stripe})
	return refusal != nil
}

// waitOut is the outcome of a request that has to wait for a lock or the gate. Who waits for a
// script waits in the same queue as for others, so those who come later can't pass him, and is
// answered BUSY when the script takes too long.
func (b *Batch) waitOut(c *Invocation, w Wait) Outcome {
	if b.budget > 0 && !b.repeat.applying {
		if _, refusal := b.engine.patience(w); refusal != nil {
			return b.turnDown(c.Session, c.Request, refusal)
		}
	}
	return c.Session.waits(w)
}
