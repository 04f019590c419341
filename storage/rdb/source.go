package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// bufferSize is how much is read from a file, or written to it, at a time.
const bufferSize = 64 << 10

// source hands out the bytes of a payload, all in buf, or of a file, of which buf holds a part.
type source struct {
	r        io.Reader // nil for a payload
	buf      []byte
	pos, end int
	base     int64  // offset of buf[0] in the file
	hashed   int    // buf[:hashed] is in crc
	crc      uint64 // of a file, up to base + hashed
}

func (s *source) reset(payload []byte) {
	*s = source{buf: payload, end: len(payload)}
}

func (s *source) resetReader(r io.Reader) {
	*s = source{r: r, buf: make([]byte, bufferSize)}
}

// offset is that of the next byte.
func (s *source) offset() int64 { return s.base + int64(s.pos) }

// corrupt returns an ErrCorrupt that tells where.
func (s *source) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w at offset %d: %w", ErrCorrupt, s.offset(), fmt.Errorf(format, args...))
}

// need makes n bytes available in buf; n is at most 16.
func (s *source) need(n int) error {
	if s.end-s.pos >= n {
		return nil
	}
	if s.r == nil {
		return s.corrupt("it ends early")
	}
	s.hash()
	copy(s.buf, s.buf[s.pos:s.end])
	s.base += int64(s.pos)
	s.end -= s.pos
	s.pos, s.hashed = 0, 0
	got, err := io.ReadAtLeast(s.r, s.buf[s.end:], n-s.end)
	s.end += got
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.corrupt("%w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("rdb: read at offset %d: %w", s.offset(), err)
}

// hash brings the checksum up to the next byte.
func (s *source) hash() {
	s.crc = CRC64(s.crc, s.buf[s.hashed:s.pos])
	s.hashed = s.pos
}

func (s *source) byte() (byte, error) {
	if err := s.need(1); err != nil {
		return 0, err
	}
	s.pos++
	return s.buf[s.pos-1], nil
}

// fixed returns the next n <= 16 bytes, valid until the next call.
func (s *source) fixed(n int) ([]byte, error) {
	if err := s.need(n); err != nil {
		return nil, err
	}
	s.pos += n
	return s.buf[s.pos-n : s.pos : s.pos], nil
}

// bytes returns the next n bytes: a view into a payload, or of a file a copy in *scratch, which
// grows only as the bytes arrive, whatever n claims.
func (s *source) bytes(n uint64, scratch *[]byte) ([]byte, error) {
	if s.r == nil {
		if n > uint64(s.end-s.pos) {
			return nil, s.corrupt("%d bytes are missing", n-uint64(s.end-s.pos))
		}
		s.pos += int(n)
		return s.buf[s.pos-int(n) : s.pos : s.pos], nil
	}
	out := (*scratch)[:0]
	for n > 0 {
		if err := s.need(1); err != nil {
			return nil, err
		}
		chunk := min(n, uint64(s.end-s.pos))
		out = append(out, s.buf[s.pos:s.pos+int(chunk)]...)
		s.pos += int(chunk)
		n -= chunk
	}
	*scratch = out
	return out, nil
}

// uint64 reads eight bytes.
func (s *source) uint64() (uint64, error) {
	b, err := s.fixed(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (s *source) float64() (float64, error) {
	bits, err := s.uint64()
	return math.Float64frombits(bits), err
}

// length reads a length, where no encoding is allowed.
func (s *source) length() (uint64, error) {
	n, encoded, err := s.lengthOrEncoding()
	if err == nil && encoded {
		return 0, s.corrupt("an encoding instead of a length")
	}
	return n, err
}

// lengthOrEncoding reads a length, or, if encoded is true, the encoding of a string.
func (s *source) lengthOrEncoding() (n uint64, encoded bool, err error) {
	first, err := s.byte()
	if err != nil {
		return 0, false, err
	}
	var b []byte
	switch {
	case first < length14:
		return uint64(first), false, nil
	case first < length32:
		second, err := s.byte()
		return uint64(first&0x3F)<<8 | uint64(second), false, err
	case first >= lengthEncoding:
		return uint64(first & 0x3F), true, nil
	case first == length32:
		if b, err = s.fixed(4); err != nil {
			return 0, false, err
		}
		return uint64(binary.BigEndian.Uint32(b)), false, nil
	case first == length64:
		if b, err = s.fixed(8); err != nil {
			return 0, false, err
		}
		return binary.BigEndian.Uint64(b), false, nil
	}
	return 0, false, s.corrupt("a length starts with byte %#x", first)
}
