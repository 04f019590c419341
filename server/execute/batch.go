package execute

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"kedis/lock"
	"kedis/storage"
)

// reactorBudget is how many records a command may touch on a reactor, which keeps it within a few
// milliseconds; what needs more runs again on a worker.
const reactorBudget = 10000

// Batch runs commands of many sessions in one transaction. It belongs to a reactor, or to a worker
// with its single command.
//
// A reactor executes whatever came in one pass, commits, and only then lets the replies leave. It
// never waits: when a lock is not to be had, it commits, and asks to be granted the lock.
type Batch struct {
	engine    *Engine
	txn       *storage.Txn
	view      *storage.View // what a worker's command reads from
	unwanted  *atomic.Bool  // see storage.Mode; nil unless there is a view
	budget    int           // for each command; 0: unlimited
	repeat    repeating
	onReplica bool  // the server was one when it was decided that the running command may run
	roleThen  int64 // role.changes, or an earlier number, at that time
	goodThen  int32 // role.good when the gates were asked: it holds for all that EXEC or a script runs

	reader   requestReader
	prefetch prefetch
	plan     Plan
	locks    locks
	parks    func() bool // see storage.Mode; nil on a worker
	running  running
	members  members
	long     longPart
	clock    stopwatch
}

// repeating is how a batch repeats effects of the log.
type repeating struct {
	applying  bool  // it does
	locking   bool  // beside clients that read
	writtenMs int64 // when a start repeats them, the time at which they came
	failure   error // the first that repeating them met
}

// starting reports whether a start repeats effects, which were told of when they happened.
func (r *repeating) starting() bool { return r.applying && !r.locking }

// Outcome is what became of a request.
type Outcome int

const (
	// Done: the reply is composed; it may leave after Commit.
	Done Outcome = iota
	// Separate: commit, and execute it again.
	Separate
	// Waiting: commit, and begin Session.Wait; the request goes on when that ends.
	Waiting
)

// NewBatch makes the batch of a reactor, by its number from 0 on.
func (e *Engine) NewBatch(reactor int) *Batch {
	b := e.newBatch(lock.Owner(reactor+1), reactor, reactorBudget, e.Store.NewTxn())
	b.parks = func() bool { return e.loaders.worth(b.clock.last) }
	return b
}

func (e *Engine) newBatch(owner lock.Owner, door, budget int, txn *storage.Txn) *Batch {
	return &Batch{engine: e, txn: txn, budget: budget,
		reader: requestReader{table: e.Table, store: e.Store},
		locks:  locks{table: e.Locks, gate: e.Gate, owner: owner, door: door},
		clock:  stopwatch{clock: &e.clock, lane: min(door, e.Statistics.Lanes-1)}}
}

// Owner is who holds the batch's locks.
func (b *Batch) Owner() lock.Owner { return b.locks.owner }

// Adopt takes over a lock that was granted. It is given back by the next Commit.
func (b *Batch) Adopt(stripe uint32) {
	b.locks.adopt(stripe)
	if y := &b.engine.Synchronous; y.active.Load() { // what was committed under it meanwhile is not noted yet
		y.written.Load()[stripe].Store(b.engine.Store.Position())
	}
}

// Renounce ends the wait for a lock. One that was granted meanwhile is given back with the commit.
func (b *Batch) Renounce(stripe uint32) {
	if !b.locks.table.Cancel(stripe, b.locks.owner) {
		b.locks.adopt(stripe)
	}
}

// Open reports whether there is something to commit or to give back.
func (b *Batch) Open() bool {
	return b.locks.inside || len(b.locks.exclusive) > 0 || len(b.members.list) > 0
}

// Idle reports whether what was executed needs no commit: nothing was written, no lock is held, and
// the replies may leave at once.
func (b *Batch) Idle() bool { return len(b.locks.exclusive) == 0 && b.txn.Empty() }

// Gathered is how many bytes of records wait for the commit.
func (b *Batch) Gathered() int { return b.txn.Gathered() }

// Tick says that time has passed that belongs to no command, and returns how long ago the last
// command ended or Tick was called. It is called before commands are executed when something else
// came in between.
func (b *Batch) Tick() time.Duration { return b.clock.tick() }

// Now is the time of the last Tick, as Engine.Elapsed tells it.
func (b *Batch) Now() time.Duration { return time.Duration(b.clock.last) }

// Read makes a request of a session's words, which must stay as they are until the request was
// executed and the batch cleared.
func (b *Batch) Read(s *Session, args [][]byte) *Request { return b.reader.read(s.Database, args) }

// Execute runs a request. When the outcome is Done, the request is used up: few of them, which stay
// in the processor's caches, serve a whole pass. The batch has the words until Clear.
func (b *Batch) Execute(s *Session, r *Request) Outcome {
	if len(b.members.list) == 0 {
		b.clock.beginPass()
	}
	reply := replyPart{from: s.Reply.Mark()}
	b.running.wrote = false
	outcome := b.execute(s, r)
	if outcome != Done {
		return outcome
	}
	s.answered(r)
	reply.from = min(reply.from, s.Reply.Mark()) // see Unsay
	reply.to, reply.wrote = b.finishReply(s, reply.from), b.running.wrote
	b.members.remember(s, r, reply)
	b.reader.recycle(r)
	return Done
}

func (b *Batch) execute(s *Session, r *Request) Outcome {
	if s.member == 0 {
		s.before = s.State
	}
	if refusal := b.admit(s, r); refusal != nil {
		if over, is := refusal.(*overRate); is {
			return b.refuseOverRate(s, r, over)
		}
		return b.turnDown(s, r, refusal)
	}
	if b.engine.inUse.any(pausing) && !b.repeat.applying && b.engine.holds(s, r) {
		return s.waits(b.engine.Pause.wait())
	}
	if s.Transaction.Active && !r.Command.Immediate {
		s.enqueue(r, b.engine.flagsOf(r))
		return Done
	}
	if b.separates(s, r) {
		return Separate
	}
	r.locate(b.engine.Store, s.Database)
	c := b.prepare(s, r)
	planned := !b.locks.newest.covers(r)
	if planned {
		if outcome, ready := b.planAndTake(c); !ready {
			return outcome
		}
	}
	if s.member == 0 && (!planned || b.locks.met) {
		b.members.followed++
	}
	if b.cameTooLate(s) {
		b.locks.releaseShared()
		return Separate
	}
	if b.barred(s, r) {
		b.locks.releaseShared()
		return b.execute(s, r)
	}
	// Only now: a command that goes to a worker, or waits, leaves the batch as it is.
	b.running.sealed = standsAlone(s, r)
	outcome := b.run(c)
	if outcome == Done && b.engine.inUse.any(gateSynchronous) {
		b.noteDependence(s, r, planned)
	}
	b.locks.releaseShared()
	return outcome
}

// admit asks the gates, in Redis's order.
func (b *Batch) admit(s *Session, r *Request) error {
	s.noteCommand(r.Command)
	b.running.begin(r)
	b.goodThen = b.engine.role.good.Load()
	if r.malformed {
		return r.refusal()
	}
	return r.pass(b, s)
}

// turnDown answers a request that was not admitted. An effect that isn't ends the repeating.
func (b *Batch) turnDown(s *Session, r *Request, refusal error) Outcome {
	if b.repeat.applying {
		b.repeat.failure = refusal
		return Done
	}
	if r.Command != nil && !r.counted {
		r.Command.Measures.Reject(b.clock.lane)
	}
	b.refuse(s, r, refusal)
	b.noteCounted(r)
	return Done
}

// planAndTake finds out what a command needs, and takes it. Unless that makes it ready to run, its
// outcome is told.
func (b *Batch) planAndTake(c *Invocation) (outcome Outcome, ready bool) {
	if err := b.makePlan(c); err != nil {
		b.failPlan(c, err)
		return Done, false
	}
	if b.budget > 0 && b.plan.leavesReactor() {
		return b.offload(c), false
	}
	if b.repeat.locking && b.plan.Everything && b.locks.reopen == nil {
		return Waiting, false // the follower closes the gate
	}
	if b.repeat.applying && !b.repeat.locking {
		return Done, true
	}
	b.locks.met = false
	wait, taken := b.locks.take(&b.plan)
	if taken {
		return Done, true
	}
	if wait.Cause == ForLock {
		b.engine.Statistics.Conflicts.Add(b.clock.lane, 1)
	}
	return b.waitOut(c, wait), false
}

func (b *Batch) makePlan(c *Invocation) error { return b.plan.make(c, b.repeat.applying) }

// failPlan answers a request that can't be planned.
func (b *Batch) failPlan(c *Invocation, err error) {
	c.Fail(err)
	b.countError(c.failure)
	b.noteCounted(c.Request)
}

// barred looks again, inside of the gate, whether a command may run now: whoever stops writes, for
// a pause or another role, says so first and then waits until nobody is inside.
func (b *Batch) barred(s *Session, r *Request) bool {
	if b.repeat.applying {
		return false
	}
	b.roleThen = b.engine.role.changes.Load() // first: who waits is told of each change behind it
	used := b.engine.inUse.bits.Load()
	b.onReplica = used&gateReplica != 0
	return used&pausing != 0 && b.engine.holds(s, r) || b.onReplica && b.engine.writesNow(s, r)
}

// separates reports whether the commit of what was executed has to come first: a command can't be
// executed again that had effects outside of the transaction, should the commit fail. One that may
// be, by itself, mustn't show its effects to what its client has sent before it.
func (b *Batch) separates(s *Session, r *Request) bool {
	return b.running.sealed && r.flags&NoBatch == 0 || standsAlone(s, r) && !b.txn.Empty() || r.flags&AtOnce != 0 && s.member > 0
}

// standsAlone reports whether a command, or one that EXEC is about to run, has effects outside of
// the transaction.
func standsAlone(s *Session, r *Request) bool {
	flags := r.flags
	if r.Command.RunsQueue {
		flags |= s.Transaction.flags
	}
	return flags&NoBatch != 0
}

// run runs a command whose locks are held.
func (b *Batch) run(c *Invocation) Outcome {
	// A command begins when the one before it ended, or when Tick was called: the clock is read
	// once for each.
	start := b.clock.last
	now := b.unixMs()
	c.Session.noteActive(now)
	c.Session.takeRules()
	state := c.Session.State
	b.running.underway, b.running.undo, b.running.replaced = true, nil, b.running.replaced[:0]
	b.running.began, b.running.turnedUp, b.running.readMore, b.running.denials = start, b.running.turnedUp[:0], false, 0
	err := b.call(c, now, b.budget)
	b.noteWriter(c.Session, &c.before.txn)
	b.txn.Enclose(&c.before.txn)
	used := b.engine.inUse.bits.Load() // only now: locks may have been taken meanwhile
	if used&caching != 0 {
		b.noteLoop(c)
	}
	if used&blocking != 0 && !b.takesBack(err) {
		if failed := b.serveBlocked(now); failed != nil {
			c.takeBack()
			if err = failed; !b.exhausted(err) && !comesBack(err) {
				c.Fail(err)
			}
		}
	}
	b.running.underway = false
	if err != nil {
		if outcome, again := b.again(c, err, &state); again {
			return outcome
		}
	}
	if c.Command.RunsQueue && state.Transaction.Active {
		b.engine.Watches.Forget(c.Session) // before it is marked for what it has changed itself
	}
	b.markWatchers()
	b.Tick()
	if c.metered {
		b.chargeReply(c)
	}
	if len(b.running.outbox.grown) > 0 {
		b.countGrowth()
	}
	b.clock.commands += b.clock.last - start
	b.accountAll(c, time.Duration(b.clock.last-start))
	return Done
}

// unixMs is the time for a command that begins. A start repeats effects as of when they came: what
// is relative to that doesn't begin anew.
func (b *Batch) unixMs() int64 {
	if b.repeat.starting() {
		return b.repeat.writtenMs
	}
	return b.clock.unixMs(b.clock.last)
}

// again reports whether an error has the outermost request executed again, in the state of before,
// and with which outcome.
func (b *Batch) again(c *Invocation, err error, before *State) (outcome Outcome, again bool) {
	s := c.Session
	switch {
	case errors.Is(err, storage.ErrCold):
		s.restore(*before)
		b.txn.ForgetLookups(&c.before.txn)
		return b.waitForWalk(s), true
	case b.exhausted(err):
		s.restore(*before)
		s.worked.large = b.txn.AskedBytes()
		s.worked.order = b.txn.Order()
		s.worked.ranked, b.running.counting = b.txn.AskedRanks(), errors.Is(err, storage.ErrCounting)
		b.txn.ForgetLookups(&c.before.txn)
		return b.offload(c), true // what it has pushed was taken back with it
	case err == errBlocked:
		outcome = Waiting
	case err == errSeparate, err == errUnfinished:
		outcome = Separate
	case comesBack(err):
		s.restore(*before) // first: it may be refused, and EXEC ends its transaction then
		return b.lacks(c), true
	default:
		return Done, false
	}
	s.restore(*before)
	return outcome, true
}

// noteWriter notes that a session has written, if it has left effects since a savepoint: WAIT has
// to cover them.
func (b *Batch) noteWriter(s *Session, since *storage.Savepoint) {
	if b.txn.Effects(since) > 0 {
		b.running.wrote = true
		b.members.wrote(s)
	}
}

// exhausted reports whether a command wants to go on on a worker, or when the disk has been read,
// or, on a worker, that others are to have their turn before it counts on.
func (b *Batch) exhausted(err error) bool {
	return err != nil && (b.budget > 0 && errors.Is(err, storage.ErrBudget) || errors.Is(err, storage.ErrCounting) || errors.Is(err, storage.ErrCold))
}

// takesBack reports whether an error takes back the outermost request, rather than being the reply
// of the one that met it: half of it must not be committed.
func (b *Batch) takesBack(err error) bool {
	return err != nil && (b.exhausted(err) || comesBack(err) || errors.Is(err, storage.ErrInterrupted) || errors.Is(err, storage.ErrUnwanted))
}

// call runs an invocation as a step of the transaction: when it fails, its error is the reply, and
// nothing else of it is left.
func (b *Batch) call(c *Invocation, now int64, budget int) error {
	c.mark()
	b.txn.Begin(b.mode(c), now, budget)
	c.begin(now)
	if b.engine.inUse.any(caching) {
		b.rememberReads(c)
	}
	if c.Nested() && c.flags&ReadOnly != 0 && len(c.keys) == 0 { // DBSIZE, SCAN
		b.running.readMore = true
	}
	database := c.selected
	err := c.configured()
	if err == nil {
		err = c.keepRunning()
	}
	if err == nil {
		err = c.Command.Run(c)
	}
	if err == nil && b.engine.inUse.any(limiting) {
		err = b.requireQuota(c)
	}
	if err == errUnfinished {
		c.Reply.Rewind(c.before.reply)
		return err
	}
	if err != nil {
		c.takeBack()
		if !b.exhausted(err) && err != errBlocked && err != errSeparate && !comesBack(err) {
			c.Fail(err)
		}
		return err
	}
	if !c.effected && b.txn.Changed(&c.before.txn) {
		b.txn.Effect(database, c.effectWords(c.Args)...)
	}
	return nil
}

// mode tells the transaction how a command runs. One that only may write doesn't while the log
// takes nothing, or for a client of a replica: it is a read then.
func (b *Batch) mode(c *Invocation) storage.Mode {
	used := b.engine.inUse.bits.Load()
	replica := used&gateReplica != 0 && !b.repeat.applying
	writing := c.flags&Write != 0 || c.flags&MayReplicate != 0 && b.writable(c.Session) == nil && !replica
	mode := storage.Mode{Writing: writing, Applying: b.repeat.applying, Replica: replica, Unwanted: b.unwanted}
	if c.level == 0 && c.Session.loads < mostLoads {
		mode.Parks = b.parks
	}
	if used&notifying != 0 {
		mode.Notify = b.wantedEvents()
	}
	if used&touching != 0 {
		mode.Touches = c.touches()
	}
	return mode
}

// Fail makes an error the command's reply, and takes nothing back.
func (c *Invocation) Fail(err error) {
	text, known := c.answerError(err)
	if repeat := &c.batch.repeat; repeat.applying && repeat.failure == nil {
		if text == string(ErrDBIndex) {
			text += ": " + c.onlyDatabases()
		}
		repeat.failure = fmt.Errorf("%s: %s", c.Command.full, text)
		if known {
			repeat.failure = fmt.Errorf("%w: %w", storage.ErrDiverged, repeat.failure)
		}
	}
}

// FailAgain is Fail with the error of a request inside of this one, which was counted there.
func (c *Invocation) FailAgain(err error) {
	c.Fail(err)
	c.told = true
}

// answerError is Fail for a client of a replica that is served by an effect: the effect hasn't
// failed.
func (c *Invocation) answerError(err error) (text string, known bool) {
	text, known = c.Engine.Table.toReply(err)
	if !known {
		c.Engine.logFailure(c.Command.full, err)
	}
	c.failure = text
	c.Reply.Error(text)
	return text, known
}
