package execute

import (
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kedis/lock"
	"kedis/storage"
)

// workers run what would take a reactor too long. Each has a token: an owner of locks and a door
// of the gate.
type workers struct {
	count int
	door  int // the first worker's

	mu      sync.Mutex
	free    []token
	waiting []waiter   // who wants a token, the first that came first
	stopped chan token // those that stop has taken; nil before

	streamApplier token // of what applies a primary's stream
}

type token struct {
	owner lock.Owner
	door  int
	of    *workers
}

// waiter is who wants a token.
type waiter struct {
	begin   func(token)
	session *Session // whose request is to run; nil: none that may give up
	dropped func()   // is called instead of begin when it gives up
}

func (w *workers) start(reactors, count int) {
	w.count, w.door = count, reactors
	w.streamApplier = token{lock.Owner(reactors + count + 1), reactors + count, w}
	for i := range count {
		w.free = append(w.free, token{lock.Owner(reactors + i + 1), reactors + i, w})
	}
}

// whenFree has a waiter begin with a token, at once or when one is given back.
func (w *workers) whenFree(waits waiter) {
	w.mu.Lock()
	last := len(w.free) - 1
	if last < 0 {
		w.waiting = append(w.waiting, waits)
		w.mu.Unlock()
		return
	}
	t := w.free[last]
	w.free = w.free[:last]
	w.mu.Unlock()
	waits.begin(t)
}

// giveUp has a session's request, if it waits for a token, wait no longer.
func (w *workers) giveUp(s *Session) (dropped func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.IndexFunc(w.waiting, func(waits waiter) bool { return waits.session == s })
	if at < 0 {
		return nil
	}
	dropped = w.waiting[at].dropped
	w.waiting = slices.Delete(w.waiting, at, at+1)
	return dropped
}

// LeaveWorkers ends a session's wait for a worker, if it waits for one, as if the worker hadn't
// begun: its client is gone. All workers may be busy for long, and what the client has sent would
// stay in memory.
func (e *Engine) LeaveWorkers(s *Session) {
	for _, pool := range []*workers{&e.workers, &e.scripts} {
		if dropped := pool.giveUp(s); dropped != nil {
			s.wait = Wait{}
			dropped()
		}
	}
}

// take waits for a token.
func (w *workers) take() token {
	t, _ := w.takeUnless(nil) // which nothing ends
	return t
}

// takeUnless waits for a token until the server stops: then it returns false, and the token that it
// is given when its turn comes is the next one's.
func (w *workers) takeUnless(stopped <-chan struct{}) (t token, taken bool) {
	given := make(chan token, 1)
	var gone atomic.Bool
	passOn := func() {
		select {
		case t := <-given:
			w.give(t)
		default:
		}
	}
	w.whenFree(waiter{begin: func(t token) {
		if given <- t; gone.Load() {
			passOn()
		}
	}})
	select {
	case t = <-given:
		return t, true
	case <-stopped:
		gone.Store(true)
		passOn() // one of the two finds it
		return token{}, false
	}
}

// give gives a token back.
func (w *workers) give(t token) {
	w.mu.Lock()
	if len(w.waiting) == 0 {
		w.free = append(w.free, t)
		w.mu.Unlock()
		return
	}
	next := w.waiting[0]
	w.waiting[0] = waiter{}
	w.waiting = w.waiting[1:]
	w.mu.Unlock()
	next.begin(t)
}

// stop waits until nobody works any more, and lets nobody begin: a worker reads the store. It gives
// up after a while, and may be called again.
func (w *workers) stop(within time.Duration) (stopped bool) {
	over := time.After(within)
	if w.stopped == nil {
		stopped := make(chan token, w.count)
		for range w.count {
			w.whenFree(waiter{begin: func(t token) { stopped <- t }})
		}
		w.stopped = stopped
	}
	for ; w.count > 0; w.count-- {
		select {
		case <-w.stopped:
		case <-over:
			return false
		}
	}
	return true
}

// offload is the outcome of a request that a worker is to run.
func (b *Batch) offload(c *Invocation) Outcome {
	e, s, r := b.engine, c.Session, c.Request
	pool := &e.workers
	if b.plan.Long {
		pool = &e.scripts
	}
	return s.waits(Wait{Cause: ForWorker, begin: func(wake func()) bool {
		e.onceAdmitted(s, func(end func()) {
			pool.whenFree(waiter{
				begin:   func(t token) { go e.runOn(t, s, r, end, wake) },
				session: s,
				dropped: func() { end(); wake() },
			})
		})
		return true
	}})
}

// runOn runs a session's request on a worker, whose goroutine this is. The session is the worker's
// until wake is called.
func (e *Engine) runOn(t token, s *Session, r *Request, end, wake func()) {
	defer wake()
	defer end()
	if s.Killed() { // while it waited for the worker
		s.wait = Wait{}
		t.of.give(t)
		return
	}
	panicked := true
	defer func() {
		if p := recover(); panicked && p != nil {
			e.Logger.Error("a command panicked; its connection is closed", "panic", p, "client", s.Peer.RemoteAddress(), "stack", string(debug.Stack()))
			s.Reply.Reset() // half of a reply
			s.CloseAfterReply()
		}
	}()
	e.run(t, s, r)
	panicked = false
}

// Work runs a request on the calling goroutine, which may wait: for a worker's token, for locks,
// for the gate. The session is the caller's meanwhile, and the reply is complete, and durable, when
// it returns Done. When it returns Waiting nothing has happened: the request waits for
// Session.Wait.
func (e *Engine) Work(s *Session, r *Request) Outcome {
	admitted := make(chan func(), 1)
	e.onceAdmitted(s, func(end func()) { admitted <- end })
	defer (<-admitted)()
	return e.run(e.workers.take(), s, r)
}

// run is Work with a token, which it gives back.
func (e *Engine) run(t token, s *Session, r *Request) (outcome Outcome) {
	e.Statistics.Offloads.Add(1)
	s.wait = Wait{}
	txn, _ := e.spareTxns.Get().(*storage.Txn)
	if txn == nil {
		txn = e.Store.NewTxn()
	}
	e.withToken(t, e.newBatch(0, e.workers.door, 0, txn), func(b *Batch) {
		mark := s.Reply.Mark()
		if outcome = b.work(s, r); outcome == Done {
			b.finishReply(s, mark)
			s.answered(r)
			s.wait = Wait{}
			e.spareTxns.Put(txn) // its memory has grown to what such commands need
		}
	})
	return outcome
}

// onWorker runs something with a worker's token and a batch that is used again and again, by one
// goroutine at a time. It does nothing when the server stops before there is a token.
func (e *Engine) onWorker(b *Batch, run func(b *Batch)) {
	if t, taken := e.workers.takeUnless(e.stopped); taken {
		e.withToken(t, b, run)
	}
}

func (e *Engine) withToken(t token, b *Batch, run func(b *Batch)) {
	b.locks.owner, b.locks.door = t.owner, t.door
	defer func() { t.of.give(token{b.locks.owner, b.locks.door, t.of}) }() // it may have got another one of them meanwhile
	panicked := true
	defer func() {
		if panicked {
			b.surrender()
		}
	}()
	run(b)
	panicked = false
}

// surrender takes back what isn't committed, and gives back all that the batch holds.
func (b *Batch) surrender() {
	b.takeBack()
	b.giveUp()
}

// takeBack takes back what isn't committed, with what waits for the commit: else clients would be
// told, and libraries of functions changed, by what has not happened.
func (b *Batch) takeBack() {
	b.running.reset()
	b.running.underway = false
	b.txn.Reset()
}

// work executes one request from its plan to its commit.
func (b *Batch) work(s *Session, r *Request) Outcome {
	if refusal := b.admit(s, r); refusal != nil {
		b.refuse(s, r, refusal)
		return Done
	}
	mark, state := s.Reply.Mark(), s.State
	r.locate(b.engine.Store, s.Database)
	c := b.prepare(s, r)
	if err := b.makePlan(c); err != nil {
		b.failPlan(c, err)
		return Done
	}
	defer b.releaseView()
	defer b.leaveLong()
	ranked := s.worked.ranked
	s.worked.ranked = false
	defer func() { s.worked.order = nil }()
	for round := 0; ; round++ {
		if round > 0 && r.further.any() {
			if err := b.makePlan(c); err != nil {
				b.failPlan(c, err)
				return Done
			}
		}
		if refusal := b.awaitTurn(); refusal != nil {
			b.giveUp()
			b.refuse(s, r, refusal)
			return Done
		}
		if b.cameTooLate(s) {
			b.giveUp()
			return Done
		}
		if b.barred(s, r) {
			b.giveUp()
			refusal := refuseWritesOnReplica(b, s, r)
			if refusal == nil {
				return s.waits(b.engine.Pause.wait())
			}
			b.refuse(s, r, refusal)
			return Done
		}
		b.Tick()
		outcome := b.attempt(c, ranked, round)
		if outcome == Done {
			break
		}
		b.engine.long.pause(b)
		b.giveUp()
		b.releaseView()
		if outcome == Waiting && s.wait.Blocked != nil {
			return Waiting
		}
	}
	b.noteDependence(s, r, true)
	b.commitWork(c, mark, &state)
	s.uncommitted = false
	return Done
}

// commitWork commits what a worker's request has done. When that fails, the error is the reply,
// which begins at a mark, and the session is as it was, unless the writes stand in doubt.
func (b *Batch) commitWork(c *Invocation, mark int, before *State) {
	s, wrote := c.Session, !b.txn.Empty()
	err := b.Commit()
	if stands(err) && wrote {
		s.dependOnCommit(b.engine.Store.Position())
	}
	if err == nil {
		return
	}
	s.Reply.Rewind(mark)
	if stands(err) {
		c.Fail(logFailed(err))
		b.engine.CountError(c.failure)
		return
	}
	b.running.outbox.pushed = b.running.outbox.pushed[:0]
	s.restore(*before)
	b.refuse(s, c.Request, logFailed(err))
}

// countedAtOnce is how many members of a sorted set are counted while others wait for its lock.
// Should the counts be displaced again and again before they are complete, it becomes more, so that
// there is an end to it.
const (
	countedAtOnce    = 10000
	roundsToDoubling = 256
)

// attempt runs a command under its locks, or, when it only reads, from a view. Waiting: it has
// counted a part of a sorted set, and goes on when others have had their turn, or its client waits
// for others.
func (b *Batch) attempt(c *Invocation, ranked bool, round int) Outcome {
	most := countedAtOnce << min(round/roundsToDoubling, 30)
	if !b.plan.readsView() {
		if !b.plan.Everything && !standsAlone(c.Session, c.Request) {
			b.txn.CountAtMost(most)
		}
		return b.run(c)
	}
	if ranked { // a view has no counts but those that were made before it
		b.txn.CountAtMost(most)
		b.budget = reactorBudget
		outcome := b.run(c)
		b.budget = 0
		if outcome == Done || b.running.counting {
			return outcome
		}
		b.txn.CountAtMost(0)
	}
	b.rememberView(c)
	if !b.plan.Walk { // nobody writes to what it reads before there is a view
		b.txn.KeepOrder(c.Session.worked.order)
	}
	b.readFromView()
	if !standsAlone(c.Session, c.Request) { // a half of what it does outside of the transaction would stay
		b.unwanted = &c.Session.unwanted
	}
	return b.run(c)
}

// giveUp gives locks back, and commits what Invocation.Unfinished has left in the transaction.
// Nothing else is there.
func (b *Batch) giveUp() {
	if err := b.Commit(); err != nil {
		b.engine.Logger.Error("giving locks back", "error", err)
	}
}

// readFromView lets the command go on without locks, on the data as they are now.
func (b *Batch) readFromView() {
	b.view = b.engine.Store.View()
	b.txn.ReadFrom(b.view)
	b.locks.releaseStripes()
	b.locks.leave()
}

// ReadBeside returns the selected database as it is now, for a command that writes under locks and
// reads more than they are for. Nobody who has one of those locks can tell that the rest was read
// before: he was done before, or begins when the command is done. The function that is returned
// ends it.
func (c *Invocation) ReadBeside() (db storage.DB, end func()) {
	if c.Nested() || c.Applying() { // nothing else runs, and what the transaction has written is to be seen
		return c.DB.Reading(), func() {}
	}
	view, txn := c.Engine.Store.View(), c.Engine.Store.NewTxn()
	txn.Begin(storage.Mode{Notify: c.Txn.Mode().Notify}, c.Now, 0)
	txn.ReadFrom(view)
	return txn.DB(c.selected), func() {
		c.Txn.Notifications().Append(txn.Notifications())
		c.Txn.AddLookups(txn.Lookups())
		txn.Reset()
		view.Release()
	}
}

func (b *Batch) releaseView() {
	if b.view != nil {
		b.view.Release()
		b.view, b.unwanted = nil, nil
	}
}

// Yield runs what waits for others: neither the gate nor a worker's token is held meanwhile. The
// command runs on a worker, and holds no locks.
func (c *Invocation) Yield(wait func()) { c.batch.yield(wait) }

// yield is Yield. The batch is a worker's.
func (b *Batch) yield(wait func()) {
	e := b.engine
	b.locks.leave()
	e.workers.give(token{b.locks.owner, b.locks.door, &e.workers})
	defer func() {
		t := e.workers.take()
		b.locks.owner, b.locks.door = t.owner, t.door
	}()
	wait()
}
