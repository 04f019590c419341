package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The bytes on disk. All integers are big endian.
//
// A segment is a file of a header and the records behind it. The header is written in two steps,
// each a block with its own checksum: the prologue when the file is made ahead of its use (and it
// is durable before the file is used), the beginning when the first record is about to follow.
//
//	offset 0     prologue    magic(8) | format version(4) | number(8) | salt(8) | crc32c(4)
//	offset 512   beginning   length(4) | crc32c(4) | start position(8) | time ms(8) | durable-up-to(8) | database(4) |
//	                         ancestors(4) | history id(40) | for each ancestor, oldest first: id(40) | left position(8)
//	offset 4096  records     up to the end of the file, or to a length of 0
//
// The prologue fits a disk sector, so a power cut leaves it whole or absent. A beginning of zeros
// is a segment that nothing was written to. The beginning's length counts the bytes behind its
// checksum.
//
//	record   length(4) | crc32c(4) | position(8) | time ms(8) | database(4) | after(4) | durable-up-to(8) | payload
//
//	length          bytes of the payload; 0 is the end of the segment
//	position        bytes of the stream before this payload
//	time            when the record was written, Unix milliseconds
//	database        selected when the payload begins
//	after           selected when the payload ends, so that the end of the log can be told without parsing commands
//	durable-up-to   the highest position that was known to be durable when the record was written; never above position
//
// Every checksum of a segment continues from the prologue's, in which the salt is random, and
// covers its whole block or record apart from itself. So bytes of another segment never pass as a
// record of this one, nor do bytes that a client has put into a value to look like a record.
const (
	formatVersion = 1

	prologueBytes  = 32
	beginningAt    = 512
	headerBytes    = 4096
	recordBytes    = 40 // a record's header
	beginningFixed = 4 + 4 + 8 + 8 + 8 + 4 + 4 + idBytes
	ancestorBytes  = idBytes + 8

	idBytes      = 40
	maxAncestors = 64 // older ones are forgotten: a replica that left the stream that long ago syncs in full

	// MaxPayload is the largest payload of one record, in bytes: what its length field can say.
	MaxPayload = math.MaxUint32
)

var (
	magic      = [8]byte{'K', 'E', 'D', 'I', 'S', 'L', 'O', 'G'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	zeros      [64 << 10]byte
)

var (
	errBlank   = errors.New("nothing but zeros")
	errDamaged = errors.New("bad checksum")
)

// checksum goes over large payloads in pieces: Go can't interrupt crc32.Update, and while the
// garbage collector waits for it, so does everybody.
func checksum(seed uint32, b []byte) uint32 {
	const piece = 1 << 20
	for len(b) > piece {
		seed = crc32.Update(seed, castagnoli, b[:piece])
		b = b[piece:]
	}
	return crc32.Update(seed, castagnoli, b)
}

// allZero reports whether b holds nothing but zeros.
func allZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// prologue identifies a segment file.
type prologue struct {
	number uint64
	salt   uint64
}

// encode returns the prologue's bytes and its checksum, from which all others of the segment
// continue.
func (p prologue) encode() ([]byte, uint32) {
	b := make([]byte, 0, prologueBytes)
	b = append(b, magic[:]...)
	b = binary.BigEndian.AppendUint32(b, formatVersion)
	b = binary.BigEndian.AppendUint64(b, p.number)
	b = binary.BigEndian.AppendUint64(b, p.salt)
	seed := checksum(0, b)
	return binary.BigEndian.AppendUint32(b, seed), seed
}

// decodePrologue reads a prologue from the start of a segment's header.
func decodePrologue(b []byte) (prologue, uint32, error) {
	b = b[:prologueBytes]
	if allZero(b) {
		return prologue{}, 0, errBlank
	}
	if !bytes.Equal(b[:8], magic[:]) {
		return prologue{}, 0, errors.New("not a segment of a log: its first 8 bytes are wrong")
	}
	seed := checksum(0, b[:28])
	sound := seed == binary.BigEndian.Uint32(b[28:])
	version := binary.BigEndian.Uint32(b[8:])
	switch {
	case version != formatVersion && sound:
		return prologue{}, 0, fmt.Errorf("format version %d, and this programme knows version %d", version, formatVersion)
	case version != formatVersion:
		// Another version's header may have its checksum elsewhere.
		return prologue{}, 0, fmt.Errorf("format version %d, and this programme knows version %d; or the header is damaged: its checksum is bad", version, formatVersion)
	case !sound:
		return prologue{}, 0, errDamaged
	}
	return prologue{number: binary.BigEndian.Uint64(b[12:]), salt: binary.BigEndian.Uint64(b[20:])}, seed, nil
}

// beginning says where in which history a segment begins.
type beginning struct {
	history  History
	start    Position
	timeMs   int64
	durable  Position
	database int
}

// encode returns the bytes that stand at beginningAt. The history is valid and has at most
// maxAncestors.
func (g beginning) encode(seed uint32) []byte {
	length := beginningFixed - 8 + len(g.history.Ancestors)*ancestorBytes
	b := make([]byte, 0, length+8)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(g.start))
	b = binary.BigEndian.AppendUint64(b, uint64(g.timeMs))
	b = binary.BigEndian.AppendUint64(b, uint64(g.durable))
	b = binary.BigEndian.AppendUint32(b, uint32(g.database))
	b = binary.BigEndian.AppendUint32(b, uint32(len(g.history.Ancestors)))
	b = append(b, g.history.ID...)
	for _, a := range g.history.Ancestors {
		b = append(b, a.ID...)
		b = binary.BigEndian.AppendUint64(b, uint64(a.Left))
	}
	binary.BigEndian.PutUint32(b[4:], checksum(checksum(seed, b[:4]), b[8:]))
	return b
}

// decodeBeginning reads the beginning from a whole segment header of headerBytes.
func decodeBeginning(header []byte, seed uint32) (beginning, error) {
	b := header[beginningAt:headerBytes]
	if allZero(b) {
		return beginning{}, errBlank
	}
	length := binary.BigEndian.Uint32(b)
	if length < beginningFixed-8 || length > uint32(len(b)-8) {
		return beginning{}, errDamaged
	}
	b = b[:8+length]
	if checksum(checksum(seed, b[:4]), b[8:]) != binary.BigEndian.Uint32(b[4:]) {
		return beginning{}, errDamaged
	}
	g := beginning{
		start:    Position(binary.BigEndian.Uint64(b[8:])),
		timeMs:   int64(binary.BigEndian.Uint64(b[16:])),
		durable:  Position(binary.BigEndian.Uint64(b[24:])),
		database: int(binary.BigEndian.Uint32(b[32:])),
	}
	count := binary.BigEndian.Uint32(b[36:])
	g.history.ID = string(b[40:beginningFixed])
	rest := b[beginningFixed:]
	if uint64(len(rest)) != uint64(count)*ancestorBytes || g.start < 0 {
		return beginning{}, errDamaged
	}
	for ; len(rest) > 0; rest = rest[ancestorBytes:] {
		left := Position(binary.BigEndian.Uint64(rest[idBytes:]))
		g.history.Ancestors = append(g.history.Ancestors, Ancestor{ID: string(rest[:idBytes]), Left: left})
	}
	return g, nil
}

// recordHeader is what stands before a payload.
type recordHeader struct {
	length   uint32
	crc      uint32
	position Position
	timeMs   int64
	database uint32
	after    uint32
	durable  Position
}

// end is the position behind the record.
func (h *recordHeader) end() Position { return h.position + Position(h.length) }

// encode writes the header into b, which has recordBytes, leaving room for the checksum, and
// returns the checksum of the header, which the payload's continues.
func (h *recordHeader) encode(b []byte, seed uint32) uint32 {
	_ = b[recordBytes-1]
	binary.BigEndian.PutUint32(b, h.length)
	binary.BigEndian.PutUint64(b[8:], uint64(h.position))
	binary.BigEndian.PutUint64(b[16:], uint64(h.timeMs))
	binary.BigEndian.PutUint32(b[24:], h.database)
	binary.BigEndian.PutUint32(b[28:], h.after)
	binary.BigEndian.PutUint64(b[32:], uint64(h.durable))
	return headerChecksum(seed, b)
}

func headerChecksum(seed uint32, b []byte) uint32 {
	return checksum(checksum(seed, b[:4]), b[8:recordBytes])
}

// decodeRecordHeader reads a record's header from b, which has at least recordBytes, checking
// nothing.
func decodeRecordHeader(b []byte) recordHeader {
	_ = b[recordBytes-1]
	return recordHeader{
		length:   binary.BigEndian.Uint32(b),
		crc:      binary.BigEndian.Uint32(b[4:]),
		position: Position(binary.BigEndian.Uint64(b[8:])),
		timeMs:   int64(binary.BigEndian.Uint64(b[16:])),
		database: binary.BigEndian.Uint32(b[24:]),
		after:    binary.BigEndian.Uint32(b[28:]),
		durable:  Position(binary.BigEndian.Uint64(b[32:])),
	}
}
