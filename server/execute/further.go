package execute

import (
	"errors"
	"slices"
)

// A request may find out only while it runs that it needs another key: a script's undeclared one,
// or the destination of a blocked client that it serves. Such a key is tried at once, exclusively.
// Only when somebody else has it, the request is taken back, and runs again with the larger set of
// locks, which is taken in order, so there is no deadlock.

const (
	// roundsOnReactor is how often a request runs again on its reactor before a worker, which waits
	// for all its locks in order, has it.
	roundsOnReactor = 3
	// roundsBesideOthers is how often it runs beside others before it runs alone.
	roundsBesideOthers = 16
)

// errFurther takes a request back that needs a lock which somebody else has.
const errFurther = Error("the request needs another lock")

// further is what a request needs besides what its words say.
type further struct {
	stripes    []uint32 // locks
	rounds     int      // that it was taken back for want of one
	worker     bool
	everything bool
}

func (f *further) any() bool { return len(f.stripes) > 0 || f.worker || f.everything }

// LockKey takes the lock of another key for the running request. An error is to be returned: the
// request runs again with that lock.
func (c *Invocation) LockKey(database int, key []byte) error {
	return c.batch.lockFurther(c.Engine.Store.Stripe(database, key))
}

// LockFound is LockKey for a key that a command with the flag Follow has found. By itself such a
// command reads a view, or aside.
func (c *Invocation) LockFound(database int, key []byte) error {
	b := c.batch
	if !c.Nested() || b.view != nil {
		return nil
	}
	return b.takeLock(c.Engine.Store.Stripe(database, key), b.plan.Writes)
}

// NeedAlone is for a command that would lock too many keys: an error, to be returned, has the
// outermost request run again without others.
func (c *Invocation) NeedAlone() error {
	b := c.batch
	if !c.Nested() || b.view != nil || b.locks.reopen != nil || !b.plan.Writes {
		return nil
	}
	b.running.stack[0].further.everything = true
	return errFurther
}

// ReadsView reports whether the request reads a view, without locks.
func (c *Invocation) ReadsView() bool { return c.batch.view != nil }

// RequireAlone is nil if nothing else runs. Otherwise the error is to be returned: the request runs
// again, alone.
func (c *Invocation) RequireAlone() error {
	b := c.batch
	if b.locks.reopen != nil || b.repeat.applying && !b.repeat.locking {
		return nil
	}
	b.running.stack[0].further.everything = true
	return errFurther
}

// keepRunning is nil if an inner request may have effects that nobody takes back. Otherwise the
// error takes the outermost one back, ahead of them: it runs again where nothing makes it run once
// more, on a worker from a view, or alone.
func (c *Invocation) keepRunning() error {
	switch {
	case !c.Nested() || c.flags&(NoBatch|AtOnce) == 0 || c.batch.view != nil:
		return nil
	case c.OnReactor():
		return c.Offload()
	}
	return c.RequireAlone()
}

func (b *Batch) lockFurther(stripe uint32) error {
	if b.locks.reopen != nil || b.repeat.applying && !b.repeat.locking {
		return nil // nobody else runs
	}
	held := len(b.locks.exclusive)
	if b.locks.try(wantedLock{stripe, true}) {
		if len(b.locks.exclusive) > held {
			b.running.turnedUp = append(b.running.turnedUp, stripe)
		}
		return nil
	}
	return b.lack(stripe)
}

// lack notes that somebody else has a lock. What the request has turned out to need up to there it
// needs again.
func (b *Batch) lack(stripe uint32) error {
	if b.running.stack[0].Request == nil {
		return errFurther // it is no request, but the sweeper, which comes back
	}
	f := &b.running.stack[0].further
	f.stripes = append(append(f.stripes, b.running.turnedUp...), stripe)
	slices.Sort(f.stripes)
	f.stripes = slices.Compact(f.stripes)
	f.rounds++
	b.running.lacking = stripe
	return errFurther
}

// lacks is the outcome of a request that was taken back for want of a lock.
func (b *Batch) lacks(c *Invocation) Outcome {
	if b.budget > 0 && (c.further.worker || c.further.everything || c.further.rounds > roundsOnReactor) {
		return b.offload(c)
	}
	b.engine.Statistics.Conflicts.Add(b.clock.lane, 1)
	return b.waitOut(c, b.locks.lockWait(b.running.lacking))
}

// addFurther takes up what a request turned out to need when it ran before.
func (p *Plan) addFurther(r *Request) {
	if !r.further.any() {
		return
	}
	for _, stripe := range r.further.stripes {
		p.Lock(stripe, true)
	}
	p.Worker = p.Worker || r.further.worker
	p.Everything = p.Everything || r.further.everything || r.further.rounds > roundsBesideOthers
}

// comesBack reports whether an error takes the outermost request back to be executed again.
func comesBack(err error) bool { return errors.Is(err, errFurther) }
