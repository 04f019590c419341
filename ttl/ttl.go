// Package ttl removes expired keys in the background, in bounded steps.
//
// It walks each database's own index of expiries and hands what is due to whoever removes keys,
// which checks again under the keys' locks. It knows nothing of storage, locks or the log, and
// imports the standard library only.
package ttl

import (
	"context"
	"sync/atomic"
	"time"
)

// Due is a key and the time (Unix ms) at which it expires.
type Due struct {
	ExpireMs int64
	Key      []byte
}

// Index is what expires when. Its methods are called from one goroutine.
type Index interface {
	// Databases is the number of databases.
	Databases() int
	// Waiting is the number of a database's keys that have an expiry. space is another number when the
	// database has got other keys altogether.
	Waiting(database int) (space uint32, keys int64)
	// Due returns up to limit keys of a database that expire at or before now (Unix ms), by time and
	// key, behind a place in that order; the zero Due is its beginning.
	Due(database int, behind Due, now int64, limit int) ([]Due, error)
}

// Remover removes keys. It checks under the keys' locks that they have really expired, and returns how
// many it removed. Those that it can't remove now it leaves: the sweeper comes back to them.
type Remover interface {
	// Ready tells that keys may be removed now.
	Ready() bool
	Remove(ctx context.Context, database int, due []Due) (removed int, err error)
}

// Options tell how a sweeper works. Functions are asked each time, so that they can change live.
type Options struct {
	Enabled  func() bool
	Interval func() time.Duration // between two rounds
	// Effort is the share of the time, in percent, that a round may take of the interval.
	Effort func() int
	Now    func() time.Time
	Failed func(error) // told of what goes wrong
}

const (
	stepKeys = 500
	// startOver is how often a walk begins at the beginning again. It goes on from where it
	// stopped otherwise, because that is behind the tombstones of what it has removed; only a
	// clock that was set back, or a remover that was not ready, leaves keys before that place.
	startOver = time.Minute
)

// Sweeper removes what has expired.
type Sweeper struct {
	index   Index
	remover Remover
	options Options
	places  []place // by database
	began   time.Time

	removed, late, lag, rounds atomic.Int64
}

// place is how far a database has been walked.
type place struct {
	space uint32
	due   Due
}

// New makes a sweeper; Run starts it.
func New(index Index, remover Remover, o Options) *Sweeper {
	return &Sweeper{index: index, remover: remover, options: o, places: make([]place, index.Databases())}
}

// Removed is how many keys were removed.
func (s *Sweeper) Removed() int64 { return s.removed.Load() }

// Lag is how long the oldest key that the last round met had been due (ms).
func (s *Sweeper) Lag() int64 { return s.lag.Load() }

// Late is the number of rounds that ended before everything due was removed.
func (s *Sweeper) Late() int64 { return s.late.Load() }

// Run sweeps until the context ends.
func (s *Sweeper) Run(ctx context.Context) {
	timer := time.NewTimer(s.options.Interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if s.options.Enabled() {
			s.Round(ctx)
		}
		timer.Reset(s.options.Interval())
	}
}

// Round removes what is due, for as long as a round may take. While nothing may be removed it does nothing;
// then it starts over.
func (s *Sweeper) Round(ctx context.Context) {
	if !s.remover.Ready() {
		clear(s.places)
		return
	}
	start := s.options.Now()
	if start.Sub(s.began) > startOver {
		s.began = start
		clear(s.places)
	}
	end := start.Add(s.options.Interval() * time.Duration(s.options.Effort()) / 100)
	s.rounds.Add(1)
	s.lag.Store(0)
	for database := range s.index.Databases() {
		space, keys := s.index.Waiting(database)
		if keys == 0 || s.places[database].space != space {
			s.places[database] = place{space: space}
		}
		if keys == 0 {
			continue
		}
		if !s.sweep(ctx, database, end) {
			s.late.Add(1)
		}
	}
}

// sweep removes what is due in one database; false when the time was up before.
func (s *Sweeper) sweep(ctx context.Context, database int, end time.Time) bool {
	for {
		now := s.options.Now()
		due, err := s.index.Due(database, s.places[database].due, now.UnixMilli(), stepKeys)
		if err != nil {
			s.options.Failed(err)
			return false
		}
		if len(due) == 0 {
			return true
		}
		s.lag.Store(max(s.lag.Load(), now.UnixMilli()-due[0].ExpireMs))
		removed, err := s.remover.Remove(ctx, database, due)
		if err != nil {
			s.options.Failed(err)
			return false
		}
		s.removed.Add(int64(removed))
		s.places[database].due = due[len(due)-1]
		if len(due) < stepKeys {
			return true
		}
		if ctx.Err() != nil || s.options.Now().After(end) {
			return false
		}
	}
}
