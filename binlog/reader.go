package binlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"
)

// Record is one record of the log, or the rest of one for a reader that starts inside it.
type Record struct {
	Start, End Position // of the payload
	Time       time.Time
	Database   int    // selected when the payload begins
	Payload    []byte // RESP commands; valid until the reader's next Next
}

// Reader reads records in order and waits at the end for more. It is for one goroutine at a time.
// It keeps its segment, and all after it, from being purged.
type Reader struct {
	log     *Log
	pin     *pin
	segment *segment
	file    *os.File
	scan    scanner
	visible Position // what Visible returned last
	partial *Record  // the rest of the first record, when the reader starts inside it
	wake    chan struct{}
	closed  bool
}

// NewReader returns a reader that starts at a position: that of a record, or any other border
// between two commands. Errors: ErrPurged, ErrBeyondEnd, ErrNotBorder, ErrCorrupt. The last comes
// also when a reader has met damage ahead. It reads the headers of up to one segment's records.
func (l *Log) NewReader(from Position) (*Reader, error) {
	r := &Reader{log: l, wake: make(chan struct{}, 1)}
	atEnd, err := r.attach(from)
	if err != nil {
		return nil, err
	}
	if err = r.open(); err == nil && atEnd < 0 {
		err = r.seek(from)
	} else if err == nil {
		r.scan.offset, r.scan.position = atEnd, from
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// attach finds and pins the segment. At the log's very end it returns the offset there, otherwise
// -1.
func (r *Reader) attach(from Position) (int64, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	damage := l.damage.Load()
	switch first, written := l.segments[0].start, l.written.Load(); {
	case l.closed:
		return 0, ErrClosed
	case from < first:
		return 0, fmt.Errorf("%w: %d, the log begins at %d", ErrPurged, from, first)
	case damage != nil && from <= damage.Position:
		return 0, damage
	case from > written:
		return 0, fmt.Errorf("%w: %d, the log ends at %d", ErrBeyondEnd, from, written)
	case from == written:
		r.segment = l.current
	default:
		// The last one that starts at or before from; one that starts there and holds nothing is
		// followed by another.
		r.segment = l.segments[sort.Search(len(l.segments), func(i int) bool { return l.segments[i].start > from })-1]
	}
	r.pin = l.pinLocked(r.segment.start)
	if from == l.written.Load() {
		return l.current.end.Load(), nil
	}
	return -1, nil
}

// open opens the reader's segment, from its first record on.
func (r *Reader) open() error {
	f, err := os.Open(r.segment.path)
	if err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	if r.file != nil {
		if err := r.file.Close(); err != nil {
			return fmt.Errorf("binlog: %w", errors.Join(err, f.Close()))
		}
	}
	r.file = f
	r.scan = scanner{
		file:     f,
		seed:     r.segment.seed,
		limit:    r.segment.end.Load(),
		offset:   headerBytes,
		position: r.segment.start,
		buffer:   r.scan.buffer[:0],
	}
	return nil
}

// seek passes the records before a position, which lies in the segment and before the log's end.
func (r *Reader) seek(from Position) error {
	for r.scan.position < from {
		h, err := r.scan.peek()
		if err != nil {
			return r.failure(err)
		}
		if h.end() > from {
			return r.enter(from)
		}
		r.scan.skip(h)
	}
	return nil
}

// enter makes the rest of the next record, from a position inside it, what Next returns first.
func (r *Reader) enter(from Position) error {
	h, payload, err := r.scan.next()
	if err != nil {
		return r.failure(err)
	}
	before := payload[:from-h.position]
	database, err := databaseAfter(before, int(h.database))
	if err != nil {
		return fmt.Errorf("%w: %d, in the record at %d: %w", ErrNotBorder, from, h.position, err)
	}
	r.partial = &Record{
		Start:    from,
		End:      h.end(),
		Time:     time.UnixMilli(h.timeMs),
		Database: database,
		Payload:  payload[len(before):],
	}
	return nil
}

// failure says where a record could not be read.
func (r *Reader) failure(err error) error {
	if err == errEnd || bad(err) {
		damage := &CorruptError{Path: r.segment.path, Offset: r.scan.offset, Position: r.scan.position,
			Durable: r.log.Durable(), Reason: err.Error()}
		r.log.damage.Store(damage)
		return damage
	}
	return fmt.Errorf("binlog: %w", err)
}

// Position is where the next record starts.
func (r *Reader) Position() Position {
	if r.partial != nil {
		return r.partial.Start
	}
	return r.scan.position
}

// Pending reports whether Next would return without waiting.
func (r *Reader) Pending() bool {
	if r.Position() >= r.visible {
		r.visible = r.log.Visible()
	}
	return r.Position() < r.visible
}

// Next returns the next record. It waits until there is one that readers may see, the context is
// done, or the log is closed (ErrClosed). A record that can't be read is a CorruptError, and Next
// stays before it.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	if r.closed {
		return Record{}, ErrClosed
	}
	if !r.Pending() {
		if err := r.wait(ctx); err != nil {
			return Record{}, err
		}
	}
	if r.partial != nil {
		record := *r.partial
		r.partial = nil
		return record, nil
	}
	if err := r.advance(); err != nil {
		return Record{}, err
	}
	r.scan.limit = r.segment.end.Load()
	h, payload, err := r.scan.next()
	if err != nil {
		return Record{}, r.failure(err)
	}
	return Record{
		Start:    h.position,
		End:      h.end(),
		Time:     time.UnixMilli(h.timeMs),
		Database: int(h.database),
		Payload:  payload,
	}, nil
}

// advance goes on to the segment that holds the next record.
func (r *Reader) advance() error {
	for {
		next := r.segment.next.Load()
		if next == nil || r.scan.position != next.start {
			return nil
		}
		previous := r.segment
		r.segment = next
		if err := r.open(); err != nil {
			r.segment = previous
			return err
		}
		r.pin.at.Store(next.start)
	}
}

// wait returns when there is something to read.
func (r *Reader) wait(ctx context.Context) error {
	l := r.log
	l.waking.Lock()
	l.readers[r] = struct{}{}
	l.waiting.Add(1)
	l.waking.Unlock()
	defer func() {
		l.waking.Lock()
		delete(l.readers, r)
		l.waiting.Add(-1)
		l.waking.Unlock()
	}()
	for !r.Pending() {
		// Asked after the reader was registered: whoever writes or closes from now on sees that it
		// waits.
		if err := l.Ready(); errors.Is(err, ErrClosed) {
			return ErrClosed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		}
	}
	return nil
}

// wake lets waiting readers look again.
func (l *Log) wake() {
	l.waking.Lock()
	defer l.waking.Unlock()
	for r := range l.readers {
		select {
		case r.wake <- struct{}{}:
		default: // it has not yet looked since the last time
		}
	}
}

// Close lets go of the reader's segments.
func (r *Reader) Close() error {
	if r.closed {
		return ErrClosed
	}
	r.closed = true
	r.log.unpin(r.pin)
	if r.file == nil {
		return nil
	}
	if err := r.file.Close(); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	return nil
}
