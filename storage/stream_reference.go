package storage

import (
	"bytes"

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

// firstNeeded is the first entry that a group needs; the zero id if none needs any.
func (r *Referrers) firstNeeded() (first StreamID, err error) {
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

// Drop makes what is pending from one entry to another, both included, pending no more. told is called for each group, with the entries.
func (r *Referrers) Drop(from, to StreamID, told func(g *Group, entries []StreamID)) error {
	for _, g := range r.groups {
		var entries []StreamID
		err := g.Walk(from, to, nil, func(p *Pending) (bool, error) {
			entries = append(entries, p.Entry)
			return true, g.Acknowledge(p)
		})
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			told(g, entries)
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

// TrimAcknowledged takes entries off the beginning, up to the first one that a group needs, and returns how many.
func (s *Stream) TrimAcknowledged(o *Trim, r *Referrers) (removed uint64, err error) {
	bounded := *o
	if bounded.before, err = r.firstNeeded(); err != nil {
		return 0, err
	}
	return s.Trim(&bounded)
}

// TrimBetween takes entries out that no group needs, from behind the first one that one needs, and returns them: the rest of what
// TrimAcknowledged leaves.
func (s *Stream) TrimBetween(o *Trim, r *Referrers) (removed []StreamID, err error) {
	if o.Approximate || len(r.groups) == 0 {
		return nil, nil
	}
	err = s.Range(StreamID{}, r.read, false, func(id StreamID, _ [][]byte) (bool, error) {
		left := s.next.Count - uint64(len(removed))
		if !o.ByID && left <= o.MaxLength || o.ByID && !id.Less(o.MinID) {
			return false, nil
		}
		needed, err := r.Need(id)
		if err == nil && !needed {
			removed = append(removed, id)
		}
		return true, err
	})
	if err != nil || len(removed) == 0 {
		return nil, err
	}
	_, err = s.Delete(removed)
	return removed, err
}
