package execute

import (
	"time"

	"kedis/storage"
)

// ErrStopping is what Step returns when the server stops.
const ErrStopping = Error("ERR the server stops")

// Step runs f as a transaction of its own, with keys of the selected database locked, for a command
// on a worker that has many of them to do. What the invocation did before is committed. Exclusive
// locks are for changing the keys: while a pause lasts they are waited for, and on a replica they
// are refused. Who waits for a script's keys for too long is answered BUSY, as all others are.
func (c *Invocation) Step(keys [][]byte, exclusive bool, f func(db storage.DB) error) error {
	b := c.batch
	if err := c.lockStep(keys, exclusive); err != nil {
		return err
	}
	b.Tick()
	now := b.clock.unixMs(b.clock.last)
	b.txn.Begin(b.mode(c), now, 0)
	var savepoint storage.Savepoint
	var waiting outboxMark
	b.txn.Mark(&savepoint)
	b.running.outbox.mark(&waiting)
	err := f(b.txn.DB(c.selected))
	if err == nil && b.engine.inUse.any(blocking) {
		// f mustn't run again: who can't be served for want of a lock waits on.
		if failed := b.serveBlocked(now); !comesBack(failed) {
			err = failed
		}
	}
	if err != nil {
		b.txn.Rollback(&savepoint)
		b.running.outbox.rewind(waiting)
	}
	b.noteWriter(c.Session, &savepoint)
	b.txn.Enclose(&savepoint)
	wrote := !b.txn.Empty()
	if failed := b.Commit(); failed != nil {
		return logFailed(failed)
	}
	if s := c.Session; wrote && b.engine.Synchronous.active.Load() {
		s.depends = max(s.depends, b.engine.Store.Position())
	}
	return err
}

// askedForStop is how soon who waits for a step's locks finds that the server stops, or that a
// script is in the way for too long.
const askedForStop = 50 * time.Millisecond

// patienceForStep is patience for who waits until the server stops at the latest.
func (e *Engine) patienceForStep(w Wait) (again time.Duration, refusal error) {
	if e.Stopping() {
		return 0, ErrStopping
	}
	_, refusal = e.patience(w)
	return askedForStop, refusal
}

func (c *Invocation) lockStep(keys [][]byte, exclusive bool) error {
	b := c.batch
	b.giveUp() // of the gate, in which the command began
	for {
		b.plan.reset()
		for _, key := range keys {
			b.plan.Lock(c.Engine.Store.Stripe(c.selected, key), exclusive)
		}
		b.plan.sort()
		if err := b.locks.await(&b.plan, c.Engine.patienceForStep); err != nil {
			b.giveUp()
			return err
		}
		if !exclusive || !b.barred(c.Session, c.Request) {
			return nil
		}
		b.giveUp()
		if err := refuseWritesOnReplica(b, c.Session, c.Request); err != nil {
			return err
		}
		b.awaitUnpaused()
		if c.Engine.Stopping() {
			return ErrStopping
		}
	}
}

// Admissible is nil, or why the request would be refused now.
func (c *Invocation) Admissible() error { return c.pass(c.batch, c.Session) }
