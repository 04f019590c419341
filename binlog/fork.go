package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// PartialSuffix ends the name of a directory in which Fork has not completed a log. It holds
// nothing that isn't elsewhere.
const PartialSuffix = ".partial"

// Fork makes a log in a directory that must not exist: the same as this one up to a position, where
// it ends. The directory gets its name when it is complete; a crash before that leaves one with
// PartialSuffix, which the next Fork replaces. Segments that lie wholly below are shared as hard
// links, since nobody writes to them any more; the last one is copied. All of it is durable when
// Fork returns, and Open opens it. The position has to lie between two commands, and in no
// transaction. Errors: ErrPurged, ErrBeyondEnd, ErrNotBorder, ErrCorrupt.
func (l *Log) Fork(directory string, at Position) error {
	defer l.Hold(at)()
	segments, err := l.upTo(at)
	if err != nil {
		return err
	}
	if err := l.Sync(l.Position()); err != nil {
		return err
	}
	last := len(segments) - 1
	return makeWhole(l.options.files, directory, func(partial string) error {
		for _, s := range segments[:last] {
			if err := os.Link(s.path, segmentPath(partial, s.number)); err != nil {
				return fmt.Errorf("binlog: sharing a segment: %w", err)
			}
		}
		return l.copySegment(segments[last], partial, at)
	})
}

// makeWhole makes a log's directory, which must not exist: fill is called for one of another name,
// which is durable before it gets its own.
func makeWhole(files files, directory string, fill func(partial string) error) (err error) {
	if _, err := os.Lstat(directory); err == nil {
		return fmt.Errorf("binlog: %s already exists", directory)
	}
	partial := directory + PartialSuffix
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	if err := os.MkdirAll(partial, 0o750); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := fill(partial); err != nil {
		return err
	}
	if err := files.syncDirectory(partial); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	if err := os.Rename(partial, directory); err != nil {
		return fmt.Errorf("binlog: naming a complete log: %w", err)
	}
	if err := files.syncDirectory(filepath.Dir(directory)); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	return nil
}

// upTo returns the segments that hold what lies below a position. They stay while the caller holds
// it.
func (l *Log) upTo(at Position) ([]*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch first, written := l.segments[0].start, l.written.Load(); {
	case l.closed:
		return nil, ErrClosed
	case at < first:
		return nil, fmt.Errorf("%w: %d, the log begins at %d", ErrPurged, at, first)
	case at > written:
		return nil, fmt.Errorf("%w: %d, the log ends at %d", ErrBeyondEnd, at, written)
	}
	count := 1
	for count < len(l.segments) && l.segments[count].start < at {
		count++
	}
	return append([]*segment(nil), l.segments[:count]...), nil
}

// copySegment copies a segment's records up to a position into a file of the same number.
func (l *Log) copySegment(from *segment, directory string, at Position) (err error) {
	source, err := os.Open(from.path)
	if err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	end := from.end.Load()
	to, err := createSegment(l.options.files, segmentPath(directory, from.number), from.number, end)
	if err != nil {
		return err
	}
	if err = to.begin(from.beginning); err == nil {
		scan := &scanner{file: source, seed: from.seed, limit: end, offset: headerBytes, position: from.start}
		err = to.copyRecords(scan, at)
	}
	if err == nil {
		err = to.file.sync()
	}
	if err = errors.Join(err, to.file.Close()); err != nil {
		return fmt.Errorf("binlog: copying %s up to position %d: %w", from.path, at, err)
	}
	return nil
}

// copyRecords takes over what another segment has below a position.
func (s *segment) copyRecords(from *scanner, at Position) error {
	for from.position < at {
		h, payload, err := from.next()
		if err == errEnd || bad(err) {
			return &CorruptError{Path: s.path, Offset: from.offset, Position: from.position, Durable: at, Reason: err.Error()}
		}
		if err != nil {
			return err
		}
		if h.end() > at {
			if h, payload, err = h.until(at, payload); err != nil {
				return err
			}
		}
		if err := s.put(h, payload); err != nil {
			return err
		}
	}
	return nil
}

// until returns the front of a record, up to a position.
func (h recordHeader) until(at Position, payload []byte) (recordHeader, []byte, error) {
	front := payload[:at-h.position]
	if wholeCommands(front) != len(front) {
		return h, nil, fmt.Errorf("%w: %d, in the record at %d", ErrNotBorder, at, h.position)
	}
	after, err := databaseAfter(front, int(h.database))
	if err != nil {
		return h, nil, err
	}
	h.length, h.after = uint32(len(front)), uint32(after)
	return h, front, nil
}

// put writes a record behind the segment's others.
func (s *segment) put(h recordHeader, payload []byte) error {
	var header [recordBytes]byte
	crc := checksum(h.encode(header[:], s.seed), payload)
	binary.BigEndian.PutUint32(header[4:], crc)
	end := s.end.Load()
	if err := s.file.writeAt([][]byte{header[:], payload}, end); err != nil {
		return err
	}
	s.end.Store(end + recordBytes + int64(len(payload)))
	return nil
}
