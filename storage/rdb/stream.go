package rdb

import (
	"encoding/binary"

	"kedis/storage/listpack"
)

// StreamPart says what of a stream has been read. The parts come in this order: the entries; the
// totals; then for each group the group, its pending entries, and for each of its consumers the
// consumer and which of the pending entries it owns. That these are pending is not checked.
type StreamPart uint8

// The parts of a stream, and which fields of a StreamElement they set.
const (
	StreamEntry    StreamPart = iota + 1 // ID, Node, Fields
	StreamTotals                         // Length, ID (the last one), FirstID, MaxDeletedID, EntriesAdded, Groups
	StreamGroup                          // Name, ID (the last one delivered), EntriesRead, Pending
	StreamPending                        // ID, DeliveredMs, Deliveries
	StreamConsumer                       // Name, SeenMs, ActiveMs, Consumers, Pending
	StreamOwned                          // ID
)

// StreamID is the id of an entry.
type StreamID struct{ Ms, Seq uint64 }

// Less reports whether id comes before other.
func (id StreamID) Less(other StreamID) bool {
	return id.Ms < other.Ms || id.Ms == other.Ms && id.Seq < other.Seq
}

// StreamElement is one part of a stream. Its memory is used again for the next one.
type StreamElement struct {
	Part StreamPart

	ID     StreamID
	Node   StreamID // the node that it lies in
	Fields [][]byte // field, value, field, value …
	Name   []byte

	Length                uint64
	FirstID, MaxDeletedID StreamID
	EntriesAdded          uint64 // Length in streams of Redis before 7.0, which didn't count
	EntriesRead           int64  // -1 is unknown
	Uncounted             bool   // Redis before 7.0 wrote it: FirstID is 0-0 and EntriesRead -1, whatever they were

	Groups    uint64
	Consumers uint64 // of the group, this one and those that follow
	Pending   uint64 // entries of the group, or that the consumer owns

	DeliveredMs      int64 // when last, in ms since 1970
	Deliveries       uint64
	SeenMs, ActiveMs int64 // ActiveMs is SeenMs before Redis 7.2, and -1 if never
}

// streamState is how far the reading of a stream has come.
type streamState struct {
	element StreamElement

	// Entries. They lie in nodes; a node's master entry has an id that those of its entries are
	// relative to, and fields that most of them share.
	nodes        uint64 // still to be read
	packed       int64  // bytes that the node has in the payload or file, where it may be compressed
	master       StreamID
	masterFields int    // position of the first one
	fieldCount   int64  // how many
	names        int64  // bytes that they take in the node
	repeated     int64  // bytes of names that entries so far have from their nodes
	nodeBytes    int64  // of the nodes so far
	valid        int64  // entries that the node still has to have, not deleted
	deleted      int64  // and deleted
	numbers      []byte // fields and values that are integers, as text

	withoutEntries func(id StreamID, node listpack.Listpack) // nil, or gets the nodes all of whose entries are deleted

	totalsRead bool

	groups           uint64 // still to be read
	pending          uint64 // still to be read of the group
	consumersCounted bool   // consumers of this group
	consumers        uint64 // still to be read of the group
	owned            uint64 // still to be read of the consumer
}

func (d *Decoder) beginStream(v *Value) error {
	nodes, err := d.src.length()
	if err != nil {
		return err
	}
	v.Kind, v.advance, v.position = Stream, (*Value).nextStreamPart, listpack.None
	v.stream.nodes = nodes
	v.stream.consumersCounted = true
	v.Element.Stream = &v.stream.element
	return nil
}

func (v *Value) nextStreamPart() (more bool, err error) {
	s := &v.stream
	more, err = v.nextStreamEntry()
	if more || err != nil {
		return more, err
	}
	if !s.consumersCounted && s.pending == 0 {
		if s.consumers, err = v.d.src.length(); err != nil {
			return false, err
		}
		s.consumersCounted = true
	}
	s.element = StreamElement{}
	switch {
	case !s.totalsRead:
		return true, v.readTotals()
	case s.owned > 0:
		return true, v.readOwned()
	case s.pending > 0:
		return true, v.readPending()
	case s.consumers > 0:
		return true, v.readConsumer()
	case s.groups > 0:
		return true, v.readGroup()
	}
	return false, nil
}

// nextStreamEntry reads the next entry that isn't deleted.
func (v *Value) nextStreamEntry() (more bool, err error) {
	s := &v.stream
	for {
		if v.position == listpack.None {
			if s.nodes == 0 {
				return false, nil
			}
			if err := v.readStreamNode(); err != nil {
				return false, err
			}
			continue
		}
		deleted, ok := v.readStreamEntry()
		if !ok {
			return false, v.d.src.corrupt("a bad stream entry")
		}
		if v.position == listpack.None && (s.valid != 0 || s.deleted != 0) {
			return false, v.d.src.corrupt("a stream node that lacks entries")
		}
		if !v.d.Trusted && s.repeated > repeatedFree+repeatedMost*s.nodeBytes {
			return false, v.d.src.corrupt("a stream of %d bytes whose entries repeat names of %d", s.nodeBytes, s.repeated)
		}
		if !deleted {
			return true, nil
		}
	}
}

// readStreamNode reads | id:16, big-endian, as a string | listpack | and the listpack's master
// entry | entries | deleted entries | fields | field … | 0 |.
func (v *Value) readStreamNode() error {
	s, d := &v.stream, v.d
	s.nodes--
	key, err := d.string(&d.second)
	if err != nil {
		return err
	}
	if len(key) != 16 {
		return d.src.corrupt("a stream node with an id of %d bytes", len(key))
	}
	s.master = rawStreamID(key)
	start := d.src.offset()
	if v.node, err = d.packedBytes(nil); err != nil {
		return err
	}
	s.packed = d.src.offset() - start
	v.position = v.node.First()
	var ok [4]bool
	var end int64
	s.valid, ok[0] = v.nodeInt()
	s.deleted, ok[1] = v.nodeInt()
	s.fieldCount, ok[2] = v.nodeInt()
	s.masterFields = v.position
	ok[3] = s.fieldCount >= 0 && v.skipNode(s.fieldCount) && v.mayHave(2*s.fieldCount)
	namesEnd := int64(v.position)
	if end, _ = v.nodeInt(); ok != [4]bool{true, true, true, true} || end != 0 ||
		s.valid < 0 || s.deleted < 0 || s.valid+s.deleted < 0 {
		return d.src.corrupt("a bad stream node")
	}
	if v.position == listpack.None && s.valid+s.deleted > 0 {
		return d.src.corrupt("a stream node that lacks entries")
	}
	s.names = namesEnd - int64(s.masterFields)
	s.nodeBytes += int64(len(v.node))
	if s.valid == 0 && s.withoutEntries != nil {
		s.withoutEntries(s.master, v.node)
	}
	return nil
}

// Names of fields that most entries of a node share stand in it once, and are written with each
// entry: half a megabyte of a compressed payload could become hundreds of gigabytes. So they may be
// repeated up to repeatedMost times as many bytes as the nodes have so far, which those of Redis's
// default of 100 entries in a node can't exceed, and repeatedFree bytes besides. With other limits
// for nodes a server may write more: it is trusted.
const (
	repeatedMost = 100
	repeatedFree = 1 << 30
)

// textBytes is about how much memory each field and each value of an entry takes, beside the node,
// with what is left behind while a list of very many grows.
const textBytes = 100

// mayHave reports whether an entry may have so many fields and values. In a compressed node one has
// as little as a fortieth of a byte. So all may take as much memory as a string may, or there may
// be as many as the payload has bytes for the node: one that isn't compressed has two for each, at
// least.
func (v *Value) mayHave(texts int64) bool {
	return v.d.Trusted || texts <= max(int64(v.d.maxString()/textBytes), v.stream.packed)
}

const (
	entryDeleted    = 1
	entrySameFields = 2
)

// readStreamEntry reads | flags | ms | seq | fields | field | value … | elements |, without the
// number of fields and the fields if they are the master entry's.
func (v *Value) readStreamEntry() (deleted, ok bool) {
	s := &v.stream
	flags, ok1 := v.nodeInt()
	ms, ok2 := v.nodeInt()
	seq, ok3 := v.nodeInt()
	if !ok1 || !ok2 || !ok3 {
		return false, false
	}
	s.numbers = s.numbers[:0]
	s.element = StreamElement{Part: StreamEntry, Fields: s.element.Fields[:0],
		ID: StreamID{s.master.Ms + uint64(ms), s.master.Seq + uint64(seq)}, Node: s.master}
	elements := int64(3)
	if flags&entrySameFields != 0 {
		elements += s.fieldCount
		ok = v.sharedFields()
	} else {
		var n int64
		n, ok = v.nodeInt()
		ok = ok && n >= 0 && n <= int64(len(v.node)) && v.mayHave(2*n) && v.ownFields(2*n)
		elements += 1 + 2*n
	}
	if !ok {
		return false, false
	}
	count, ok := v.nodeInt()
	deleted = flags&entryDeleted != 0
	if deleted {
		s.deleted--
	} else {
		s.valid--
	}
	if !ok || count != elements || s.valid < 0 || s.deleted < 0 {
		return false, false
	}
	return deleted, true
}

// sharedFields pairs the master entry's fields with the values of this one.
func (v *Value) sharedFields() bool {
	field := v.stream.masterFields
	v.stream.repeated += v.stream.names
	for range v.stream.fieldCount {
		v.addText(field)
		field = v.node.Next(field)
		if !v.ownFields(1) {
			return false
		}
	}
	return true
}

// ownFields takes n elements of the node as fields or values.
func (v *Value) ownFields(n int64) bool {
	for range n {
		if v.position == listpack.None {
			return false
		}
		v.addText(v.position)
		v.position = v.node.Next(v.position)
	}
	return true
}

// addText adds the element at pos to the entry. If it isn't a view into the node, it is one into
// numbers; should that move to new memory, the old stays where it is.
func (v *Value) addText(pos int) {
	s := &v.stream
	e := v.node.At(pos)
	text := e.Bytes
	if e.IsInt() {
		start := len(s.numbers)
		s.numbers = e.AppendTo(s.numbers)
		text = s.numbers[start:len(s.numbers):len(s.numbers)]
	}
	s.element.Fields = append(s.element.Fields, text)
}

// nodeInt takes the next element of the node, which has to be an integer.
func (v *Value) nodeInt() (int64, bool) {
	if v.position == listpack.None {
		return 0, false
	}
	e := v.node.At(v.position)
	v.position = v.node.Next(v.position)
	return e.Int, e.IsInt()
}

// skipNode passes over n elements of the node.
func (v *Value) skipNode(n int64) bool {
	for ; n > 0 && v.position != listpack.None; n-- {
		v.position = v.node.Next(v.position)
	}
	return n == 0
}

func (v *Value) readTotals() (err error) {
	s, e := &v.stream, &v.stream.element
	s.totalsRead = true
	e.Part = StreamTotals
	if e.Length, err = v.d.src.length(); err != nil {
		return err
	}
	if e.ID, err = v.d.streamID(); err != nil {
		return err
	}
	e.EntriesAdded, e.Uncounted = e.Length, v.Type == typeStreamListpacks
	if v.Type != typeStreamListpacks {
		if e.FirstID, err = v.d.streamID(); err != nil {
			return err
		}
		if e.MaxDeletedID, err = v.d.streamID(); err != nil {
			return err
		}
		if e.EntriesAdded, err = v.d.src.length(); err != nil {
			return err
		}
	}
	s.groups, err = v.d.src.length()
	e.Groups = s.groups
	return err
}

func (v *Value) readGroup() (err error) {
	s, e := &v.stream, &v.stream.element
	s.groups--
	e.Part, e.EntriesRead, e.Uncounted = StreamGroup, -1, v.Type == typeStreamListpacks
	if e.Name, err = v.d.string(&v.d.first); err != nil {
		return err
	}
	if e.ID, err = v.d.streamID(); err != nil {
		return err
	}
	if v.Type != typeStreamListpacks {
		read, err := v.d.src.length()
		if err != nil {
			return err
		}
		e.EntriesRead = int64(read)
	}
	s.pending, err = v.d.src.length()
	e.Pending, s.consumersCounted = s.pending, false
	return err
}

func (v *Value) readPending() (err error) {
	e := &v.stream.element
	v.stream.pending--
	e.Part = StreamPending
	if e.ID, err = v.d.rawStreamID(); err != nil {
		return err
	}
	delivered, err := v.d.src.uint64()
	if err != nil {
		return err
	}
	e.DeliveredMs = int64(delivered)
	e.Deliveries, err = v.d.src.length()
	return err
}

func (v *Value) readConsumer() (err error) {
	s, e := &v.stream, &v.stream.element
	e.Part, e.Consumers = StreamConsumer, s.consumers
	s.consumers--
	if e.Name, err = v.d.string(&v.d.first); err != nil {
		return err
	}
	seen, err := v.d.src.uint64()
	if err != nil {
		return err
	}
	active := seen
	if v.Type == typeStreamListpacks3 {
		if active, err = v.d.src.uint64(); err != nil {
			return err
		}
	}
	e.SeenMs, e.ActiveMs = int64(seen), int64(active)
	s.owned, err = v.d.src.length()
	e.Pending = s.owned
	return err
}

func (v *Value) readOwned() (err error) {
	v.stream.owned--
	v.stream.element.Part = StreamOwned
	v.stream.element.ID, err = v.d.rawStreamID()
	return err
}

// streamID reads an id as two lengths.
func (d *Decoder) streamID() (id StreamID, err error) {
	if id.Ms, err = d.src.length(); err != nil {
		return id, err
	}
	id.Seq, err = d.src.length()
	return id, err
}

// rawStreamID reads an id as 16 bytes.
func (d *Decoder) rawStreamID() (StreamID, error) {
	b, err := d.src.fixed(16)
	if err != nil {
		return StreamID{}, err
	}
	return rawStreamID(b), nil
}

func rawStreamID(b []byte) StreamID {
	return StreamID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}
