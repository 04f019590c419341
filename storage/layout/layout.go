// Package layout draws and numbers every key and value that Kedis has on disk, to the byte, and
// holds no logic. It imports the standard library only.
//
// All integers are big endian, so that the order of bytes is the order of numbers.
//
// # Column families
//
// The family "default" holds four records:
//
//	"format"  → format version:4
//	"state"   → see State; written in the same batch as the data that it describes
//	"highest" → id:8, the highest element id that an earlier version has staged ahead of the state
//	"counts"  → how many entries of large collections stand where; see engine.Store.keepCounts
//
// Each namespace has a family of its own, called Family(number). Numbers are never used again.
//
// # Records of a namespace
//
// The first byte tells the kind of record, so that all metadata is one range in the order of keys.
//
//	| 'M' | key |                      → metadata, see Metadata
//	| 'B' | id:8 | piece:4 |           → bytes of a string, see StringPiece
//	| 'H' | id:8 | field |             → value of a hash's field
//	| 'S' | id:8 | member |            → nothing
//	| 'L' | id:8 | index:8 |           → element of a list
//	| 'l' | id:8 | index:8 |           → a block of a list: the elements from an index on, see Blocks
//	| 'Z' | id:8 | member |            → score:8, as an IEEE 754 double
//	| 'z' | id:8 | score:8 | member |  → nothing, or a byte 1 when the score is -0;
//	                                     the score as sortable bits, see SortableScore
//	| 'X' | id:8 | entry:16 |          → fields and values of a stream's entry, see AppendStreamField
//	| 'N' | id:8 | entry:16 |          → StreamNode, which begins at the entry; not of the last node
//	| 'G' | id:8 | name |              → GroupState
//	| 'C' | id:8 | group:8 | name |            → consumer:8
//	| 'c' | id:8 | group:8 | consumer:8 |      → ConsumerState
//	| 'P' | id:8 | group:8 | entry:16 |        → PendingState
//	| 'p' | id:8 | group:8 | consumer:8 | entry:16 | → nothing
//	| 'd' | id:8 | group:8 | delivered ms:8 | entry:16 | → nothing; see GroupState.Timed
//	| 'E' | id:8 | field |             → expire ms:8 of a hash's field, if it expires
//	| 'e' | id:8 | expire ms:8 | field | → nothing
//	| 'T' | expire ms:8 | key |        → type:1
//	| 'F' | due ms:8 | key |           → nothing; a hash none of whose fields expires before
//	| 'D' | id:8 | part |              → type:1 | count:8, and expiring:8 unless that is 0; elements
//	                                     that wait for the reaper, see AppendDeletedKey
package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Format is the version of all that this package describes. A store with a later one is refused.
// Earlier ones, from FirstFormat on, have less, and nothing else is different: so they become
// Format when they are opened. Version 1 has no blocks of lists, and 1 and 2 have no key that is
// indexed earlier than it expires.
const (
	Format      = 3
	FirstFormat = 1
)

// The kinds of record, by their first byte. These are on disk: none may change.
const (
	KindMetadata    = 'M'
	KindStringPiece = 'B'
	KindHashField   = 'H'
	KindSetMember   = 'S'
	KindListElement = 'L'
	KindListBlock   = 'l'
	KindZSetMember  = 'Z'
	KindZSetScore   = 'z'

	KindStreamEntry      = 'X'
	KindStreamNode       = 'N'
	KindStreamGroup      = 'G'
	KindStreamName       = 'C'
	KindStreamConsumer   = 'c'
	KindStreamPending    = 'P'
	KindStreamPendingFor = 'p'
	KindStreamDelivered  = 'd'

	KindFieldExpiry = 'E'
	KindFieldDue    = 'e'

	KindExpiry  = 'T'
	KindHashDue = 'F'
	KindDeleted = 'D'
)

// The keys of the default family.
var (
	FormatKey  = []byte("format")
	StateKey   = []byte("state")
	HighestKey = []byte("highest")
	CountsKey  = []byte("counts") // see engine.Store.keepCounts
)

// ErrCorrupt is what bytes that this package can't read are.
var ErrCorrupt = errors.New("layout: corrupt record")

// Family is the name of a namespace's column family.
func Family(namespace uint32) string { return "ns" + strconv.FormatUint(uint64(namespace), 10) }

// Namespace is the number in a family's name.
func Namespace(family string) (uint32, bool) {
	if len(family) < 3 || family[:2] != "ns" {
		return 0, false
	}
	n, err := strconv.ParseUint(family[2:], 10, 32)
	return uint32(n), err == nil
}

// AppendMetadataKey appends | 'M' | key |.
func AppendMetadataKey(dst, key []byte) []byte {
	return append(append(dst, KindMetadata), key...)
}

// AppendElementKey appends | kind | id:8 | element |, for 'H', 'S' and 'Z'; with a nil element it
// is the prefix of all of a collection's elements of that kind.
func AppendElementKey(dst []byte, kind byte, id uint64, element []byte) []byte {
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint64(dst, id)
	return append(dst, element...)
}

// StringPiece is how many bytes of a spread string a record 'B' stands for: those from piece ×
// StringPiece on. Zeros at its end may be missing, and a piece of zeros has no record at all.
const StringPiece = 1 << 10

// AppendPieceKey appends | 'B' | id:8 | piece:4 |.
func AppendPieceKey(dst []byte, id uint64, piece uint32) []byte {
	return AppendPiece(AppendElementKey(dst, KindStringPiece, id, nil), piece)
}

// AppendPiece appends what such a key has behind the id.
func AppendPiece(dst []byte, piece uint32) []byte { return binary.BigEndian.AppendUint32(dst, piece) }

// DecodePiece is the inverse of AppendPiece.
func DecodePiece(element []byte) (piece uint32, err error) {
	if len(element) != 4 {
		return 0, fmt.Errorf("%w: key of %d bytes among the pieces of a string", ErrCorrupt, ElementPrefix+len(element))
	}
	return binary.BigEndian.Uint32(element), nil
}

// ElementPrefix is the length of what stands before the element in such a key.
const ElementPrefix = 9

// ElementID is the id in the key of an element's record.
func ElementID(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// AppendSequenceKey appends | 'L' | id:8 | index:8 |.
func AppendSequenceKey(dst []byte, id, index uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendElementKey(dst, KindListElement, id, nil), index)
}

// AppendBlockKey appends | 'l' | id:8 | index:8 |.
func AppendBlockKey(dst []byte, id, index uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendElementKey(dst, KindListBlock, id, nil), index)
}

// DecodeSequenceKey is the inverse of AppendSequenceKey; ok is false when the record has no such
// key.
func DecodeSequenceKey(key []byte) (id, index uint64, ok bool) {
	if len(key) != ElementPrefix+8 || key[0] != KindListElement {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[ElementPrefix:]), true
}

// ElementIndex is the index in such a key, or in one that begins with it.
func ElementIndex(key []byte) uint64 { return binary.BigEndian.Uint64(key[ElementPrefix:]) }

// ListMiddle is the index of the first element that comes to an empty list: indexes grow from
// there in both directions.
const ListMiddle = 1 << 63

// AppendScoreKey appends | 'z' | id:8 | score:8 | member |.
func AppendScoreKey(dst []byte, id uint64, score float64, member []byte) []byte {
	return AppendScored(AppendElementKey(dst, KindZSetScore, id, nil), score, member)
}

// AppendScored appends what such a key has behind the id.
func AppendScored(dst []byte, score float64, member []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, SortableScore(score)), member...)
}

// SortableScore turns a score into bits whose order as a number is the order of the scores:
// positive ones have the top bit set, negative ones all bits inverted. -0 becomes 0, to which it
// is equal; the record's value keeps the sign.
func SortableScore(score float64) uint64 {
	bits := math.Float64bits(score)
	if bits>>63 == 0 || score == 0 {
		return bits | 1<<63 // of -0 the same as of 0
	}
	return ^bits
}

// ScoreOf is the inverse of SortableScore.
func ScoreOf(sortable uint64) float64 {
	if sortable>>63 == 1 {
		return math.Float64frombits(sortable &^ (1 << 63))
	}
	return math.Float64frombits(^sortable)
}

// AppendScoreValue appends the value of a 'z' record.
func AppendScoreValue(dst []byte, score float64) []byte {
	if score == 0 && math.Signbit(score) {
		return append(dst, 1)
	}
	return dst
}

// DecodeScored takes score and member from what a record of kind 'z' has behind the id, and its
// value. member refers to scored.
func DecodeScored(scored, value []byte) (score float64, member []byte, err error) {
	if len(scored) < 8 {
		return 0, nil, fmt.Errorf("%w: score key of %d bytes", ErrCorrupt, ElementPrefix+len(scored))
	}
	score = ScoreOf(binary.BigEndian.Uint64(scored))
	if len(value) > 0 {
		score = math.Copysign(score, -1)
	}
	return score, scored[8:], nil
}

// AppendScore appends the value of a 'Z' record.
func AppendScore(dst []byte, score float64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(score))
}

// DecodeScore reads the value of a 'Z' record.
func DecodeScore(value []byte) (float64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: score of %d bytes", ErrCorrupt, len(value))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(value)), nil
}

// AppendExpiryKey appends | 'T' | expire ms:8 | key |.
func AppendExpiryKey(dst []byte, expireMs int64, key []byte) []byte {
	dst = append(dst, KindExpiry)
	dst = binary.BigEndian.AppendUint64(dst, uint64(expireMs))
	return append(dst, key...)
}

// DecodeExpiryKey is the inverse of AppendExpiryKey, and of AppendHashDueKey.
func DecodeExpiryKey(record []byte) (expireMs int64, key []byte, err error) {
	if len(record) < 9 || record[0] != KindExpiry && record[0] != KindHashDue {
		return 0, nil, fmt.Errorf("%w: expiry key of %d bytes", ErrCorrupt, len(record))
	}
	return int64(binary.BigEndian.Uint64(record[1:])), record[9:], nil
}

// AppendDeletedKey appends | 'D' | id:8 |. Behind it may stand which part of a collection is gone:
//
//	group:8      type StreamGroup: what belongs to a group
//	entry:16     type StreamEntries: what stands before an entry
//	entry:16 0   type StreamNodes: what stands up to an entry, or at it
//
// Earlier versions have written StreamNodes as StreamEntries. One of the two was lost then when
// both went up to the same entry.
func AppendDeletedKey(dst []byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, KindDeleted), id)
}

// AppendDeletedValue appends | type:1 | count:8 |, and | expiring:8 | of a hash with fields that
// expire.
func AppendDeletedValue(dst []byte, t Type, count, expiring uint64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, byte(t)), count)
	if expiring > 0 {
		dst = binary.BigEndian.AppendUint64(dst, expiring)
	}
	return dst
}

// Deleted is a 'D' record.
type Deleted struct {
	ID       uint64
	Part     []byte // of the collection; empty: all of it
	Type     Type
	Count    uint64
	Expiring uint64 // how many fields of a hash expire
}

// DecodeDeleted reads a 'D' record. What it returns refers to key.
func DecodeDeleted(key, value []byte) (d Deleted, err error) {
	if len(key) < ElementPrefix || key[0] != KindDeleted || len(value) != 9 && len(value) != 17 {
		return d, fmt.Errorf("%w: deletion of %d and %d bytes", ErrCorrupt, len(key), len(value))
	}
	d = Deleted{ID: binary.BigEndian.Uint64(key[1:]), Part: key[ElementPrefix:], Type: Type(value[0]), Count: binary.BigEndian.Uint64(value[1:])}
	if len(value) == 17 {
		d.Expiring = binary.BigEndian.Uint64(value[9:])
	}
	return d, nil
}

// Records is about how many records of one kind are gone.
func (d *Deleted) Records(kind byte) uint64 {
	if kind == KindFieldExpiry || kind == KindFieldDue {
		return d.Expiring
	}
	return d.Count
}

// Range is where the records of one kind stand that are gone.
func (d *Deleted) Range(kind byte) (lower, upper []byte) {
	lower = AppendElementKey(nil, kind, d.ID, d.Part)
	if d.Type == StreamEntries || d.Type == StreamNodes {
		return AppendElementKey(nil, kind, d.ID, nil), lower
	}
	return lower, Successor(nil, lower)
}

// AppendFieldDueKey appends | 'e' | id:8 | expire ms:8 | field |; with a nil field it is the first
// that can expire then.
func AppendFieldDueKey(dst []byte, id uint64, expireMs int64, field []byte) []byte {
	dst = AppendElementKey(dst, KindFieldDue, id, nil)
	dst = binary.BigEndian.AppendUint64(dst, uint64(expireMs))
	return append(dst, field...)
}

// DecodeFieldDueKey takes the time and the field from such a key. field refers to key.
func DecodeFieldDueKey(key []byte) (expireMs int64, field []byte, err error) {
	if len(key) < ElementPrefix+8 || key[0] != KindFieldDue {
		return 0, nil, fmt.Errorf("%w: key of %d bytes in an index of fields that expire", ErrCorrupt, len(key))
	}
	return int64(binary.BigEndian.Uint64(key[ElementPrefix:])), key[ElementPrefix+8:], nil
}

// AppendFieldExpiry appends the value of an 'E' record.
func AppendFieldExpiry(dst []byte, expireMs int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(expireMs))
}

// DecodeFieldExpiry reads the value of an 'E' record.
func DecodeFieldExpiry(value []byte) (expireMs int64, err error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: a field's expiry of %d bytes", ErrCorrupt, len(value))
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

// AppendHashDueKey appends | 'F' | due ms:8 | key |.
func AppendHashDueKey(dst []byte, dueMs int64, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64(append(dst, KindHashDue), uint64(dueMs)), key...)
}

// SharedPrefix is the length of what two keys begin with alike.
func SharedPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Successor is the first key behind all that begin with a prefix; nil when there is none.
func Successor(dst, prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			dst = append(dst, prefix[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return nil
}
