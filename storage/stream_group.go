package storage

import (
	"bytes"
	"math"

	"kedis/storage/engine"
	"kedis/storage/layout"
)

// Group is a consumer group of a stream as a transaction sees it. Its methods change it in the
// transaction; Save writes it and those of its consumers down that have changed, and Stream.Save
// the stream.
type Group struct {
	stream    *Stream
	name      []byte
	state     layout.GroupState
	changed   bool
	consumers []*Consumer          // those that were looked at
	numbered  map[uint64]*Consumer // the same, by number, when they are many
}

// Consumer is a consumer of a group.
type Consumer struct {
	number  uint64
	state   layout.ConsumerState
	changed bool
}

// empty makes it one that refers to nothing, and keeps its memory.
func (g *Group) empty() { *g = Group{consumers: g.consumers[:0]} }

func (c *Consumer) empty() { *c = Consumer{} }

// State is what is known of the group.
func (g *Group) State() *layout.GroupState { return &g.state }

// Name is the group's name.
func (g *Group) Name() []byte { return g.name }

// State is what is known of the consumer.
func (c *Consumer) State() *layout.ConsumerState { return &c.state }

// Pending is an entry that was delivered and not acknowledged.
type Pending struct {
	layout.PendingState
	Entry StreamID
}

// Group opens a group; found is false when there is none of that name.
func (s *Stream) Group(name []byte) (g *Group, found bool, err error) {
	value, found, err := s.db.getElement(layout.KindStreamGroup, s.next.ID, name)
	if err != nil || !found {
		return nil, false, err
	}
	g = s.db.txn.groups.take()
	g.empty()
	g.stream, g.name = s, name
	if err = g.state.Decode(value); len(g.state.Departed) > 0 {
		s.db.txn.departures.note(s.db.number, s.key, name)
	}
	return g, true, err
}

// NewGroup makes a group, of whose name there is none yet.
func (s *Stream) NewGroup(name []byte, last StreamID, read int64) *Group {
	s.head.Groups++
	return &Group{stream: s, name: name, changed: true, state: layout.GroupState{Number: s.db.txn.NewID(), Last: last, Read: read}}
}

// Groups visits all groups, by name.
func (s *Stream) Groups(visit func(g *Group) error) error {
	return s.db.scanAll(&s.next, layout.Stream.Elements()[2], false, func(name, value []byte) error {
		g := &Group{stream: s, name: bytes.Clone(name)}
		if err := g.state.Decode(value); err != nil {
			return err
		}
		return visit(g)
	})
}

// copyOfGroups copies what belongs to the groups of a stream, of one kind.
func (d DB) copyOfGroups(m *layout.Metadata, kind byte, to *engine.Elements) error {
	s := Stream{db: d, next: *m}
	if err := s.head.Decode(m.Value); err != nil {
		return err
	}
	return s.Groups(func(g *Group) error {
		lower := layout.AppendGroupKey(nil, kind, m.ID, g.state.Number)
		return copyAll(d.txn.Iterate(d.space, lower, layout.Successor(nil, lower), IteratorOptions{}), kind, to)
	})
}

// Save writes the group down.
func (g *Group) Save() error {
	d, id := g.stream.db, g.stream.next.ID
	for _, c := range g.consumers {
		if !c.changed {
			continue
		}
		c.changed = false
		t := d.txn
		t.scratch.record = c.state.Append(t.scratch.record[:0])
		if err := t.Put(d.space, g.consumerKey(layout.KindStreamConsumer, c.number), t.scratch.record); err != nil {
			return err
		}
	}
	if !g.changed {
		return nil
	}
	g.changed = false
	d.txn.scratch.record = g.state.Append(d.txn.scratch.record[:0])
	return d.putElement(layout.KindStreamGroup, id, g.name, d.txn.scratch.record)
}

// Keep writes the group and the stream down after changes that no client sees: they are no event.
func (g *Group) Keep() error {
	if err := g.Save(); err != nil {
		return err
	}
	return g.stream.Keep()
}

// SetLast sets the entry that was delivered last, and how many were read.
func (g *Group) SetLast(id StreamID, read int64) {
	g.state.Last, g.state.Read, g.changed = id, read, true
}

// Destroy removes the group and all that belongs to it: one small write, however much is pending.
func (g *Group) Destroy() error {
	s := g.stream
	h := &s.head
	h.Groups--
	h.Consumers -= g.state.Consumers
	h.Pending -= g.state.Records()
	h.Timed -= g.state.Timed
	part := layout.AppendGroupKey(nil, 0, 0, g.state.Number)[layout.ElementPrefix:]
	if records := 2*(g.state.Consumers+g.state.Records()) + g.state.Timed; records > 0 {
		if err := s.db.txn.AbandonPart(s.db.space, s.next.ID, part, layout.StreamGroup, records); err != nil {
			return err
		}
	}
	return s.db.deleteElement(layout.KindStreamGroup, s.next.ID, g.name)
}

// The keys of a group's records stand in scratch memory.

func (g *Group) nameKey(name []byte) []byte {
	t := g.stream.db.txn
	t.scratch.key2 = append(layout.AppendGroupKey(t.scratch.key2[:0], layout.KindStreamName, g.stream.next.ID, g.state.Number), name...)
	return t.scratch.key2
}

func (g *Group) consumerKey(kind byte, consumer uint64) []byte {
	t := g.stream.db.txn
	t.scratch.key2 = layout.AppendConsumerKey(t.scratch.key2[:0], kind, g.stream.next.ID, g.state.Number, consumer)
	return t.scratch.key2
}

func (g *Group) pendingKey(entry StreamID) []byte {
	t := g.stream.db.txn
	t.scratch.key2 = entry.Append(layout.AppendGroupKey(t.scratch.key2[:0], layout.KindStreamPending, g.stream.next.ID, g.state.Number))
	return t.scratch.key2
}

func (g *Group) ownedKey(consumer uint64, entry StreamID) []byte {
	t := g.stream.db.txn
	t.scratch.key2 = entry.Append(g.consumerKey(layout.KindStreamPendingFor, consumer))
	return t.scratch.key2
}

// Consumer returns a consumer; found is false when there is none of that name.
func (g *Group) Consumer(name []byte) (c *Consumer, found bool, err error) {
	d := g.stream.db
	value, found, err := d.txn.Get(d.space, g.nameKey(name))
	if err != nil || !found {
		return nil, false, err
	}
	number, err := layout.ReadNumber(value)
	if err != nil {
		return nil, false, err
	}
	c, err = g.consumer(number)
	return c, true, err
}

// consumer returns the consumer of a number.
func (g *Group) consumer(number uint64) (*Consumer, error) {
	if c := g.opened(number); c != nil {
		return c, nil
	}
	d := g.stream.db
	value, found, err := d.txn.Get(d.space, g.consumerKey(layout.KindStreamConsumer, number))
	if err == nil && !found {
		err = wrongCount(&g.stream.next, layout.Stream.Elements()[4], 0)
	}
	if err != nil {
		return nil, err
	}
	c := d.txn.consumers.take()
	c.empty()
	c.number = number
	if err := c.state.Decode(value); err != nil {
		return nil, err
	}
	g.remember(c)
	return c, nil
}

// fewConsumers are found sooner by looking at each.
const fewConsumers = 32

// opened returns the consumer of a number if it was looked at, or nil.
func (g *Group) opened(number uint64) *Consumer {
	if g.numbered != nil {
		return g.numbered[number]
	}
	for _, c := range g.consumers {
		if c.number == number {
			return c
		}
	}
	return nil
}

// remember keeps a consumer that is looked at.
func (g *Group) remember(c *Consumer) {
	g.consumers = append(g.consumers, c)
	switch {
	case g.numbered != nil:
		g.numbered[c.number] = c
	case len(g.consumers) > fewConsumers:
		g.numbered = make(map[uint64]*Consumer, 2*fewConsumers)
		for _, c := range g.consumers {
			g.numbered[c.number] = c
		}
	}
}

// letGo gives up the consumer that was kept last, unless it has changed.
func (g *Group) letGo(c *Consumer) {
	if last := len(g.consumers) - 1; !c.changed && g.consumers[last] == c {
		g.consumers = g.consumers[:last]
		delete(g.numbered, c.number)
	}
}

// Owner returns the consumer that a pending entry belongs to.
func (g *Group) Owner(p *Pending) (*Consumer, error) { return g.consumer(p.Consumer) }

// NewConsumer makes a consumer, of whose name there is none yet.
func (g *Group) NewConsumer(name []byte, seenMs int64) (*Consumer, error) {
	d := g.stream.db
	c := &Consumer{number: d.txn.NewID(), changed: true, state: layout.ConsumerState{SeenMs: seenMs, ActiveMs: -1, Name: name}}
	g.remember(c)
	g.state.Consumers++
	g.stream.head.Consumers++
	g.changed = true
	number := layout.AppendGroupKey(nil, 0, 0, c.number)[layout.ElementPrefix:]
	return c, d.txn.Put(d.space, g.nameKey(name), number)
}

// Saw notes that a consumer asked for something at a time (Unix ms), and got something.
func (c *Consumer) Saw(ms int64, got bool) {
	c.state.SeenMs = ms
	if got {
		c.state.ActiveMs = ms
	}
	c.changed = true
}

// Consumers visits the group's consumers, by name. There may be many: those that it was the first
// to look at, and that visit hasn't changed, it doesn't keep.
func (g *Group) Consumers(visit func(c *Consumer) error) error {
	d := g.stream.db
	lower := layout.AppendGroupKey(nil, layout.KindStreamName, g.stream.next.ID, g.state.Number)
	it := d.txn.Iterate(d.space, lower, layout.Successor(nil, lower), IteratorOptions{})
	seen := uint64(0)
	for it.Next() {
		seen++
		number, err := layout.ReadNumber(it.Value())
		if it.Fail(err) {
			break
		}
		known := len(g.consumers)
		c, err := g.consumer(number)
		if it.Fail(err) || it.Fail(visit(c)) {
			break
		}
		if len(g.consumers) > known {
			g.letGo(c)
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if seen != g.state.Consumers {
		return wrongCount(&g.stream.next, layout.Stream.Elements()[3], seen)
	}
	return nil
}

// RemoveConsumer removes a consumer and what is pending for it, and returns how much that was.
func (g *Group) RemoveConsumer(c *Consumer) (pending uint64, err error) {
	d := g.stream.db
	pending = c.state.Pending
	if pending > d.txn.departures.atOnce() && len(g.state.Departed) < mostDeparted {
		g.depart(c)
	} else {
		err = g.Walk(StreamID{}, layout.LastStreamID, c, func(p *Pending) (bool, error) { return true, g.Acknowledge(p) })
		if err != nil {
			return 0, err
		}
	}
	c.changed, g.changed = false, true
	g.state.Consumers--
	g.stream.head.Consumers--
	if err := d.txn.Delete(d.space, g.nameKey(c.state.Name)); err != nil {
		return 0, err
	}
	return pending, d.txn.Delete(d.space, g.consumerKey(layout.KindStreamConsumer, c.number))
}

// Pending returns an entry if it is pending.
func (g *Group) Pending(entry StreamID) (p Pending, found bool, err error) {
	if g.state.Pending == 0 || entry.Less(g.state.From) || g.state.To.Less(entry) {
		return p, false, nil
	}
	p, found, err = g.record(entry)
	return p, found && !g.departed(p.Consumer), err
}

// record is Pending that finds what is left of consumers that are gone, too.
func (g *Group) record(entry StreamID) (p Pending, found bool, err error) {
	d := g.stream.db
	value, found, err := d.txn.Get(d.space, g.pendingKey(entry))
	if err != nil || !found {
		return p, false, err
	}
	p.Entry = entry
	return p, true, p.Decode(value)
}

// recorded is record for an entry that has to have one.
func (g *Group) recorded(entry StreamID) (p Pending, err error) {
	p, found, err := g.record(entry)
	if err == nil && !found {
		err = wrongCount(&g.stream.next, layout.Stream.Elements()[5], 0)
	}
	return p, err
}

// Deliver makes an entry one that is pending for a consumer, whether it was pending before (former)
// or not (nil).
func (g *Group) Deliver(p *Pending, to *Consumer, former *Pending) error {
	d := g.stream.db
	switch {
	case former == nil:
		if err := g.replaceDeparted(p.Entry); err != nil {
			return err
		}
		g.state.Pending++
		g.begins(p.Entry)
		g.stream.head.Pending++
		g.changed = true
	case former.Consumer != to.number:
		if err := g.disown(former); err != nil {
			return err
		}
	}
	if err := g.retime(former, p); err != nil {
		return err
	}
	p.Consumer = to.number
	var value [32]byte
	if err := d.txn.Put(d.space, g.pendingKey(p.Entry), p.Append(value[:0])); err != nil {
		return err
	}
	if former != nil && former.Consumer == to.number {
		return nil
	}
	to.state.Pending++
	to.changed = true
	return d.txn.Put(d.space, g.ownedKey(to.number, p.Entry), nil)
}

// begins notes that an entry, which was counted, has come to be pending.
func (g *Group) begins(entry StreamID) {
	s := &g.state
	switch {
	case s.Records() == 1:
		s.From, s.To, s.Middle, s.Early, s.Acknowledged = entry, entry, entry, 1, 0
		return
	case entry.Less(s.From):
		s.From = entry
	case s.To.Less(entry):
		s.To = entry
	}
	if !s.Middle.Less(entry) {
		s.Early++
	}
}

// ends notes that an entry, which is counted no more, has no records any more.
func (g *Group) ends(entry StreamID) {
	s := &g.state
	if s.Records() == 0 {
		s.TimedTo = StreamID{}
	}
	if s.Middle.Less(entry) {
		return
	}
	s.Acknowledged++
	if s.Early--; s.Early == 0 {
		s.From, _ = s.Middle.Next()
		s.Middle, s.Early, s.Acknowledged = s.To, s.Records(), 0
	}
}

// disown takes a pending entry away from its consumer.
func (g *Group) disown(p *Pending) error {
	c, err := g.consumer(p.Consumer)
	if err != nil {
		return err
	}
	c.state.Pending--
	c.changed = true
	d := g.stream.db
	return d.txn.Delete(d.space, g.ownedKey(p.Consumer, p.Entry))
}

// Acknowledge makes a pending entry one that isn't.
func (g *Group) Acknowledge(p *Pending) error {
	if err := g.disown(p); err != nil {
		return err
	}
	g.state.Pending--
	return g.forget(p)
}

// forget removes the record of an entry that isn't counted any more, and belongs to nobody.
func (g *Group) forget(p *Pending) error {
	d := g.stream.db
	if err := d.txn.Delete(d.space, g.pendingKey(p.Entry)); err != nil {
		return err
	}
	if err := g.retime(p, nil); err != nil {
		return err
	}
	g.ends(p.Entry)
	g.stream.head.Pending--
	g.changed = true
	return nil
}

// moveAfter is how many early entries are acknowledged before From moves to the first one that has
// a record.
const moveAfter = 4096

// MoveFrom moves the place where walks begin behind what was acknowledged, if that is much. What is
// left of consumers that are gone isn't left behind: Index walks over it, too.
func (g *Group) MoveFrom() error {
	if g.state.Acknowledged < moveAfter || g.state.Pending == 0 {
		return nil
	}
	g.state.Acknowledged = 0
	return g.walkRecords(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
		g.state.From = p.Entry
		return false, nil
	})
}

// Walk visits what is pending from one entry to another, both included: of one consumer, or of all
// (nil). visit returns false to stop. It may acknowledge and deliver what it is shown.
func (g *Group) Walk(from, to StreamID, c *Consumer, visit func(p *Pending) (more bool, err error)) error {
	if g.state.Pending == 0 {
		return nil
	}
	return g.walkRecords(from, to, c, func(p *Pending) (bool, error) {
		if g.departed(p.Consumer) {
			return true, nil
		}
		return visit(p)
	})
}

// walkRecords is Walk that shows what is left of consumers that are gone, too.
func (g *Group) walkRecords(from, to StreamID, c *Consumer, visit func(p *Pending) (more bool, err error)) error {
	if from.Less(g.state.From) {
		from = g.state.From
	}
	if g.state.To.Less(to) {
		to = g.state.To
	}
	if g.state.Records() == 0 || c != nil && c.state.Pending == 0 || to.Less(from) {
		return nil
	}
	it := g.iterate(from, to, c, false)
	for it.Next() {
		p, err := g.pendingAt(it, c)
		if it.Fail(err) {
			break
		}
		more, err := visit(&p)
		if it.Fail(err) || !more {
			break
		}
	}
	return it.Close()
}

func (g *Group) iterate(from, to StreamID, c *Consumer, reverse bool) *Iterator {
	s := g.stream
	prefix := layout.AppendGroupKey(nil, layout.KindStreamPending, s.next.ID, g.state.Number)
	if c != nil {
		prefix = layout.AppendConsumerKey(nil, layout.KindStreamPendingFor, s.next.ID, g.state.Number, c.number)
	}
	lower := from.Append(append([]byte(nil), prefix...))
	upper := append(to.Append(append([]byte(nil), prefix...)), 0)
	return s.db.txn.Iterate(s.db.space, lower, upper, IteratorOptions{Reverse: reverse})
}

// pendingAt reads what an iterator has come to.
func (g *Group) pendingAt(it *Iterator, c *Consumer) (p Pending, err error) {
	entry, err := layout.EntryOf(it.Key())
	if err != nil {
		return p, err
	}
	if c == nil {
		p.Entry = entry
		return p, p.Decode(it.Value())
	}
	return g.recorded(entry)
}

// Ends returns the first and the last entry that is pending, of which there are any.
func (g *Group) Ends() (first, last StreamID, err error) {
	err = g.Walk(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
		first = p.Entry
		return false, nil
	})
	if err != nil {
		return first, last, err
	}
	it := g.iterate(g.state.From, g.state.To, nil, true)
	for it.Next() {
		p, err := g.pendingAt(it, nil)
		if it.Fail(err) {
			break
		}
		if last = p.Entry; !g.departed(p.Consumer) {
			break
		}
	}
	return first, last, it.Close()
}

// Advance makes an entry the one that was delivered last, and counts it as read.
func (g *Group) Advance(id StreamID) {
	if !g.state.Last.Less(id) {
		return
	}
	if s := g.stream; g.state.Read != -1 && !g.state.Last.Less(s.head.First) && !s.tombstonesBehind(g.state.Last) {
		g.state.Read = entriesRead(uint64(g.state.Read) + 1)
	} else if g.stream.head.Added > 0 {
		g.state.Read = g.stream.DistanceFromFirst(id)
	}
	g.state.Last, g.changed = id, true
}

// entriesRead is how many entries a group has read as it keeps that: more than an int64 holds are
// unknown, -1.
func entriesRead(count uint64) int64 {
	if count > math.MaxInt64 {
		return -1
	}
	return int64(count)
}

// Lag is how many entries the group has still to read, as Redis 7.4 tells it; known is false when
// that can't be told.
func (g *Group) Lag() (lag int64, known bool) {
	s, h := g.stream, &g.stream.head
	switch {
	case h.Added == 0 || s.next.Count == 0:
		return 0, true
	case g.state.Last.Less(h.First) && h.Deleted.Less(h.First):
		return int64(s.next.Count), true
	}
	read := g.state.Read
	if read == -1 || s.tombstonesBehind(g.state.Last) {
		read = s.DistanceFromFirst(g.state.Last)
	}
	return int64(h.Added) - read, read != -1
}
