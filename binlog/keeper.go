package binlog

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

const rewriteBytes = 1 << 20 // at once

// alert wakes the keeper.
func (l *Log) alert() {
	select {
	case l.attention <- struct{}{}:
	default:
	}
}

// keep runs in the background. It makes the next segment before it is needed, so that a full disk
// shows in Ready while what was accepted still fits; and it repairs the log after a failure, trying
// until it succeeds; and it does what GiveRoom asks for.
func (l *Log) keep() {
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-l.attention:
		case <-retry.C:
		}
		if l.repair() != nil || l.giveRoom() != nil || l.makeSpare() != nil {
			retry.Reset(l.options.retryEvery)
		}
	}
}

// publish makes Ready tell how things are. The caller holds mu.
func (l *Log) publish() {
	refusal := l.refusal.Load()
	err := l.spareErr
	soon := l.reclaiming && l.reclaims < reclaimsUnrefused // there may be room then
	l.awaited.Store(soon && (l.spare == nil || l.spareErr != nil))
	if refusal == nil && soon {
		err = nil
	}
	l.roomy.Store(err != nil && l.broken == nil && !l.closed)
	if l.broken != nil {
		err = l.broken
	}
	switch {
	case l.closed:
		l.refusal.Store(&ErrClosed)
	case err == nil && refusal != nil:
		l.refusal.Store(nil)
		l.options.Logger.Info("binlog: writes are accepted again", "position", l.written.Load())
	case err != nil:
		l.refusal.Store(&err)
		if refusal == nil {
			l.options.Logger.Error("binlog: writes are refused", "position", l.written.Load(), "error", err)
		}
	}
}

// fail stops appending until the keeper has repaired the log. The caller holds mu. It returns err.
func (l *Log) fail(err error) error {
	if l.broken == nil {
		l.broken = err
	}
	l.spared.Broadcast()
	l.publish()
	l.alert()
	return err
}

// makeSpare makes the next segment when there is none, or only a small one. The keeper alone calls
// it, and Append alone takes the spare, for which it waits meanwhile.
func (l *Log) makeSpare() error {
	l.mu.Lock()
	needed := (l.spare == nil || l.spareErr != nil) && l.spoiled == nil && !l.closed
	number, small := l.current.number+1, l.spare
	if needed {
		l.spare, l.spareErr = nil, nil
	}
	l.mu.Unlock()
	if !needed {
		return nil
	}
	spare, err := l.newSpare(number, small)
	short := isFull(err) || err == nil && isFull(l.options.roomFor(l.options.SegmentBytes)) // for this one, or for the next
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare, l.spareErr = spare, err
	if err == nil {
		l.reclaims = 0
	}
	if short {
		l.reclaimLocked()
	}
	l.publish()
	l.spared.Broadcast()
	return err
}

// newSpare makes a segment, or makes a full one of a small one. When the disk is too full for that,
// the error comes with a small one, which begins when that makes room.
func (l *Log) newSpare(number uint64, small *segment) (*segment, error) {
	size := l.options.SegmentBytes
	err := l.options.roomFor(size)
	switch {
	case err != nil:
		err = fmt.Errorf("binlog: new segment: %w", err)
	case small != nil:
		err = small.reserve(size)
	default:
		small, err = l.createSpare(number, size)
	}
	if isFull(err) && small == nil && size > smallSegmentBytes && l.roomForSmall() {
		if spare, failed := l.createSpare(number, smallSegmentBytes); failed == nil {
			small = spare
		}
	}
	return small, err
}

func (l *Log) createSpare(number uint64, size int64) (*segment, error) {
	o := l.options
	spare, err := createSegment(o.files, segmentPath(o.Directory, number), number, size)
	if err != nil {
		return nil, err
	}
	if err := o.files.syncDirectory(o.Directory); err != nil {
		return nil, fmt.Errorf("binlog: new segment: %w", errors.Join(err, spare.discard(o.files)))
	}
	return spare, nil
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// repair makes a broken log whole: it removes what a failed write has left, and writes anew what a
// failed sync has put in doubt.
func (l *Log) repair() error {
	l.mu.Lock()
	broken := l.broken != nil
	l.mu.Unlock()
	if !broken {
		return nil
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.repairLocked(); err != nil {
		l.options.Logger.Debug("binlog: not repaired yet", "error", err)
		return err
	}
	l.broken = nil
	l.publish()
	return nil
}

func (l *Log) repairLocked() error {
	if l.spoiled != nil {
		if err := l.spoiled.discard(l.options.files); err != nil {
			return err
		}
		l.spoiled = nil
	}
	if err := l.reserveAgain(l.current); err != nil {
		return err
	}
	if !l.unsynced {
		return nil
	}
	for s := l.tail.Load(); s != nil; s = s.next.Load() {
		if err := rewrite(s, l.durable.Load()); err != nil {
			return err
		}
	}
	l.unsynced = false
	l.durable.Store(l.written.Load())
	l.tellSynced()
	l.wake()
	return nil
}

// reserveAgain cuts off what a failed write has left behind a segment's records. If others have
// taken the room that was reserved there, the segment is full: makeSpare makes room for the next.
func (l *Log) reserveAgain(s *segment) error {
	end := s.end.Load()
	if err := s.file.truncate(end); err != nil {
		return err
	}
	err := s.file.allocate(s.size)
	if !isFull(err) {
		return err
	}
	if err := s.file.truncate(end); err != nil { // what was reserved of it
		return err
	}
	s.size = end
	return nil
}

// rewrite makes a segment durable whatever an earlier sync has said, but for records up to the
// position durable, which are so already. The kernel tells once that a page could not be written
// and may keep the page, taking it for clean; so only bytes that are written again are sure to be
// synced. They are the same bytes in the same place, which makes a crash in the middle harmless.
// They are checked afterwards, for the kernel may also have let go of the page.
func rewrite(s *segment, durable Position) error {
	header, err := readHeader(s.file)
	if err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	if err := s.file.writeAt([][]byte{header}, 0); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	scan := scanner{file: s.file, seed: s.seed, limit: s.end.Load(), offset: headerBytes, position: s.start}
	err = scan.pass(durable)
	if err == nil {
		err = copyOnto(s.file, scan.offset, scan.limit)
	}
	if err == nil {
		err = s.file.sync()
	}
	scan.buffer = scan.buffer[:0]
	for err == nil {
		_, _, err = scan.next()
	}
	if err != errEnd {
		return fmt.Errorf("binlog: %s at offset %d (position %d) can't be written again: %w", s.path, scan.offset, scan.position, err)
	}
	return nil
}

// pass goes to the first record that ends above a position, or to the end.
func (c *scanner) pass(position Position) error {
	for {
		h, err := c.peek()
		if err == errEnd || (err == nil && h.end() > position) {
			return nil
		}
		if err != nil {
			return err
		}
		c.skip(h)
	}
}

// copyOnto writes the bytes between two offsets of a file over themselves.
func copyOnto(f file, from, to int64) error {
	block := make([]byte, min(rewriteBytes, to-from))
	for at := from; at < to; at += int64(len(block)) {
		block = block[:min(int64(len(block)), to-at)]
		if n, err := f.ReadAt(block, at); n < len(block) {
			return err
		}
		if err := f.writeAt([][]byte{block}, at); err != nil {
			return err
		}
	}
	return nil
}
