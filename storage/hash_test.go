package storage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/redis-tests/seed"
	"kedis/storage/layout"
)

// memories are how much of what is written stays in memory.
var memories = []struct {
	name              string
	generation, cache int64
}{{"everything leaves memory", 1, 0}, {"small generations", 16 << 10, 1 << 20}, {"in memory", 64 << 20, 64 << 20}}

// inAllTiers runs a test with each of the memories, and options that make one.
func inAllTiers(t *testing.T, test func(t *testing.T, o Options)) {
	for _, tier := range memories {
		t.Run(tier.name, func(t *testing.T) { test(t, testOptions(t.TempDir(), tier.generation, tier.cache)) })
	}
}

// smallLimits are options under which collections become spread early.
func smallLimits(directory string, generation, cache int64) Options {
	o := testOptions(directory, generation, cache)
	o.Limits.HashEntries, o.Limits.HashValue = constant[int64](8), constant[int64](10)
	o.Limits.SetIntsetEntries, o.Limits.SetEntries, o.Limits.SetValue = constant[int64](6), constant[int64](9), constant[int64](10)
	return o
}

// inTransactions calls step in many transactions, most of which are committed and some taken back,
// with all that may happen to the store between them. settle is told which.
func inTransactions(t *testing.T, o Options, random *rand.Rand, transactions int, step func(db DB), settle func(committed bool)) {
	s, log := reopen(t, o, &testLog{})
	for range transactions {
		inside(s).StageFrom([]int{1, 100, 0}[random.IntN(3)])
		txn := s.NewTxn()
		savepoint := begin(txn, Mode{Writing: true}, 1, 0)
		step(txn.DB(0))
		if committed := random.IntN(5) > 0; committed {
			txn.Effect(0, []byte("EFFECT"))
			must(t, s.Commit(txn))
			settle(true)
		} else {
			txn.Rollback(savepoint)
			settle(false)
		}
		switch random.IntN(40) {
		case 0:
			must(t, s.Settle())
		case 1:
			must(t, s.Persist())
		case 2:
			must(t, s.Close())
			s, log = reopen(t, o, log)
		}
	}
	must(t, s.Close())
}

// modelHash is a hash as the model has it.
type modelHash struct {
	fields map[string]string
	order  []string // of the fields, as they came
	spread bool
}

func (m *modelHash) set(field, value string) (added bool) {
	if m.fields == nil {
		m.fields = map[string]string{}
	}
	_, existed := m.fields[field]
	m.fields[field] = value
	if !existed {
		m.order = append(m.order, field)
	}
	m.spread = m.spread || len(m.fields) > 8 || len(field) > 10 || len(value) > 10
	return !existed
}

func (m *modelHash) delete(field string) bool {
	_, existed := m.fields[field]
	delete(m.fields, field)
	m.order = slices.DeleteFunc(m.order, func(f string) bool { return f == field })
	if len(m.fields) == 0 {
		*m = modelHash{}
	}
	return existed
}

func (m *modelHash) clone() *modelHash {
	return &modelHash{maps.Clone(m.fields), slices.Clone(m.order), m.spread}
}

func TestHashAgainstModel(t *testing.T) {
	for _, tier := range memories {
		t.Run(tier.name, func(t *testing.T) {
			seed := seed.Of(t)
			random := rand.New(rand.NewPCG(seed, 1))
			committed, now := &modelHash{}, &modelHash{}
			inTransactions(t, smallLimits(t.TempDir(), tier.generation, tier.cache), random, 150, func(db DB) {
				for range 1 + random.IntN(10) {
					changeHash(t, db, now, random)
					checkHash(t, db, now)
				}
			}, func(kept bool) {
				if kept {
					committed = now
				}
				now = committed.clone()
			})
		})
	}
}

func randomField(random *rand.Rand) string {
	switch random.IntN(10) {
	case 0:
		return strings.Repeat("f", []int{0, 9, 10, 11}[random.IntN(4)])
	case 1, 2, 3:
		return strconv.Itoa(random.IntN(12) - 5)
	}
	return "f" + strconv.Itoa(random.IntN(12))
}

// changeHash does the same to a hash and to its model.
func changeHash(t *testing.T, db DB, m *modelHash, random *rand.Rand) {
	t.Helper()
	h, err := db.Hash([]byte("hash"))
	must(t, err)
	field, value := randomField(random), randomField(random)
	same := func(got, want any, err error) {
		t.Helper()
		must(t, err)
		if got != want {
			t.Fatalf("field %q: %v, want %v", field, got, want)
		}
	}
	switch random.IntN(7) {
	case 0, 1:
		added, err := h.Set([]byte(field), []byte(value))
		same(added, m.set(field, value), err)
	case 2:
		n := []int{1, 2, 8, 9}[random.IntN(4)]
		must(t, h.Expect(n))
		m.spread = m.spread || n > 8
		for i := range n {
			field = "f" + strconv.Itoa(i%3)
			added, err := h.Set([]byte(field), []byte(value))
			same(added, m.set(field, value), err)
		}
	case 3, 4:
		for range 3 {
			field = randomField(random)
			found, err := h.Delete([]byte(field))
			same(found, m.delete(field), err)
		}
	case 5:
		incrementField(t, &h, m, field, random)
	case 6:
		for _, field := range slices.Clone(m.order) {
			found, err := h.Delete([]byte(field))
			same(found, m.delete(field), err)
		}
	}
	must(t, h.Save(keyevent.Changed))
}

// incrementField adds to a field, if it holds an integer.
func incrementField(t *testing.T, h *Hash, m *modelHash, field string, random *rand.Rand) {
	t.Helper()
	delta := int64(random.IntN(100) - 50)
	old, exists := m.fields[field]
	was, ok := int64(0), true
	if exists {
		was, ok = number.ParseInt([]byte(old))
	}
	got, err := h.Increment([]byte(field), delta)
	if !ok {
		if !errors.Is(err, ErrFieldNotInteger) {
			t.Fatalf("adding to %q: %v", old, err)
		}
		return
	}
	must(t, err)
	if want := was + delta; got != want {
		t.Fatalf("%d+%d became %d", was, delta, got)
	}
	m.set(field, strconv.FormatInt(was+delta, 10))
}

// checkHash compares all that can be read of a hash.
func checkHash(t *testing.T, db DB, m *modelHash) {
	t.Helper()
	h, err := db.Hash([]byte("hash"))
	must(t, err)
	if h.Exists() != (len(m.fields) > 0) || h.Len() != len(m.fields) {
		t.Fatalf("exists %v with %d fields, want %d", h.Exists(), h.Len(), len(m.fields))
	}
	if h.Exists() && h.packed() == m.spread {
		t.Fatalf("packed: %v, with %d fields", h.packed(), h.Len())
	}
	want := slices.Clone(m.order)
	if m.spread {
		slices.Sort(want)
	}
	var got []string
	must(t, h.All(false, func(field, value []byte) bool {
		got = append(got, string(field))
		if string(value) != m.fields[string(field)] {
			t.Fatalf("field %q has the value %q, want %q", field, value, m.fields[string(field)])
		}
		return true
	}))
	if !slices.Equal(got, want) {
		t.Fatalf("the fields are %q, want %q", got, want)
	}
	for _, field := range append(want, "missing", "f0", "-1") {
		value, found, err := h.Get([]byte(field))
		must(t, err)
		if w, ok := m.fields[field]; ok != found || w != string(value) {
			t.Fatalf("field %q: %q, %v; want %q, %v", field, value, found, w, ok)
		}
	}
}

func TestHashIncrementLimits(t *testing.T) {
	txn := writingTxn(t)
	h, err := txn.DB(0).Hash([]byte("h"))
	must(t, err)
	set := func(value string) {
		_, err := h.Set([]byte("f"), []byte(value))
		must(t, err)
	}
	set("9223372036854775806")
	if n, err := h.Increment([]byte("f"), 1); err != nil || n != 9223372036854775807 {
		t.Errorf("up to the largest integer: %d, %v", n, err)
	}
	if _, err := h.Increment([]byte("f"), 1); !errors.Is(err, ErrOverflow) {
		t.Errorf("beyond the largest integer: %v", err)
	}
	set("-9223372036854775808")
	if _, err := h.Increment([]byte("f"), -1); !errors.Is(err, ErrOverflow) {
		t.Errorf("beyond the smallest integer: %v", err)
	}
	for value, want := range map[string]error{"1.5": nil, "x": ErrFieldNotFloat, "inf": ErrNotFinite} {
		set(value)
		delta, _ := number.ParseLongDouble([]byte("0.25"))
		text, err := h.IncrementFloat([]byte("f"), delta)
		if !errors.Is(err, want) || err == nil && string(text) != "1.75" {
			t.Errorf("%s+0.25: %q, %v; want %v", value, text, err, want)
		}
	}
	if _, err := txn.DB(0).Set([]byte("h")); err != nil {
		t.Errorf("a hash that was not saved is there: %v", err)
	}
	must(t, h.Save(keyevent.Changed))
	if _, err := txn.DB(0).Set([]byte("h")); !errors.Is(err, ErrWrongType) {
		t.Errorf("a hash opened as a set: %v", err)
	}
}

// writingTxn begins a transaction on a store in memory, with the default limits.
func writingTxn(t *testing.T) *Txn {
	t.Helper()
	txn := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20)).NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	return txn
}

// TestLongElementsCost: what long elements have too many bytes of leaves the reactor, though they
// are few, whether memory has them in order or not.
func TestLongElementsCost(t *testing.T) {
	const elements, budget = 300, 500
	o := testOptions(t.TempDir(), 64<<20, 1<<20)
	o.TreeBytes = constant[int64](64 << 20)
	txn := openStore(t, o).NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	h, err := db.Hash([]byte("h"))
	must(t, err)
	s, err := db.Set([]byte("s"))
	must(t, err)
	z, err := db.ZSet([]byte("z"))
	must(t, err)
	l, err := db.List([]byte("l"))
	must(t, err)
	x, err := db.Stream([]byte("x"))
	must(t, err)
	fill := func(from, length int) {
		for i := from; i < from+elements; i++ {
			long := append(strconv.AppendInt(nil, int64(i), 10), make([]byte, length)...)
			_, err := h.Set(strconv.AppendInt(nil, int64(i), 10), long)
			must(t, err)
			_, err = s.Add(long)
			must(t, err)
			must(t, z.Put(long, float64(i), 0, false))
			must(t, l.Push(false, [][]byte{long}))
			must(t, x.Append(StreamID{Ms: uint64(i + 1)}, [][]byte{[]byte("field"), long}))
		}
	}
	pair := func(_, _ []byte) bool { return true }
	scored := func([]byte, float64) bool { return true }
	walks := map[string]func() error{
		"HGETALL":   func() error { return h.All(false, pair) },
		"SMEMBERS":  func() error { return s.All(func([]byte) bool { return true }) },
		"ZRANGE":    func() error { return z.ByRank(0, z.Len(), false, scored) },
		"ZREVRANGE": func() error { return z.ByRank(0, z.Len(), true, scored) },
		"LRANGE":    func() error { return l.Range(0, l.Len(), false, func(int, []byte) bool { return true }) },
		"XRANGE": func() error {
			return x.Range(StreamID{}, layout.LastStreamID, false, func(StreamID, [][]byte) (bool, error) { return true, nil })
		},
	}
	for _, long := range []bool{false, true} {
		if long {
			fill(elements, 10<<10)
		} else {
			fill(0, 100)
		}
		for name, walk := range walks {
			for range 2 { // the second time in order
				savepoint := begin(txn, Mode{Writing: true}, 1, 2*budget)
				if err := walk(); long != errors.Is(err, ErrBudget) || !long && err != nil {
					t.Errorf("%s of long elements %v: %v", name, long, err)
				}
				txn.Rollback(savepoint)
				txn.Begin(Mode{Writing: true}, 1, 0)
				must(t, walk())
			}
		}
	}
}

// TestLongPicksCost: an element that is picked many times costs as much each time as a reply takes
// of it.
func TestLongPicksCost(t *testing.T) {
	const few, many, budget = 20, 200, 1000
	txn := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20)).NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	values, err := db.Hash([]byte("values"))
	must(t, err)
	fields, err := db.Hash([]byte("fields"))
	must(t, err)
	s, err := db.Set([]byte("s"))
	must(t, err)
	z, err := db.ZSet([]byte("z"))
	must(t, err)
	for i := range 2 {
		long := append(strconv.AppendInt(nil, int64(i), 10), make([]byte, 10<<10)...)
		_, err = values.Set(long[:1], long)
		must(t, err)
		_, err = fields.Set(long, long[:1])
		must(t, err)
		_, err = s.Add(long)
		must(t, err)
		must(t, z.Put(long, float64(i), 0, false))
	}
	pair := func(_, _ []byte) bool { return true }
	for name, pick := range map[string]func(count uint64) error{
		"HRANDFIELD":            func(count uint64) error { return fields.RandomRepeated(count, 2, true, pair) },
		"HRANDFIELD WITHVALUES": func(count uint64) error { return values.RandomRepeated(count, 2, false, pair) },
		"SRANDMEMBER":           func(count uint64) error { return s.RandomRepeated(count, func([]byte) bool { return true }) },
		"ZRANDMEMBER":           func(count uint64) error { return z.RandomRepeated(count, func([]byte, float64) bool { return true }) },
	} {
		for _, count := range []uint64{few, many} {
			savepoint := begin(txn, Mode{Writing: true}, 1, budget)
			if err := pick(count); errors.Is(err, ErrBudget) != (count == many) || count == few && err != nil {
				t.Errorf("%s of %d: %v", name, count, err)
			}
			txn.Rollback(savepoint)
		}
	}
}

// A command that has to leave the reactor is told so by whatever touches too many records, and a
// count that is wrong is never taken for a reply's length.
func TestSpreadCollectionsFailLoudly(t *testing.T) {
	txn := writingTxn(t)
	db := txn.DB(0)
	h, err := db.Hash([]byte("h"))
	must(t, err)
	s, err := db.Set([]byte("s"))
	must(t, err)
	for i := range 2000 {
		_, err := h.Set(fmt.Appendf(nil, "field%d", i), []byte("value"))
		must(t, err)
		_, err = s.Add(fmt.Appendf(nil, "member%d", i))
		must(t, err)
	}
	must(t, h.Save(keyevent.Changed))
	must(t, s.Save(keyevent.Changed))
	everything := func(_, _ []byte) bool { return true }
	members := func([]byte) bool { return true }
	walks := map[string]func() error{
		"HGETALL":    func() error { return h.All(false, everything) },
		"HRANDFIELD": func() error { return h.RandomDistinct(1999, 2000, false, everything) },
		"SMEMBERS":   func() error { return s.All(members) },
		"repeated":   func() error { return s.RandomRepeated(100000, members) },
		"SINTER":     func() error { return SetIntersection([]Set{s, s}, members) },
		"SDIFF":      func() error { return SetDifference([]Set{s, s}, members) },
		"SUNION":     func() error { return SetUnion([]Set{s, s}, members) },
		"SPOP":       func() error { _, err := s.Pop(1999); return err },
	}
	for name, walk := range walks {
		savepoint := begin(txn, Mode{Writing: true}, 1, 500)
		kept := s
		if err := walk(); !errors.Is(err, ErrBudget) {
			t.Errorf("%s with a budget of 500 records: %v", name, err)
		}
		txn.Rollback(savepoint)
		s = kept
	}
	txn.Begin(Mode{Writing: true}, 1, 0)
	for _, count := range []uint64{1999, 2001} {
		h.next.Count, s.next.Count = count, count
		for name, walk := range walks {
			if name == "SPOP" || name == "SDIFF" || name == "SINTER" || name == "SUNION" || name == "repeated" || name == "HRANDFIELD" {
				continue // these needn't look at everything
			}
			if err := walk(); !errors.Is(err, layout.ErrCorrupt) {
				t.Errorf("%s of 2000 elements that are counted as %d: %v", name, count, err)
			}
		}
	}
}
