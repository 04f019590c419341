package storage

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/layout"
)

// TestWalksBeginWithDeparted: what is left of a consumer that is gone is indexed with what is
// pending, when what is pending begins behind it, too. Its removal would count it twice else.
func TestWalksBeginWithDeparted(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	s.departures.above = 3
	m := &groupModel{t: t, pending: map[uint64]modelPending{}}
	m.inTransaction(s, func(db DB) {
		stream := m.open(db, "s")
		g := stream.NewGroup([]byte("g"), StreamID{}, 0)
		gone, err := g.NewConsumer([]byte("gone"), 1)
		must(t, err)
		stays, err := g.NewConsumer([]byte("stays"), 1)
		must(t, err)
		for entry := uint64(1); entry <= 10; entry++ {
			to := gone
			if entry > 5 {
				to = stays
				m.pending[entry] = modelPending{"stays", 1}
			}
			must(t, g.Deliver(&Pending{Entry: StreamID{Ms: entry}, PendingState: layout.PendingState{DeliveredMs: 1}}, to, nil))
		}
		_, err = g.RemoveConsumer(gone)
		must(t, err)
		g.state.Acknowledged = moveAfter
		must(t, g.MoveFrom())
		_, _, err = g.Index(100)
		must(t, err)
		must(t, saveWith(stream, g))
		m.compare(db, "s")
		must(t, db.RemoveDeparted([]byte("s"), []byte("g"), &DepartedEntries{}))
		m.compare(db, "s")
	}, true)
}

// groupModel is the group "g" of the stream "s" as what is pending: by entry, for whom, and since
// when.
type groupModel struct {
	t       *testing.T
	random  *rand.Rand
	clock   int64
	pending map[uint64]modelPending
}

type modelPending struct {
	consumer string
	ms       int64
}

// TestGroupAgainstModel does the same to a group and to a map: consumers are removed while more is
// pending for them than is removed at once, what is left of them is removed step by step, entries
// come to be pending anew meanwhile, the index by time comes and goes, commands are taken back, the
// stream is copied, records leave memory, and the store is reopened.
func TestGroupAgainstModel(t *testing.T) {
	inAllTiers(t, func(t *testing.T, o Options) {
		m := &groupModel{t: t, random: rand.New(rand.NewPCG(seed.Of(t), 28)), pending: map[uint64]modelPending{}}
		s, log := reopen(t, o, &testLog{})
		s.departures.above = 3
		m.inTransaction(s, func(db DB) {
			stream := m.open(db, "s")
			must(t, saveWith(stream, stream.NewGroup([]byte("g"), StreamID{}, 0)))
		}, true)
		for range 250 {
			before := maps.Clone(m.pending)
			keep := m.random.IntN(6) > 0
			m.inTransaction(s, func(db DB) {
				m.change(db)
				m.compare(db, "s")
			}, keep)
			if !keep {
				m.pending = before
			}
			switch m.random.IntN(60) {
			case 0:
				must(t, s.Persist())
				must(t, inside(s).Reap())
			case 1:
				must(t, s.Close())
				s, log = reopen(t, o, log)
				s.departures.above = 3
			}
		}
		for left := true; left; {
			m.inTransaction(s, func(db DB) {
				m.removeDeparted(db)
				_, g := m.group(db)
				left = len(g.state.Departed) > 0
			}, true)
		}
		m.inTransaction(s, func(db DB) {
			m.compare(db, "s")
			if _, g := m.group(db); len(g.state.Departed) > 0 || g.stream.head.Pending != uint64(len(m.pending)) {
				t.Errorf("%d records are left for %d entries, and %v", g.stream.head.Pending, len(m.pending), g.state.Departed)
			}
		}, true)
		must(t, s.Close())
	})
}

func (m *groupModel) inTransaction(s *Store, change func(db DB), keep bool) {
	txn := s.NewTxn()
	savepoint := begin(txn, Mode{Writing: true}, 1, 0)
	change(txn.DB(0))
	if keep {
		txn.Effect(0, []byte("EFFECT"))
		must(m.t, s.Commit(txn))
		return
	}
	txn.Rollback(savepoint)
	txn.Reset()
}

func saveWith(s *Stream, g *Group) error {
	if err := g.Save(); err != nil {
		return err
	}
	return s.Save()
}

func (m *groupModel) open(db DB, key string) *Stream {
	s, err := db.Stream([]byte(key))
	must(m.t, err)
	return s
}

func (m *groupModel) group(db DB) (*Stream, *Group) { return m.groupOf(db, "s") }

func (m *groupModel) groupOf(db DB, key string) (*Stream, *Group) {
	s := m.open(db, key)
	g, found, err := s.Group([]byte("g"))
	if must(m.t, err); !found {
		m.t.Fatal("the group is gone")
	}
	return s, g
}

func (m *groupModel) change(db DB) {
	m.clock++
	switch m.random.IntN(14) {
	case 0, 1:
		m.removeConsumer(db)
	case 2:
		m.removeDeparted(db)
	case 3, 4, 5:
		m.acknowledge(db)
	case 6:
		m.finish(db)
	case 7:
		_, g := m.group(db)
		_, _, err := g.Index(1 + m.random.IntN(8))
		must(m.t, err)
		must(m.t, g.Keep())
	case 8:
		m.copy(db)
	default:
		m.deliver(db)
	}
}

func (m *groupModel) consumer() string { return fmt.Sprint("c", m.random.IntN(3)) }

func (m *groupModel) deliver(db DB) {
	s, g := m.group(db)
	name := m.consumer()
	c, found, err := g.Consumer([]byte(name))
	must(m.t, err)
	if !found {
		c, err = g.NewConsumer([]byte(name), m.clock)
		must(m.t, err)
	}
	for range 1 + m.random.IntN(8) {
		entry := 1 + m.random.Uint64N(60)
		former, found, err := g.Pending(StreamID{Ms: entry})
		must(m.t, err)
		was := &former
		if _, want := m.pending[entry]; found != want {
			m.t.Fatalf("entry %d is pending: %v, want %v", entry, found, want)
		} else if !found {
			was = nil
		}
		p := Pending{Entry: StreamID{Ms: entry}, PendingState: layout.PendingState{DeliveredMs: m.clock, Deliveries: 1}}
		must(m.t, g.Deliver(&p, c, was))
		m.pending[entry] = modelPending{name, m.clock}
	}
	must(m.t, saveWith(s, g))
}

func (m *groupModel) acknowledge(db DB) {
	s, g := m.group(db)
	for range 1 + m.random.IntN(8) {
		entry := 1 + m.random.Uint64N(60)
		p, found, err := g.Pending(StreamID{Ms: entry})
		if must(m.t, err); found {
			must(m.t, g.Acknowledge(&p))
			delete(m.pending, entry)
		}
	}
	if m.random.IntN(2) == 0 { // as if it had been many
		g.state.Acknowledged = moveAfter
	}
	must(m.t, g.MoveFrom())
	must(m.t, saveWith(s, g))
}

// finish acknowledges all, and leaves nothing of consumers that are gone: the index is given up.
func (m *groupModel) finish(db DB) {
	s, g := m.group(db)
	must(m.t, g.Walk(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) { return true, g.Acknowledge(p) }))
	clear(m.pending)
	must(m.t, saveWith(s, g))
	for x := (DepartedEntries{Left: true}); x.Left; {
		must(m.t, db.RemoveDeparted([]byte("s"), []byte("g"), &x))
	}
}

func (m *groupModel) removeConsumer(db DB) {
	s, g := m.group(db)
	name := m.consumer()
	c, found, err := g.Consumer([]byte(name))
	if must(m.t, err); !found {
		return
	}
	want := uint64(0)
	for entry, p := range m.pending {
		if p.consumer == name {
			delete(m.pending, entry)
			want++
		}
	}
	if pending, err := g.RemoveConsumer(c); err != nil || pending != want {
		m.t.Fatalf("%d entries were pending for %s, want %d, %v", pending, name, want, err)
	}
	must(m.t, saveWith(s, g))
}

// removeDeparted does some steps, between which the group must be whole.
func (m *groupModel) removeDeparted(db DB) {
	var x DepartedEntries
	for range 1 + m.random.IntN(3) {
		must(m.t, db.RemoveDeparted([]byte("s"), []byte("g"), &x))
	}
}

func (m *groupModel) copy(db DB) {
	k, err := db.Lookup([]byte("s"))
	must(m.t, err)
	old, err := db.Lookup([]byte("copy"))
	must(m.t, err)
	must(m.t, db.CopyTo(k, db, []byte("copy"), old))
	m.compare(db, "copy")
}

func (m *groupModel) compare(db DB, key string) {
	_, g := m.groupOf(db, key)
	var all []uint64
	for entry := range m.pending {
		all = append(all, entry)
	}
	slices.Sort(all)
	if got := int(g.State().Pending); got != len(all) {
		m.t.Fatalf("%d entries are pending, want %d", got, len(all))
	}
	var got []uint64
	must(m.t, g.Walk(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
		owner, err := g.Owner(p)
		must(m.t, err)
		if want := m.pending[p.Entry.Ms]; string(owner.State().Name) != want.consumer || p.DeliveredMs != want.ms {
			m.t.Fatalf("entry %d is pending for %s since %d, want %v", p.Entry.Ms, owner.State().Name, p.DeliveredMs, want)
		}
		got = append(got, p.Entry.Ms)
		return true, nil
	}))
	if !slices.Equal(got, all) {
		m.t.Fatalf("pending are %v, want %v", got, all)
	}
	if len(all) > 0 {
		if first, last, err := g.Ends(); err != nil || first.Ms != all[0] || last.Ms != all[len(all)-1] {
			m.t.Fatalf("from %v to %v, want %v, %v", first, last, all, err)
		}
	}
	m.compareOrder(g, all)
	m.compareIndexed(g)
}

// compareIndexed: the index has all records up to where it was made, also those of consumers that
// are gone.
func (m *groupModel) compareIndexed(g *Group) {
	var records, indexed uint64
	it := g.iterate(StreamID{}, layout.LastStreamID, nil, false)
	for it.Next() {
		p, err := g.pendingAt(it, nil)
		must(m.t, err)
		if records++; g.indexed(p.Entry) {
			indexed++
		}
	}
	must(m.t, it.Close())
	if records != g.state.Records() || indexed != g.state.Timed {
		m.t.Fatalf("%d records, want %d, and %d of them indexed, want %d", records, g.state.Records(), indexed, g.state.Timed)
	}
}

// compareOrder compares what is indexed by time.
func (m *groupModel) compareOrder(g *Group, all []uint64) {
	want := slices.DeleteFunc(all, func(entry uint64) bool { return g.state.TimedTo.Less(StreamID{Ms: entry}) })
	slices.SortStableFunc(want, func(a, b uint64) int { return cmp.Compare(m.pending[a].ms, m.pending[b].ms) })
	var got []uint64
	must(m.t, g.WalkDelivered(&Pending{}, func(p *Pending) (bool, error) {
		got = append(got, p.Entry.Ms)
		return true, nil
	}))
	if !slices.Equal(got, want) {
		m.t.Fatalf("by time %v, want %v", got, want)
	}
}
