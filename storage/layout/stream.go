package layout

import (
	"encoding/binary"
	"fmt"
	"math"
)

// StreamID is the id of a stream's entry:
//
//	| ms:8 | sequence:8 |
type StreamID struct{ Ms, Seq uint64 }

// StreamIDSize is the size of an id.
const StreamIDSize = 16

// Append appends the id.
func (i StreamID) Append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, i.Ms), i.Seq)
}

// Less tells whether the id comes before another.
func (i StreamID) Less(other StreamID) bool {
	return i.Ms < other.Ms || i.Ms == other.Ms && i.Seq < other.Seq
}

// Next is the id behind; ok is false behind the last one.
func (i StreamID) Next() (next StreamID, ok bool) {
	if i.Seq++; i.Seq == 0 {
		i.Ms++
		return i, i.Ms != 0
	}
	return i, true
}

// Previous is the id before; ok is false before the first one.
func (i StreamID) Previous() (previous StreamID, ok bool) {
	if i.Seq--; i.Seq == 1<<64-1 {
		i.Ms--
		return i, i.Ms != 1<<64-1
	}
	return i, true
}

// LastStreamID is the last id that there can be.
var LastStreamID = StreamID{1<<64 - 1, 1<<64 - 1}

func readStreamID(b []byte) StreamID {
	return StreamID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// AppendStreamKey appends | kind | id:8 | entry:16 |, for 'X' and 'N'.
func AppendStreamKey(dst []byte, kind byte, id uint64, entry StreamID) []byte {
	return entry.Append(AppendElementKey(dst, kind, id, nil))
}

// AppendGroupKey appends | kind | id:8 | group:8 |, with which all keys of what belongs to a group
// begin.
func AppendGroupKey(dst []byte, kind byte, id, group uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendElementKey(dst, kind, id, nil), group)
}

// AppendConsumerKey appends | kind | id:8 | group:8 | consumer:8 |.
func AppendConsumerKey(dst []byte, kind byte, id, group, consumer uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendGroupKey(dst, kind, id, group), consumer)
}

// AppendDeliveredKey appends | 'd' | id:8 | group:8 | delivered ms:8 | entry:16 |. A time before
// 1970 counts as the beginning of that year.
func AppendDeliveredKey(dst []byte, id, group uint64, ms int64, entry StreamID) []byte {
	return entry.Append(AppendConsumerKey(dst, KindStreamDelivered, id, group, uint64(max(ms, 0))))
}

// OfStreamGroup tells whether records of a kind belong to the groups of a stream. Those of a group
// that was destroyed may still stand there.
func OfStreamGroup(kind byte) bool {
	switch kind {
	case KindStreamName, KindStreamConsumer, KindStreamPending, KindStreamPendingFor, KindStreamDelivered:
		return true
	}
	return false
}

// GroupPrefix is the length of what stands before the name in the key of a 'C' record.
const GroupPrefix = ElementPrefix + 8

// EntryOf is the id of the entry that the key of an 'X', 'N', 'P', 'p' or 'd' record, or a part of
// it, ends with.
func EntryOf(key []byte) (StreamID, error) {
	if len(key) < StreamIDSize {
		return StreamID{}, fmt.Errorf("%w: key of %d bytes in a stream", ErrCorrupt, len(key))
	}
	return readStreamID(key[len(key)-StreamIDSize:]), nil
}

// StreamHead is what a stream's metadata has besides the number of its entries:
//
//	| last:16 | first:16 | deleted:16 | added:8 | nodes:8 | first node:16 | last node:16 | StreamNode |
//	| groups:8 | consumers:8 | pending:8 | timed:8 | [ mark:16 | marked entries:8 | marked nodes:8 ] |
//
// A node is a run of entries that Redis keeps together. The counts of all but the last one stand in
// 'N' records. Nothing is read before the first entry and the first node: what stands there waits
// for the reaper.
type StreamHead struct {
	Last    StreamID // the highest id that was ever given
	First   StreamID // of the first entry; 0-0 when there is none
	Deleted StreamID // the highest id that was deleted
	Added   uint64   // entries, those that are gone included

	Nodes     uint64
	FirstNode StreamID   // where it begins
	LastNode  StreamID   // likewise
	Tail      StreamNode // the last one

	Groups, Consumers, Pending uint64 // of all groups
	Timed                      uint64 // 'd' records of all groups

	Mark StreamMark
}

// StreamMark is how far it was summed up what stands at the beginning of a stream. There is one
// while many nodes are being trimmed off.
type StreamMark struct {
	At             StreamID // where a node begins that is neither the first nor behind the last
	Entries, Nodes uint64   // before it; without a mark 0
}

// Without notes that entries of a node are gone, and nodes that begin at it.
func (m *StreamMark) Without(node StreamID, entries, nodes uint64) {
	if m.Nodes == 0 || !node.Less(m.At) {
		return
	}
	m.Entries -= entries
	if m.Nodes -= nodes; m.Nodes == 0 {
		*m = StreamMark{}
	}
}

// StreamNode are the counts of a node:
//
//	| entries:4 | deleted:4 | bytes:4 | fields:8 |
type StreamNode struct {
	Entries uint32
	Deleted uint32 // entries that are gone, and that count in Redis until the whole node is gone
	Bytes   uint32 // that it has in Redis
	Fields  uint64 // a hash of the names that its first entry has
}

const (
	streamNodeSize = 20
	streamHeadSize = 3*StreamIDSize + 2*8 + 2*StreamIDSize + streamNodeSize + 4*8
	streamMarkSize = StreamIDSize + 2*8
)

// Append appends the value of an 'N' record.
func (n StreamNode) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, n.Entries)
	dst = binary.BigEndian.AppendUint32(dst, n.Deleted)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, n.Bytes), n.Fields)
}

// DecodeStreamNode reads such a value.
func DecodeStreamNode(b []byte) (StreamNode, error) {
	if len(b) != streamNodeSize {
		return StreamNode{}, fmt.Errorf("%w: node of %d bytes", ErrCorrupt, len(b))
	}
	return readStreamNode(b), nil
}

func readStreamNode(b []byte) StreamNode {
	return StreamNode{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint64(b[12:])}
}

// Append appends the head, as a stream's Metadata.Value.
func (h *StreamHead) Append(dst []byte) []byte {
	dst = h.Deleted.Append(h.First.Append(h.Last.Append(dst)))
	dst = binary.BigEndian.AppendUint64(dst, h.Added)
	dst = binary.BigEndian.AppendUint64(dst, h.Nodes)
	dst = h.Tail.Append(h.LastNode.Append(h.FirstNode.Append(dst)))
	dst = binary.BigEndian.AppendUint64(dst, h.Groups)
	dst = binary.BigEndian.AppendUint64(dst, h.Consumers)
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, h.Pending), h.Timed)
	if h.Mark.Nodes > 0 {
		dst = binary.BigEndian.AppendUint64(h.Mark.At.Append(dst), h.Mark.Entries)
		dst = binary.BigEndian.AppendUint64(dst, h.Mark.Nodes)
	}
	return dst
}

// isStreamHead reports whether a head can have this size.
func isStreamHead(size int) bool {
	return size == streamHeadSize || size == streamHeadSize+streamMarkSize
}

// Decode reads a stream's Metadata.Value.
func (h *StreamHead) Decode(b []byte) error {
	if !isStreamHead(len(b)) {
		return fmt.Errorf("%w: head of a stream of %d bytes", ErrCorrupt, len(b))
	}
	*h = StreamHead{
		Last: readStreamID(b), First: readStreamID(b[16:]), Deleted: readStreamID(b[32:]),
		Added: binary.BigEndian.Uint64(b[48:]), Nodes: binary.BigEndian.Uint64(b[56:]),
		FirstNode: readStreamID(b[64:]), LastNode: readStreamID(b[80:]), Tail: readStreamNode(b[96:]),
		Groups: binary.BigEndian.Uint64(b[116:]), Consumers: binary.BigEndian.Uint64(b[124:]), Pending: binary.BigEndian.Uint64(b[132:]),
		Timed: binary.BigEndian.Uint64(b[140:]),
	}
	if b = b[streamHeadSize:]; len(b) > 0 {
		h.Mark = StreamMark{readStreamID(b), binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])}
	}
	return nil
}

// streamCounts is the head in metadata that was decoded, whose size is right.
func streamCounts(m *Metadata) (h StreamHead) {
	if isStreamHead(len(m.Value)) {
		_ = h.Decode(m.Value)
	}
	return h
}

// GroupState is the value of a 'G' record:
//
//	| group:8 | last:16 | read:8 | consumers:8 | pending:8 | from:16 | to:16 | middle:16 | early:8 | acknowledged:4 |
//	| timed to:16 | timed:8 | oldest ms:8 | { consumer:8 | left:8 }… |
type GroupState struct {
	Number    uint64   // by which what belongs to it is found
	Last      StreamID // the last entry that was delivered
	Read      int64    // entries that were read up to it; -1 is unknown
	Consumers uint64
	Pending   uint64

	// No entry before From, or behind To, has a 'P' record. Acknowledged entries leave traces that
	// a walk passes over, so it begins at From.
	From, To StreamID
	// Early counts the pending entries up to Middle. When there are none left, From moves behind
	// it.
	Middle       StreamID
	Early        uint64
	Acknowledged uint32 // early entries that were acknowledged since From was moved

	// Pending entries up to TimedTo have 'd' records, by which those are found that have been
	// pending for longest. There are none until somebody asks for them. None of them was delivered
	// before OldestMs.
	TimedTo  StreamID
	Timed    uint64
	OldestMs int64

	// Departed consumers are gone. What is left of their pending entries counts no more, and is
	// removed later. Early and Timed count it.
	Departed []Departed
}

// Departed is a consumer that is gone, and how many of its pending entries still have records.
type Departed struct{ Consumer, Left uint64 }

const (
	groupStateSize = 140
	departedSize   = 16
)

// Records is how many entries have 'P' records.
func (g *GroupState) Records() uint64 {
	n := g.Pending
	for _, d := range g.Departed {
		n += d.Left
	}
	return n
}

// Append appends the record's value.
func (g *GroupState) Append(dst []byte) []byte {
	dst = g.Last.Append(binary.BigEndian.AppendUint64(dst, g.Number))
	dst = binary.BigEndian.AppendUint64(dst, uint64(g.Read))
	dst = binary.BigEndian.AppendUint64(dst, g.Consumers)
	dst = g.From.Append(binary.BigEndian.AppendUint64(dst, g.Pending))
	dst = binary.BigEndian.AppendUint64(g.Middle.Append(g.To.Append(dst)), g.Early)
	dst = g.TimedTo.Append(binary.BigEndian.AppendUint32(dst, g.Acknowledged))
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, g.Timed), uint64(g.OldestMs))
	for _, d := range g.Departed {
		dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, d.Consumer), d.Left)
	}
	return dst
}

// Decode reads such a value.
func (g *GroupState) Decode(b []byte) error {
	if len(b) < groupStateSize || (len(b)-groupStateSize)%departedSize != 0 {
		return fmt.Errorf("%w: group of %d bytes", ErrCorrupt, len(b))
	}
	g.Number, g.Last, g.Read = binary.BigEndian.Uint64(b), readStreamID(b[8:]), int64(binary.BigEndian.Uint64(b[24:]))
	g.Consumers, g.Pending = binary.BigEndian.Uint64(b[32:]), binary.BigEndian.Uint64(b[40:])
	g.From, g.To, g.Middle = readStreamID(b[48:]), readStreamID(b[64:]), readStreamID(b[80:])
	g.Early, g.Acknowledged = binary.BigEndian.Uint64(b[96:]), binary.BigEndian.Uint32(b[104:])
	g.TimedTo, g.Timed, g.OldestMs = readStreamID(b[108:]), binary.BigEndian.Uint64(b[124:]), int64(binary.BigEndian.Uint64(b[132:]))
	g.Departed = nil
	for b = b[groupStateSize:]; len(b) > 0; b = b[departedSize:] {
		g.Departed = append(g.Departed, Departed{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])})
	}
	return nil
}

// ConsumerState is the value of a 'c' record:
//
//	| seen ms:8 | active ms:8 | pending:8 | name |
type ConsumerState struct {
	SeenMs   int64 // when it last asked for something
	ActiveMs int64 // when it last got something; -1 is never
	Pending  uint64
	Name     []byte
}

// Append appends the record's value.
func (c *ConsumerState) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.SeenMs))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.ActiveMs))
	dst = binary.BigEndian.AppendUint64(dst, c.Pending)
	return append(dst, c.Name...)
}

// Decode reads such a value. Name refers to it.
func (c *ConsumerState) Decode(b []byte) error {
	if len(b) < 24 {
		return fmt.Errorf("%w: consumer of %d bytes", ErrCorrupt, len(b))
	}
	*c = ConsumerState{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])), binary.BigEndian.Uint64(b[16:]), b[24:]}
	return nil
}

// PendingState is the value of a 'P' record:
//
//	| consumer:8 | delivered ms:8 | deliveries:8 |
type PendingState struct {
	Consumer    uint64
	DeliveredMs int64
	Deliveries  uint64
}

// CountDelivery counts another delivery, up to the most that effects can tell.
func (p *PendingState) CountDelivery() { p.Deliveries = min(p.Deliveries, math.MaxInt64-1) + 1 }

const pendingStateSize = 24

// Append appends the record's value.
func (p *PendingState) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.Consumer)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.DeliveredMs))
	return binary.BigEndian.AppendUint64(dst, p.Deliveries)
}

// Decode reads such a value.
func (p *PendingState) Decode(b []byte) error {
	if len(b) != pendingStateSize {
		return fmt.Errorf("%w: pending entry of %d bytes", ErrCorrupt, len(b))
	}
	*p = PendingState{binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:])), binary.BigEndian.Uint64(b[16:])}
	return nil
}

// ReadNumber reads a number of 8 bytes, the value of a 'C' record.
func ReadNumber(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: number of %d bytes", ErrCorrupt, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// AppendStreamField appends a field or a value of an entry:
//
//	| length:1-5, as a variable number | bytes |
//
// An entry's record has its fields and values in turns.
func AppendStreamField(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// StreamFields appends the fields and values of an entry's record. They refer to it.
func StreamFields(dst [][]byte, record []byte) ([][]byte, error) {
	for len(record) > 0 {
		length, size := binary.Uvarint(record)
		if size <= 0 || length > uint64(len(record)-size) {
			return dst, fmt.Errorf("%w: entry of a stream", ErrCorrupt)
		}
		end := size + int(length)
		dst, record = append(dst, record[size:end:end]), record[end:]
	}
	if len(dst)%2 != 0 {
		return dst, fmt.Errorf("%w: entry of a stream with a field without a value", ErrCorrupt)
	}
	return dst, nil
}
