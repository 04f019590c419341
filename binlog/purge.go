package binlog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// pin keeps the segments that hold anything at or after a position.
type pin struct{ at atomic.Int64 }

func (l *Log) pinLocked(at Position) *pin {
	p := new(pin)
	p.at.Store(at)
	l.pins[p] = struct{}{}
	return p
}

func (l *Log) unpin(p *pin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pins, p)
}

// Hold keeps everything from a position on from being purged until release is called. What is
// purged already stays so: who needs to know asks First afterwards.
func (l *Log) Hold(at Position) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pinLocked(at)
	return sync.OnceFunc(func() { l.unpin(p) })
}

// Purge removes the oldest segments: those that are durable and wholly at or below persisted (what
// RocksDB holds in SST files), hold nothing that a reader or a Hold needs, are older than
// RetentionAge, and without which the log is still as large as RetentionBytes. It returns how many
// it removed.
func (l *Log) Purge(persisted Position) (removed int, err error) { return l.purge(persisted, 0) }

// purge is Purge, but removes at least so many bytes if what is persisted and what readers need
// lets it.
func (l *Log) purge(persisted Position, least int64) (removed int, err error) {
	l.purging.Lock()
	defer l.purging.Unlock()
	victims, err := l.takeOldest(persisted, least)
	if err != nil || len(victims) == 0 {
		return 0, err
	}
	// Oldest first, so that what a crash leaves has no gap.
	for removed < len(victims) && err == nil {
		if err = l.options.files.remove(victims[removed].path); err == nil {
			removed++
		}
	}
	if removed < len(victims) {
		l.putBack(victims[removed:])
	}
	err = errors.Join(err, l.options.files.syncDirectory(l.options.Directory))
	if removed > 0 {
		l.alert() // there may be room now for what the keeper could not make
		l.options.Logger.Info("binlog: purged", "segments", removed, "first position", l.First())
	}
	if err != nil {
		return removed, fmt.Errorf("binlog: purge: %w", err)
	}
	return removed, nil
}

// takeOldest (see purge) cuts the segments that may go from the list, so that no reader finds them
// any more.
func (l *Log) takeOldest(persisted Position, least int64) ([]*segment, error) {
	oldest := l.options.Now().Add(-l.options.RetentionAge()).UnixMilli()
	keep := l.options.RetentionBytes()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	for p := range l.pins {
		persisted = min(persisted, p.at.Load())
	}
	bytes := l.bytesLocked()
	durable := l.tail.Load().number
	count, taken := 0, int64(0)
	for ; count < len(l.segments)-1; count++ {
		s, next := l.segments[count], l.segments[count+1]
		bytes -= s.end.Load()
		// The next one's beginning was written right after this one's last record.
		if s.number >= durable || next.start > persisted {
			break
		}
		if retained := next.timeMs > oldest || bytes < keep; retained && taken >= least {
			break
		}
		taken += s.end.Load()
	}
	victims := l.segments[:count:count]
	l.segments = append([]*segment(nil), l.segments[count:]...)
	return victims, nil
}

// putBack undoes takeOldest for segments that could not be removed.
func (l *Log) putBack(victims []*segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(victims[:len(victims):len(victims)], l.segments...)
}
