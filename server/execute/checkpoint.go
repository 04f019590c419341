package execute

import (
	"path/filepath"
	"sync"
	"time"
)

// ErrSaving refuses a checkpoint while one is being made.
var ErrSaving = Error("ERR Background save already in progress")

// saves knows of the checkpoints that are and were made. One is made at a time.
type saves struct {
	mu   sync.Mutex
	done chan struct{} // closed when the one that is being made is done; nil: none is
	SaveStatus

	making sync.Mutex // held by who makes one, and by who opens the store anew; done is set before, and longer
}

// SaveStatus is what is known of the checkpoints.
type SaveStatus struct {
	Began   time.Time // of the one that is being made; zero: none is
	Last    time.Time // when the last one was complete; before the first, when the server started
	Took    time.Duration
	Failed  bool // the last attempt
	Count   int64
	Commits int64 // that the last one, or the start, had seen
}

// Saves tells of the checkpoints.
func (e *Engine) Saves() SaveStatus {
	e.saves.mu.Lock()
	defer e.saves.mu.Unlock()
	return e.saves.SaveStatus
}

func (s *saves) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Began.IsZero() {
		return false
	}
	s.Began, s.done = time.Now(), make(chan struct{})
	return true
}

func (s *saves) end(commits int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.Took, s.Failed = now.Sub(s.Began), err != nil
	if err == nil {
		s.Last, s.Commits = now, commits
		s.Count++
	}
	close(s.done)
	s.Began, s.done = time.Time{}, nil
}

// await waits until no checkpoint is being made, or until it is given up.
func (s *saves) await(givenUp <-chan struct{}) (none bool) {
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	case <-givenUp:
		return false
	}
}

// Save makes a checkpoint, unless one is being made.
func (e *Engine) Save() error {
	if !e.saves.begin() {
		return ErrSaving
	}
	return e.makeCheckpoint()
}

// SaveInTurn makes a checkpoint, behind the one that is being made.
func (e *Engine) SaveInTurn() error {
	for {
		if err := e.Save(); err != ErrSaving {
			return err
		}
		if !e.saves.await(e.stopped) {
			return ErrStopping
		}
	}
}

// makeCheckpoint makes the checkpoint that saves.begin has announced.
func (e *Engine) makeCheckpoint() error {
	commits := e.Store.Counters().Commits.Load()
	parent := e.Config.CheckpointDir.Get()
	if !filepath.IsAbs(parent) {
		parent = filepath.Join(e.Config.Dir.Get(), parent)
	}
	e.saves.making.Lock()
	directory, err := e.Store.Save(parent, int(e.Config.CheckpointKeep.Get()), time.Now())
	e.saves.making.Unlock()
	e.saves.end(commits, err)
	if err != nil {
		e.Logger.Error("making a checkpoint", "error", err)
		return err
	}
	e.Logger.Info("made a checkpoint", "directory", directory)
	return nil
}

// SaveInBackground begins to make a checkpoint, unless one is being made.
func (e *Engine) SaveInBackground() error {
	if !e.saves.begin() {
		return ErrSaving
	}
	go func() {
		_ = e.makeCheckpoint() // which logs the error, and INFO tells of it
	}()
	return nil
}

// Reopen closes the store and opens it again, while nothing else runs. The store waits for a
// checkpoint then, so this waits for its end before, while others run. The command runs on a
// worker, and holds no locks.
func (c *Invocation) Reopen() error {
	e, b := c.Engine, c.batch
	for {
		none := true
		c.Yield(func() { none = e.saves.await(e.stopped) })
		if !none {
			return ErrStopping
		}
		b.plan.Everything = true
		if err := b.awaitTurn(); err != nil {
			return err
		}
		if e.saves.making.TryLock() {
			defer e.saves.making.Unlock()
			return e.Store.Reopen()
		}
		b.leaveLong() // one has begun meanwhile
		b.locks.release()
	}
}
