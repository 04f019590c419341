package execute

import (
	"errors"
	"time"

	"kedis/storage"
)

// Commit makes what the batch has done durable and visible, and gives its locks back. After it
// returned nil the replies of Members may leave. When it fails Undo says what becomes of the
// members: nothing has happened, unless the writes stand in doubt. Either way Clear has to follow.
func (b *Batch) Commit() error {
	wrote := !b.txn.Empty()
	err := b.commitTxn()
	if stands(err) {
		b.publish(wrote)
	}
	b.running.reset()
	b.members.forgetWriters()
	b.engine.Statistics.Batches.Add(b.clock.lane, 1)
	if stands(err) {
		b.countLookups()
	}
	b.locks.release()
	b.txn.Reset()
	b.countPass()
	return err
}

// stands reports whether what was to be committed has been, given how that ended.
func stands(err error) bool { return err == nil || errors.Is(err, storage.ErrInDoubt) }

// publish tells all that the batch's writes concern.
func (b *Batch) publish(wrote bool) {
	b.markWatchers()
	position := b.engine.Store.Position()
	if wrote && b.engine.Synchronous.active.Load() {
		b.noteWritten(position)
	}
	b.members.committed(position, wrote)
	b.running.outbox.tellServed(position) // first: to a client that is pushed what it has caused the reply comes before
	b.tell(position, wrote)
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
	start := b.clock.last
	err := b.engine.Store.Commit(b.txn)
	b.Tick()
	b.engine.NoteLatency("commit", time.Duration(b.clock.last-start))
	return err
}

// markWatchers marks those who watch what was changed since it was last called: before the next
// command of the batch, which may be the EXEC of one of them. The locks of the keys are held until
// the commit, so nobody else can look at the keys in between; should the commit fail, the marked
// try again in vain.
func (b *Batch) markWatchers() {
	events := b.txn.KeyEvents()
	if b.engine.inUse.any(watching) { // WATCH takes the lock of its key, so nobody begins in between
		b.engine.Watches.Changed(events, b.running.marked)
	}
	b.running.marked = events.Len()
}

// Members are the sessions whose replies wait for the commit.
func (b *Batch) Members() []Member { return b.members.list }

// Followed is how many sessions have begun with a request for a lock that the batch had already:
// they write to one key.
func (b *Batch) Followed() int { return b.members.followed }

// Has reports whether a session has replies that wait for the commit.
func (b *Batch) Has(s *Session) bool { return s.member != 0 }

// Undo puts the members back to where they were before the batch, after a commit that failed. What
// they have Executed is to be executed again; their writes will be refused with the error. When the
// writes stand, it returns false: nothing is to be executed again, and of the replies only those to
// writes are replaced by the error.
func (b *Batch) Undo(err error) (again bool) {
	if !stands(err) {
		b.members.undo(err)
		b.txn.Lookups() // they will be counted when they are made again
		return true
	}
	text := logFailed(err).Error()
	for range b.members.doubt(text) {
		b.engine.CountError(text)
	}
	return false
}

// logFailed is the reply to a write that the log hasn't taken, or may lose.
func logFailed(err error) Error { return Errorf("MISCONF Errors writing to the log: %v", err) }

// Clear forgets the members, so that a new batch can begin.
func (b *Batch) Clear() {
	b.members.clear()
	b.running.room.reset()
}

// Abandon takes back what a command that panicked has done.
func (b *Batch) Abandon() {
	b.running.abandon()
	b.locks.releaseShared()
}
