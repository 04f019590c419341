package execute

import (
	"bytes"
	"errors"
	"time"

	"kedis/storage"
	"kedis/ttl"
)

// Expiring is what a sweeper sees of the engine: what is due in a database, and how it is removed.
type Expiring interface {
	ttl.Index
	ttl.Remover
}

// Expiries is the engine as the sweeper of keys sees it.
func (e *Engine) Expiries() Expiring { return e.newExpiries() }

func (e *Engine) newExpiries() *expiries {
	return &expiries{engine: e, batch: e.newBatch(0, e.workers.door, 0, e.Store.NewTxn()), allowed: e.removesExpired, remove: (*Batch).removeKey}
}

// FieldExpiries is the engine as the sweeper of hashes' fields sees it. A key that is due is a hash
// of which fields are.
func (e *Engine) FieldExpiries() Expiring {
	x := &fieldExpiries{expiries: e.newExpiries()}
	x.remove = x.removeFields
	return x
}

type fieldExpiries struct {
	*expiries
	hash ttl.Due // of which some fields were removed, in a database
	of   int
	left storage.ExpiredFields
}

func (x *fieldExpiries) Waiting(database int) (space uint32, hashes int64) {
	space, some := x.engine.Store.ExpiringHashes(database)
	if some {
		hashes = 1 // how many, nobody counts
	}
	return space, hashes
}

func (x *fieldExpiries) Due(database int, behind ttl.Due, now int64, limit int) (due []ttl.Due, err error) {
	x.read(storage.Mode{}, now, func(t *storage.Txn) {
		if err = t.DB(database).SeekExpiringHashes(); err == nil {
			due, err = t.DB(database).DueHashes(behind, now, limit)
		}
	})
	return due, err
}

func (x *fieldExpiries) CountDue(database int, behind ttl.Due, now int64, limit int) (int, error) {
	return x.count(now, func(t *storage.Txn) (int, error) { return t.DB(database).CountDueHashes(behind, now, limit) })
}

type expiries struct {
	engine *Engine
	batch  *Batch // its owner and door are those of the token that it has got
	// allowed reports whether the server may remove anything now.
	allowed func() bool
	// remove removes what has expired of something that is due and whose lock is held.
	remove func(b *Batch, db storage.DB, due ttl.Due, step *ttl.Step) error
}

func (x *expiries) Databases() int { return x.engine.Store.Databases() }

func (x *expiries) Waiting(database int) (space uint32, keys int64) {
	return x.engine.Store.Expiring(database)
}

// Ready tells that keys may be removed. Reads hide what has expired; it is removed when there is
// room for that, or by the primary.
func (x *expiries) Ready() bool {
	return x.allowed()
}

func (x *expiries) Due(database int, behind ttl.Due, now int64, limit int) (due []ttl.Due, err error) {
	x.read(storage.Mode{}, now, func(t *storage.Txn) { due, err = t.DB(database).Due(behind, now, limit) })
	return due, err
}

func (x *expiries) CountDue(database int, behind ttl.Due, now int64, limit int) (int, error) {
	return x.count(now, func(t *storage.Txn) (int, error) { return t.DB(database).CountDue(behind, now, limit) })
}

// count counts many records, and ends with what it has when somebody wants whole databases: all
// others would wait for it, too.
func (x *expiries) count(now int64, f func(*storage.Txn) (int, error)) (count int, err error) {
	mode := storage.Mode{Unwanted: x.engine.Gate.Closed()}
	x.read(mode, now, func(t *storage.Txn) { count, err = f(t) })
	if errors.Is(err, storage.ErrUnwanted) {
		err = nil
	}
	return count, err
}

// read calls f with a transaction that reads, unless whole databases change, or the store is opened
// again: nothing is lost by looking later.
func (x *expiries) read(mode storage.Mode, now int64, f func(*storage.Txn)) {
	x.engine.onWorker(x.batch, func(b *Batch) {
		if !b.locks.enter() {
			return
		}
		defer b.locks.leave()
		b.txn.Begin(mode, now, 0)
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
	x.engine.onWorker(x.batch, func(b *Batch) { step, err = x.removeDue(b, database, due) })
	end, _ := x.engine.clock.now()
	x.engine.NoteLatency("expire-cycle", time.Duration(end-start))
	x.engine.Statistics.Sweeping.Add(end - start)
	return step, err
}

// A step ends with removeTime, or removeKeys: so long others wait for the locks that it holds, and
// its commit for those of others.
const (
	removeTime = time.Millisecond
	removeKeys = 1024
)

// removeDue waits for nobody: a key that somebody else has locked it leaves.
func (x *expiries) removeDue(b *Batch, database int, due []ttl.Due) (step ttl.Step, err error) {
	if !b.locks.enter() {
		return step, nil
	}
	if !x.allowed() { // only inside of the gate it stays as it is
		b.giveUp()
		return step, nil
	}
	start, now := b.engine.clock.now()
	b.txn.Begin(storage.Mode{Writing: true, Notify: b.wantedEvents()}, now, 0)
	db := b.txn.DB(database)
	for at := start; err == nil && step.Seen < min(len(due), removeKeys) && at < start+int64(removeTime); at, _ = b.engine.clock.now() {
		some := due[step.Seen:min(step.Seen+storage.PrefetchBatch, len(due))]
		db.PrefetchDue(some)
		err = x.removeSome(b, db, some, &step)
	}
	if err == nil {
		err = b.serveBlocked(now)
	}
	if err != nil {
		b.takeBack() // nothing is half done: the sweeper comes back
	}
	if failed := b.Commit(); err == nil {
		err = failed
	}
	if err != nil {
		return ttl.Step{}, err
	}
	return step, nil
}

func (x *expiries) removeSome(b *Batch, db storage.DB, due []ttl.Due, step *ttl.Step) error {
	for _, d := range due {
		step.Seen++
		if !b.locks.try(wantedLock{b.engine.Store.Stripe(db.Number(), d.Key), true}) {
			step.Busy = append(step.Busy, d)
			continue
		}
		if err := x.remove(b, db, d, step); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) removeKey(db storage.DB, due ttl.Due, step *ttl.Step) error {
	gone, err := db.RemoveExpired(due.Key)
	if gone {
		step.Removed++
	}
	return err
}

// removeFields removes fields of a hash for as long as a step may take.
func (x *fieldExpiries) removeFields(b *Batch, db storage.DB, due ttl.Due, step *ttl.Step) error {
	if x.of != db.Number() || !bytes.Equal(x.hash.Key, due.Key) {
		x.of, x.hash, x.left = db.Number(), due, storage.ExpiredFields{}
	}
	start, _ := b.engine.clock.now()
	for {
		before := x.left.Removed
		if err := db.RemoveExpiredFields(due.Key, &x.left); err != nil {
			x.left = storage.ExpiredFields{}
			return err
		}
		step.Removed += x.left.Removed - before
		if !x.left.Left {
			x.left = storage.ExpiredFields{}
			return nil
		}
		if at, _ := b.engine.clock.now(); at >= start+int64(removeTime) {
			step.Again = append(step.Again, due)
			return nil
		}
	}
}
