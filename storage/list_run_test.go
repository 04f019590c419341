package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// runModel does the same to lists that mostly only RocksDB has and to a model, in one transaction
// that is used again and again.
type runModel struct {
	t      *testing.T
	store  *Store
	random *rand.Rand
	txn    *Txn
	lists  [2][][]byte
}

// TestListRun takes elements off both ends of two lists, one by one, while others are set, pushed,
// and brought to RocksDB.
func TestListRun(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 0)
	o.RetainedBytes, o.Limits.noBlocks = constant[int64](0), true
	s := openStore(t, o)
	m := &runModel{t: t, store: s, random: rand.New(rand.NewPCG(seed.Of(t), 21)), txn: s.NewTxn()}
	for list := range m.lists {
		m.push(list, true, 1000)
	}
	must(t, s.Settle())
	for _, left := range []bool{true, false} { // the same indexes in both
		for i := range 80 {
			m.pop(i/20%2, left, 1)
		}
	}
	for range 600 {
		list, left := m.random.IntN(2), m.random.IntN(2) == 0
		switch m.random.IntN(12) {
		case 0:
			m.push(list, left, 1+m.random.IntN(1000))
		case 1, 2, 3:
			must(t, s.Settle())
		case 4, 5:
			m.set(list, left, m.random.IntN(20))
		case 6:
			m.pop(list, left, 1+m.random.IntN(100))
		case 7:
			m.read(list, left, 1+m.random.IntN(100))
			m.readRow(list, left, 1+m.random.IntN(300))
		case 8: // both at the same time
			for range m.random.IntN(50) {
				m.pop(0, left, 1)
				m.pop(1, left, 1)
			}
		default:
			for range m.random.IntN(50) {
				m.pop(list, left, 1)
			}
		}
	}
}

func (m *runModel) open(list int, mode Mode) List {
	m.txn.Begin(mode, 1, 0)
	l, err := m.txn.DB(0).List([]byte{byte('a' + list)})
	must(m.t, err)
	return l
}

func (m *runModel) change(list int, f func(l *List) error) {
	l := m.open(list, Mode{Writing: true})
	must(m.t, f(&l))
	must(m.t, l.Save(keyevent.Changed))
	m.txn.Effect(0, []byte("changed"))
	must(m.t, m.store.Commit(m.txn))
	m.txn.Reset()
}

func (m *runModel) value() []byte {
	return bytes.Repeat([]byte{byte('a' + m.random.IntN(26))}, 1+m.random.IntN(50))
}

func (m *runModel) push(list int, left bool, n int) {
	values := make([][]byte, n)
	for i := range values {
		values[i] = m.value()
	}
	m.change(list, func(l *List) error { return l.Push(left, values) })
	if left {
		slices.Reverse(values)
		m.lists[list] = slices.Concat(values, m.lists[list])
	} else {
		m.lists[list] = append(m.lists[list], values...)
	}
}

// from is where n elements at an end begin; there may be fewer.
func (m *runModel) from(list int, left bool, n int) (from, there int) {
	n = min(n, len(m.lists[list]))
	if left {
		return 0, n
	}
	return len(m.lists[list]) - n, n
}

func (m *runModel) pop(list int, left bool, n int) {
	from, n := m.from(list, left, n)
	want := slices.Clone(m.lists[list][from : from+n])
	if !left {
		slices.Reverse(want)
	}
	var got [][]byte
	m.change(list, func(l *List) error { return l.Pop(left, n, func(v []byte) { got = append(got, bytes.Clone(v)) }) })
	m.same("popped", got, want)
	m.lists[list] = slices.Delete(m.lists[list], from, from+n)
}

// set sets an element some way from an end.
func (m *runModel) set(list int, left bool, distance int) {
	from, n := m.from(list, left, distance+1)
	if n == 0 {
		return
	}
	if left {
		from = n - 1
	}
	value := m.value()
	m.change(list, func(l *List) error { return l.Set(from, value) })
	m.lists[list][from] = value
}

// readRow asks for elements in a row, from either end of them.
func (m *runModel) readRow(list int, left bool, n int) {
	from, n := m.from(list, left, n)
	l := m.open(list, Mode{})
	want := slices.Clone(m.lists[list][from : from+n])
	if !left {
		slices.Reverse(want)
	}
	var got [][]byte
	must(m.t, l.Range(from, n, !left, func(_ int, v []byte) bool { got = append(got, bytes.Clone(v)); return true }))
	m.txn.Reset()
	m.same("read in a row", got, want)
}

// TestListRow reads a list that only RocksDB has: it is asked once, and of what stands in the
// list's tree then no copies are made.
func TestListRow(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	o.RetainedBytes, o.Limits.noBlocks = constant[int64](0), true
	s := openStore(t, o)
	m := &runModel{t: t, store: s, random: rand.New(rand.NewPCG(seed.Of(t), 22)), txn: s.NewTxn()}
	m.push(0, false, 1000)
	m.pop(0, true, 900)
	must(t, s.Settle())
	inside(s).Cache().Clear()
	m.open(0, Mode{})
	reads, copies := s.Counters().RocksReads.Load(), s.Cache().Bytes()
	m.readRow(0, true, 100)
	if asked := s.Counters().RocksReads.Load() - reads; asked > 2 { // one may be for the key itself
		t.Errorf("RocksDB was asked %d times", asked)
	}
	if made := s.Cache().Bytes() - copies; made > 0 {
		t.Errorf("copies of %d bytes were made", made)
	}
}

// read asks for elements one by one, and looks at them when it has all.
func (m *runModel) read(list int, left bool, n int) {
	from, n := m.from(list, left, n)
	l := m.open(list, Mode{})
	var got [][]byte
	for i := range n {
		value, err := l.Get(from + i)
		must(m.t, err)
		got = append(got, value)
	}
	m.same("read", got, m.lists[list][from:from+n])
	m.txn.Reset()
}

func (m *runModel) same(what string, got, want [][]byte) {
	m.t.Helper()
	if !slices.EqualFunc(got, want, bytes.Equal) {
		m.t.Fatalf("%s %q, not %q", what, got, want)
	}
}

// TestListRunAsksSeldom counts how often RocksDB is asked, for single elements and for blocks, and
// looks at what is held meanwhile.
func TestListRunAsksSeldom(t *testing.T) {
	for _, left := range []bool{true, false} {
		for _, c := range []struct{ size, elements, blocks int }{{10, 2000, 250}, {engine.InspectRunBytes / 4, 100, 1000}, {2 * engine.InspectRunBytes, 20, 200}} {
			o := testOptions(t.TempDir(), 1<<20, 0)
			o.RetainedBytes, o.Limits.noBlocks = constant[int64](0), true
			s := openStore(t, o)
			m := &runModel{t: t, store: s, txn: s.NewTxn()}
			m.change(0, func(l *List) error {
				return l.Push(false, slices.Repeat([][]byte{bytes.Repeat([]byte("x"), c.size)}, c.elements+1))
			})
			must(t, s.Persist())
			before, err := s.Rocks().Statistics()
			must(t, err)
			for range c.elements {
				m.change(0, func(l *List) error { return l.Pop(left, 1, func([]byte) {}) })
				if held := insideTxn(m.txn).RunBytes(); held > engine.InspectRunBytes {
					t.Fatalf("%d bytes are held", held)
				}
			}
			after, err := s.Rocks().Statistics()
			must(t, err)
			if asked := after.KeysRead - before.KeysRead; asked > 5 {
				t.Errorf("left %t: RocksDB was asked for %d of %+v by themselves", left, asked, c)
			}
			blocks := after.BlockCacheDataHits + after.BlockCacheDataMisses - before.BlockCacheDataHits - before.BlockCacheDataMisses
			if blocks > uint64(c.blocks) {
				t.Errorf("left %t: %d blocks were looked for because of %+v", left, blocks, c)
			}
		}
	}
}

// TestListRunTellsWhatLacks takes an element out of RocksDB behind the store's back.
func TestListRunTellsWhatLacks(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 0)
	o.RetainedBytes, o.Limits.noBlocks = constant[int64](0), true
	s := openStore(t, o)
	fillList(t, s, "list", 3000)
	must(t, s.Settle())
	const lacking = 50
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	l, err := txn.DB(0).List([]byte("list"))
	must(t, err)
	var batch rocks.Batch
	batch.Delete(inside(s).Family(0), l.indexKey(l.next.Head+lacking))
	must(t, s.Rocks().Write(&batch))
	for i := range lacking + 1 {
		err := l.Pop(true, 1, func(value []byte) {
			if string(value) != strconv.Itoa(i) {
				t.Errorf("element %d is %q", i, value)
			}
		})
		if lacks := errors.Is(err, layout.ErrCorrupt); lacks != (i == lacking) {
			t.Fatalf("element %d: %v", i, err)
		}
	}
}
