package command

import (
	"context"
	"time"

	"kedis/storage"
	"kedis/ttl"
)

// Expiries is the engine as the sweeper sees it: what is due in a database, and how it is removed.
func (e *Engine) Expiries() interface {
	ttl.Index
	ttl.Remover
} {
	return &expiries{e}
}

type expiries struct{ engine *Engine }

func (x *expiries) Databases() int { return x.engine.Store.Databases() }

func (x *expiries) Waiting(database int) (space uint32, keys int64) {
	return x.engine.Store.Expiring(database)
}

// Ready tells that keys may be removed. Reads hide what has expired; it is removed when there is room for
// that, or by the primary.
func (x *expiries) Ready() bool {
	return x.engine.removesExpired()
}

func (x *expiries) Due(database int, behind ttl.Due, now int64, limit int) ([]ttl.Due, error) {
	var due []ttl.Due
	var err error
	x.engine.onWorker(func(b *Batch) {
		if !b.engine.Gate.TryEnter(b.slot) {
			return // whole databases change, or the store is opened again; nothing is lost by looking later
		}
		defer b.engine.Gate.Leave(b.slot)
		b.txn.Begin(storage.Mode{}, now, 0)
		due, err = b.txn.DB(database).Due(behind, now, limit)
	})
	return due, err
}

// removesExpired tells whether the server may write on its own now.
func (e *Engine) removesExpired() bool {
	return e.Log.Ready() == nil && !e.paused() && !e.IsReplica()
}

// Remove removes keys in one commit, whose effects are a DEL for each.
func (x *expiries) Remove(_ context.Context, database int, due []ttl.Due) (removed int, err error) {
	start, _ := x.engine.clock.now()
	x.engine.onWorker(func(b *Batch) { removed, err = b.removeExpired(database, due) })
	end, _ := x.engine.clock.now()
	x.engine.noteLatency("expire-cycle", time.Duration(end-start))
	return removed, err
}

func (b *Batch) removeExpired(database int, due []ttl.Due) (removed int, err error) {
	b.plan.reset()
	for _, d := range due {
		b.plan.locks = append(b.plan.locks, wantedLock{b.engine.Store.Stripe(database, d.Key), true})
	}
	b.plan.sort()
	b.await()
	if !b.engine.removesExpired() { // only inside of the gate it stays as it is
		b.giveUp()
		return 0, nil
	}
	_, now := b.engine.clock.now()
	b.txn.Begin(storage.Mode{Writing: true}, now, 0)
	db := b.txn.DB(database)
	for _, d := range due {
		gone, failed := db.RemoveExpired(d.Key)
		if failed != nil {
			err = failed
			break
		}
		if gone {
			removed++
		}
	}
	if err != nil {
		b.txn.Reset() // nothing is half done: the sweeper comes back
		removed = 0
	}
	if failed := b.Commit(); err == nil {
		err = failed
	}
	return removed, err
}
