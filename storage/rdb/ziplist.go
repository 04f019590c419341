package rdb

import (
	"encoding/binary"
	"fmt"

	"kedis/storage/listpack"
)

// A ziplist is what Redis 2.0 to 6.2 packed small collections into:
//
//	| total bytes:4 | offset of the last entry:4 | entries:2 | entry … | 0xFF |
//
// 65535 entries mean "walk to find out". An entry is
//
//	| length of the previous entry:1 or 5 | encoding | data |
//
// where the length is one byte below 254, or 0xFE and four bytes. The encodings:
//
//	00xxxxxx                  string of up to 63 bytes
//	01xxxxxx xxxxxxxx         string of up to 16383 bytes, big-endian
//	10000000 length:4         string, big-endian
//	11000000 int:2, 11010000 int:4, 11100000 int:8, 11110000 int:3, 11111110 int:1
//	1111xxxx                  the integer xxxx - 1, with 1 <= xxxx <= 13
const (
	ziplistHeader  = 10
	ziplistEnd     = 0xFF
	ziplistBigPrev = 0xFE
)

// convertZiplist appends the elements of a ziplist to l, in place. Every byte of it is checked.
func convertZiplist(l listpack.Listpack, zl []byte) (listpack.Listpack, error) {
	if len(zl) < ziplistHeader+1 || uint64(binary.LittleEndian.Uint32(zl)) != uint64(len(zl)) ||
		zl[len(zl)-1] != ziplistEnd {
		return l, fmt.Errorf("%w: bad frame of a ziplist", ErrCorrupt)
	}
	end := len(zl) - 1
	pos, last, count := ziplistHeader, ziplistHeader, 0
	for previous := 0; pos < end; count++ {
		e, size, ok := ziplistEntry(zl[pos:end], previous)
		if !ok {
			return l, fmt.Errorf("%w: bad entry at offset %d of a ziplist", ErrCorrupt, pos)
		}
		l = l.Push(e)
		last, previous, pos = pos, size, pos+size
	}
	if tail := binary.LittleEndian.Uint32(zl[4:]); uint64(tail) != uint64(last) {
		return l, fmt.Errorf("%w: a ziplist's last entry is at %d, not %d", ErrCorrupt, last, tail)
	}
	if n := int(binary.LittleEndian.Uint16(zl[8:])); n != 1<<16-1 && n != count {
		return l, fmt.Errorf("%w: a ziplist has %d entries, not %d", ErrCorrupt, count, n)
	}
	return l, nil
}

// ziplistEntry reads the entry that b starts with; the one before it has previous bytes.
func ziplistEntry(b []byte, previous int) (e listpack.Element, size int, ok bool) {
	header := 1
	if b[0] == ziplistBigPrev {
		header = 5
	}
	if len(b) < header+1 || b[0] == ziplistEnd {
		return e, 0, false
	}
	prev := uint64(b[0])
	if header == 5 {
		prev = uint64(binary.LittleEndian.Uint32(b[1:]))
	}
	if prev != uint64(previous) {
		return e, 0, false
	}
	if b[header] < 0xC0 {
		e.Bytes, size, ok = ziplistString(b[header:])
	} else {
		e, size, ok = ziplistInt(b[header:])
	}
	return e, header + size, ok
}

func ziplistString(b []byte) (s []byte, size int, ok bool) {
	var header, n uint64
	switch {
	case b[0] < 0x40:
		header, n = 1, uint64(b[0])
	case b[0] < 0x80 && len(b) >= 2:
		header, n = 2, uint64(b[0]&0x3F)<<8|uint64(b[1])
	case b[0] == 0x80 && len(b) >= 5:
		header, n = 5, uint64(binary.BigEndian.Uint32(b[1:]))
	default:
		return nil, 0, false
	}
	if header+n > uint64(len(b)) {
		return nil, 0, false
	}
	return b[header : header+n], int(header + n), true
}

func ziplistInt(b []byte) (e listpack.Element, size int, ok bool) {
	if first := b[0]; first > 0xF0 && first < 0xFE {
		return listpack.OfInt(int64(first&0x0F) - 1), 1, true
	}
	width := 0
	switch b[0] {
	case 0xFE:
		width = 1
	case 0xC0:
		width = 2
	case 0xF0:
		width = 3
	case 0xD0:
		width = 4
	case 0xE0:
		width = 8
	default:
		return e, 0, false
	}
	if len(b) < 1+width {
		return e, 0, false
	}
	var wide [8]byte
	copy(wide[8-width:], b[1:1+width])
	n := int64(binary.LittleEndian.Uint64(wide[:])) >> (64 - 8*width)
	return listpack.OfInt(n), 1 + width, true
}
