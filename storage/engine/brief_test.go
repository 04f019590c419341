package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// briefModel makes and abandons collections in generations that are frozen at random.
type briefModel struct {
	*rand.Rand
	store *Store
	live  []liveCollection
	views []shownBy
	made  int
}

type liveCollection struct {
	id       uint64
	elements records
}

// shownBy is a view with what it has to show.
type shownBy struct {
	*View
	want records
}

// TestBriefAgainstModel looks through views at collections that came and went, and into RocksDB,
// which has to have only the others in the end.
func TestBriefAgainstModel(t *testing.T) {
	seed := seed.Of(t)
	m := &briefModel{Rand: rand.New(rand.NewPCG(seed, 1))}
	m.store, _ = openHeld(t, testOptions(t.TempDir(), 64<<20, 0))
	m.store.ids.staged.pieceBytes = 200 // some are staged
	gone := 0
	for range 400 {
		switch n := m.IntN(10); {
		case n < 4:
			m.make(t)
		case n < 7 && len(m.live) > 0:
			m.abandon(t)
			gone++
		case n == 7:
			freeze(m.store)
		case n == 8 && len(m.views) < 4:
			m.views = append(m.views, shownBy{m.store.View(), m.all()})
		case n == 9:
			m.close(t)
		}
	}
	settle(t, m.store)
	reaped := m.check(t)
	if reaped == gone {
		t.Errorf("RocksDB was told of all %d collections that are gone", gone)
	}
}

func (m *briefModel) all() records {
	all := records{}
	for _, c := range m.live {
		maps.Copy(all, c.elements)
	}
	return all
}

func (m *briefModel) make(t *testing.T) {
	commit(t, m.store, 0, func(txn *Txn, ns *Namespace) error {
		elements := records{}
		e := txn.NewElements(ns, layout.ZSet, txn.NewID())
		for _, member := range m.Perm(20)[:1+m.IntN(19)] {
			must(t, e.Put(layout.KindZSetMember, fmt.Append(nil, member), []byte("value")))
			elements[string(elementKey(e.ID(), member))] = "value"
		}
		m.live = append(m.live, liveCollection{e.ID(), elements})
		if m.made++; m.made == 1 {
			txn.Count(ns, 1, 0) // the database isn't empty
		}
		return e.Finish()
	})
}

func (m *briefModel) abandon(t *testing.T) {
	at := m.IntN(len(m.live))
	abandoned := &layout.Metadata{Type: layout.ZSet, ID: m.live[at].id}
	m.live = slices.Delete(m.live, at, at+1)
	commit(t, m.store, 0, func(txn *Txn, ns *Namespace) error {
		savepoint := begin(txn, Mode{Writing: true}, 1, 0)
		must(t, txn.Abandon(ns, abandoned))
		if m.IntN(4) == 0 {
			txn.Rollback(savepoint)
			must(t, txn.Abandon(ns, abandoned))
		}
		return nil
	})
}

// close compares the oldest view with what it has to show, and gives it back.
func (m *briefModel) close(t *testing.T) {
	t.Helper()
	if len(m.views) == 0 {
		return
	}
	v := m.views[0]
	m.views = m.views[1:]
	defer v.Release()
	txn := m.store.NewTxn()
	txn.ReadFrom(v.View)
	found := records{}
	it := txn.Iterate(txn.Namespace(0), []byte{layout.KindZSetMember}, []byte{layout.KindZSetMember + 1}, IteratorOptions{Reverse: m.IntN(2) == 0})
	for it.Next() {
		found[string(it.Key())] = string(it.Value())
	}
	must(t, it.Close())
	for key, value := range v.want { // what nothing refers to any more may be found, too
		if found[key] != value {
			t.Fatalf("a walk over a view doesn't come to %q", key)
		}
		if got, there, err := txn.Get(txn.Namespace(0), []byte(key)); err != nil || !there || string(got) != value {
			t.Fatalf("a view shows of %q %q, %v, %v", key, got, there, err)
		}
	}
}

// check looks at what RocksDB has, and has to have when the reaper is done. It returns how many
// collections the reaper was told of.
func (m *briefModel) check(t *testing.T) (reaped int) {
	for len(m.views) > 0 {
		m.close(t)
	}
	for key := range m.below(t) {
		if key[0] == layout.KindDeleted {
			reaped++
		}
	}
	must(t, m.store.Persist())
	must(t, m.store.reap())
	if below, want := m.below(t), m.all(); !maps.Equal(below, want) {
		t.Errorf("RocksDB has %d records, and there are %d", len(below), len(want))
	}
	return reaped
}

// below is what RocksDB has.
func (m *briefModel) below(t *testing.T) records {
	t.Helper()
	found := records{}
	it := m.store.db().NewIterator(m.store.tiers.Load().databases[0].family.Load(), nil, rocks.IteratorOptions{})
	defer it.Close()
	for it.Next() {
		found[string(it.Key())] = string(it.Value())
	}
	must(t, it.Err())
	return found
}
