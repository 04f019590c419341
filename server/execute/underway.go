package execute

import (
	"time"

	"kedis/internal/resp"
	"kedis/storage"
)

// What a request needs can turn out when it is under way: a script calls a command on a key that nobody has declared. Such a key is tried
// at once, exclusively: whoever holds locks until the commit stays serializable, whatever their order, as long as nobody waits who holds
// some. So most requests need no second run. When a lock is busy, the outermost request is taken back, waits for it without holding
// anything, and runs again with all that it has needed up to then, taken in order. After a few such rounds it goes to a worker, which awaits
// all of it in order, and in the end it has the databases to itself: so there is an end to it, whatever it turns to in each round.

// needs are what a request has turned out to need besides what its words say.
type needs struct {
	locks      []wantedLock
	worker     bool
	everything bool
	rounds     int // in which a lock was busy
}

const (
	// roundsOnReactor is how often a request waits for one lock that has turned up before a worker awaits them all.
	roundsOnReactor = 3
	// roundsUnderLocks is how often it runs before it closes the gate.
	roundsUnderLocks = 16
)

// errUnderway takes back the outermost request, which has noted what it needs.
const errUnderway = Error("the request needs more than it has")

// addTo takes up in a plan what has turned out.
func (n *needs) addTo(p *Plan) {
	if n == nil {
		return
	}
	p.locks = append(p.locks, n.locks...)
	p.Worker = p.Worker || n.worker
	p.Everything = p.Everything || n.everything
}

// needed returns what the outermost request has turned out to need, to be added to.
func (b *Batch) needed() *needs {
	outermost := b.running.stack[0].Request
	if outermost.needs == nil {
		outermost.needs = &needs{}
	}
	return outermost.needs
}

// Add takes up what a request needs, as its words say it.
func (p *Plan) Add(r *Request) { p.add(r) }

// Inner makes a request of words, to be run with Call. There is one at a time, and the words are the caller's to keep until the outermost
// request has run.
func (c *Invocation) Inner(words [][]byte) *Request {
	b := c.batch
	r := &b.running.inner
	b.reader.readInto(r, c.Session.Database, words)
	return r
}

// NeedsEverything reports whether the outermost request was taken back since it needs whole databases.
func (c *Invocation) NeedsEverything() bool {
	n := c.batch.running.stack[0].needs
	return n != nil && n.everything
}

// Written is how many records the invocation, and those in it, have written.
func (c *Invocation) Written() int { return c.Txn.Written(&c.before.txn) }

// Refusal is nil, or why a gate refuses a request that is to run inside of this one.
func (c *Invocation) Refusal(r *Request) error { return r.pass(c.batch, c.Session) }

// reactorTime is how long calls of one request may go on on a reactor.
const reactorTime = 4 * time.Millisecond

// Call is Invoke for a request that nobody has planned for: it takes the locks that the request needs. Of those who observe commands it is
// counted by statistics only.
func (c *Invocation) Call(r *Request, reply *resp.Writer) error {
	b := c.batch
	inner := b.invocation(c.level+1, c.Session, r, reply)
	if err := b.takeUnderway(inner); err != nil {
		return err
	}
	b.Tick()
	start := b.clock.last
	if c.OnReactor() && time.Duration(start-b.running.began) > reactorTime {
		return storage.ErrBudget
	}
	err := b.call(inner, c.Now)
	if b.takesBack(err) {
		return err
	}
	b.Tick()
	b.countCall(inner, time.Duration(b.clock.last-start))
	b.txn.Begin(b.mode(c), c.Now, b.budget)
	return nil
}

// takeUnderway takes what a request inside of the running one needs.
func (b *Batch) takeUnderway(inner *Invocation) error {
	if b.view != nil || b.locks.reopen != nil {
		return nil // nothing is locked, or everything
	}
	writes := b.plan.Writes
	p := &b.running.plan
	p.reset()
	if inner.Command.Plan != nil {
		if err := inner.Command.Plan(inner, p); err != nil {
			return nil // the command itself says what is wrong
		}
	} else {
		p.add(inner.Request)
	}
	switch {
	case p.Everything, p.Walk && writes: // it may have to see what its transaction has written
		b.needed().everything = true
		return errUnderway
	case (p.Worker || p.Walk) && b.budget > 0:
		b.needed().worker = true
		return errUnderway
	}
	for _, wanted := range p.locks {
		if wanted.exclusive = writes; !b.tryUnderway(wanted) {
			return errUnderway
		}
	}
	return nil
}

// tryUnderway tries a lock, and notes that it was needed.
func (b *Batch) tryUnderway(wanted wantedLock) bool {
	l := &b.locks
	if !wanted.exclusive && l.shares(wanted.stripe) {
		return true
	}
	before := len(l.exclusive) + len(l.shared)
	if l.try(wanted) {
		if len(l.exclusive)+len(l.shared) > before {
			b.running.turnedUp = append(b.running.turnedUp, wanted)
		}
		return true
	}
	n := b.needed()
	n.locks = append(append(n.locks, b.running.turnedUp...), wanted)
	n.rounds++
	b.running.busy = wanted.stripe
	b.engine.Statistics.Conflicts.Add(b.clock.lane, 1)
	return false
}

// shares reports whether the batch holds a lock for reading.
func (l *locks) shares(stripe uint32) bool {
	for _, held := range l.shared {
		if held == stripe {
			return true
		}
	}
	return false
}

// beginUnderway forgets what has turned up in the request that ran before.
func (b *Batch) beginUnderway(start int64) {
	b.running.turnedUp, b.running.began = b.running.turnedUp[:0], start
}

// waitUnderway is the outcome of a request that was taken back with errUnderway. A worker runs it again at once, with a new plan.
func (b *Batch) waitUnderway(c *Invocation) Outcome {
	n := b.needed()
	n.everything = n.everything || n.rounds > roundsUnderLocks
	if n.worker || n.everything || n.rounds > roundsOnReactor {
		return b.offload(c)
	}
	return c.Session.waits(b.locks.lockWait(b.running.busy))
}

// called is a request that Call has run, as statistics see it.
type called struct {
	command *Command
	took    time.Duration
	failure string
}

// mostCalled is how many of them wait for the end of the outermost request, to be forgotten should it be taken back: those of a script that
// makes millions are counted ahead of it.
const mostCalled = 4096

func (b *Batch) countCall(inner *Invocation, took time.Duration) {
	list := &b.running.outbox.called
	*list = append(*list, called{inner.Command, took, inner.failure})
	if len(*list) >= mostCalled {
		b.countCalls()
	}
}

func (b *Batch) countCalls() {
	list := &b.running.outbox.called
	for i := range *list {
		call := &(*list)[i]
		if call.failure != "" {
			b.engine.CountError(call.failure)
		}
		call.command.Measures.Record(b.clock.lane, call.took, call.failure != "")
	}
	clear(*list)
	*list = (*list)[:0]
}
