package storage

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
)

// placesTest does the same to a set and to a map, with commands taken back, commits that fail and
// counts that are displaced, and asks which member has which place in between.
type placesTest struct {
	*orderedTest
	key     []byte
	limit   atomic.Int64
	found   int // places that were known
	several int // members that were asked for together
}

func TestPlacesAgainstModel(t *testing.T) { inAllTiers(t, placesAgainstModel) }

func placesAgainstModel(t *testing.T, o Options) {
	x := &placesTest{key: []byte("crowd")}
	x.limit.Store(1 << 20)
	o.TreeBytes, o.Logger = x.limit.Load, noErrors{t}.logger()
	x.orderedTest = newOrderedTest(t, o)
	countSmall(x.store)
	model := map[string]bool{}
	for range 300 {
		x.limit.Store([]int64{1 << 20, 1 << 20, 1100, 0}[x.random.IntN(4)])
		model = transact(x.orderedTest, model, x.command, x.check)
		x.read(func(db DB) { x.check(db, model) })
		if x.random.IntN(60) == 0 {
			must(t, x.store.Close())
			x.store, x.log = reopen(t, x.o, x.log)
			countSmall(x.store)
		}
	}
	if x.found < 500 {
		t.Errorf("places were known only %d times", x.found)
	}
	if x.several < 1000 {
		t.Errorf("only %d members were asked for together", x.several)
	}
}

// command changes the set: members come, go, are popped, or all of them are others.
func (x *placesTest) command(db DB, model map[string]bool) {
	s, err := db.Set(x.key)
	must(x.t, err)
	switch x.random.IntN(12) {
	case 0:
		if s, err = db.ReplaceSet(x.key); err == nil {
			clear(model)
		}
		must(x.t, err)
	case 1:
		popped, err := s.Pop(x.random.IntN(max(s.Len(), 1)))
		must(x.t, err)
		for _, member := range popped {
			if !model[string(member)] {
				x.t.Fatalf("%q was popped, which is no member", member)
			}
			delete(model, string(member))
		}
	}
	for range x.random.IntN(60) {
		member := fmt.Sprint("m", x.random.IntN(400))
		if x.random.IntN(3) == 0 {
			_, err = s.Remove([]byte(member))
			delete(model, member)
		} else {
			_, err = s.Add([]byte(member))
			model[member] = true
		}
		must(x.t, err)
	}
	must(x.t, s.Save(keyevent.Changed))
}

func (x *placesTest) check(db DB, model map[string]bool) {
	x.t.Helper()
	s, err := db.Set(x.key)
	must(x.t, err)
	if s.Len() != len(model) {
		x.t.Fatalf("%d members, want %d", s.Len(), len(model))
	}
	if len(model) == 0 || s.packed() {
		return
	}
	members := slices.Sorted(maps.Keys(model))
	x.checkSeveral(&s, members)
	for range 4 {
		place := x.random.IntN(len(members))
		member, found, err := picking(&s).places.Entry(place)
		must(x.t, err)
		if found {
			x.found++
			if string(member) != members[place] {
				x.t.Fatalf("member %d of %d is %q, want %q", place, len(members), member, members[place])
			}
		}
	}
}

// checkSeveral asks for the members that have several places at once.
func (x *placesTest) checkSeveral(s *Set, members []string) {
	x.t.Helper()
	places := &picking(s).places
	if !places.Counted() {
		return
	}
	wanted := make([]int, x.random.IntN(40))
	for i := range wanted {
		wanted[i] = x.random.IntN(len(members))
	}
	seen := 0
	must(x.t, places.Entries(wanted, func(member, _ []byte) (goesOn bool, err error) {
		if want := members[wanted[seen]]; string(member) != want {
			x.t.Fatalf("member %d of %d is %q, want %q", wanted[seen], len(members), member, want)
		}
		seen++
		return true, nil
	}))
	if seen != len(wanted) {
		x.t.Fatalf("%d of %d members came", seen, len(wanted))
	}
	x.several += seen
}

// Picks of a large set count it by the way, and are even as soon as that is done.
func TestPicksCount(t *testing.T) {
	const members, parts, picks = 20000, 20, 4000
	s, all := spreadSetOf(t, members, func(i int) string { return fmt.Sprintf("%d", i*i) })
	before := 0
	for ; !picking(&s).places.Counted(); before++ {
		_, err := s.Random()
		must(t, err)
	}
	if before < 2 || before > members/(4*engine.PickCost)+1 { // there is room
		t.Errorf("%d members were counted by %d picks", members, before)
	}
	var buckets [parts]int
	for range picks {
		member, err := s.Random()
		must(t, err)
		at, found := slices.BinarySearch(all, string(member))
		if !found {
			t.Fatalf("%q is no member", member)
		}
		buckets[at*parts/len(all)]++
	}
	// 200 are expected, with a standard deviation of 14.
	if least, most := slices.Min(buckets[:]), slices.Max(buckets[:]); least < 120 || most > 290 {
		t.Errorf("the parts of the set were picked %v", buckets)
	}
}

func picking(s *Set) *picker {
	elements := s.elements()
	return elements.picker(s.next.Count)
}
