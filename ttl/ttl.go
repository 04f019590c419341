// Package ttl removes expired keys in the background, in bounded steps.
//
// It walks each database's own index of expiries and hands what is due to whoever removes keys,
// which checks again under the keys' locks. It knows nothing of storage, locks or the log, and
// imports the standard library only.
package ttl

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// Due is a key and the time (Unix ms) at which it expires, or an earlier one.
type Due struct {
	ExpireMs int64
	Key      []byte
}

// Index is what expires when. Its methods are called from one goroutine.
type Index interface {
	// Databases is the number of databases.
	Databases() int
	// Waiting is the number of a database's keys that have an expiry. space is another number when
	// the database has got other keys altogether.
	Waiting(database int) (space uint32, keys int64)
	// Due returns up to limit keys of a database that expire at or before now (Unix ms), by time
	// and key, behind a place in that order; one whose key is nil is its beginning. Those that have
	// got their time since it was called last come even if they are before that place: a commit may
	// take longer than its keys live.
	Due(database int, behind Due, now int64, limit int) ([]Due, error)
	// CountDue is how many keys Due would return, or fewer when the count would hold up others.
	CountDue(database int, behind Due, now int64, limit int) (int, error)
}

// Remover removes keys. It checks under the keys' locks that they have really expired.
type Remover interface {
	// Ready reports whether keys may be removed now.
	Ready() bool
	// Remove removes, as one step that is short enough for everybody to wait for, the first of some
	// keys. When it fails it has removed none.
	Remove(database int, due []Due) (Step, error)
}

// Step is what happened to the first of some keys.
type Step struct {
	Seen    int // so many of them it is about; 0 when nothing can be removed just now
	Removed int
	Busy    []Due // those of them that somebody else is using
	Again   []Due // those of them of which something is left to be removed
}

// Options are how a sweeper works. Functions are asked each time, so that they can change live.
type Options struct {
	Enabled  func() bool
	Interval func() time.Duration // between two rounds
	// Effort is the share of the time, in percent, that removing may take while others are served.
	Effort func() int
	// Served is a number that grows when others are served.
	Served func() int64
	// Backlogged reports whether removing more would only add to what waits for the disk.
	Backlogged func() bool
	Now        func() time.Time
	Failed     func(error) // told of what goes wrong
}

const (
	// readKeys is how many keys are read at once: beginning a scan costs as much as a thousand
	// steps of it.
	readKeys = 16384
	// countKeys is how many of those behind them are counted.
	countKeys = 1 << 20
	// startOver is how often a scan begins at the beginning again. Otherwise it goes on from where
	// it stopped, behind the tombstones of what it has removed. Only a clock that was set back, or
	// a remover that was not ready, leaves keys before the cursor.
	startOver = time.Minute
	// longestRest bounds the rest after a step that took long because the processor had other
	// things to do.
	longestRest = 10 * time.Millisecond
)

// Sweeper removes what has expired.
type Sweeper struct {
	index   Index
	remover Remover
	options Options
	cursors []cursor // by database
	began   time.Time
	served  int64

	removed, late atomic.Int64
}

// cursor is how far a database has been scanned.
type cursor struct {
	space uint32
	to    Due   // the last that was read
	due   []Due // what was read and is still to be removed
	busy  []Due // what somebody was using; its turn comes again with what is read next, or in the next round
	more  int   // how many were due behind to, when that was counted; less what was read since
	most  int   // how many the next step may take, since one has failed; 0: as many as it likes

	waiting, oldest atomic.Int64 // for others: how many are due, and since when the first of them is (Unix ms, 0: none is)
}

func (p *cursor) reset() {
	p.to, p.due, p.busy, p.more, p.most = Due{}, nil, nil, 0, 0
	p.publish()
}

// publish shows others what is left to do.
func (p *cursor) publish() {
	oldest := int64(0)
	for _, list := range [][]Due{p.due, p.busy} {
		if len(list) > 0 && (oldest == 0 || list[0].ExpireMs < oldest) {
			oldest = list[0].ExpireMs
		}
	}
	p.oldest.Store(oldest)
	p.waiting.Store(int64(len(p.due) + len(p.busy) + p.more))
}

// New makes a sweeper; Run starts it.
func New(index Index, remover Remover, o Options) *Sweeper {
	return &Sweeper{index: index, remover: remover, options: o, cursors: make([]cursor, index.Databases())}
}

// Removed is how many keys were removed.
func (s *Sweeper) Removed() int64 { return s.removed.Load() }

// Lag is how long the oldest key that the sweeper has met and not removed yet has been due (ms).
func (s *Sweeper) Lag() int64 {
	now, lag := s.options.Now().UnixMilli(), int64(0)
	for i := range s.cursors {
		if oldest := s.cursors[i].oldest.Load(); oldest != 0 {
			lag = max(lag, now-oldest)
		}
	}
	return lag
}

// Waiting is how many keys the sweeper knows to be due and not removed yet. Of more than a million
// it knows of the first.
func (s *Sweeper) Waiting() (keys int64) {
	for i := range s.cursors {
		keys += s.cursors[i].waiting.Load()
	}
	return keys
}

// Late is the number of rounds that took longer than the time until the next.
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
		s.Round(ctx)
		timer.Reset(s.options.Interval())
	}
}

// Round removes what is due in all databases, a piece of each in turn. While nothing may be removed
// it does nothing; then it starts over.
func (s *Sweeper) Round(ctx context.Context) {
	start := s.options.Now()
	if start.Sub(s.began) > startOver {
		s.began = start
		s.forget()
	}
	for i := range s.cursors {
		p := &s.cursors[i]
		p.due, p.busy = append(p.busy, p.due...), nil
	}
	for again := true; again && ctx.Err() == nil; {
		if !s.options.Enabled() || !s.remover.Ready() {
			s.forget()
			return
		}
		again = false
		for database := range s.cursors {
			if s.sweep(ctx, database) {
				again = true
			}
		}
	}
	if s.options.Now().Sub(start) > s.options.Interval() {
		s.late.Add(1)
	}
}

func (s *Sweeper) forget() {
	for i := range s.cursors {
		s.cursors[i].reset()
	}
}

// sweep removes what is due in one database, up to readKeys; false when there is nothing left that
// could be removed now.
func (s *Sweeper) sweep(ctx context.Context, database int) (again bool) {
	p := &s.cursors[database]
	defer p.publish()
	if !s.same(database, p) {
		return false
	}
	again = true
	if len(p.due) == 0 {
		var ok bool
		if again, ok = s.read(database, p); !ok {
			return false
		}
	}
	for len(p.due) > 0 && ctx.Err() == nil {
		if !s.step(ctx, database, p) || !s.same(database, p) {
			return false
		}
	}
	return again
}

// same reports whether a database has keys that expire. It resets the cursor if they are others
// than before.
func (s *Sweeper) same(database int, p *cursor) bool {
	space, keys := s.index.Waiting(database)
	if keys == 0 || p.space != space {
		p.reset()
		p.space = space
	}
	return keys > 0
}

// read reads what is due next. full reports whether there may be more; ok is false when nothing
// else is due: those that were busy are left for the next round.
func (s *Sweeper) read(database int, p *cursor) (full, ok bool) {
	now := s.options.Now().UnixMilli()
	due, err := s.index.Due(database, p.to, now, readKeys)
	if err != nil {
		s.options.Failed(err)
		return false, false
	}
	if len(p.busy) > readKeys {
		p.to, p.busy = Due{}, nil // too many to remember: they are met again
		return true, false
	}
	if len(due) == 0 {
		return false, false
	}
	p.due, p.busy = append(p.busy, due...), nil
	p.to = due[len(due)-1]
	full = len(due) == readKeys
	if p.more = max(p.more-len(due), 0); full && p.more == 0 {
		if p.more, err = s.index.CountDue(database, p.to, now, countKeys); err != nil {
			s.options.Failed(err)
		}
	}
	p.publish()
	return full, true
}

// step removes some of what was read; false when nothing can be removed now.
func (s *Sweeper) step(ctx context.Context, database int, p *cursor) bool {
	start, some := s.options.Now(), p.due
	if p.most > 0 {
		some = some[:min(p.most, len(some))]
	}
	step, err := s.remover.Remove(database, some)
	if err != nil {
		return s.stepFailed(p, len(some), err)
	}
	if p.most *= 2; p.most > readKeys {
		p.most = 0
	}
	s.removed.Add(int64(step.Removed))
	if p.due = p.due[step.Seen:]; len(step.Again) > 0 {
		p.due = append(step.Again, p.due...)
	}
	p.busy = append(p.busy, step.Busy...)
	p.publish()
	if step.Seen > 0 {
		s.rest(ctx, s.options.Now().Sub(start))
	}
	return step.Seen > 0
}

// stepFailed has the next step take half of what this one has taken, until it is one key, which is
// passed over until all is read again. So a key that can't be read keeps no others.
func (s *Sweeper) stepFailed(p *cursor, taken int, err error) (goOn bool) {
	if taken > 1 {
		p.most = taken / 2
		return true
	}
	s.options.Failed(err)
	p.due = p.due[1:]
	return false
}

// rest leaves time to others after a step: nearly none when nobody was served since the last.
func (s *Sweeper) rest(ctx context.Context, took time.Duration) {
	served, effort := s.options.Served(), time.Duration(s.options.Effort())
	busy := served != s.served
	s.served = served
	if busy && effort < 100 {
		pause(ctx, min(took*(100-effort)/effort, longestRest))
	}
	for s.options.Backlogged() && pause(ctx, longestRest) {
	}
	runtime.Gosched() // whoever became ready to run meanwhile does so first
}

// pause waits; false when the context ends.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
