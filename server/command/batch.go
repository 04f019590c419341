package command

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
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

	savepoint storage.Savepoint // of the running command
	afterMark int               // how much of after was there before it
	reopen    func()            // opens the gate that the batch has closed
	view      *storage.View     // what a worker's command reads from

	exclusive []uint32 // stripes that are held until the commit
	shared    []uint32 // stripes that are held by the running command
	plan      plan
	planned   plannedFor // whose plan that is, as long as its lock is held
	busy      uint32
	follower  follower
	counting  bool // the running command is to be run again, to count on
	sealed    bool // by a NoBatch command: nothing joins it
	marked    int  // the changes whose watchers were told

	members   []Member
	writers   []*Session         // who has effects in the transaction
	expected  []storage.Prefetch // what Expect was told of since Warm
	expecting []*Session         // whose it is
	cold      []Cold             // what Warm returns
	warmed    uint32             // keeps the compiler from leaving out what Warm reads
	after     []func()           // to be called when the commit has succeeded
	pushed    []byte             // to the running command's own client, for behind its reply
	context   Context

	repeated     *Command // the one that was looked up last, if its name is one word
	repeatedName []byte   // as it was written

	clock    int64 // when the last command ended, as the engine's clock says
	began    int64 // when the first member's first command did
	commands int64 // ns that commands have taken since
}

// Member is a session that has commands in the batch.
type Member struct {
	Session  *Session
	Requests [][][]byte // as they came; executed, not yet committed
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
	b.context = Context{Engine: e, Txn: b.txn, batch: b}
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

// Execute runs a request. The words must stay as they are until the batch is committed.
func (b *Batch) Execute(s *Session, args [][]byte) Outcome {
	if len(b.members) == 0 {
		b.began, b.commands = b.clock, 0
	}
	mark := s.Reply.Mark()
	outcome := b.execute(s, args)
	s.notePaused(outcome == Paused)
	if outcome != Done {
		return outcome
	}
	b.finishReply(s, mark)
	b.remember(s, args, mark)
	return Done
}

// remember notes what has to be done again should the commit fail.
func (b *Batch) remember(s *Session, args [][]byte, mark int) {
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
	m.Requests = append(m.Requests, args)
}

func (b *Batch) execute(s *Session, args [][]byte) Outcome {
	if s.place == 0 {
		s.before = s.State
	}
	command, refusal := b.admit(s, args)
	if refusal != nil {
		if b.applying {
			b.failure = refusal
			return Done
		}
		if command != nil {
			command.measures.Reject(b.lane)
		}
		b.refuse(s, command, refusal)
		return Done
	}
	if b.engine.pause.mode.Load() != int32(pauseNothing) && !b.applying && b.engine.pause.holds(s, command) {
		return Paused
	}
	if s.Transaction.active && !command.immediate {
		s.enqueue(command, args)
		return Done
	}
	if b.separates(s, command) {
		return Separate
	}
	c := b.prepare(s, command, args)
	if b.planned.is(c) {
		b.follower.note(b.plan.locks[0].stripe, s.ID)
	} else if outcome, ready := b.planAndTake(c); !ready {
		return outcome
	}
	if b.barred(s, command) {
		b.releaseShared()
		return b.execute(s, args)
	}
	// Only now: a command that goes to a worker, or waits, leaves the batch as it is.
	b.sealed = standsAlone(s, command)
	outcome := b.run(c)
	b.releaseShared()
	return outcome
}

// planAndTake finds out what a command needs, and takes it. Unless that makes it ready to run, its outcome is told.
func (b *Batch) planAndTake(c *Context) (outcome Outcome, ready bool) {
	b.planned.command = nil
	if err := b.makePlan(c); err != nil {
		c.fail(err)
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
	b.planned.note(c)
	return Done, true
}

// barred looks again, inside of the gate, whether a command may run now: whoever stops writes, for a
// pause or another role, says so first and then waits until nobody is inside.
func (b *Batch) barred(s *Session, command *Command) bool {
	if b.applying {
		return false
	}
	e := b.engine
	return e.pause.mode.Load() != int32(pauseNothing) && e.pause.holds(s, command) || e.IsReplica() && writesNow(s, command)
}

// Expect says that a request of a session is about to be executed. It returns false when Warm has to be called first.
func (b *Batch) Expect(s *Session, args [][]byte) bool {
	if len(b.expected) == storage.PrefetchBatch {
		return false
	}
	command, _ := b.lookup(args)
	if command != nil && command.prefetch.any() && command.Accepts(len(args)) {
		b.expected = append(b.expected, command.prefetch.of(s.Database, args))
		b.expecting = append(b.expecting, s)
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
	var stripes [storage.PrefetchBatch]uint32
	for i := range b.expected {
		if i > 0 && b.expected[i].SameKey(&b.expected[i-1]) {
			stripes[i] = stripes[i-1]
			continue
		}
		stripes[i] = b.engine.Store.Stripe(b.expected[i].Database, b.expected[i].Key)
	}
	for _, stripe := range stripes[:len(b.expected)] {
		b.warmed += b.engine.Locks.Peek(stripe)
	}
	if missing := b.txn.Prefetch(b.expected); missing != 0 && b.engine.loaders.worth(b.clock) {
		b.fetch(b.reading(missing))
	}
	clear(b.expected)
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
			b.cold = append(b.cold, Cold{b.expecting[i], b.expected[i]})
		}
	}
}

// reading returns those of some requests that are executed when their turn comes.
func (b *Batch) reading(which uint32) (reading uint32) {
	for i, s := range b.expecting {
		if s.Authenticated && !s.Transaction.active {
			reading |= which & (1 << i)
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
func (b *Batch) separates(s *Session, command *Command) bool {
	return b.sealed || standsAlone(s, command) && !b.txn.Empty()
}

// standsAlone tells whether a command, or one that EXEC is about to run, has effects outside of the
// transaction.
func standsAlone(s *Session, command *Command) bool {
	flags := command.Flags
	if command.runsQueue {
		flags |= s.Transaction.flags
	}
	return flags&NoBatch != 0
}

// admit finds the command and asks the gates, in Redis's order.
func (b *Batch) admit(s *Session, args [][]byte) (*Command, error) {
	command, container := b.lookup(args)
	s.noteCommand(command)
	switch {
	case command == nil && container != nil:
		return nil, unknownSubcommand(container, args)
	case command == nil:
		return nil, unknownCommand(args)
	case !command.Accepts(len(args)) || command.Run == nil:
		return command, wrongArity(command.full)
	}
	return command, command.pass(b, s)
}

// lookup is Table.Lookup. Pipelines repeat a command, and comparing its name takes less time than looking for it.
func (b *Batch) lookup(args [][]byte) (found, container *Command) {
	if b.repeated != nil && bytes.Equal(args[0], b.repeatedName) {
		return b.repeated, nil
	}
	found, container = b.engine.Table.Lookup(args)
	if found != nil && found.full == found.Name && len(found.Subcommands) == 0 {
		b.repeated, b.repeatedName = found, append(b.repeatedName[:0], args[0]...)
	}
	return found, container
}

func unknownCommand(args [][]byte) Error {
	var words strings.Builder
	for _, arg := range args[1:] {
		if words.Len() >= 128 {
			break
		}
		fmt.Fprintf(&words, "'%s' ", clip(arg, 128-words.Len()))
	}
	return Errorf("ERR unknown command '%s', with args beginning with: %s", clip(args[0], 128), words.String())
}

func unknownSubcommand(container *Command, args [][]byte) Error {
	return Errorf("ERR unknown subcommand '%s'. Try %s HELP.", clip(args[1], 128), strings.ToUpper(container.Name))
}

// clip cuts a word to a length, and at a zero byte, as C prints it.
func clip(word []byte, length int) []byte { return untilZero(word[:min(len(word), length)]) }

// untilZero cuts a word at a zero byte, as C prints it.
func untilZero(word []byte) []byte {
	before, _, _ := bytes.Cut(word, []byte{0})
	return before
}

// prepare makes the batch's context that of a command.
func (b *Batch) prepare(s *Session, command *Command, args [][]byte) *Context {
	c := &b.context
	c.Session, c.Command, c.Args, c.Reply, c.effected, c.queued = s, command, args, s.Reply, false, false
	c.selected = s.Database
	return c
}

// plan is what a command needs before it can run.
type plan struct {
	locks      []wantedLock
	keys       []KeyReference
	worker     bool
	writes     bool
	everything bool // the gate has to be closed
	walk       bool // more is read than what is locked
}

// plannedFor is the command that a plan was made for, when the same command on the same key has the same plan, whose lock the batch then
// holds: one that writes to a single key. Pipelines repeat such commands.
type plannedFor struct {
	command  *Command
	database int
	key      []byte
}

// longestPlanned is the size (bytes) of the keys that are compared and kept.
const longestPlanned = 256

func (p *plannedFor) is(c *Context) bool {
	return p.command == c.Command && p.database == c.Session.Database && bytes.Equal(p.key, c.Args[1])
}

func (p *plannedFor) note(c *Context) {
	if c.Command.writesOneKey && len(c.Args[1]) <= longestPlanned {
		p.command, p.database, p.key = c.Command, c.Session.Database, append(p.key[:0], c.Args[1]...)
	}
}

type wantedLock struct {
	stripe    uint32
	exclusive bool
}

func (p *plan) reset() {
	p.locks, p.keys = p.locks[:0], p.keys[:0]
	p.worker, p.writes, p.everything, p.walk = false, false, false, false
}

func (b *Batch) makePlan(c *Context) error {
	b.plan.reset()
	var err error
	if c.Command.plan != nil {
		err = c.Command.plan(c, &b.plan)
	} else {
		err = b.plan.add(b.engine, c.Session.Database, c.Command, c.Args)
	}
	if err != nil {
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

// add takes up what a command needs. All keys of a command that writes are locked exclusively,
// those that it only reads too: one of them may turn out to have expired, and is removed then.
func (p *plan) add(e *Engine, database int, command *Command, args [][]byte) error {
	flags := command.flagsWith(args)
	writes := flags&(Write|MayReplicate) != 0
	p.writes = p.writes || writes
	p.worker = p.worker || flags&Worker != 0
	p.everything = p.everything || flags&Exclusive != 0
	p.walk = p.walk || flags&Walk != 0
	if len(command.Keys) == 0 && command.GetKeys == nil {
		return nil
	}
	var err error
	if p.keys, err = command.KeysOf(p.keys[:0], args); err != nil {
		return nil // the command itself finds the mistake, and says what it is
	}
	for _, key := range p.keys {
		if key.Flags&NotKey == 0 {
			p.locks = append(p.locks, wantedLock{e.Store.Stripe(database, args[key.Index]), writes})
		}
	}
	if command.elsewhere != nil {
		if other, key, ok := command.elsewhere(args); ok {
			p.locks = append(p.locks, wantedLock{e.Store.Stripe(other, key), writes})
		}
	}
	return nil
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
		b.follower.note(wanted.stripe, b.context.Session.ID)
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
func (b *Batch) run(c *Context) Outcome {
	// A command begins when the one before it ended, or when Tick was called: the clock is read
	// once for each.
	start := b.clock
	now := b.engine.clock.unixMs(start)
	c.Session.noteActive(now)
	state := c.Session.State
	b.txn.Mark(&b.savepoint)
	b.afterMark = len(b.after)
	err := b.call(c, now, &b.savepoint)
	if b.exhausted(err) {
		c.Session.restore(state)
		c.Session.large = b.txn.AskedBytes()
		c.Session.ranked, b.counting = b.txn.AskedRanks(), errors.Is(err, storage.ErrCounting)
		b.txn.ForgetLookups(&b.savepoint)
		b.pushed = b.pushed[:0]
		return Offload
	}
	b.noteWriter(c.Session, &b.savepoint)
	b.txn.Enclose(&b.savepoint)
	b.markWatchers()
	b.Tick()
	b.commands += b.clock - start
	b.account(c, time.Duration(b.clock-start), err != nil)
	return Done
}

// noteWriter notes that a session has written, if it has left effects since a savepoint: WAIT has to cover them.
func (b *Batch) noteWriter(s *Session, since *storage.Savepoint) {
	if b.txn.Effects(since) > 0 && (len(b.writers) == 0 || b.writers[len(b.writers)-1] != s) {
		b.writers = append(b.writers, s)
	}
}

// exhausted tells that a command wants to go on on a worker, or, on one, that others are to have their turn before it counts on.
func (b *Batch) exhausted(err error) bool {
	return err != nil && (b.budget > 0 && errors.Is(err, storage.ErrBudget) || errors.Is(err, storage.ErrCounting))
}

// call runs a command as a step of the transaction: when it fails, its error is the reply, and
// nothing of it is left since the savepoint, which was just marked. EXEC calls it for each command of its queue.
func (b *Batch) call(c *Context, now int64, savepoint *storage.Savepoint) error {
	mark, after, pushed := c.Reply.Mark(), len(b.after), len(b.pushed)
	b.txn.Begin(b.mode(c), now, b.budget)
	c.Now, c.DB, c.effected, c.redacted = now, b.txn.DB(c.selected), false, 0
	database := c.selected
	if err := c.Command.Run(c); err != nil {
		b.txn.Rollback(savepoint)
		c.Reply.Rewind(mark)
		b.after, b.pushed = b.after[:after], b.pushed[:pushed]
		if !b.exhausted(err) {
			c.fail(err)
		}
		return err
	}
	if !c.effected && b.txn.Changed(savepoint) {
		b.txn.Effect(database, c.Args...)
	}
	return nil
}

// mode tells the transaction how a command runs. One that only may write doesn't while the log takes
// nothing, or for a client of a replica: it is a read then.
func (b *Batch) mode(c *Context) storage.Mode {
	flags := c.Command.flagsWith(c.Args)
	replica := b.engine.IsReplica() && !b.applying
	writing := flags&Write != 0 || flags&MayReplicate != 0 && b.writable(c.Session) == nil && !replica
	return storage.Mode{Writing: writing, Applying: b.applying, Replica: replica}
}

// fail makes an error the command's reply.
func (c *Context) fail(err error) {
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
	c.Engine.CountError(text)
	c.Reply.Error(text)
}

// account counts a command that has run, and tells those who want to know of it. What is repeated from
// the log was counted when it ran first.
func (b *Batch) account(c *Context, took time.Duration, failed bool) {
	if b.applying {
		return
	}
	c.Command.measures.Record(b.lane, took, failed)
	b.engine.observe(c, took)
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
		for _, f := range b.after {
			f()
		}
	}
	clear(b.writers)
	b.writers = b.writers[:0]
	clear(b.after)
	b.after = b.after[:0]
	b.engine.Statistics.Batches.Add(b.lane, 1)
	b.countLookups()
	b.sealed = false
	for _, stripe := range b.exclusive {
		b.engine.Locks.ReleaseExclusive(stripe, b.owner)
	}
	b.exclusive, b.planned.command = b.exclusive[:0], nil
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
	b.countPass()
	return err
}

// countPass counts a reactor's pass, which its commit has ended. Passes in which nothing was executed don't count.
func (b *Batch) countPass() {
	if len(b.members) == 0 || b.budget == 0 {
		return
	}
	s := &b.engine.Statistics
	now, _ := b.engine.clock.now()
	s.passes.Add(b.lane, 1)
	s.passTime.Add(b.lane, now-b.began)
	s.passedCommands.Add(b.lane, b.commands)
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
	for i := range b.members {
		m := &b.members[i]
		m.Session.Reply.Rewind(m.mark)
		m.Session.restore(m.state)
		m.Session.Refuse = err
	}
}

// Clear forgets the members, so that a new batch can begin.
func (b *Batch) Clear() {
	for i := range b.members {
		m := &b.members[i]
		m.Session.place = 0
		m.Session = nil
		clear(m.Requests)
		m.Requests = m.Requests[:0]
	}
	b.members = b.members[:0]
}

// Has tells whether a session has replies that wait for the commit.
func (b *Batch) Has(s *Session) bool { return s.place != 0 }

// Abandon takes back what a command that panicked has done.
func (b *Batch) Abandon() {
	b.pushed = b.pushed[:0]
	b.txn.Rollback(&b.savepoint)
	clear(b.after[b.afterMark:])
	b.after = b.after[:b.afterMark]
	b.releaseShared()
}
