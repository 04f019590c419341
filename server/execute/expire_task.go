package execute

import (
	"time"

	"kedis/storage"
	"kedis/ttl"
)

// Expiries is the engine as the sweeper sees it: what is due in a database, and how it is removed.
func (e *Engine) Expiries() interface {
	ttl.Index
	ttl.Remover
} {
	return &expiries{engine: e, batch: e.newBatch(0, e.workers.slot, 0)}
}

type expiries struct {
	engine *Engine
	batch  *Batch // its owner and slot are those of the token that it has got
}

func (x *expiries) Databases() int { return x.engine.Store.Databases() }

func (x *expiries) Waiting(database int) (space uint32, keys int64) {
	return x.engine.Store.Expiring(database)
}

// Ready tells that keys may be removed. Reads hide what has expired; it is removed when there is room for
// that, or by the primary.
func (x *expiries) Ready() bool {
	return x.engine.removesExpired()
}

func (x *expiries) Due(database int, behind ttl.Due, now int64, limit int) (due []ttl.Due, err error) {
	x.read(now, func(t *storage.Txn) { due, err = t.DB(database).Due(behind, now, limit) })
	return due, err
}

func (x *expiries) CountDue(database int, behind ttl.Due, now int64, limit int) (count int, err error) {
	x.read(now, func(t *storage.Txn) { count, err = t.DB(database).CountDue(behind, now, limit) })
	return count, err
}

// read calls f with a transaction that reads, unless whole databases change, or the store is opened again: nothing
// is lost by looking later.
func (x *expiries) read(now int64, f func(*storage.Txn)) {
	x.engine.onWorker(x.batch, func(b *Batch) {
		if !b.locks.enter() {
			return
		}
		defer b.locks.leave()
		b.txn.Begin(storage.Mode{}, now, 0)
		f(b.txn)
		b.txn.Reset()
	})
}

// removesExpired tells whether the server may write on its own now.
func (e *Engine) removesExpired() bool {
	return e.Log.Ready() == nil && !e.paused() && !e.IsReplica()
}

// Remove removes keys in one commit, whose effects are a DEL for each.
func (x *expiries) Remove(database int, due []ttl.Due) (step ttl.Step, err error) {
	start, _ := x.engine.clock.now()
	x.engine.onWorker(x.batch, func(b *Batch) { step, err = b.removeExpired(database, due) })
	end, _ := x.engine.clock.now()
	x.engine.NoteLatency("expire-cycle", time.Duration(end-start))
	x.engine.Statistics.Sweeping.Add(end - start)
	return step, err
}

// A step ends with removeTime, or removeKeys: so long others wait for the locks that it holds, and its commit
// for those of others.
const (
	removeTime = time.Millisecond
	removeKeys = 1024
)

// removeExpired waits for nobody: a key that somebody else has locked it leaves.
func (b *Batch) removeExpired(database int, due []ttl.Due) (step ttl.Step, err error) {
	if !b.locks.enter() {
		return step, nil
	}
	if !b.engine.removesExpired() { // only inside of the gate it stays as it is
		b.giveUp()
		return step, nil
	}
	start, now := b.engine.clock.now()
	b.txn.Begin(storage.Mode{Writing: true, Notify: b.wantedEvents()}, now, 0)
	db := b.txn.DB(database)
	for at := start; err == nil && step.Seen < min(len(due), removeKeys) && at < start+int64(removeTime); at, _ = b.engine.clock.now() {
		some := due[step.Seen:min(step.Seen+storage.PrefetchBatch, len(due))]
		db.PrefetchDue(some)
		err = b.removeDue(db, some, &step)
	}
	if err == nil {
		err = b.serveBlocked(now)
	}
	if err != nil {
		b.running.reset()
		b.txn.Reset() // nothing is half done: the sweeper comes back
	}
	if failed := b.Commit(); err == nil {
		err = failed
	}
	if err != nil {
		return ttl.Step{}, err
	}
	return step, nil
}

func (b *Batch) removeDue(db storage.DB, due []ttl.Due, step *ttl.Step) error {
	for _, d := range due {
		step.Seen++
		if !b.locks.try(wantedLock{b.engine.Store.Stripe(db.Number(), d.Key), true}) {
			step.Busy = append(step.Busy, d)
			continue
		}
		gone, err := db.RemoveExpired(d.Key)
		if err != nil {
			return err
		}
		if gone {
			step.Removed++
		}
	}
	return nil
}
