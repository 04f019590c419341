package layout

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Type is a key's type. These are on disk: none may change.
type Type byte

const (
	String Type = 1
	Hash   Type = 2
	List   Type = 3
	Set    Type = 4
	ZSet   Type = 5
	Stream Type = 6

	// What only the records of deletions name: see AppendDeletedKey.
	StreamGroup   Type = 64 // what belongs to a group of a stream
	StreamEntries Type = 65 // the entries before the first one
	StreamNodes   Type = 66 // the nodes before the first one
)

// Encoding tells how a key's value is stored. These are on disk: none may change.
type Encoding byte

const (
	Plain    Encoding = 1 // a string's bytes
	Raw      Encoding = 2 // the same; written by a command after which Redis calls a string raw
	Listpack Encoding = 3 // a small collection as Redis's listpack
	Intset   Encoding = 4 // a small set of integers as Redis's intset
	Spread   Encoding = 5 // a record for each element, and of a string for each piece
	Expiring Encoding = 6 // a small hash as Redis's listpack of fields, values and times, by time; 0 is none, and comes last
)

// Metadata is the value of a record | 'M' | key |:
//
//	| type:1 | encoding:1 | expire ms:8 | rest |
//
//	string                   rest = the value
//	Listpack, Intset, Expiring
//	                         rest = the whole collection
//	Spread string            rest = | id:8 | count:8 | length:8 |   count is that of records, length that of bytes
//	Spread hash, set, zset   rest = | id:8 | count:8 |
//	Spread hash with fields that expire
//	                         rest = | id:8 | count:8 | expiring:8 | due ms:8 |   due is where it stands in the index 'F'
//	Spread list              rest = | id:8 | head:8 | tail:8 |   elements at head ≤ index < tail
//	Spread list with blocks  rest = | id:8 | head:8 | tail:8 | first:8 | beyond:8 | shift:1 |   see Blocks
//	stream                   rest = | id:8 | count:8 | StreamHead |   always spread
//
// An expiry of 0 is none. A key that stands in the index of expiries at an earlier time has 128
// added to its type, and says at which:
//
//	| type:1 | encoding:1 | expire ms:8 | indexed ms:8 | rest |
type Metadata struct {
	Type     Type
	Encoding Encoding
	ExpireMs int64
	// IndexedMs is where the key stands in the index 'T', if that is earlier than ExpireMs; else 0.
	// A time that is put off again and again is moved there once, when the earlier one has come.
	IndexedMs int64

	Value []byte // string and packed collections, and a stream's head; refers to what it was decoded from

	ID         uint64 // what is spread
	Count      uint64 // spread string, hash, set, zset, stream: records, or elements
	Expiring   uint64 // how many fields of a spread hash expire
	DueMs      int64  // when the first of them does, or earlier
	Head, Tail uint64 // spread list; the bytes of a spread string are 0 ≤ offset < Tail
	Blocks     Blocks // of a spread list
}

const (
	metadataHeader = 10 // up to the expiry's end
	indexedBefore  = 128
)

// IndexMs is the time at which the key stands in the index of expiries; 0: it doesn't.
func (m *Metadata) IndexMs() int64 {
	if m.IndexedMs != 0 {
		return m.IndexedMs
	}
	return m.ExpireMs
}

// Append appends the record's value.
func (m *Metadata) Append(dst []byte) []byte {
	head, tail := m.AppendHead(dst)
	return append(head, tail...)
}

// AppendHead appends the record's value but for its end, which is Value.
func (m *Metadata) AppendHead(dst []byte) (head, tail []byte) {
	if m.IndexedMs == 0 {
		dst = append(dst, byte(m.Type), byte(m.Encoding))
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.ExpireMs))
	} else {
		dst = append(dst, byte(m.Type)|indexedBefore, byte(m.Encoding))
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.ExpireMs))
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.IndexedMs))
	}
	switch {
	case m.Encoding != Spread:
		return dst, m.Value
	case m.Type == List:
		dst = binary.BigEndian.AppendUint64(dst, m.ID)
		dst = binary.BigEndian.AppendUint64(dst, m.Head)
		return m.Blocks.append(binary.BigEndian.AppendUint64(dst, m.Tail)), nil
	case m.Type == String:
		dst = binary.BigEndian.AppendUint64(dst, m.ID)
		dst = binary.BigEndian.AppendUint64(dst, m.Count)
		return binary.BigEndian.AppendUint64(dst, m.Tail), nil
	default:
		dst = binary.BigEndian.AppendUint64(dst, m.ID)
		dst = binary.BigEndian.AppendUint64(dst, m.Count)
		if m.Expiring > 0 {
			dst = binary.BigEndian.AppendUint64(dst, m.Expiring)
			dst = binary.BigEndian.AppendUint64(dst, uint64(m.DueMs))
		}
		return dst, m.Value
	}
}

// DecodeMetadata reads such a value. Value refers to b.
func DecodeMetadata(b []byte) (m Metadata, err error) {
	err = m.Decode(b)
	return m, err
}

// Decode is DecodeMetadata for a Metadata that has nothing yet, and is useless after an error.
func (m *Metadata) Decode(b []byte) error {
	if len(b) < metadataHeader {
		return fmt.Errorf("%w: metadata of %d bytes", ErrCorrupt, len(b))
	}
	m.Type, m.Encoding, m.ExpireMs = Type(b[0]), Encoding(b[1]), int64(binary.BigEndian.Uint64(b[2:]))
	rest := b[metadataHeader:]
	if m.Type >= indexedBefore {
		if m.Type -= indexedBefore; len(rest) < 8 {
			return fmt.Errorf("%w: metadata of %d bytes", ErrCorrupt, len(b))
		}
		if m.IndexedMs, rest = int64(binary.BigEndian.Uint64(rest)), rest[8:]; m.IndexedMs <= 0 || m.IndexedMs >= m.ExpireMs {
			return fmt.Errorf("%w: a key that expires at %d and is indexed at %d", ErrCorrupt, m.ExpireMs, m.IndexedMs)
		}
	}
	if !m.known() {
		return fmt.Errorf("%w: type %d with encoding %d", ErrCorrupt, b[0], b[1])
	}
	switch {
	case m.Encoding != Spread:
		m.Value = rest
	case m.Type == List && (len(rest) == 24 || len(rest) == 24+blocksSize):
		m.ID = binary.BigEndian.Uint64(rest)
		m.Head, m.Tail = binary.BigEndian.Uint64(rest[8:]), binary.BigEndian.Uint64(rest[16:])
		if m.Head > m.Tail {
			return fmt.Errorf("%w: a list from %d to %d", ErrCorrupt, m.Head, m.Tail)
		}
		return m.Blocks.decode(rest[24:])
	case m.Type == String && len(rest) == 24:
		m.ID, m.Count = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])
		if m.Tail = binary.BigEndian.Uint64(rest[16:]); m.Tail > math.MaxUint32 {
			return fmt.Errorf("%w: a string of %d bytes", ErrCorrupt, m.Tail)
		}
	case m.Type == Stream && isStreamHead(len(rest)-16):
		m.ID, m.Count, m.Value = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:]), rest[16:]
	case m.Type != String && m.Type != List && m.Type != Stream && len(rest) == 16:
		m.ID, m.Count = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])
	case m.Type == Hash && len(rest) == 32:
		m.ID, m.Count = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])
		m.Expiring, m.DueMs = binary.BigEndian.Uint64(rest[16:]), int64(binary.BigEndian.Uint64(rest[24:]))
	default:
		return fmt.Errorf("%w: spread collection of type %d with %d bytes", ErrCorrupt, m.Type, len(rest))
	}
	return nil
}

func (m *Metadata) known() bool {
	switch m.Type {
	case String:
		return m.Encoding == Plain || m.Encoding == Raw || m.Encoding == Spread
	case Hash:
		return m.Encoding == Listpack || m.Encoding == Spread || m.Encoding == Expiring
	case List, ZSet:
		return m.Encoding == Listpack || m.Encoding == Spread
	case Set:
		return m.Encoding == Listpack || m.Encoding == Intset || m.Encoding == Spread
	case Stream:
		return m.Encoding == Spread
	}
	return false
}

// StringLength is the number of bytes of a string; 0 for a key that doesn't exist.
func (m *Metadata) StringLength() int {
	if m.Encoding == Spread {
		return int(m.Tail)
	}
	return len(m.Value)
}

// Length is the number of elements of a spread collection, and of records of a spread string.
func (m *Metadata) Length() uint64 {
	if m.Type == List {
		return m.Tail - m.Head
	}
	return m.Count
}

func (m *Metadata) expiring() uint64 { return m.Expiring }

// PeekSpread reads the id of a spread collection from what may be its metadata, or anything else,
// and the kind of record that an element is looked up by.
func PeekSpread(b []byte) (kind byte, id uint64, ok bool) {
	if len(b) < metadataHeader+8 || Encoding(b[1]) != Spread {
		return 0, 0, false
	}
	t, rest := Type(b[0]), b[metadataHeader:]
	if t >= indexedBefore {
		if t, rest = t-indexedBefore, rest[8:]; len(rest) < 8 {
			return 0, 0, false
		}
	}
	elements := t.Elements()
	if len(elements) == 0 {
		return 0, 0, false
	}
	return elements[0].Kind, binary.BigEndian.Uint64(rest), true
}

// PeekElement reads from what may be a spread list's metadata, or anything else, which record has
// an element, and appends the key of it. The element is the one so many places from the first one
// on, or from the last one backwards.
func PeekElement(dst, b []byte, from uint64, last bool) (key []byte, ok bool) {
	var m Metadata
	if kind, _, ok := PeekSpread(b); !ok || !Kinds[kind].Sequence || m.Decode(b) != nil || from >= m.Length() {
		return dst, false
	}
	index := m.Head + from
	if last {
		index = m.Tail - 1 - from
	}
	if m.Blocks.Has(index) {
		return AppendBlockKey(dst, m.ID, m.Blocks.At(index)), true
	}
	return AppendSequenceKey(dst, m.ID, index), true
}
