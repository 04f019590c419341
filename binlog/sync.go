package binlog

import (
	"fmt"
	"time"
)

// Sync returns when everything up to a position is durable. Callers that come while another's sync
// runs share the next one. It must not be called with a lock that a caller of Append waits for.
//
// When it fails, what was appended stays in the log, its durability unknown, and Ready tells that
// writes are refused until everything in doubt was written once more and synced.
func (l *Log) Sync(upTo Position) error {
	if l.durable.Load() >= upTo {
		return nil
	}
	if written := l.written.Load(); upTo > written {
		return fmt.Errorf("%w: sync up to %d, of %d", ErrBeyondEnd, upTo, written)
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.durable.Load() >= upTo {
		return nil // by the one that held the lock: it began after our record was written
	}
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return l.syncLocked()
}

// syncLocked makes everything durable that is written when it is called. The caller holds syncing.
func (l *Log) syncLocked() error {
	l.mu.Lock()
	unsynced, broken := l.unsynced, l.broken
	l.mu.Unlock()
	if unsynced {
		// After a failed sync Linux takes the lost pages for clean, so another sync would succeed
		// and be a lie.
		return broken
	}
	target, tail := l.written.Load(), l.tail.Load()
	if target == l.durable.Load() && tail.next.Load() == nil { // else a branch has sealed what was durable, and it can be retired
		return nil
	}
	began := time.Now()
	for reached := Position(-1); reached < target; {
		next := tail.next.Load()
		if err := tail.file.sync(); err != nil {
			return l.failSync(err)
		}
		if next == nil {
			// It was not sealed after target was read, so all of target is in it or in those
			// before.
			reached = target
		} else {
			reached = next.start // sealed before it was synced: it will never hold more
			l.retire(tail)
			tail = next
			l.tail.Store(tail)
		}
		l.durable.Store(reached)
	}
	l.syncCount.Add(1)
	l.syncTook.Store(int64(time.Since(began)))
	l.tellSynced()
	if l.waiting.Load() > 0 {
		l.wake()
	}
	return nil
}

// retire closes a segment that is sealed and durable.
func (l *Log) retire(s *segment) {
	l.giveBack(s)
	if err := s.file.Close(); err != nil {
		l.options.Logger.Warn("binlog: closing a durable segment", "file", s.path, "error", err)
	}
	s.file = nil
}

// giveBack frees the room on disk that a segment does not use.
func (l *Log) giveBack(s *segment) {
	end := s.end.Load()
	if end >= s.size {
		return
	}
	if err := s.file.truncate(end); err != nil {
		l.options.Logger.Warn("binlog: a segment keeps its unused room", "file", s.path, "error", err)
		return
	}
	s.size = end
}

// failSync refuses writes until the keeper has repaired what a failed sync leaves. The caller holds
// syncing.
func (l *Log) failSync(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsynced = true
	return l.fail(fmt.Errorf("binlog: sync above position %d: %w", l.durable.Load(), err))
}

// syncRegularly syncs each second what was written. It does so under Always too, for what was
// written under another policy before.
func (l *Log) syncRegularly() {
	ticker := time.NewTicker(l.options.syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		}
		if l.options.Sync() != Never && l.durable.Load() < l.written.Load() {
			l.syncing.Lock()
			if err := l.syncLocked(); err != nil {
				l.options.Logger.Debug("binlog: not synced", "error", err)
			}
			l.syncing.Unlock()
		}
	}
}
