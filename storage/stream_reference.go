package storage

import (
	"bytes"
	"cmp"

	"kedis/storage/layout"
)

// References says what deleting entries does with what groups know of them.
type References uint8

const (
	// KeepReferences leaves entries pending that are gone.
	KeepReferences References = iota
	// DropReferences makes entries that are deleted pending for no group.
	DropReferences
	// Acknowledged has only entries deleted that every group has got and acknowledged.
	Acknowledged
)

// Referrers are all groups of a stream, for who asks which entries they need.
type Referrers struct {
	stream *Stream
	groups []*Group
	read   StreamID // the last entry that every group has got
}

// Referrers opens all groups. Those that are open already are taken as they are.
func (s *Stream) Referrers(open ...*Group) (*Referrers, error) {
	r := &Referrers{stream: s, read: layout.LastStreamID}
	err := s.Groups(func(g *Group) error {
		for _, o := range open {
			if bytes.Equal(o.name, g.name) {
				g = o
			}
		}
		g.name = bytes.Clone(g.name)
		r.groups = append(r.groups, g)
		if g.state.Last.Less(r.read) {
			r.read = g.state.Last
		}
		return nil
	})
	return r, err
}

// Need reports whether a group has still to get an entry, or to acknowledge it.
func (r *Referrers) Need(id StreamID) (bool, error) {
	if r.read.Less(id) {
		return true, nil
	}
	for _, g := range r.groups {
		if _, pending, err := g.Pending(id); err != nil || pending {
			return pending, err
		}
	}
	return false, nil
}

// Groups is how many there are.
func (r *Referrers) Groups() int { return len(r.groups) }

// FirstNeeded is the first entry that a group needs; the zero id if none needs any.
func (r *Referrers) FirstNeeded() (first StreamID, err error) {
	if len(r.groups) == 0 {
		return first, nil
	}
	first, _ = r.read.Next()
	for _, g := range r.groups {
		err := g.Walk(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
			if p.Entry.Less(first) || first == (StreamID{}) {
				first = p.Entry
			}
			return false, nil
		})
		if err != nil {
			return first, err
		}
	}
	return first, nil
}

// Drop makes entries, which ascend, pending no more. told is called for each group, with those that
// were.
func (r *Referrers) Drop(entries []StreamID, told func(g *Group, dropped []StreamID)) error {
	if len(entries) == 0 {
		return nil
	}
	for _, g := range r.groups {
		left, dropped := entries, []StreamID(nil)
		err := g.Walk(entries[0], entries[len(entries)-1], nil, func(p *Pending) (bool, error) {
			for left[0].Less(p.Entry) {
				left = left[1:]
			}
			if left[0] != p.Entry {
				return true, nil
			}
			dropped = append(dropped, p.Entry)
			return true, g.Acknowledge(p)
		})
		if err != nil {
			return err
		}
		if len(dropped) > 0 {
			told(g, dropped)
		}
	}
	return nil
}

// Save writes down what has changed of the groups.
func (r *Referrers) Save() error {
	for _, g := range r.groups {
		if err := g.MoveFrom(); err != nil {
			return err
		}
		if err := g.Save(); err != nil {
			return err
		}
	}
	return nil
}

// TrimPart is Trim that takes off so many entries at most, or those of the first node, and nothing
// from one on, unless that is zero. It returns the entries.
func (s *Stream) TrimPart(o *Trim, before StreamID, most int) (removed []StreamID, err error) {
	if s.head.Nodes == 0 {
		return nil, nil
	}
	first, err := s.node(s.head.FirstNode)
	if err != nil {
		return nil, err
	}
	most = max(most, int(first.Entries))
	removed, behind, more, err := s.idsBetween(StreamID{}, s.head.Last, most)
	if err != nil {
		return nil, err
	}
	part := *o
	part.before = before
	if more && (!part.bounded() || behind.Less(before)) {
		part.before = behind
	}
	count, err := s.Trim(&part)
	return removed[:count], err
}

// TrimBetween takes entries out that no group needs, of so many at most from one on: the rest of
// what TrimPart leaves for those that groups need. It returns them, and where to go on; more is
// false if there is nothing else.
func (s *Stream) TrimBetween(o *Trim, r *Referrers, from StreamID, most int) (removed []StreamID, next StreamID, more bool, err error) {
	if o.Approximate || len(r.groups) == 0 {
		return nil, from, false, nil
	}
	last := r.read
	if o.ByID && !last.Less(o.MinID) {
		before, found := o.MinID.Previous()
		if !found {
			return nil, from, false, nil // nothing comes before the first id that there can be
		}
		last = before
	}
	entries, next, more, err := s.idsBetween(from, last, most)
	if err != nil || len(entries) == 0 {
		return nil, next, more, err
	}
	needed, err := r.needed(entries)
	if err != nil {
		return nil, next, more, err
	}
	for i, id := range entries {
		if left := s.next.Count - uint64(len(removed)); !o.ByID && left <= o.MaxLength {
			more = false
			break
		}
		if !needed[i] {
			removed = append(removed, id)
		}
	}
	if len(removed) > 0 {
		_, err = s.Delete(removed)
	}
	return removed, next, more, err
}

// idsBetween returns so many entries at most from one to another, both included, and the next one,
// if there is more.
func (s *Stream) idsBetween(from, to StreamID, most int) (ids []StreamID, next StreamID, more bool, err error) {
	if from.Less(s.head.First) {
		from = s.head.First
	}
	if s.next.Count == 0 || to.Less(from) {
		return nil, from, false, nil
	}
	x := s.entries()
	scanErr := x.Scan(from.Append(nil), append(to.Append(nil), 0), false, func(key, _ []byte) bool {
		var id StreamID
		if id, err = layout.EntryOf(key); err != nil {
			return false
		}
		if len(ids) == most {
			next, more = id, true
			return false
		}
		ids = append(ids, id)
		return true
	})
	return ids, next, more, cmp.Or(err, scanErr)
}

// needed tells of entries, which ascend, and which all groups have got, whether one has still to
// acknowledge them.
func (r *Referrers) needed(entries []StreamID) ([]bool, error) {
	needed := make([]bool, len(entries))
	for _, g := range r.groups {
		at := 0
		err := g.Walk(entries[0], entries[len(entries)-1], nil, func(p *Pending) (bool, error) {
			for entries[at].Less(p.Entry) {
				at++
			}
			needed[at] = needed[at] || entries[at] == p.Entry
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return needed, nil
}
