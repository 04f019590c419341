package listpack

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCorrupt is what Validate's errors wrap.
var ErrCorrupt = errors.New("listpack: corrupt")

// Validate reports whether the bytes are a listpack that every other method may be called on. The
// bytes can be anything. If deep is false, only the frame is looked at: header, size, end mark;
// that finds truncation but doesn't make unknown bytes safe.
func (l Listpack) Validate(deep bool) error {
	if len(l) < headerSize+1 {
		return fmt.Errorf("%w: %d bytes are too few", ErrCorrupt, len(l))
	}
	if total := binary.LittleEndian.Uint32(l); uint64(total) != uint64(len(l)) {
		return fmt.Errorf("%w: says it has %d bytes, has %d", ErrCorrupt, total, len(l))
	}
	if l[len(l)-1] != endMark {
		return fmt.Errorf("%w: no end mark", ErrCorrupt)
	}
	if !deep {
		return nil
	}
	return l.validateEntries()
}

func (l Listpack) validateEntries() error {
	end := len(l) - 1
	count := 0
	for pos := headerSize; pos < end; count++ {
		next, ok := l.validateEntry(pos, end)
		if !ok {
			return fmt.Errorf("%w: bad entry at offset %d", ErrCorrupt, pos)
		}
		pos = next
	}
	if want := l.headerCount(); want != countUnknown && want != count {
		return fmt.Errorf("%w: says it has %d elements, has %d", ErrCorrupt, want, count)
	}
	return nil
}

// validateEntry checks the entry at pos, which has to end at or before end, and returns where
// the next one starts.
func (l Listpack) validateEntry(pos, end int) (next int, ok bool) {
	if c := l[pos]; c < int13 { // by far the most frequent: what says its size in a byte at either end
		size := 1
		if c >= string6 {
			size += int(c & 0x3F)
		}
		next = pos + size + 1
		return next, next <= end && int(l[next-1]) == size
	}
	prefix := prefixSize(l[pos])
	if prefix == 0 || prefix > end-pos {
		return 0, false
	}
	size := encodedSize(l[pos:])
	if size+backlenSize(size) > end-pos {
		return 0, false
	}
	next = pos + size + backlenSize(size)
	for i, want := range appendBacklen(make([]byte, 0, 5), size) {
		if l[pos+size+i] != want {
			return 0, false
		}
	}
	return next, true
}

// prefixSize is how many bytes it takes to know an entry's size, given its first one; 0 means
// that no entry starts so.
func prefixSize(first byte) int {
	switch {
	case first < string12:
		return 1
	case first < string32:
		return 2
	case first == string32:
		return 5
	case first <= int64Tag:
		return 1
	default:
		return 0
	}
}
