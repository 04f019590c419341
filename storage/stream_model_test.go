package storage

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/layout"
)

// streamModel is the stream "s" as a slice of its entries' ids.
type streamModel struct {
	t      *testing.T
	random *rand.Rand
	ids    []uint64
	last   uint64
}

// TestStreamAgainstModel does the same to a stream and to a slice: nodes and pieces are small,
// commands are taken back, records leave memory, the reaper comes, and the store is reopened.
func TestStreamAgainstModel(t *testing.T) {
	inAllTiers(t, func(t *testing.T, o Options) {
		o.Limits.StreamEntries = constant[int64](5)
		m := &streamModel{t: t, random: rand.New(rand.NewPCG(seed.Of(t), 3))}
		s, log := reopen(t, o, &testLog{})
		for range 250 {
			inside(s).OrderBy(4, 1)
			txn := s.NewTxn()
			savepoint := begin(txn, Mode{Writing: true}, 1, 0)
			ids, last := slices.Clone(m.ids), m.last
			m.change(txn.DB(0))
			m.read(txn.DB(0))
			if m.random.IntN(5) > 0 {
				txn.Effect(0, []byte("EFFECT"))
				must(t, s.Commit(txn))
			} else {
				txn.Rollback(savepoint)
				m.ids, m.last = ids, last
				m.read(txn.DB(0))
				txn.Reset()
			}
			switch m.random.IntN(60) {
			case 0:
				must(t, s.Persist())
				must(t, inside(s).Reap())
			case 1:
				must(t, s.Close())
				s, log = reopen(t, o, log)
			}
		}
		must(t, s.Close())
	})
}

func (m *streamModel) open(db DB) *Stream {
	s, err := db.Stream([]byte("s"))
	must(m.t, err)
	return s
}

func (m *streamModel) change(db DB) {
	s := m.open(db)
	switch n := m.random.IntN(20); {
	case n < 11:
		for range 1 + m.random.IntN(12) {
			m.last += 1 + m.random.Uint64N(3)
			m.ids = append(m.ids, m.last)
			must(m.t, s.Append(StreamID{Ms: m.last}, [][]byte{[]byte("field"), strconv.AppendUint(nil, m.last, 10)}))
		}
	case n < 14:
		m.delete(s)
	case n < 16:
		m.approach(s)
	default:
		m.trim(s)
	}
	must(m.t, s.Save())
}

// some returns an id near those that there are.
func (m *streamModel) some() uint64 {
	if len(m.ids) == 0 || m.random.IntN(8) == 0 {
		return m.random.Uint64N(m.last + 2)
	}
	return m.ids[m.random.IntN(len(m.ids))]
}

func (m *streamModel) delete(s *Stream) {
	var ids []StreamID
	want := 0
	for range 1 + m.random.IntN(4) {
		id := m.some()
		ids = append(ids, StreamID{Ms: id})
		if at, found := slices.BinarySearch(m.ids, id); found {
			m.ids = slices.Delete(m.ids, at, at+1)
			want++
		}
	}
	if deleted, err := s.Delete(ids); err != nil || deleted != want {
		m.t.Fatalf("%d entries were deleted, want %d, %v", deleted, want, err)
	}
}

func (m *streamModel) someTrim() Trim {
	return Trim{ByID: m.random.IntN(3) == 0, Approximate: m.random.IntN(2) == 0, MaxLength: m.random.Uint64N(150), MinID: StreamID{Ms: m.some()}}
}

// approach leaves a mark for a trim that doesn't follow, or only later.
func (m *streamModel) approach(s *Stream) {
	o, before := m.someTrim(), s.Head().Mark.Nodes
	most := 1 + m.random.Uint64N(5)
	near, err := s.Approach(&o, most)
	if after := s.Head().Mark.Nodes; err != nil || after > before+most || !near && after < most {
		m.t.Fatalf("the mark went from node %d to %d, near %v, by %+v, %v", before, after, near, o, err)
	}
}

func (m *streamModel) trim(s *Stream) {
	o := m.someTrim()
	gone := len(m.ids) - min(len(m.ids), int(o.MaxLength))
	if o.ByID {
		gone, _ = slices.BinarySearch(m.ids, o.MinID.Ms)
	}
	removed, err := s.Trim(&o)
	if err != nil || int(removed) > gone || !o.Approximate && int(removed) != gone {
		m.t.Fatalf("%d of %d entries were trimmed by %+v, want %d, %v", removed, len(m.ids), o, gone, err)
	}
	m.ids = m.ids[removed:]
}

// read compares some entries, or all.
func (m *streamModel) read(db DB) {
	s := m.open(db)
	if int(s.Len()) != len(m.ids) || len(m.ids) > 0 && s.Head().First.Ms != m.ids[0] {
		m.t.Fatalf("%d entries from %v on, want %d from %v", s.Len(), s.Head().First, len(m.ids), m.ids[:min(3, len(m.ids))])
	}
	m.readNodes(s)
	id := m.some()
	_, want := slices.BinarySearch(m.ids, id)
	if found, err := s.Has(StreamID{Ms: id}); err != nil || found != want {
		m.t.Fatalf("entry %d is there: %v, want %v, %v", id, found, want, err)
	}
	m.readRange(s)
}

func (m *streamModel) readRange(s *Stream) {
	from, to, reverse, most := m.some(), m.some(), m.random.IntN(2) == 0, 1+m.random.IntN(20)
	if m.random.IntN(4) == 0 {
		from, to, most = 0, layout.LastStreamID.Ms, len(m.ids)+1
	}
	var want, got []uint64
	for _, id := range m.ids {
		if from <= id && id <= to {
			want = append(want, id)
		}
	}
	if reverse {
		slices.Reverse(want)
	}
	must(m.t, s.Range(StreamID{Ms: from}, StreamID{Ms: to}, reverse, func(id StreamID, fields [][]byte) (bool, error) {
		if string(fields[1]) != strconv.FormatUint(id.Ms, 10) {
			m.t.Fatalf("entry %v has %q", id, fields)
		}
		got = append(got, id.Ms)
		return len(got) < most, nil
	}))
	if want = want[:min(most, len(want))]; !slices.Equal(got, want) {
		m.t.Fatalf("%d to %d, reverse %v: %v, want %v", from, to, reverse, got, want)
	}
}

// readNodes compares what nodes say of their entries.
func (m *streamModel) readNodes(s *Stream) {
	h, left := s.Head(), m.ids
	if h.Nodes == 0 {
		return
	}
	n, err := s.node(h.FirstNode)
	for nodes := uint64(1); ; nodes++ {
		must(m.t, err)
		if before := nodes - 1; h.Mark.Nodes > 0 && (before == h.Mark.Nodes) != (n.at == h.Mark.At) ||
			before == h.Mark.Nodes && before > 0 && len(m.ids)-len(left) != int(h.Mark.Entries) {
			m.t.Fatalf("the mark is %+v, and %d entries stand before node %d at %v", h.Mark, len(m.ids)-len(left), nodes, n.at)
		}
		if int(n.Entries) > len(left) || n.Entries == 0 || left[0] < n.at.Ms {
			m.t.Fatalf("node %d of %d at %v has %d entries, and there are %v", nodes, h.Nodes, n.at, n.Entries, left[:min(10, len(left))])
		}
		if left = left[n.Entries:]; n.at == h.LastNode {
			if nodes != h.Nodes || len(left) > 0 {
				m.t.Fatalf("%d nodes, want %d, and %d entries more", nodes, h.Nodes, len(left))
			}
			return
		}
		n, err = s.nodeBehind(n.at)
		if err == nil && len(left) > 0 && left[0] < n.at.Ms {
			m.t.Fatalf("entry %d stands before node %d of %d at %v", left[0], nodes, h.Nodes, n.at)
		}
	}
}
