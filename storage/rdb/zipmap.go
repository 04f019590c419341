package rdb

import (
	"encoding/binary"
	"fmt"

	"kedis/storage/listpack"
)

// A zipmap is what Redis before 2.6 packed small hashes into:
//
//	| fields:1 | length | field | length | unused:1 | value | unused bytes | … | 0xFF |
//
// with lengths of one byte up to 253, or 0xFE and four bytes. 254 fields or more are uncounted.
const (
	zipmapEnd       = 0xFF
	zipmapBigLength = 0xFE
)

// convertZipmap appends the fields and values of a zipmap to l, in place. Every byte is checked.
func convertZipmap(l listpack.Listpack, zm []byte) (listpack.Listpack, error) {
	if len(zm) < 2 || zm[len(zm)-1] != zipmapEnd {
		return l, fmt.Errorf("%w: bad frame of a zipmap", ErrCorrupt)
	}
	rest, count := zm[1:len(zm)-1], 0
	for ; len(rest) > 0; count++ {
		field, after, ok := zipmapString(rest, 0)
		if !ok {
			return l, fmt.Errorf("%w: bad field of a zipmap", ErrCorrupt)
		}
		value, after, ok := zipmapString(after, 1)
		if !ok {
			return l, fmt.Errorf("%w: bad value of a zipmap", ErrCorrupt)
		}
		l = l.Append(l[:0], listpack.Of(field), listpack.Of(value))
		rest = after
	}
	if n := int(zm[0]); n < zipmapBigLength && n != count {
		return l, fmt.Errorf("%w: a zipmap has %d fields, not %d", ErrCorrupt, count, n)
	}
	return l, nil
}

// zipmapString reads a length and a string; a value has one byte between them that says how much
// unused space follows.
func zipmapString(b []byte, unusedBytes int) (s, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	header, n := 1, uint64(b[0])
	switch {
	case n == zipmapBigLength:
		header = 5
		if len(b) < header {
			return nil, nil, false
		}
		n = uint64(binary.LittleEndian.Uint32(b[1:]))
		if n < zipmapBigLength {
			return nil, nil, false // Redis refuses it, too
		}
	case n == zipmapEnd:
		return nil, nil, false
	}
	if len(b) < header+unusedBytes {
		return nil, nil, false
	}
	unused := uint64(0)
	if unusedBytes == 1 {
		unused = uint64(b[header])
		header++
	}
	if n+unused > uint64(len(b)-header) {
		return nil, nil, false
	}
	return b[header:][:n:n], b[header:][n+unused:], true
}
