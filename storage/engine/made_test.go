package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/layout"
)

// madeModel are collections that a transaction makes, beside what plain Go has of them.
type madeModel struct {
	*rand.Rand
	txn       *Txn
	want      records // of collections that somebody refers to
	ids       []uint64
	abandoned records // what was put of collections that nobody refers to any more, and not touched since
}

// TestMadeAgainstModel makes collections, changes, reads and abandons them in transactions, parts
// of which are taken back.
func TestMadeAgainstModel(t *testing.T) {
	seed := seed.Of(t)
	s, _ := reopen(t, testOptions(t.TempDir(), 64<<20, 0), &testLog{})
	defer func() { must(t, s.Close()) }()
	m := &madeModel{Rand: rand.New(rand.NewPCG(seed, 1)), want: records{}}
	neverPublished := 0
	for range 300 {
		m.txn, m.ids, m.abandoned = s.NewTxn(), nil, records{}
		reads := m.IntN(2) == 0
		for range m.IntN(6) {
			m.command(t, reads)
		}
		m.txn.Effect(0, []byte("EFFECT"))
		m.txn.Count(m.txn.Namespace(0), 1, 0)
		must(t, s.Commit(m.txn))
		m.txn = s.NewTxn()
		m.check(t, m.want, true)
		m.check(t, m.abandoned, false)
		neverPublished += len(m.abandoned)
	}
	if neverPublished == 0 {
		t.Fatal("no collection was abandoned by the transaction that made it")
	}
}

// command does some things, and may take them back.
func (m *madeModel) command(t *testing.T, reads bool) {
	savepoint := begin(m.txn, Mode{Writing: true}, 0, 0)
	want, ids, abandoned := maps.Clone(m.want), slices.Clone(m.ids), maps.Clone(m.abandoned)
	for range 1 + m.IntN(4) {
		switch n := m.IntN(6); {
		case n < 3 || len(m.ids) == 0:
			m.make(t)
		case n == 3 && reads:
			m.change(t)
		case n == 4:
			m.abandon(t)
		}
	}
	if reads {
		m.check(t, m.want, true)
	}
	if m.IntN(3) == 0 {
		m.txn.Rollback(savepoint)
		m.want, m.ids, m.abandoned = want, ids, abandoned
	}
}

// elementKey is the key of one of the members that a collection may have.
func elementKey(id uint64, member int) []byte {
	return layout.AppendElementKey(nil, layout.KindZSetMember, id, fmt.Append(nil, member))
}

func (m *madeModel) make(t *testing.T) {
	ns, id := m.txn.Namespace(0), m.txn.NewID()
	e := m.txn.NewElements(ns, layout.ZSet, id)
	for _, member := range m.Perm(20)[:1+m.IntN(19)] {
		if m.IntN(8) == 0 {
			must(t, m.txn.Put(ns, randomKey(m.Rand), []byte("between")))
		}
		value := fmt.Append(nil, m.Int())
		must(t, e.Put(layout.KindZSetMember, fmt.Append(nil, member), value))
		m.want[string(elementKey(id, member))] = string(value)
	}
	must(t, e.Finish())
	if distinct, err := e.Distinct(); err != nil || !distinct {
		t.Fatalf("an element was put twice, %v", err)
	}
	m.ids = append(m.ids, id)
}

func (m *madeModel) change(t *testing.T) {
	key := elementKey(m.ids[m.IntN(len(m.ids))], m.IntN(20))
	if m.IntN(2) == 0 {
		must(t, m.txn.Delete(m.txn.Namespace(0), key))
		delete(m.want, string(key))
		return
	}
	must(t, m.txn.Put(m.txn.Namespace(0), key, []byte("changed")))
	m.want[string(key)] = "changed"
}

func (m *madeModel) abandon(t *testing.T) {
	at := m.IntN(len(m.ids))
	id := m.ids[at]
	m.ids = slices.Delete(m.ids, at, at+1)
	must(t, m.txn.Abandon(m.txn.Namespace(0), &layout.Metadata{Type: layout.ZSet, ID: id}))
	changed := false
	for member := range 20 {
		changed = changed || m.want[string(elementKey(id, member))] == "changed"
	}
	for member := range 20 {
		key := string(elementKey(id, member))
		if value, ok := m.want[key]; ok && !changed {
			m.abandoned[key] = value
		}
		delete(m.want, key)
	}
}

func (m *madeModel) check(t *testing.T, keys records, there bool) {
	t.Helper()
	for key, want := range keys {
		value, found, err := m.txn.Get(m.txn.Namespace(0), []byte(key))
		must(t, err)
		if found != there || there && string(value) != want {
			t.Fatalf("%q: %q, %v; want %q, %v", key, value, found, want, there)
		}
	}
}

// TestMadeOfTheSameElementTwice is noticed, whether or not records have slots, or memory of their
// own.
func TestMadeOfTheSameElementTwice(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 0))
	small, large := []byte("value"), make([]byte, LargeValue+1)
	for _, values := range [][2][]byte{{small, small}, {small, large}, {large, small}, {large, large}} {
		for _, asked := range []bool{false, true} {
			txn := s.NewTxn()
			txn.Begin(Mode{Writing: true}, 1, 10000) // nothing is staged
			ns, id := txn.Namespace(0), txn.NewID()
			e := txn.NewElements(ns, layout.Hash, id)
			for n, value := range [][]byte{values[0], small, values[1]} {
				if asked && n == 1 {
					txn.Own(ns, layout.AppendElementKey(nil, layout.KindHashField, id, []byte("field")))
				}
				must(t, e.Put(layout.KindHashField, [][]byte{[]byte("field"), []byte("other")}[n%2], value))
			}
			must(t, e.Finish())
			if distinct, err := e.Distinct(); err != nil || distinct {
				t.Errorf("values of %d and %d bytes, asked between: %v: it wasn't noticed, %v", len(values[0]), len(values[1]), asked, err)
			}
			txn.Reset()
		}
	}
}

// TestRepeatedElementIsTakenBack puts an element of a collection twice, before anybody asks for
// one, and takes the collection back: no slot of it is left, in which others would look for keys.
func TestRepeatedElementIsTakenBack(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 0))
	for range 20 {
		txn := s.NewTxn()
		savepoint := begin(txn, Mode{Writing: true}, 1, 10000) // nothing is staged
		ns, id := txn.Namespace(0), txn.NewID()
		e := txn.NewElements(ns, layout.Hash, id)
		put := func(field string, value []byte) {
			t.Helper()
			must(t, e.Put(layout.KindHashField, []byte(field), value))
		}
		put("twice", []byte("1"))
		for i := range 20 {
			put(fmt.Sprint("field", i), []byte("2"))
		}
		put("twice", []byte("3"))
		put("large", make([]byte, LargeValue+1))
		if j := &txn.journal; j.keys != 22 {
			t.Fatalf("%d keys", j.keys)
		}
		txn.Rollback(savepoint)
		for i, at := range txn.journal.slots {
			if at != 0 {
				t.Fatalf("slot %d is left to entry %d", i, at)
			}
		}
	}
}
