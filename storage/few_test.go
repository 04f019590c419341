package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
	"kedis/storage/layout"
)

// small is a spread hash, and what it should hold.
type small struct {
	t     *testing.T
	store *Store
	want  map[string]string
	kept  atomic.Int64 // the largest generation that is kept
}

func newSmall(t *testing.T, kept int64) *small {
	options := testOptions(t.TempDir(), 8<<20, 8<<20)
	s := &small{t: t, want: map[string]string{}}
	s.kept.Store(kept)
	options.TablesFrom, options.RetainedBytes = constant[int64](0), s.kept.Load
	s.store = openStore(t, options)
	return s
}

// set sets a field, or removes it.
func (s *small) set(field, value string) {
	s.t.Helper()
	in(s.t, s.store, 0, func(db DB) error {
		h, err := db.Hash([]byte("hash"))
		must(s.t, err)
		if value == "" {
			_, err = h.Delete([]byte(field))
			delete(s.want, field)
		} else {
			_, err = h.Set([]byte(field), []byte(value))
			s.want[field] = value
		}
		must(s.t, err)
		return h.Save(keyevent.Changed)
	})
}

// fill sets so many fields, which are long enough for the hash to be spread.
func (s *small) fill(fields int) {
	s.t.Helper()
	for i := range fields {
		s.set(fmt.Sprint("field", i), strings.Repeat("x", 100))
	}
}

// check reads the hash. It says whether its elements are looked for by their group, how many are
// found so in generations that RocksDB hasn't got, and how many in all.
func (s *small) check(byGroup bool, newer, found int) {
	s.t.Helper()
	txn := s.store.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	h, err := txn.DB(0).Hash([]byte("hash"))
	must(s.t, err)
	gotNewer, gotFound, ok := insideTxn(txn).ByGroup(h.db.space, layout.KindHashField, h.next.ID, h.next.Count)
	if ok != byGroup || ok && (gotNewer != newer || gotFound != found) {
		s.t.Fatalf("by their group: %v, %d newer ones, %d in all; want %v, %d, %d", ok, gotNewer, gotFound, byGroup, newer, found)
	}
	got := map[string]string{}
	var order []string
	must(s.t, h.All(false, func(field, value []byte) bool {
		got[string(field)] = string(value)
		order = append(order, string(field))
		return true
	}))
	if !maps.Equal(got, s.want) || !slices.IsSorted(order) {
		s.t.Fatalf("the hash has %v, want %v", got, s.want)
	}
	if insideTxn(txn).HoldsElements() {
		s.t.Fatal("the transaction holds on to what it has found")
	}
	txn.Reset()
}

// TestFewElements finds the elements of a small hash in the generation that is written, in the one
// that is kept, and partly in RocksDB.
func TestFewElements(t *testing.T) {
	s := newSmall(t, 1<<30)
	s.fill(10)
	s.check(true, 10, 10)
	s.set("field3", "again")
	s.set("field4", "")
	s.check(true, 10, 9) // that field4 is gone is one
	must(t, s.store.Persist())
	if s.store.RetainedBytes() == 0 {
		t.Fatal("the generation isn't kept")
	}
	s.check(true, 0, 9)
	s.set("field5", "new") // the others are in the kept generation
	s.set("field6", "")
	s.check(true, 2, 8)
}

// TestFewElementsOfAnOldGeneration: the generation that is kept has versions that are out of date
// when a later one went to RocksDB and wasn't kept.
func TestFewElementsOfAnOldGeneration(t *testing.T) {
	s := newSmall(t, 1<<30)
	s.fill(10)
	must(t, s.store.Persist())
	s.check(true, 0, 10)
	s.kept.Store(1)
	s.set("field3", "again")
	s.set("field4", "")
	must(t, s.store.Persist())
	if s.store.RetainedBytes() == 0 {
		t.Fatal("the older generation isn't kept")
	}
	s.check(true, 0, 0)
}

func TestFewElementsInFiles(t *testing.T) {
	s := newSmall(t, 0)
	s.fill(10)
	must(t, s.store.Persist())
	s.check(true, 0, 0)
	s.set("field5", "new")
	s.set("field6", "")
	s.set("field7", "")
	s.set("field7", "back")
	s.check(true, 3, 2)
	s.set("field99", "more")
	s.check(true, 4, 3)
}

// TestManyVersions: what is overwritten all the time is walked over, and so is what isn't small.
func TestManyVersions(t *testing.T) {
	s := newSmall(t, 0)
	s.fill(10)
	for i := range 300 {
		s.set("field1", fmt.Sprint(i))
	}
	s.check(false, 0, 0)
	s = newSmall(t, 0)
	s.fill(engine.MostFew + 1)
	s.check(false, 0, 0)
}
