package storage

import (
	"cmp"
	"math"

	"kedis/storage/layout"
)

// Trim says what of a stream is to be taken off its beginning.
type Trim struct {
	ByID        bool
	MaxLength   uint64   // entries that stay
	MinID       StreamID // with ByID: what is before it goes
	Approximate bool     // only whole nodes go
	Limit       int64    // how many entries may go, in whole nodes; 0: any number

	before StreamID // nothing from it on goes, unless it is zero
}

func (o *Trim) bounded() bool { return o.before != StreamID{} }

// trimming is a Trim on its way.
type trimming struct {
	*Trim
	removed uint64 // entries of the stream's beginning, which are to go
	rest    uint64 // how many of them are in a node that stays
	dropped uint64 // nodes
	node    placedNode
}

// Up to so many nodes, and entries of a node that stays, are deleted one by one. Others wait for
// the reaper.
const (
	trimEntries = 64
	trimNodes   = 64
)

// Trim takes entries off the beginning, and returns how many.
func (s *Stream) Trim(o *Trim) (removed uint64, err error) {
	t := trimming{Trim: o}
	if err := s.planTrim(&t); err != nil || t.removed == 0 {
		return 0, err
	}
	if err := s.trimNodes(&t); err != nil {
		return 0, err
	}
	return t.removed, s.trimEntries(&t)
}

// planTrim finds out which nodes go, and how many entries of the one behind them.
func (s *Stream) planTrim(t *trimming) error {
	h := &s.head
	if h.Nodes == 0 || !t.ByID && s.next.Count <= t.MaxLength || t.ByID && !h.First.Less(t.MinID) || t.bounded() && !h.First.Less(t.before) {
		return nil
	}
	err := s.beginTrim(t)
	for err == nil {
		left, last := s.next.Count-t.removed, t.dropped == h.Nodes-1
		if !t.ByID && left <= t.MaxLength || t.Limit > 0 && t.removed+uint64(t.node.Entries) > uint64(t.Limit) {
			return nil
		}
		if t.Approximate && !t.ByID && left < t.MaxLength+uint64(t.node.Entries) {
			return nil // nearly every time when XADD asks for it
		}
		var whole bool
		if whole, err = s.goesWhole(t, last, left); err != nil {
			return err
		}
		if !whole {
			return s.planRest(t, left)
		}
		t.removed += uint64(t.node.Entries)
		if t.dropped++; last {
			return nil
		}
		if t.dropped == trimNodes && h.Mark.Nodes == 0 { // there may be many more, which a scan sums up sooner
			if _, err = s.Approach(t.Trim, math.MaxUint64); err == nil {
				err = s.beginTrim(t)
			}
			continue
		}
		t.node, err = s.nodeBehind(t.node.at)
	}
	return err
}

// beginTrim begins at the mark if all before that goes, and otherwise at the first node.
func (s *Stream) beginTrim(t *trimming) (err error) {
	at := s.head.FirstNode
	t.removed, t.dropped = 0, 0
	if m := &s.head.Mark; m.Nodes > 0 && s.reaches(t.Trim, m) {
		at, t.removed, t.dropped = m.At, m.Entries, m.Nodes
	}
	t.node, err = s.node(at)
	return err
}

// reaches reports whether all that stands before a mark goes.
func (s *Stream) reaches(o *Trim, m *layout.StreamMark) bool {
	switch {
	case o.bounded() && o.before.Less(m.At), o.Limit > 0 && m.Entries > uint64(o.Limit):
		return false
	case o.ByID:
		return !o.MinID.Less(m.At)
	}
	return s.next.Count-m.Entries >= o.MaxLength
}

// Approach sums up nodes that a trim takes off, so many at most, and leaves a mark behind them.
// near is false if there are more: Keep saves the mark, and the next call goes on from it.
// Otherwise Trim has few left to go over. No client sees a mark.
func (s *Stream) Approach(o *Trim, most uint64) (near bool, err error) {
	h := &s.head
	if h.Nodes == 0 {
		return true, nil
	}
	m := layout.StreamMark{At: h.FirstNode}
	if h.Mark.Nodes > 0 && s.reaches(o, &h.Mark) {
		m = h.Mark
	}
	near, from, x := true, m.Nodes, s.nodes()
	scanErr := x.Scan(m.At.Append(nil), nil, false, func(id, value []byte) (more bool) {
		var n placedNode
		if n, err = decodeNode(id, value); err != nil {
			return false
		}
		m.At = n.at
		if !s.reaches(o, &m) {
			return false
		}
		if h.Mark = m; m.Nodes-from == most {
			near = false
			return false
		}
		m.Entries += uint64(n.Entries)
		m.Nodes++
		return true
	})
	return near, cmp.Or(err, scanErr)
}

// goesWhole tells whether all of a node goes, of a stream that has so many entries from it on.
func (s *Stream) goesWhole(t *trimming, last bool, left uint64) (whole bool, err error) {
	if t.ByID {
		whole, err = s.endsBefore(&t.node, last, t.MinID)
	} else {
		whole = left-min(left, uint64(t.node.Entries)) >= t.MaxLength
	}
	if err == nil && whole && t.bounded() {
		whole, err = s.endsBefore(&t.node, last, t.before)
	}
	return whole, err
}

// endsBefore tells whether all entries of a node come before an id.
func (s *Stream) endsBefore(n *placedNode, last bool, id StreamID) (bool, error) {
	if !last {
		if behind, err := s.nodeBehind(n.at); err != nil || !id.Less(behind.at) {
			return err == nil, err
		}
	}
	counted, err := s.countBetween(n.at, id, uint64(n.Entries))
	return counted == uint64(n.Entries), err
}

// planRest counts what goes of a node that stays.
func (s *Stream) planRest(t *trimming, left uint64) (err error) {
	switch {
	case t.Approximate:
		return nil
	case t.ByID:
		t.rest, err = s.countBetween(t.node.at, t.MinID, uint64(t.node.Entries))
	default:
		t.rest = left - t.MaxLength
	}
	if err == nil && t.bounded() {
		var free uint64
		free, err = s.countBetween(t.node.at, t.before, uint64(t.node.Entries))
		t.rest = min(t.rest, free)
	}
	t.removed += t.rest
	return err
}

// countBetween counts up to so many entries from one id on, before another.
func (s *Stream) countBetween(from, before StreamID, most uint64) (n uint64, err error) {
	if from.Less(s.head.First) {
		from = s.head.First
	}
	if !from.Less(before) || most == 0 {
		return 0, nil
	}
	x := s.entries()
	err = x.Scan(from.Append(nil), before.Append(nil), false, func([]byte, []byte) bool {
		n++
		return n < most
	})
	return n, err
}

// trimNodes takes the nodes away.
func (s *Stream) trimNodes(t *trimming) error {
	h := &s.head
	before, records := t.node.at, t.dropped
	if t.dropped == h.Nodes {
		before, records = h.LastNode, h.Nodes-1
	}
	if err := s.removeNodes(before, records); err != nil {
		return err
	}
	if h.Nodes -= t.dropped; h.Nodes == 0 {
		s.leaveNoNode()
		return nil
	}
	if h.Mark.Nodes > t.dropped {
		h.Mark.Entries, h.Mark.Nodes = h.Mark.Entries-t.removed, h.Mark.Nodes-t.dropped
	} else {
		h.Mark = layout.StreamMark{}
	}
	h.FirstNode = t.node.at
	if t.rest == 0 {
		return nil
	}
	t.node.Entries -= uint32(t.rest)
	t.node.Deleted += uint32(t.rest)
	if t.node.at == h.LastNode {
		h.Tail = t.node.StreamNode
		return nil
	}
	return s.replaceNode(t.node.at, t.node.StreamNode)
}

// removeNodes removes the records of count nodes, which stand before an id.
func (s *Stream) removeNodes(before StreamID, count uint64) error {
	switch {
	case count == 0:
		return nil
	case count == 1:
		return s.deleteNode(s.head.FirstNode)
	case count > trimNodes:
		return s.abandonNodes(before, count)
	}
	ids := make([][]byte, 0, trimNodes)
	x := s.nodes()
	err := x.Scan(s.head.FirstNode.Append(nil), before.Append(nil), false, func(id, _ []byte) bool {
		ids = append(ids, id)
		return true
	})
	return cmp.Or(err, s.deleteRecords(layout.KindStreamNode, ids))
}

// abandonNodes leaves nodes before an id to the reaper, and with them any before the first one that
// nobody has told it of. The bound is the zero byte behind the id before, which no key stands at:
// entries that go with the nodes may have the same id as theirs, and so the same record.
func (s *Stream) abandonNodes(before StreamID, count uint64) error {
	last, _ := before.Previous()
	return s.db.txn.AbandonPart(s.db.space, s.next.ID, append(last.Append(nil), 0), layout.StreamNodes, count)
}

// deleteRecords deletes records of a kind by what their keys end with.
func (s *Stream) deleteRecords(kind byte, ids [][]byte) error {
	t := s.db.txn
	for _, id := range ids {
		t.scratch.key2 = layout.AppendElementKey(t.scratch.key2[:0], kind, s.next.ID, id)
		if err := t.Delete(s.db.space, t.scratch.key2); err != nil {
			return err
		}
	}
	return nil
}

// trimEntries takes the entries away: those of whole nodes wait for the reaper.
func (s *Stream) trimEntries(t *trimming) error {
	var passed [][]byte // entries of a node that stays
	first, err := s.firstBehind(t, &passed)
	if err != nil {
		return err
	}
	if t.removed == t.rest && t.removed <= trimEntries {
		err = s.deleteRecords(layout.KindStreamEntry, passed)
	} else {
		err = s.leaveEntries(first, t.removed)
	}
	s.next.Count -= t.removed
	s.head.First = first
	return err
}

// firstBehind finds the entry that is the first one after trimming, and those before it of the node
// that stays, up to some. Without any entry left it returns the zero id.
func (s *Stream) firstBehind(t *trimming, passed *[][]byte) (first StreamID, err error) {
	if t.removed == s.next.Count {
		return first, nil
	}
	from := s.head.First
	if from.Less(t.node.at) {
		from = t.node.at
	}
	if t.rest == 0 { // it is there, unless it was deleted by itself
		if found, err := s.Has(from); err != nil || found {
			return from, err
		}
	}
	return s.entryBehind(from, t.rest, func(id []byte) {
		if len(*passed) < trimEntries {
			*passed = append(*passed, id)
		}
	})
}

// mostLeft is how many entries may be left before the first one until the reaper is told of them. A
// stream that has fewer leaves a part of its length.
const mostLeft, leftShare = 4096, 4

// leaveEntries leaves removed entries before an id to the reaper; all when that is zero. The reaper
// is told when so many have come together.
func (s *Stream) leaveEntries(before StreamID, removed uint64) error {
	t, h := s.db.txn, &s.head
	left := s.next.Count - removed
	step := min(max(left/leftShare, trimEntries), mostLeft)
	if gone := h.Added - left; left > 0 && gone/step == (gone-removed)/step {
		t.ForgetBefore(s.db.space, s.next.ID, layout.KindStreamEntry, before.Append(nil), removed)
		return nil
	}
	if left == 0 {
		var more bool
		if before, more = h.Last.Next(); !more {
			before = h.Last
			if err := t.Delete(s.db.space, s.entryKey(layout.KindStreamEntry, h.Last)); err != nil {
				return err
			}
		}
	}
	return t.AbandonPart(s.db.space, s.next.ID, before.Append(nil), layout.StreamEntries, max(removed, step))
}
