package binlog

import (
	"encoding/binary"
	"fmt"
)

// Append writes one record and returns the position behind it. The pieces, one behind the other,
// are its payload: whole RESP commands. database is the one that is selected when the payload
// begins, which is what Database returns, and after the one that is selected when it ends. Without
// bytes nothing is written.
//
// When it returns, the record is in the operating system's hands and survives the process, and no
// reply may leave before; under Always, Sync must follow. When it returns an error nothing was
// written, and it may be called again. Readers may see the record at once. The pieces are not kept.
//
// It is called by one goroutine at a time, and allocates nothing.
func (l *Log) Append(database, after int, pieces ...[]byte) (Position, error) {
	var length int64
	for _, piece := range pieces {
		length += int64(len(piece))
	}
	if length > MaxPayload {
		return 0, fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, length, int64(MaxPayload))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(database, after); err != nil {
		return 0, err
	}
	if length == 0 {
		return l.written.Load(), nil
	}
	if err := l.makeRoom(recordBytes + length); err != nil {
		return 0, err
	}
	return l.write(database, after, uint32(length), pieces)
}

// admit reports whether a record may be written, room aside.
func (l *Log) admit(database, after int) error {
	switch {
	case l.closed:
		return ErrClosed
	case l.broken != nil:
		return l.broken
	case database != l.database || after < 0:
		return fmt.Errorf("binlog: a record from database %d to %d, where %d is selected", database, after, l.database)
	}
	return nil
}

// write puts a record, for which there is room, behind the others.
func (l *Log) write(database, after int, length uint32, pieces [][]byte) (Position, error) {
	header := recordHeader{
		length:   length,
		position: l.written.Load(),
		timeMs:   l.options.Now().UnixMilli(),
		database: uint32(database),
		after:    uint32(after),
		durable:  l.durable.Load(),
	}
	crc := header.encode(l.header[:], l.current.seed)
	l.vector = append(l.vector[:0], l.header[:])
	for _, piece := range pieces {
		crc = checksum(crc, piece)
		l.vector = append(l.vector, piece)
	}
	binary.BigEndian.PutUint32(l.header[4:], crc)
	end := l.current.end.Load()
	err := l.current.file.writeAt(l.vector, end)
	clear(l.vector) // or the payloads would be kept from the collector
	if err != nil {
		// The keeper cuts off what may have been written of it, and only then is there another
		// attempt.
		return 0, l.fail(fmt.Errorf("binlog: append at position %d: %w", header.position, err))
	}
	l.current.end.Store(end + recordBytes + int64(length))
	l.database = after
	l.written.Store(header.end())
	if l.waiting.Load() > 0 && l.options.Sync() != Always {
		l.wake() // under Always the sync does
	}
	return header.end(), nil
}

// makeRoom sees to it that size bytes fit into the current segment, beginning another one if need
// be.
func (l *Log) makeRoom(size int64) error {
	if l.current.end.Load()+size <= l.current.size {
		return nil
	}
	return l.roll(l.history, headerBytes+size)
}

// roll begins the next segment, which has room for at least size bytes, the header included.
func (l *Log) roll(h History, size int64) error {
	for l.spare == nil && l.spareErr == nil && l.broken == nil && !l.closed {
		l.spared.Wait()
	}
	if l.closed {
		return ErrClosed
	}
	if l.broken != nil { // the keeper repairs the log before it makes a segment
		return l.broken
	}
	if l.spare == nil || l.spareErr != nil && !l.makesRoom(h) {
		return l.spareErr
	}
	next := l.spare
	if err := l.reserve(next, size); err != nil {
		// Smaller records still fit, so this is not for Ready to tell.
		return fmt.Errorf("binlog: no room for %d bytes at position %d: %w", size, l.written.Load(), err)
	}
	err := next.begin(beginning{
		history:  h,
		start:    l.written.Load(),
		timeMs:   l.options.Now().UnixMilli(),
		durable:  l.durable.Load(),
		database: l.database,
	})
	if err != nil {
		l.spare, l.spoiled = nil, next
		return l.fail(fmt.Errorf("binlog: begin segment %d: %w", next.number, err))
	}
	l.spare, l.spareErr = nil, nil
	l.segments = append(l.segments, next)
	l.current.next.Store(next)
	l.current = next
	l.history = h
	l.alert()
	return nil
}

// reserve makes room for a record that is larger than a segment. The disk has to keep room for what
// the record makes of the data, too, and for the next segment: else nothing could be written any
// more.
func (l *Log) reserve(next *segment, size int64) error {
	if size <= next.size {
		return nil
	}
	if err := l.options.roomFor(size - next.size + size + l.options.SegmentBytes); err != nil {
		return err
	}
	return next.reserve(size)
}

// Branch begins a new history with an id at the current position; the one so far becomes its
// youngest ancestor. It is durable when Branch returns. Branch is called as Append is.
func (l *Log) Branch(id string) error {
	if err := (History{ID: id}).check(); err != nil {
		return err
	}
	branched, err := l.branch(id)
	if err != nil {
		return err
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.syncLocked(); err != nil {
		return err
	}
	if err := branched.file.sync(); err != nil {
		return l.failSync(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = true
	return nil
}

func (l *Log) branch(id string) (*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(l.database, l.database); err != nil {
		return nil, err
	}
	if id == l.history.ID {
		return nil, fmt.Errorf("binlog: the log already has the history id %s", id)
	}
	ancestors := make([]Ancestor, 0, len(l.history.Ancestors)+1)
	ancestors = append(ancestors, l.history.Ancestors...)
	ancestors = append(ancestors, Ancestor{ID: l.history.ID, Left: l.written.Load()})
	if err := l.roll(History{ID: id, Ancestors: ancestors}.youngest(), headerBytes); err != nil {
		return nil, err
	}
	return l.current, nil
}
