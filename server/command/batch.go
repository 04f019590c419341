package command

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"kedis/internal/resp"
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
	engine *Engine
	txn    *storage.Txn
	owner  lock.Owner
	slot   int // of the gate
	lane   int // of what is counted
	inside bool
	budget int // for each command; 0: unlimited

	applying bool  // effects are repeated
	locking  bool  // beside clients that read
	failure  error // the first that repeating them met

	reopen func()        // opens the gate that the batch has closed
	view   *storage.View // what a worker's command reads from

	exclusive []uint32 // stripes that are held until the commit
	shared    []uint32 // stripes that are held by the running command
	plan      plan
	newest    heldLock // the one that was taken last
	busy      uint32
	follower  follower
	counting  bool // the running command is to be run again, to count on
	sealed    bool // by a NoBatch command: nothing joins it
	marked    int  // the key events whose watchers were told

	members   []Member
	writers   []*Session         // who has effects in the transaction
	expected  []storage.Upcoming // what Expect was told of since Warm
	expecting []expectedRequest  // whose it is
	cold      []Cold             // what Warm returns
	warmed    uint32             // keeps the compiler from leaving out what Warm reads
	outbox    outbox
	stack     []*Invocation // those that run, the outermost first, and memory for more
	running   bool          // the outermost does

	reader requestReader
	undone bool // what was executed is to be executed again

	clock int64 // when the last command ended, as the engine's clock says
}

// Member is a session that has commands in the batch.
type Member struct {
	Session  *Session
	Requests []*Request // executed, not yet committed
	mark     int
	state    State
}

// Outcome is what became of a request.
type Outcome int

const (
	// Done: the reply is composed; it may leave after Commit.
	Done Outcome = iota
	// Busy: somebody holds the lock of Batch.BusyStripe. Commit, wait, execute it again.
	Busy
	// Closed: the gate is closed. Commit, wait until it opens, execute it again.
	Closed
	// Offload: commit, and let Engine.Work run it.
	Offload
	// Separate: commit, and execute it again.
	Separate
	// Paused: commit, wait for Engine.WhenUnpaused, execute it again.
	Paused
)

// NewBatch makes the batch of a reactor, by its number from 0 on.
func (e *Engine) NewBatch(reactor int) *Batch {
	return e.newBatch(lock.Owner(reactor+1), reactor, reactorBudget)
}

func (e *Engine) newBatch(owner lock.Owner, slot, budget int) *Batch {
	b := &Batch{engine: e, txn: e.Store.NewTxn(), owner: owner, slot: slot, budget: budget,
		lane: min(slot, e.Statistics.lanes-1)}
	b.reader.table, b.reader.store = e.Table, e.Store
	return b
}

// Owner is who holds the batch's locks.
func (b *Batch) Owner() lock.Owner { return b.owner }

// BusyStripe is the lock that the last request could not get.
func (b *Batch) BusyStripe() uint32 { return b.busy }

// Adopt takes over a lock that was granted. It is given back by the next Commit.
func (b *Batch) Adopt(stripe uint32) { b.exclusive = append(b.exclusive, stripe) }

// Open tells that there is something to commit or to give back.
func (b *Batch) Open() bool { return b.inside || len(b.exclusive) > 0 || len(b.members) > 0 }

// Idle tells that what was executed needs no commit: nothing was written, no lock is held, and the
// replies may leave at once.
func (b *Batch) Idle() bool { return len(b.exclusive) == 0 && b.txn.Empty() }

// Members are the sessions whose replies wait for the commit.
func (b *Batch) Members() []Member { return b.members }

// Tick says that time has passed that belongs to no command, and returns how long ago the last command ended
// or Tick was called. It is called before commands are executed when something else came in between.
func (b *Batch) Tick() time.Duration {
	now, _ := b.engine.clock.now()
	passed := time.Duration(now - b.clock)
	b.clock = now
	return passed
}

// Read makes a request of a session's words, which must stay as they are until the request was executed and the batch cleared.
func (b *Batch) Read(s *Session, args [][]byte) *Request { return b.reader.read(s.Database, args) }

// Execute runs a request. When the outcome is Done, the batch has it until Clear.
func (b *Batch) Execute(s *Session, r *Request) Outcome {
	mark := s.Reply.Mark()
	outcome := b.execute(s, r)
	if outcome != Done {
		return outcome
	}
	if s.ReplyMode != ReplyOn {
		s.applyReplyMode(mark)
	}
	b.remember(s, r, mark)
	return Done
}

// remember notes what has to be done again should the commit fail.
func (b *Batch) remember(s *Session, r *Request, mark int) {
	if s.place == 0 {
		if len(b.members) < cap(b.members) {
			b.members = b.members[:len(b.members)+1]
		} else {
			b.members = append(b.members, Member{})
		}
		s.place = len(b.members)
		m := &b.members[s.place-1]
		m.Session, m.mark, m.state = s, mark, s.before
	}
	m := &b.members[s.place-1]
	m.Requests = append(m.Requests, r)
}

func (b *Batch) execute(s *Session, r *Request) Outcome {
	if s.place == 0 {
		s.before = s.State
	}
	if refusal := b.admit(s, r); refusal != nil {
		if b.applying {
			b.failure = refusal
			return Done
		}
		if r.Command != nil {
			r.Command.measures.Reject(b.lane)
		}
		b.refuse(s, r, refusal)
		return Done
	}
	if b.engine.pause.mode.Load() != int32(pauseNothing) && !b.applying && b.engine.pause.holds(s, r) {
		return Paused
	}
	if s.Transaction.active && !r.Command.immediate {
		s.enqueue(r)
		return Done
	}
	if b.separates(s, r) {
		return Separate
	}
	r.locate(b.engine.Store, s.Database)
	c := b.prepare(s, r)
	if b.newest.covers(r) {
		b.follower.note(b.newest.stripe, s.ID)
	} else if outcome, ready := b.planAndTake(c); !ready {
		return outcome
	}
	if b.barred(s, r) {
		b.releaseShared()
		return b.execute(s, r)
	}
	// Only now: a command that goes to a worker, or waits, leaves the batch as it is.
	b.sealed = standsAlone(s, r)
	outcome := b.run(c)
	b.releaseShared()
	return outcome
}

// planAndTake finds out what a command needs, and takes it. Unless that makes it ready to run, its outcome is told.
func (b *Batch) planAndTake(c *Invocation) (outcome Outcome, ready bool) {
	if err := b.makePlan(c); err != nil {
		c.fail(err)
		b.engine.CountError(c.failure)
		return Done, false
	}
	if b.budget > 0 && (b.plan.worker || b.plan.everything || b.plan.walk) {
		return Offload, false
	}
	if b.locking && b.plan.everything && b.reopen == nil {
		return Offload, false
	}
	if b.applying && !b.locking {
		return Done, true
	}
	if outcome := b.take(); outcome != Done {
		return outcome, false
	}
	return Done, true
}

// barred looks again, inside of the gate, whether a command may run now: whoever stops writes, for a
// pause or another role, says so first and then waits until nobody is inside.
func (b *Batch) barred(s *Session, r *Request) bool {
	if b.applying {
		return false
	}
	e := b.engine
	return e.pause.mode.Load() != int32(pauseNothing) && e.pause.holds(s, r) || e.IsReplica() && writesNow(s, r.Command)
}

// Expect says that a request of a session is about to be executed. It returns false when Warm has to be called first.
func (b *Batch) Expect(s *Session, r *Request) bool {
	if len(b.expected) == storage.WarmRequests {
		return false
	}
	if upcoming, ok := r.prefetch(); ok {
		b.expected = append(b.expected, upcoming)
		b.expecting = append(b.expecting, expectedRequest{s, r})
	}
	return true
}

// Warm has memory fetch what the requests that Expect was told of will look for, and reads what RocksDB has of it in
// memory. It returns the requests that would have to wait for the disk; they are valid until the next call.
func (b *Batch) Warm() []Cold {
	clear(b.cold)
	b.cold = b.cold[:0]
	if len(b.expected) == 0 {
		return nil
	}
	for i := range b.expecting {
		b.warmed += b.engine.Locks.Peek(b.expecting[i].request.keys[0].stripe)
	}
	if missing := b.txn.Warm(b.expected); missing != 0 && b.engine.loaders.worth(b.clock) {
		b.fetch(b.reading(missing))
	}
	clear(b.expected)
	clear(b.expecting)
	b.expected, b.expecting = b.expected[:0], b.expecting[:0]
	return b.cold
}

// fetch reads what some of the expected requests will ask RocksDB for, and notes which of them are cold.
func (b *Batch) fetch(which uint32) {
	if which == 0 || !b.enter() {
		return
	}
	cold := b.txn.Fetch(b.expected, which)
	for i := range b.expected {
		if cold&(1<<i) != 0 {
			b.cold = append(b.cold, Cold{b.expecting[i].session, b.expected[i]})
		}
	}
}

// reading returns those of some requests that will be executed, and neither refused nor queued.
func (b *Batch) reading(which uint32) (reading uint32) {
	for i := range b.expecting {
		if s := b.expecting[i].session; which&(1<<i) != 0 && s.Authenticated && !s.Transaction.active {
			reading |= 1 << i
		}
	}
	return reading
}

// enter passes the gate, if it is open.
func (b *Batch) enter() bool {
	if !b.inside {
		b.inside = b.engine.Gate.TryEnter(b.slot)
	}
	return b.inside
}

// separates tells whether the commit of what was executed has to come first: a command can't be
// executed again that had effects outside of the transaction, should the commit fail.
func (b *Batch) separates(s *Session, r *Request) bool {
	return b.sealed || standsAlone(s, r) && !b.txn.Empty()
}

// standsAlone tells whether a command, or one that EXEC is about to run, has effects outside of the
// transaction.
func standsAlone(s *Session, r *Request) bool {
	flags := r.flags
	if r.Command.runsQueue {
		flags |= s.Transaction.flags
	}
	return flags&NoBatch != 0
}

// admit asks the gates, in Redis's order.
func (b *Batch) admit(s *Session, r *Request) error {
	s.noteCommand(r.Command)
	if r.malformed {
		return r.refusal()
	}
	return r.pass(b, s)
}

// prepare returns the outermost invocation of a request.
func (b *Batch) prepare(s *Session, r *Request) *Invocation { return b.invocation(0, s, r, s.Reply) }

// invocation returns an invocation at a level of nesting, where none runs.
func (b *Batch) invocation(level int, s *Session, r *Request, reply *resp.Writer) *Invocation {
	if level == len(b.stack) {
		b.stack = append(b.stack, &Invocation{Engine: b.engine, Txn: b.txn, batch: b, level: level})
	}
	c := b.stack[level]
	c.Request, c.Session, c.Reply = r, s, reply
	c.selected, c.effected, c.redacted, c.failure = s.Database, false, 0, ""
	return c
}

// plan is what a command needs before it can run.
type plan struct {
	locks      []wantedLock
	worker     bool
	writes     bool
	everything bool // the gate has to be closed
	walk       bool // more is read than what is locked
}

type wantedLock struct {
	stripe    uint32
	exclusive bool
}

// heldLock is a lock that is held exclusively until the commit.
type heldLock struct {
	stripe uint32
	held   bool
}

// covers reports whether a request needs nothing but that lock. Pipelines often write to one key.
func (h heldLock) covers(r *Request) bool {
	return h.held && len(r.keys) == 1 && r.keys[0].stripe == h.stripe && r.keys[0].Flags&NotKey == 0 && r.flags&(Worker|Exclusive|Walk) == 0 &&
		r.Command.plan == nil && r.flags&Write != 0
}

// expectedRequest is a request that Expect was told of, and whose it is.
type expectedRequest struct {
	session *Session
	request *Request
}

func (p *plan) reset() {
	p.locks = p.locks[:0]
	p.worker, p.writes, p.everything, p.walk = false, false, false, false
}

func (b *Batch) makePlan(c *Invocation) error {
	b.plan.reset()
	if c.Command.plan == nil {
		b.plan.add(c.Request)
	} else if err := c.Command.plan(c, &b.plan); err != nil {
		return err
	}
	if b.plan.walk && b.plan.writes {
		b.plan.walkBesideWrites(b.applying || c.Command.plan != nil)
	}
	if len(b.plan.locks) > 1 {
		b.plan.sort()
	}
	return nil
}

// walkBesideWrites is for a command that reads more than it locks, and writes. When it may have to see what its own transaction has
// written before, it can't read a view: it has the databases to itself. Else it holds the locks of what it writes, and reads aside.
func (p *plan) walkBesideWrites(others bool) {
	if others {
		p.everything = true
	} else {
		p.worker, p.walk = true, false
	}
}

// add takes up what a request needs, whose keys were located. All keys of a command that writes are locked exclusively,
// those that it only reads too: one of them may turn out to have expired, and is removed then.
func (p *plan) add(r *Request) {
	writes := r.writes()
	p.writes = p.writes || writes
	p.worker = p.worker || r.flags&Worker != 0
	p.everything = p.everything || r.flags&Exclusive != 0
	p.walk = p.walk || r.flags&Walk != 0
	for i := range r.keys {
		if key := &r.keys[i]; key.Flags&NotKey == 0 {
			p.locks = append(p.locks, wantedLock{key.stripe, writes})
		}
	}
}

// sort puts the locks in order, each once, exclusive if any mention of it is.
func (p *plan) sort() {
	slices.SortFunc(p.locks, func(a, b wantedLock) int {
		if a.stripe != b.stripe {
			return int(a.stripe) - int(b.stripe)
		}
		if a.exclusive {
			return -1
		}
		return 1
	})
	p.locks = slices.CompactFunc(p.locks, func(a, b wantedLock) bool { return a.stripe == b.stripe })
}

// take takes what the plan lists, without waiting.
func (b *Batch) take() Outcome {
	if !b.plan.everything && !b.enter() {
		return Closed
	}
	for _, wanted := range b.plan.locks {
		if !b.tryLock(wanted) {
			b.releaseShared()
			b.busy = wanted.stripe
			b.engine.Statistics.Conflicts.Add(b.lane, 1)
			return Busy
		}
	}
	return Done
}

func (b *Batch) tryLock(wanted wantedLock) bool {
	if wanted.exclusive {
		switch b.engine.Locks.TryExclusive(wanted.stripe, b.owner) {
		case lock.Busy:
			return false
		case lock.Acquired:
			b.exclusive = append(b.exclusive, wanted.stripe)
		}
		b.newest = heldLock{wanted.stripe, true}
		b.follower.note(wanted.stripe, b.stack[0].Session.ID)
		return true
	}
	switch b.engine.Locks.TryShared(wanted.stripe, b.owner) {
	case lock.Busy:
		return false
	case lock.Acquired:
		b.shared = append(b.shared, wanted.stripe)
	}
	return true
}

// follower counts how often one session after another locks the same key to write: of such keys only one reactor at a time can have any
// use.
type follower struct {
	stripe  uint32
	session int64
	count   int64
}

func (f *follower) note(stripe uint32, session int64) {
	switch {
	case stripe != f.stripe:
		f.stripe, f.session = stripe, session
	case session != f.session:
		f.session = session
		f.count++
	}
}

// Followed returns how often a session has written to the key that another one had just written to, since the last call.
func (b *Batch) Followed() int64 {
	count := b.follower.count
	b.follower.count = 0
	return count
}

func (b *Batch) releaseShared() {
	for _, stripe := range b.shared {
		b.engine.Locks.ReleaseShared(stripe)
	}
	b.shared = b.shared[:0]
}

// run runs a command whose locks are held.
func (b *Batch) run(c *Invocation) Outcome {
	// A command begins when the one before it ended, or when Tick was called: the clock is read
	// once for each.
	start := b.clock
	now := b.engine.clock.unixMs(start)
	c.Session.noteActive(now)
	state := c.Session.State
	b.running = true
	err := b.call(c, now)
	b.running = false
	if b.exhausted(err) {
		c.Session.restore(state)
		c.Session.ranked, b.counting = b.txn.AskedRanks(), errors.Is(err, storage.ErrCounting)
		b.txn.ForgetLookups(&c.before.txn)
		return Offload
	}
	if b.txn.Effects(&c.before.txn) > 0 && (len(b.writers) == 0 || b.writers[len(b.writers)-1] != c.Session) {
		b.writers = append(b.writers, c.Session)
	}
	b.txn.Enclose(&c.before.txn)
	b.markWatchers()
	b.Tick()
	for i := range b.outbox.ran {
		b.account(&b.outbox.ran[i])
	}
	clear(b.outbox.ran)
	b.outbox.ran = b.outbox.ran[:0]
	ran := c.execution(time.Duration(b.clock - start))
	b.account(&ran)
	return Done
}

// exhausted tells that a command wants to go on on a worker, or, on one, that others are to have their turn before it counts on.
func (b *Batch) exhausted(err error) bool {
	return err != nil && (b.budget > 0 && errors.Is(err, storage.ErrBudget) || errors.Is(err, storage.ErrCounting))
}

// takesBack reports whether an error takes back the outermost request, rather than being the reply of the one that met it: half of it must
// not be committed.
func (b *Batch) takesBack(err error) bool {
	return err != nil && (b.exhausted(err) || errors.Is(err, storage.ErrInterrupted))
}

// call runs an invocation as a step of the transaction: when it fails, its error is the reply, and nothing else of it is left.
func (b *Batch) call(c *Invocation, now int64) error {
	c.mark()
	b.txn.Begin(b.mode(c), now, b.budget)
	c.Now, c.DB, c.effected, c.redacted, c.failure = now, b.txn.DB(c.selected), false, 0, ""
	database := c.selected
	if err := c.Command.Run(c); err != nil {
		c.takeBack()
		if !b.exhausted(err) {
			c.fail(err)
		}
		return err
	}
	if !c.effected && b.txn.Changed(&c.before.txn) {
		b.txn.Effect(database, c.Args...)
	}
	return nil
}

// mode tells the transaction how a command runs. One that only may write doesn't while the log takes
// nothing, or for a client of a replica: it is a read then.
func (b *Batch) mode(c *Invocation) storage.Mode {
	flags := c.flags
	replica := b.engine.IsReplica() && !b.applying
	writing := flags&Write != 0 || flags&MayReplicate != 0 && b.writable(c.Session) == nil && !replica
	return storage.Mode{Writing: writing, Applying: b.applying, Replica: replica}
}

// fail makes an error the command's reply.
func (c *Invocation) fail(err error) {
	text, known := c.Engine.Table.toReply(err)
	if c.batch.applying && c.batch.failure == nil {
		c.batch.failure = fmt.Errorf("%s: %s", c.Command.full, text)
		if known {
			c.batch.failure = fmt.Errorf("%w: %w", storage.ErrDiverged, c.batch.failure)
		}
	}
	if !known {
		c.Engine.logFailure(c.Command.full, err)
	}
	c.failure = text
	c.Reply.Error(text)
}

// account counts a request that has run, and shows it to those who want to know of it. What is repeated from
// the log was counted when it ran first.
func (b *Batch) account(ran *execution) {
	if ran.failure != "" {
		b.engine.CountError(ran.failure)
	}
	if b.applying {
		return
	}
	ran.Command.measures.Record(b.lane, ran.took, ran.failure != "")
	b.engine.observe(ran, b.lane)
}

// Commit makes what the batch has done durable and visible, and gives its locks back. After it
// returned nil the replies of Members may leave. When it fails nothing has happened: Retry then
// tells what is to be executed again. Either way Clear has to follow.
func (b *Batch) Commit() error {
	err := b.commitTxn()
	if err == nil {
		b.markWatchers()
		for _, s := range b.writers {
			s.written = b.engine.Store.Position()
		}
		b.outbox.committed()
	}
	b.outbox.reset()
	clear(b.writers)
	b.writers = b.writers[:0]
	b.engine.Statistics.Batches.Add(b.lane, 1)
	b.countLookups()
	b.sealed = false
	for _, stripe := range b.exclusive {
		b.engine.Locks.ReleaseExclusive(stripe, b.owner)
	}
	b.exclusive, b.newest = b.exclusive[:0], heldLock{}
	if b.inside {
		b.engine.Gate.Leave(b.slot)
		b.inside = false
	}
	b.releaseShared()
	if b.reopen != nil {
		b.reopen()
		b.reopen = nil
	}
	b.txn.Reset()
	b.marked = 0
	return err
}

// markWatchers marks those who watch what was changed since it was last called: before the next command
// of the batch, which may be the EXEC of one of them. The locks of the keys are held until the commit, so
// nobody else can look at the keys in between; should the commit fail, the marked try again in vain.
func (b *Batch) markWatchers() {
	events := b.txn.KeyEvents()
	b.engine.watches.changed(events, b.marked)
	b.marked = events.Len()
}

// commitTxn commits the transaction, and notes when that takes long.
func (b *Batch) commitTxn() error {
	if b.txn.Empty() {
		return nil
	}
	if b.engine.Config.LatencyMonitorThreshold.Get() == 0 {
		return b.engine.Store.Commit(b.txn)
	}
	b.Tick()
	start := b.clock
	err := b.engine.Store.Commit(b.txn)
	b.Tick()
	b.engine.noteLatency("commit", time.Duration(b.clock-start))
	return err
}

// Undo puts the members back to where they were before the batch, after a commit that failed. Their
// Requests are to be executed again; their writes will be refused with the error.
func (b *Batch) Undo(err error) {
	b.undone = true
	for i := range b.members {
		m := &b.members[i]
		m.Session.Reply.Rewind(m.mark)
		m.Session.restore(m.state)
		m.Session.Refuse = err
	}
}

// Clear forgets the members and, after a commit that succeeded, their requests, so that a new batch can begin.
func (b *Batch) Clear() {
	for i := range b.members {
		m := &b.members[i]
		if !b.undone {
			for _, r := range m.Requests {
				b.reader.recycle(r)
			}
		}
		m.Session.place = 0
		m.Session = nil
		clear(m.Requests)
		m.Requests = m.Requests[:0]
	}
	b.members, b.undone = b.members[:0], false
}

// Has tells whether a session has replies that wait for the commit.
func (b *Batch) Has(s *Session) bool { return s.place != 0 }

// Abandon takes back what a command that panicked has done.
func (b *Batch) Abandon() {
	if b.running {
		b.stack[0].takeBack()
		b.running = false
	}
	b.releaseShared()
}
