package storage

import (
	"bytes"
	"fmt"
	"slices"

	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// Streams as payloads and files have them: see rdb.StreamPart for the order of their parts.

// parts is DB.StreamParts.
func (s *Stream) parts(visit func(p *rdb.StreamElement) error) error {
	w := streamParts{s, visit, rdb.StreamElement{}}
	if err := w.entries(); err != nil {
		return err
	}
	h := &s.head
	w.part = rdb.StreamElement{Part: rdb.StreamTotals, Length: s.next.Count, ID: rdb.StreamID(h.Last), FirstID: rdb.StreamID(h.First),
		MaxDeletedID: rdb.StreamID(h.Deleted), EntriesAdded: h.Added, Groups: h.Groups}
	if err := visit(&w.part); err != nil {
		return err
	}
	return s.Groups(w.group)
}

type streamParts struct {
	*Stream
	visit func(p *rdb.StreamElement) error
	part  rdb.StreamElement
}

// entries visits the entries, beside which the nodes' records are walked.
func (w *streamParts) entries() error {
	h := &w.head
	if w.next.Count == 0 {
		return nil
	}
	lower, upper := w.next.Records(layout.KindStreamNode)
	nodes := w.db.txn.Iterate(w.db.space, lower, upper, IteratorOptions{KeysOnly: true})
	defer func() { _ = nodes.Close() }()
	next := func() (StreamID, error) {
		if !nodes.Next() {
			return h.LastNode, nodes.Err()
		}
		return layout.EntryOf(nodes.Key())
	}
	at := h.FirstNode
	if _, err := next(); err != nil { // the first one itself, or the end
		return err
	}
	behind, err := next()
	if err != nil {
		return err
	}
	seen := uint64(0)
	err = w.Range(StreamID{}, layout.LastStreamID, false, func(id StreamID, fields [][]byte) (bool, error) {
		for at.Less(behind) && !id.Less(behind) {
			at = behind
			if behind, err = next(); err != nil {
				return false, err
			}
		}
		seen++
		w.part = rdb.StreamElement{Part: rdb.StreamEntry, ID: rdb.StreamID(id), Node: rdb.StreamID(at), Fields: fields}
		return true, w.visit(&w.part)
	})
	if err == nil && seen != w.next.Count {
		err = wrongCount(&w.next, layout.Stream.Elements()[0], seen)
	}
	return err
}

// group visits a group and what belongs to it.
func (w *streamParts) group(g *Group) error {
	w.part = rdb.StreamElement{Part: rdb.StreamGroup, Name: g.name, ID: rdb.StreamID(g.state.Last), EntriesRead: g.state.Read, Pending: g.state.Pending}
	if err := w.visit(&w.part); err != nil {
		return err
	}
	seen := uint64(0)
	err := g.Walk(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
		seen++
		w.part = rdb.StreamElement{Part: rdb.StreamPending, ID: rdb.StreamID(p.Entry), DeliveredMs: p.DeliveredMs, Deliveries: p.Deliveries}
		return true, w.visit(&w.part)
	})
	if err == nil && seen != g.state.Pending {
		err = wrongCount(&w.next, layout.Stream.Elements()[5], seen)
	}
	if err != nil {
		return err
	}
	left := g.state.Consumers
	return g.Consumers(func(c *Consumer) error {
		left--
		return w.consumer(g, c, left+1)
	})
}

func (w *streamParts) consumer(g *Group, c *Consumer, left uint64) error {
	w.part = rdb.StreamElement{Part: rdb.StreamConsumer, Name: c.state.Name, SeenMs: c.state.SeenMs, ActiveMs: c.state.ActiveMs,
		Consumers: left, Pending: c.state.Pending}
	if err := w.visit(&w.part); err != nil || c.state.Pending == 0 {
		return err
	}
	seen := uint64(0)
	it := g.iterate(g.state.From, g.state.To, c, false)
	for it.Next() {
		seen++
		entry, err := layout.EntryOf(it.Key())
		if it.Fail(err) {
			break
		}
		w.part = rdb.StreamElement{Part: rdb.StreamOwned, ID: rdb.StreamID(entry)}
		if it.Fail(w.visit(&w.part)) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if seen != c.state.Pending {
		return wrongCount(&w.next, layout.Stream.Elements()[6], seen)
	}
	return nil
}

// StreamParts visits the parts of a stream as rdb.Encoder.StreamPart takes them. Their memory is
// used again.
func (d DB) StreamParts(m *layout.Metadata, visit func(p *rdb.StreamElement) error) error {
	s := Stream{db: d, next: *m}
	if err := s.head.Decode(m.Value); err != nil {
		return err
	}
	return s.parts(visit)
}

// beginStreamPieces writes an empty stream: all of its parts come in pieces, as
// rdb.StreamElement.Append writes them.
func beginStreamPieces(e *rdb.Encoder, parts []rdb.Element) []rdb.Element {
	e.BeginStream(0)
	e.StreamPart(&rdb.StreamElement{Part: rdb.StreamTotals})
	e.EndStream()
	return parts
}

func visitParts(d DB, m *layout.Metadata, visit func(*rdb.Element) error) error {
	var e rdb.Element
	return d.StreamParts(m, func(p *rdb.StreamElement) error {
		e = rdb.Element{Bytes: p.Append(e.Bytes[:0])}
		return visit(&e)
	})
}

// parsePartWord reads a part into memory that the caller gives.
func parsePartWord(words [][]byte, e *rdb.Element) ([][]byte, error) {
	return words[1:], e.Stream.Decode(words[0])
}

func encodeStream(d DB, m *layout.Metadata, e *rdb.Encoder) error {
	var h layout.StreamHead
	if err := h.Decode(m.Value); err != nil {
		return err
	}
	e.BeginStream(h.Nodes)
	err := d.StreamParts(m, func(p *rdb.StreamElement) error {
		e.StreamPart(p)
		return e.Err()
	})
	if err == nil {
		e.EndStream()
	}
	return err
}

// errStream is what a payload is that says something of a stream which can't be.
var errStream = fmt.Errorf("%w: a stream that contradicts itself", rdb.ErrCorrupt)

// streamRestoring is a stream that is being read.
type streamRestoring struct {
	*restoring
	stream Stream
	node   StreamID // that the entries lie in where they come from
	totals bool
	length uint64 // that they tell

	group     *Group
	consumer  *Consumer
	pending   []Pending // of the group, by their entries; an owner of 0 is not known yet
	unowned   int
	groupKeys []byte
}

func restoreStream(r *restoring) (layout.Metadata, error) {
	r.spread = r.db.newElements(layout.Stream)
	s := streamRestoring{restoring: r}
	s.stream.db = r.db
	s.stream.next = layout.Metadata{Type: layout.Stream, Encoding: layout.Spread, ID: r.spread.ID()}
	for r.value.Next() {
		if err := s.part(r.value.Element.Stream); err != nil {
			return layout.Metadata{}, err
		}
	}
	if err := r.value.Err(); err != nil {
		return layout.Metadata{}, err
	}
	if err := s.finishGroup(); err != nil {
		return layout.Metadata{}, err
	}
	if !s.totals || s.length != s.stream.next.Count {
		return layout.Metadata{}, errStream
	}
	s.stream.next.Value = s.stream.head.Append(nil)
	return s.stream.next, r.finishSpread()
}

func (s *streamRestoring) part(p *rdb.StreamElement) error {
	switch p.Part {
	case rdb.StreamEntry:
		return s.entry(p)
	case rdb.StreamTotals:
		return s.setTotals(p)
	case rdb.StreamGroup:
		return s.beginGroup(p)
	case rdb.StreamPending:
		s.pending = append(s.pending, Pending{layout.PendingState{DeliveredMs: p.DeliveredMs, Deliveries: p.Deliveries}, StreamID(p.ID)})
		s.unowned++
	case rdb.StreamConsumer:
		return s.beginConsumer(p)
	case rdb.StreamOwned:
		return s.own(StreamID(p.ID))
	}
	return nil
}

func (s *streamRestoring) put(kind byte, behind func(key []byte) []byte, value []byte) error {
	s.groupKeys = behind(s.groupKeys[:0])
	return s.spread.Put(kind, s.groupKeys, value)
}

// entry adds an entry. Its node is as in the payload, as far as that counts, unless it would be too
// large to be written again: names that the node's first entry hasn't are written with each other
// one, though they shared them where they come from.
func (s *streamRestoring) entry(p *rdb.StreamElement) error {
	h, id, at := &s.stream.head, StreamID(p.ID), StreamID(p.Node)
	if len(p.Fields) == 0 || s.stream.next.Count > 0 && !h.Last.Less(id) || id.Less(at) {
		return errStream
	}
	names := hashNames(p.Fields)
	if h.Nodes == 0 || s.node != at {
		if h.Nodes > 0 && !h.Last.Less(at) {
			return errStream
		}
		s.node = at
		if err := s.beginNode(at, p.Fields, names); err != nil {
			return err
		}
	}
	size := entrySize(offset(id, h.LastNode), p.Fields, names == h.Tail.Fields)
	if h.Tail.Entries > 0 && int64(h.Tail.Bytes)+int64(size) > rdb.LargestStreamNode {
		if err := s.beginNode(id, p.Fields, names); err != nil {
			return err
		}
		size = entrySize(StreamID{}, p.Fields, true)
	}
	h.Tail.Entries++
	h.Tail.Bytes += uint32(size)
	if s.stream.next.Count == 0 {
		h.First = id
	}
	s.stream.next.Count++
	h.Last = id
	record := s.db.txn.scratch.record[:0]
	for _, text := range p.Fields {
		record = layout.AppendStreamField(record, text)
	}
	s.db.txn.scratch.record = record
	return s.put(layout.KindStreamEntry, id.Append, record)
}

// beginNode begins a node with an entry of such fields, whose names have that hash.
func (s *streamRestoring) beginNode(at StreamID, fields [][]byte, names uint64) error {
	h := &s.stream.head
	if h.Nodes == 0 {
		h.FirstNode = at
	} else if err := s.put(layout.KindStreamNode, h.LastNode.Append, h.Tail.Append(nil)); err != nil {
		return err
	}
	h.Nodes++
	h.LastNode, h.Tail = at, layout.StreamNode{Fields: names, Bytes: uint32(masterSize(fields))}
	return nil
}

func (s *streamRestoring) setTotals(p *rdb.StreamElement) error {
	h := &s.stream.head
	if StreamID(p.ID).Less(h.Last) {
		return errStream
	}
	s.totals, s.length = true, p.Length
	h.Last, h.Deleted, h.Added = StreamID(p.ID), StreamID(p.MaxDeletedID), p.EntriesAdded
	return nil
}

func (s *streamRestoring) beginGroup(p *rdb.StreamElement) error {
	if err := s.finishGroup(); err != nil {
		return err
	}
	read := p.EntriesRead
	if p.Uncounted {
		read = s.stream.DistanceFromFirst(StreamID(p.ID))
	}
	s.group = s.stream.NewGroup(bytes.Clone(p.Name), StreamID(p.ID), read)
	s.consumer = nil
	return nil
}

func (s *streamRestoring) beginConsumer(p *rdb.StreamElement) error {
	if s.group == nil {
		return errStream
	}
	if err := s.finishConsumer(); err != nil {
		return err
	}
	number := s.db.txn.NewID()
	s.consumer = &Consumer{number: number, state: layout.ConsumerState{SeenMs: p.SeenMs, ActiveMs: p.ActiveMs, Name: bytes.Clone(p.Name)}}
	s.group.state.Consumers++
	s.stream.head.Consumers++
	value := layout.AppendGroupKey(nil, 0, 0, number)[layout.ElementPrefix:]
	return s.put(layout.KindStreamName, func(dst []byte) []byte {
		return append(s.numbers(dst, 0), p.Name...)
	}, value)
}

// numbers appends what the key of a record begins with that belongs to the group, and to a consumer
// if that isn't 0.
func (s *streamRestoring) numbers(dst []byte, consumer uint64) []byte {
	if consumer == 0 {
		return append(dst, layout.AppendGroupKey(nil, 0, 0, s.group.state.Number)[layout.ElementPrefix:]...)
	}
	return append(dst, layout.AppendConsumerKey(nil, 0, 0, s.group.state.Number, consumer)[layout.ElementPrefix:]...)
}

// own makes a pending entry the consumer's.
func (s *streamRestoring) own(id StreamID) error {
	at, found := slices.BinarySearchFunc(s.pending, id, func(p Pending, id StreamID) int {
		switch {
		case p.Entry.Less(id):
			return -1
		case id.Less(p.Entry):
			return 1
		}
		return 0
	})
	if s.consumer == nil || !found || s.pending[at].Consumer != 0 {
		return errStream
	}
	p := &s.pending[at]
	p.Consumer = s.consumer.number
	s.unowned--
	s.consumer.state.Pending++
	if err := s.put(layout.KindStreamPendingFor, func(dst []byte) []byte { return id.Append(s.numbers(dst, p.Consumer)) }, nil); err != nil {
		return err
	}
	return s.put(layout.KindStreamPending, func(dst []byte) []byte { return id.Append(s.numbers(dst, 0)) }, p.Append(nil))
}

func (s *streamRestoring) finishConsumer() error {
	if s.consumer == nil {
		return nil
	}
	c := s.consumer
	s.consumer = nil
	return s.put(layout.KindStreamConsumer, func(dst []byte) []byte { return s.numbers(dst, c.number) }, c.state.Append(nil))
}

// finishGroup completes a group. All that is pending has to be somebody's.
func (s *streamRestoring) finishGroup() error {
	if s.group == nil {
		return nil
	}
	if err := s.finishConsumer(); err != nil {
		return err
	}
	g := s.group
	s.group = nil
	if s.unowned != 0 {
		return fmt.Errorf("%w: %d pending entries belong to nobody", errStream, s.unowned)
	}
	g.state.Pending = uint64(len(s.pending))
	s.stream.head.Pending += g.state.Pending
	if len(s.pending) > 0 {
		g.state.From, g.state.To = s.pending[0].Entry, s.pending[len(s.pending)-1].Entry
		g.state.Middle, g.state.Early = g.state.To, g.state.Pending
	}
	s.pending = s.pending[:0]
	return s.spread.Put(layout.KindStreamGroup, g.name, g.state.Append(nil))
}
