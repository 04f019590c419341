package execute

import (
	"kedis/storage"
	"kedis/ttl"
)

// Departures is the engine as that sweeper sees it which removes what is left of consumers of
// streams' groups that are gone. A key that is due is a stream with such a group; its time is the
// number of the store's note. Nothing of it leaves an effect, so a replica does it, too.
func (e *Engine) Departures() Expiring {
	x := &departures{expiries: e.newExpiries()}
	x.allowed = func() bool { return e.Log.Ready() == nil && !e.paused() }
	x.remove = x.removeEntries
	return x
}

type departures struct {
	*expiries
	of   int64 // the note that left is of
	left storage.DepartedEntries
	done []storage.DepartedOf // in the commit that is being made
}

// Remove notes again, when the commit fails, what was done in it. A note that was taken away behind
// the commit, without the locks, could be one of what somebody has left since.
func (x *departures) Remove(database int, due []ttl.Due) (step ttl.Step, err error) {
	x.done = x.done[:0]
	if step, err = x.expiries.Remove(database, due); err != nil {
		x.left = storage.DepartedEntries{}
		for _, group := range x.done {
			x.engine.Store.NoteDeparted(group)
		}
	}
	return step, err
}

func (x *departures) Waiting(database int) (space uint32, groups int64) {
	return 0, int64(len(x.engine.Store.Departed(database, 0)))
}

func (x *departures) Due(database int, behind ttl.Due, _ int64, limit int) (due []ttl.Due, err error) {
	groups := x.engine.Store.Departed(database, behind.ExpireMs)
	for _, g := range groups[:min(limit, len(groups))] {
		due = append(due, ttl.Due{ExpireMs: g.Number, Key: []byte(g.Key)})
	}
	return due, nil
}

func (x *departures) CountDue(database int, behind ttl.Due, _ int64, limit int) (int, error) {
	return min(limit, len(x.engine.Store.Departed(database, behind.ExpireMs))), nil
}

// removeEntries removes what is left of a group's consumers for as long as a step may take.
func (x *departures) removeEntries(b *Batch, db storage.DB, due ttl.Due, step *ttl.Step) error {
	groups := b.engine.Store.Departed(db.Number(), due.ExpireMs-1)
	if len(groups) == 0 || groups[0].Number != due.ExpireMs {
		return nil
	}
	if x.of != due.ExpireMs {
		x.of, x.left = due.ExpireMs, storage.DepartedEntries{}
	}
	start, _ := b.engine.clock.now()
	for {
		before := x.left.Removed
		if err := db.RemoveDeparted(due.Key, []byte(groups[0].Group), &x.left); err != nil {
			x.left = storage.DepartedEntries{}
			return err
		}
		step.Removed += x.left.Removed - before
		if !x.left.Left {
			b.engine.Store.ForgetDeparted(due.ExpireMs)
			x.done = append(x.done, groups[0])
			return nil
		}
		if at, _ := b.engine.clock.now(); at >= start+int64(removeTime) {
			step.Again = append(step.Again, due)
			return nil
		}
	}
}
