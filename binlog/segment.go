package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	segmentSuffix = ".log"
	segmentDigits = 10
)

// segment is one file of the log.
type segment struct {
	number uint64
	path   string
	seed   uint32 // from which the file's checksums continue

	// From the beginning; unset in a spare.
	beginning

	// end is the offset behind the last whole record, stored before the record counts as written.
	// In a segment that was sealed before the log was opened it is the size of the file, which may
	// hold zeros behind the records.
	end atomic.Int64
	// next is stored when the segment is sealed, before the next one's first record counts as
	// written.
	next atomic.Pointer[segment]

	// file is used by whoever appends while the segment is the current one, and by whoever holds
	// syncing until it is durable, and is nil from then on.
	file file
	size int64 // bytes reserved on disk
}

func segmentPath(directory string, number uint64) string {
	return filepath.Join(directory, fmt.Sprintf("%0*d%s", segmentDigits, number, segmentSuffix))
}

// listSegments returns the numbers of a directory's segment files, ascending. Other files are none
// of ours.
func listSegments(directory string) ([]uint64, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("binlog: %w", err)
	}
	var numbers []uint64
	for _, entry := range entries {
		digits, found := strings.CutSuffix(entry.Name(), segmentSuffix)
		number, err := strconv.ParseUint(digits, 10, 63)
		if found && err == nil && segmentPath(directory, number) == filepath.Join(directory, entry.Name()) {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// HasSegments reports whether a directory has files of a log in it.
func HasSegments(directory string) (bool, error) {
	numbers, err := listSegments(directory)
	return len(numbers) > 0, err
}

// createSegment makes a file with a prologue and room for size bytes, all durable but for the
// directory.
func createSegment(fs files, path string, number uint64, size int64) (*segment, error) {
	f, err := fs.create(path)
	if err != nil {
		return nil, fmt.Errorf("binlog: new segment: %w", err)
	}
	s := &segment{number: number, path: path, file: f, size: size}
	prologue, seed := prologue{number: number, salt: rand.Uint64()}.encode()
	s.seed = seed
	err = f.allocate(size)
	if err == nil {
		err = f.writeAt([][]byte{prologue}, 0)
	}
	if err == nil {
		err = f.sync()
	}
	if err != nil {
		return nil, fmt.Errorf("binlog: new segment: %w", errors.Join(err, s.discard(fs)))
	}
	return s, nil
}

// begin makes the segment the continuation of a history.
func (s *segment) begin(g beginning) error {
	if err := s.file.writeAt([][]byte{g.encode(s.seed)}, beginningAt); err != nil {
		return err
	}
	s.beginning = g
	s.end.Store(headerBytes)
	return nil
}

// reserve makes room for a segment of size bytes. When it fails, the segment is as it was.
func (s *segment) reserve(size int64) error {
	if size <= s.size {
		return nil
	}
	if err := s.file.allocate(size); err != nil {
		return errors.Join(err, s.file.truncate(s.size))
	}
	s.size = size
	return nil
}

// cut leaves room for a segment of size bytes, at least its records, and gives back what is more.
func (s *segment) cut(size int64) error {
	if size >= s.size {
		return nil
	}
	if err := s.file.truncate(size); err != nil {
		return err
	}
	s.size = size
	return nil
}

// discard closes and removes the file. When it fails, it may be called again.
func (s *segment) discard(fs files) error {
	var err error
	if s.file != nil {
		err = s.file.Close()
		s.file = nil // whatever Close says, it is closed
	}
	if failed := fs.remove(s.path); !errors.Is(failed, os.ErrNotExist) {
		err = errors.Join(err, failed)
	}
	return err
}

// readHeader reads the header of a segment file.
func readHeader(f io.ReaderAt) ([]byte, error) {
	header := make([]byte, headerBytes)
	n, err := f.ReadAt(header, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	clear(header[n:]) // a file that is too short reads as zeros, which no checksum takes for anything
	return header, nil
}

const (
	blockBytes     = 256 << 10      // what a scanner reads at once
	keptBlockBytes = 4 * blockBytes // a larger buffer is let go when it is no longer needed
)

var (
	errEnd  = errors.New("end of the records")
	errTorn = errors.New("the file ends inside the record")
)

// scanner walks the records of one segment in order, reading in large blocks and checking each.
type scanner struct {
	file     io.ReaderAt
	seed     uint32
	limit    int64    // offset behind the last byte that may be read
	offset   int64    // of the next record
	position Position // of the next record

	buffer []byte // the file's bytes from at on
	at     int64
	read   int64 // bytes read from the file so far
}

// window returns the n bytes of the file at an offset, valid until the next call, or errTorn when
// limit is nearer.
func (c *scanner) window(offset, n int64) ([]byte, error) {
	if n > c.limit-offset {
		return nil, errTorn
	}
	if offset >= c.at && offset+n <= c.at+int64(len(c.buffer)) {
		return c.buffer[offset-c.at:][:n:n], nil
	}
	size := min(max(n, blockBytes), c.limit-offset)
	if size > int64(cap(c.buffer)) || (cap(c.buffer) > keptBlockBytes && size <= keptBlockBytes) {
		c.buffer = make([]byte, max(size, blockBytes))
	}
	c.buffer, c.at = c.buffer[:size], offset
	got, err := c.file.ReadAt(c.buffer, offset)
	c.read += int64(got)
	c.buffer = c.buffer[:got]
	if int64(got) < n {
		if err == io.EOF {
			err = errTorn
		}
		return nil, err
	}
	return c.buffer[:n:n], nil
}

// peek reads the header of the next record and checks what can be checked without its payload. It
// returns errEnd where the records end, and errTorn or errDamaged for a bad record; another error
// is one of reading.
func (c *scanner) peek() (recordHeader, error) {
	if c.limit-c.offset < 4 {
		return recordHeader{}, errEnd // a segment may be filled to its last byte
	}
	length, err := c.window(c.offset, 4)
	if err != nil {
		return recordHeader{}, err
	}
	if binary.BigEndian.Uint32(length) == 0 {
		return recordHeader{}, errEnd
	}
	b, err := c.window(c.offset, recordBytes)
	if err != nil {
		return recordHeader{}, err
	}
	h := decodeRecordHeader(b)
	if h.position != c.position || h.durable > h.position || h.durable < 0 || h.end() < h.position {
		return recordHeader{}, errDamaged
	}
	if int64(h.length) > c.limit-c.offset-recordBytes {
		return recordHeader{}, errTorn
	}
	return h, nil
}

// skip passes the record that peek has returned, without looking at its payload.
func (c *scanner) skip(h recordHeader) {
	c.offset += recordBytes + int64(h.length)
	c.position = h.end()
}

// next reads the next record and checks it whole. The payload is valid until the next call. It
// returns peek's errors, and then stays where it is.
func (c *scanner) next() (recordHeader, []byte, error) {
	h, err := c.peek()
	if err != nil {
		return h, nil, err
	}
	b, err := c.window(c.offset, recordBytes+int64(h.length))
	if err != nil {
		return h, nil, err
	}
	payload := b[recordBytes:]
	if checksum(headerChecksum(c.seed, b), payload) != h.crc {
		return h, nil, errDamaged
	}
	c.skip(h)
	return h, payload, nil
}

// bad reports whether an error of the scanner speaks of the record and not of reading it.
func bad(err error) bool { return err == errDamaged || err == errTorn }
