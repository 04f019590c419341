package rdb

import (
	"encoding/binary"
	"errors"

	"kedis/storage/listpack"
)

// LargestStreamNode is how many bytes a node may have that is written. Redis lets none grow beyond
// 1 GB, but for an entry that is large by itself. Here one may: the names that its entries share
// are those of the first one that is left, and the others' lie in each of them again.
const LargestStreamNode = 2 << 30

var errStreamNode = errors.New("rdb: a stream has a node of more than 2 GB, as the entries' fields have other names than those of its first one")

// streamEncoder is how far the writing of a stream has come.
type streamEncoder struct {
	master       StreamID
	masterFields []byte // names, each behind its length
	entries      int64  // of the node
	names        []byte
	elements     []listpack.Element

	counted bool // consumers of this group
}

// BeginStream begins a stream that has so many nodes. Its parts follow in the order that StreamPart
// tells, then End. Entries of one node follow each other.
func (e *Encoder) BeginStream(nodes uint64) {
	if e.format == Redis72 {
		e.begin(typeStreamListpacks3)
		e.version = versionOf72
	} else {
		e.begin(typeStreamListpacks2)
	}
	e.length(nodes)
	e.left, e.nodes = nodes, false
	e.stream.begin()
}

func (s *streamEncoder) begin() {
	s.entries, s.counted = 0, true
}

// StreamPart writes the next part of a stream. After an error it does nothing.
func (e *Encoder) StreamPart(p *StreamElement) {
	if e.err != nil {
		return
	}
	switch p.Part {
	case StreamEntry:
		e.streamEntry(p)
	case StreamTotals:
		e.streamTotals(p)
	case StreamGroup:
		e.endConsumers()
		e.string(p.Name)
		e.streamID(p.ID)
		e.length(uint64(p.EntriesRead))
		e.length(p.Pending)
		e.stream.counted = false
	case StreamPending:
		e.rawStreamID(p.ID)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(p.DeliveredMs))
		e.length(p.Deliveries)
	case StreamConsumer:
		if !e.stream.counted {
			e.length(p.Consumers)
			e.stream.counted = true
		}
		e.string(p.Name)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(p.SeenMs))
		if e.format == Redis72 {
			e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(p.ActiveMs))
		}
		e.length(p.Pending)
	case StreamOwned:
		e.rawStreamID(p.ID)
	}
	if e.w != nil && len(e.buf) >= bufferSize {
		e.flush()
	}
}

// EndStream ends a stream.
func (e *Encoder) EndStream() {
	e.endConsumers()
	e.End()
}

func (e *Encoder) streamTotals(p *StreamElement) {
	e.endStreamNode()
	e.length(p.Length)
	e.streamID(p.ID)
	e.streamID(p.FirstID)
	e.streamID(p.MaxDeletedID)
	e.length(p.EntriesAdded)
	e.length(p.Groups)
}

// endConsumers ends a group that had none.
func (e *Encoder) endConsumers() {
	if !e.stream.counted {
		e.length(0)
		e.stream.counted = true
	}
}

func (e *Encoder) streamID(id StreamID) {
	e.length(id.Ms)
	e.length(id.Seq)
}

func (e *Encoder) rawStreamID(id StreamID) {
	e.buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(e.buf, id.Ms), id.Seq)
}

// streamEntry gathers an entry into its node: see readStreamEntry.
func (e *Encoder) streamEntry(p *StreamElement) {
	s := &e.stream
	names := s.names[:0]
	for i := 0; i < len(p.Fields); i += 2 {
		names = append(binary.AppendUvarint(names, uint64(len(p.Fields[i]))), p.Fields[i]...)
	}
	s.names = names
	if s.entries == 0 || p.Node != s.master {
		e.endStreamNode()
		e.beginStreamNode(p)
	}
	s.entries++
	same := string(names) == string(s.masterFields)
	elements := append(s.elements[:0], listpack.OfInt(0),
		listpack.OfInt(int64(p.ID.Ms-s.master.Ms)), listpack.OfInt(int64(p.ID.Seq-s.master.Seq)))
	if same {
		elements[0] = listpack.OfInt(entrySameFields)
	} else {
		elements = append(elements, listpack.OfInt(int64(len(p.Fields)/2)))
	}
	for i, text := range p.Fields {
		if !same || i%2 == 1 {
			elements = append(elements, listpack.Of(text))
		}
	}
	elements = append(elements, listpack.OfInt(int64(len(elements))))
	e.addToStreamNode(elements)
}

// addToStreamNode adds elements to the node that is gathered, if it isn't too large with them.
func (e *Encoder) addToStreamNode(elements []listpack.Element) {
	if e.err != nil {
		return
	}
	size := len(e.node)
	for _, element := range elements {
		size += element.Size()
	}
	if size > e.largestStreamNode {
		e.fail(errStreamNode)
		e.node = nil
		return
	}
	e.node = e.node.Append(e.node[:0], elements...)
	clear(elements)
	e.stream.elements = elements
}

// beginStreamNode begins a node with an entry's fields: see readStreamNode.
func (e *Encoder) beginStreamNode(p *StreamElement) {
	s := &e.stream
	s.master, s.masterFields = p.Node, append(s.masterFields[:0], s.names...)
	elements := append(s.elements[:0], listpack.OfInt(0), listpack.OfInt(0), listpack.OfInt(int64(len(p.Fields)/2)))
	for i := 0; i < len(p.Fields); i += 2 {
		elements = append(elements, listpack.Of(p.Fields[i]))
	}
	elements = append(elements, listpack.OfInt(0))
	e.node = emptyListpack(e.node)
	e.addToStreamNode(elements)
}

// endStreamNode writes the node that has been gathered, if there is one.
func (e *Encoder) endStreamNode() {
	s := &e.stream
	if s.entries == 0 {
		return
	}
	e.node = e.node.Replace(e.node[:0], e.node.First(), listpack.OfInt(s.entries))
	s.entries = 0
	e.streamNode(s.master, e.node)
	e.node = emptyListpack(e.node)
}

// streamNodeWithoutEntries writes a node as it is, all of whose entries are deleted: Redis leaves
// such a one when it trims up to an entry that was deleted before.
func (e *Encoder) streamNodeWithoutEntries(id StreamID, node listpack.Listpack) {
	if e.err != nil {
		return
	}
	e.endStreamNode()
	e.streamNode(id, node)
}

func (e *Encoder) streamNode(id StreamID, node listpack.Listpack) {
	e.takeOne()
	var key [16]byte
	binary.BigEndian.PutUint64(key[:], id.Ms)
	binary.BigEndian.PutUint64(key[8:], id.Seq)
	e.string(key[:])
	e.string(node)
}
