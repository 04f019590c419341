package execute

import (
	"slices"
	"time"

	"kedis/internal/resp"
)

// A script calls commands of whose keys nobody has said anything: each is planned for when it is
// called, and what it needs is taken as further.go says.

// Add takes up what a request needs, as its words say it.
func (p *Plan) Add(r *Request) { p.add(r) }

// Inner makes a request of words in memory of Room, to be run with Call. There is one at a time.
func (c *Invocation) Inner(words [][]byte) *Request {
	b := c.batch
	r := &b.running.inner
	b.reader.readInto(r, c.Session.Database, words)
	return r
}

// NeedsEverything reports whether the outermost request was taken back since it needs whole
// databases.
func (c *Invocation) NeedsEverything() bool {
	return c.batch.running.stack[0].further.everything
}

// Written is how many records the invocation, and those in it, have written.
func (c *Invocation) Written() int { return c.Txn.Written(&c.before.txn) }

// Refusal is nil, or why a gate refuses a request that is to run inside of this one; what its user
// may do, PermitCall says. That its client listens, or watches all commands, is no reason: the
// reply isn't sent to it, and this one was let in. When this one has written, the gates of writes
// let it go on, or half of it would be kept. A server that is to have another role waits until it
// ends.
func (c *Invocation) Refusal(r *Request) error {
	but := gatesOfUsers | gateListening | gateMonitor
	if c.Written() > 0 {
		but |= gatesOfWrites
	}
	return r.passBut(but, c.batch, c.Session)
}

// Stale reports whether the data is a replica's that has lost its primary, and is configured not to
// show what may be old.
func (c *Invocation) Stale() bool {
	e := c.Engine
	return e.role.stale.Load() && !c.batch.repeat.applying && !e.Config.ReplicaServeStaleData.Get()
}

// EnoughReplicas is nil, or why writes are refused while too few replicas keep up.
func (c *Invocation) EnoughReplicas() error { return c.batch.enoughReplicas() }

// reactorTime is how long scripts, and calls, of one request may go on on a reactor.
const reactorTime = 4 * time.Millisecond

// KeepReactor is nil as long as the outermost request may go on on a reactor. Otherwise the error
// is to be returned: a worker runs it.
func (c *Invocation) KeepReactor() error {
	if b := c.batch; c.OnReactor() && time.Duration(b.clock.last-b.running.began) > reactorTime {
		return c.Offload()
	}
	return nil
}

// Call is Invoke for a request that nobody has planned for: it takes the locks that the request
// needs. Statistics count it, and observers see it.
func (c *Invocation) Call(r *Request, reply *resp.Writer) error {
	b := c.batch
	inner := b.invocation(c.level+1, c.Session, r, reply)
	if err := b.takeUnderway(inner); err != nil {
		return err
	}
	b.Tick()
	start := b.clock.last
	if err := c.KeepReactor(); err != nil {
		return err
	}
	err := b.call(inner, c.Now, b.budget)
	if b.takesBack(err) {
		return err
	}
	b.Tick()
	took := time.Duration(b.clock.last - start)
	b.showCall(inner, took)
	b.noteCalled(called{command: inner.Command, took: took, failure: inner.failure})
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
		b.running.stack[0].further.everything = true
		return errFurther
	case (p.Worker || p.Walk || p.Follow && !writes) && b.budget > 0:
		b.running.stack[0].further.worker = true
		return errFurther
	}
	for _, wanted := range p.locks {
		if err := b.takeLock(wanted.stripe, writes); err != nil {
			return err
		}
	}
	return nil
}

// takeLock takes a lock for a request inside of the running one. Inside of one that only reads,
// others may read, too.
func (b *Batch) takeLock(stripe uint32, exclusive bool) error {
	switch {
	case exclusive:
		return b.lockFurther(stripe)
	case slices.Contains(b.locks.shared, stripe):
		return nil
	case b.locks.try(wantedLock{stripe, false}):
		b.running.readMore = true
		return nil
	}
	return b.lack(stripe)
}

// CallRefused counts a request that may not run inside of this one, as a client's that is refused.
func (c *Invocation) CallRefused(r *Request, err error) {
	c.batch.noteCalled(called{command: r.Command, failure: err.Error(), refused: true})
}

// QueuedRefused counts the refusal of a request that EXEC would run. As in Redis, the command's own
// figures don't show it.
func (c *Invocation) QueuedRefused(err error) {
	c.batch.noteCalled(called{failure: err.Error(), refused: true})
}

// called is a request that Call has run, or that was refused, as statistics see it.
type called struct {
	command *Command // nil: it was refused, and no command counts that
	took    time.Duration
	failure string
	refused bool
}

// mostCalled is how many of them wait for the end of the outermost request, to be forgotten should
// it be taken back: those of a script that makes millions are counted ahead of it.
const mostCalled = 4096

func (b *Batch) noteCalled(call called) {
	list := &b.running.outbox.called
	if *list = append(*list, call); len(*list) >= mostCalled {
		b.countCalls()
	}
}

func (b *Batch) countCalls() {
	list := &b.running.outbox.called
	for i := range *list {
		if call := &(*list)[i]; call.refused {
			b.countRefused(call.command, call.failure)
		} else {
			b.count(call.command, call.took, call.failure, false)
		}
	}
	clear(*list)
	*list = (*list)[:0]
}
