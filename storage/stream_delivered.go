package storage

import (
	"kedis/storage/layout"
)

// The index of a group's pending entries by when they were delivered. See layout.GroupState.

func (g *Group) deliveredKey(p *Pending) []byte {
	t := g.stream.db.txn
	t.scratch.key2 = layout.AppendDeliveredKey(t.scratch.key2[:0], g.stream.next.ID, g.state.Number, p.DeliveredMs, p.Entry)
	return t.scratch.key2
}

// retime brings the index up to date for an entry: what was known of it (nil: it wasn't pending),
// and what is (nil: it isn't).
func (g *Group) retime(former, next *Pending) error {
	d := g.stream.db
	if former != nil && g.indexed(former.Entry) {
		g.countTimed(-1)
		if err := d.txn.Delete(d.space, g.deliveredKey(former)); err != nil {
			return err
		}
	}
	if next != nil && g.indexed(next.Entry) {
		return g.index(next)
	}
	return nil
}

// indexed reports whether an entry has its place in the index if it is pending. While there is no
// index none has, 0-0 neither, which a payload may say is pending.
func (g *Group) indexed(entry StreamID) bool {
	return g.state.TimedTo != (StreamID{}) && !g.state.TimedTo.Less(entry)
}

func (g *Group) index(p *Pending) error {
	d, s := g.stream.db, &g.state
	if s.Timed == 0 {
		s.OldestMs = p.DeliveredMs
	}
	s.OldestMs = min(s.OldestMs, p.DeliveredMs)
	g.countTimed(1)
	return d.txn.Put(d.space, g.deliveredKey(p), nil)
}

func (g *Group) countTimed(n int) {
	g.state.Timed += uint64(n)
	g.stream.head.Timed += uint64(n)
	g.changed = true
}

// Index adds up to so many pending entries to the index. It tells how many it was, and whether the
// index has all now.
func (g *Group) Index(most int) (added int, complete bool, err error) {
	s := &g.state
	from, more := s.TimedTo, true
	if from != (StreamID{}) {
		from, more = from.Next()
	}
	if !more {
		return 0, true, nil
	}
	last := layout.LastStreamID
	err = g.walkRecords(from, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
		if added == most {
			return false, nil
		}
		if added++; added == most {
			last = p.Entry
		}
		return true, g.index(p)
	})
	s.TimedTo, g.changed = last, true
	return added, last == layout.LastStreamID, err
}

// WalkDelivered visits pending entries that are indexed, those first that were delivered first,
// from behind one on. The zero Pending is before all. visit returns false to stop.
func (g *Group) WalkDelivered(behind *Pending, visit func(p *Pending) (more bool, err error)) error {
	s := &g.state
	if s.Timed == 0 || s.Pending == 0 {
		return nil
	}
	id := g.stream.next.ID
	all := layout.AppendGroupKey(nil, layout.KindStreamDelivered, id, s.Number)
	lower := layout.AppendDeliveredKey(nil, id, s.Number, s.OldestMs, StreamID{})
	first := *behind == Pending{}
	if !first {
		lower = append(layout.AppendDeliveredKey(lower[:0], id, s.Number, behind.DeliveredMs, behind.Entry), 0)
	}
	it := g.stream.db.txn.Iterate(g.stream.db.space, lower, layout.Successor(nil, all), IteratorOptions{KeysOnly: true})
	for it.Next() {
		entry, err := layout.EntryOf(it.Key())
		if it.Fail(err) {
			break
		}
		p, err := g.recorded(entry)
		if it.Fail(err) {
			break
		}
		if g.departed(p.Consumer) {
			continue
		}
		if first { // what was indexed before it has left traces that the next walk needn't pass over
			first, s.OldestMs, g.changed = false, p.DeliveredMs, true
		}
		more, err := visit(&p)
		if it.Fail(err) || !more {
			break
		}
	}
	return it.Close()
}
