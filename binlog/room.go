package binlog

import (
	"fmt"
	"syscall"
	"time"
)

// On a disk that the log itself has filled, more of the log goes than its retention would let go.
// That takes two steps: Reclaim brings data to RocksDB's files, so that recovery needs less of the
// log, and then the oldest segments are removed. It begins when there is no room for the segment
// after the next one, so that as a rule nothing is refused meanwhile.

// reclaimsUnrefused is how often room is made for a segment before writes are refused: what is
// written meanwhile takes room, too.
const reclaimsUnrefused = 4

// warnEvery is how often it is told that less is retained: on a disk that stays full it happens
// with each segment. Each removal is logged as any other.
const warnEvery = time.Minute

// smallSegmentBytes is the size of the segment that is made when there is no room for a full one.
const smallSegmentBytes = headerBytes + 64<<10

// smallRoom is what it leaves: in a file RocksDB has to note what was deleted by way of it.
const smallRoom = 1 << 20

func (l *Log) roomForSmall() bool {
	free, err := l.options.files.free(l.options.Directory)
	return err == nil && free >= smallSegmentBytes+smallRoom
}

// tailBytes are left behind the records of the current segment when room is given back: for
// commands that delete.
const tailBytes = 1 << 20

// errRoomGiven satisfies isFull.
var errRoomGiven = fmt.Errorf("binlog: new segment: the data needs the room that it had: %w", syscall.ENOSPC)

// GiveRoom has the keeper give back to the disk what is reserved for records to come, but for
// tailBytes and a small segment: who calls it waits for room, and nothing that is deleted makes any
// before that. Writes are refused until there is room for both again.
func (l *Log) GiveRoom() {
	l.roomWanted.Store(true)
	l.alert()
}

func (l *Log) giveRoom() error {
	if !l.roomWanted.Swap(false) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	err := l.current.cut(l.current.end.Load() + tailBytes)
	if err == nil && l.spare != nil && l.spareErr == nil {
		if err = l.spare.cut(smallSegmentBytes); err == nil {
			l.spareErr = errRoomGiven
			l.publish()
		}
	}
	if err != nil {
		return fmt.Errorf("binlog: giving room back: %w", err)
	}
	return nil
}

// needed returns how many bytes have to be free for so many bytes of log to be made: these, and
// what Reclaim may take afterwards.
func (o *Options) needed(bytes int64) int64 { return bytes + o.Room() }

// roomFor fails if the disk has less than is needed.
func (o *Options) roomFor(bytes int64) error {
	free, err := o.files.free(o.Directory)
	if err != nil {
		return err
	}
	if needed := o.needed(bytes); free < needed {
		return fmt.Errorf("the disk has %d bytes left, and %d are needed for the log and to persist the data: %w", free, needed, syscall.ENOSPC)
	}
	return nil
}

// makesRoom reports whether the next segment is begun although it is only a small one, with no room
// for another: for a new history, without which nothing could be written, and when all of the
// current segment is persisted, since that can be removed then. The caller holds mu.
func (l *Log) makesRoom(h History) bool {
	return h.ID != l.history.ID || l.persisted >= l.written.Load()
}

// reclaimLocked begins to make room, if that isn't going on already. The keeper doesn't wait for
// it: Reclaim may take long, and may wait for locks that are held by somebody who closes the log.
func (l *Log) reclaimLocked() {
	if l.options.Reclaim == nil || l.reclaiming || l.closed {
		return
	}
	l.reclaiming = true
	go func() {
		if err := l.reclaim(); err != nil {
			l.options.Logger.Debug("binlog: no room was made", "error", err)
		}
		l.mu.Lock()
		l.reclaiming = false
		l.reclaims++
		soon := l.reclaims <= reclaimsUnrefused // later it is tried again once a second
		l.mu.Unlock()
		if soon {
			l.alert()
		}
	}()
}

// reclaim removes segments that neither recovery nor a reader needs, whatever the retention says,
// until there is room for two.
func (l *Log) reclaim() error {
	persisted, failed := l.options.Reclaim()
	l.mu.Lock()
	l.persisted = persisted
	l.mu.Unlock()
	free, err := l.options.files.free(l.options.Directory)
	if err != nil {
		return err
	}
	removed, err := l.purge(persisted, l.options.needed(2*l.options.SegmentBytes)-free)
	if err != nil {
		return err
	}
	if now := l.options.Now(); removed > 0 && now.Sub(l.warned) >= warnEvery {
		l.warned = now
		l.options.Logger.Warn("binlog: segments are removed that the retention would keep, since the disk is full", "segments", removed)
	}
	return failed
}
