package engine

import (
	"bytes"
	"errors"

	"kedis/storage/rocks"
)

// ErrCold is returned when a walk of a command that runs with Mode.Parks comes to what RocksDB has
// in a file only. ColdWalk brings that into memory; then the command runs again.
var ErrCold = errors.New("storage: a walk comes to what is on the disk")

// ColdWalk is where a walk over records has come to a block that RocksDB hasn't got in memory.
type ColdWalk struct {
	space  *Namespace
	bounds rocks.IteratorOptions
}

// parks reports whether walks are to end where they would wait for the disk.
func (t *Txn) parks() bool {
	parks := t.running.mode.Parks
	return parks != nil && t.view == nil && parks()
}

// ColdWalk is the walk that the last ErrCold is about.
func (t *Txn) ColdWalk() ColdWalk { return t.order.cold }

// Often returns the error of who would wait for the disk again and again: ErrBudget for ErrCold, so
// that the command runs on a worker, under its locks: there, what it reads is noted in trees, too.
func (t *Txn) Often(err error) error {
	if !errors.Is(err, ErrCold) {
		return err
	}
	t.order.asked = true
	return ErrBudget
}

// goOn notes where a walk has ended.
func (w *ColdWalk) goOn(it *Iterator) {
	w.space, w.bounds = it.space, it.bounds
	w.bounds.CachedOnly, w.bounds.KeysOnly = false, true
	switch {
	case it.key == nil:
	case it.reverse:
		w.bounds.UpperBound = bytes.Clone(it.key)
	default:
		w.bounds.LowerBound = bytes.Clone(it.key)
	}
}

// FetchWalk brings the next entries of a walk into RocksDB's cache. It waits for the disk. It
// leaves errors to the command, which meets them again. The caller has passed the gate.
func (s *Store) FetchWalk(w ColdWalk, entries int) {
	family := w.space.family.Load()
	if family == nil {
		return
	}
	it := s.db().NewIterator(family, nil, w.bounds)
	defer it.Close()
	for ; entries > 0 && it.Next(); entries-- {
	}
}
