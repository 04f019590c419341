package storage

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// listKeys are the lists of a model, by database and key. The elements are never changed.
type listKeys map[string][][]byte

// listStore does the same to lists in two databases and to a model, while generations wait, views
// are open, and the store is killed. What RocksDB has is held against the model too.
type listStore struct {
	t      *testing.T
	random *rand.Rand
	o      Options
	store  *Store
	log    *heldLog
	held   bool
	stages bool // a command may fill many generations, and would wait for a log that is held

	model listKeys
	at    map[int64]listKeys // by position
	views map[*View]listKeys
	next  int
}

func TestListsLeaveNothingOutsideOfTheirBounds(t *testing.T) { inAllTiers(t, listsLeaveNothing) }

func listsLeaveNothing(t *testing.T, o Options) {
	seed := seed.Of(t)
	o.Limits.ListSize = constant[int64](8)
	o.Limits.blockShift, o.Limits.mostEdited = uint8(1+seed%4), 400
	x := &listStore{t: t, random: rand.New(rand.NewPCG(seed, 7)), o: o, model: listKeys{}, at: map[int64]listKeys{}, views: map[*View]listKeys{}}
	x.open(0)
	must(t, x.store.PersistState())
	for range 80 {
		x.transaction()
		x.disturb()
	}
	x.leaveViews()
	x.settle()
	x.checkBelow()
	must(t, x.store.Persist())
	must(t, inside(x.store).Reap())
	x.checkBelow()
	if n := len(x.below([]byte{layout.KindDeleted})); n > 0 {
		t.Errorf("%d collections were not reaped", n)
	}
	must(t, x.store.Close())
}

// open opens the store at a position.
func (x *listStore) open(position int64) {
	x.t.Helper()
	var err error
	x.store, err = Open(x.o)
	must(x.t, err)
	if x.store.Position() != position {
		x.t.Fatalf("opened at position %d, not %d", x.store.Position(), position)
	}
	stageFrom := []int{1, 100, 0}[x.random.IntN(3)]
	inside(x.store).StageFrom(stageFrom)
	x.stages = stageFrom > 0
	x.log = &heldLog{testLog: testLog{content: make([]byte, position)}}
	x.store.Attach(x.log, 1)
}

func (x *listStore) key() (database int, key string) {
	return x.random.IntN(2), string(rune('a' + x.random.IntN(3)))
}

func name(database int, key string) string { return strconv.Itoa(database) + key }

func (x *listStore) transaction() {
	txn := x.store.NewTxn()
	before := maps.Clone(x.model)
	for range 1 + x.random.IntN(4) {
		savepoint, model := begin(txn, Mode{Writing: true}, 1, 0), maps.Clone(x.model)
		x.command(txn)
		if x.random.IntN(6) == 0 {
			txn.Rollback(savepoint)
			x.model = model
		}
	}
	txn.Effect(0, []byte("EFFECT"))
	if x.random.IntN(8) == 0 {
		txn.Reset()
		x.model = before
		return
	}
	must(x.t, x.store.Commit(txn))
	x.at[x.store.Position()] = maps.Clone(x.model)
}

func (x *listStore) command(txn *Txn) {
	database, key := x.key()
	db, list := txn.DB(database), name(database, key)
	switch x.random.IntN(12) {
	case 0:
		x.toAnotherKey(txn, database, key)
	case 1:
		_, err := db.Delete([]byte(key))
		must(x.t, err)
		delete(x.model, list)
	case 2:
		l, err := db.ReplaceList([]byte(key))
		must(x.t, err)
		values := x.values()
		must(x.t, l.Push(false, values))
		must(x.t, l.Save(keyevent.Changed))
		x.set(list, values)
	default:
		l, err := db.List([]byte(key))
		must(x.t, err)
		changed := x.change(&l, x.model[list])
		must(x.t, l.Save(keyevent.Changed))
		x.set(list, changed)
	}
}

func (x *listStore) set(list string, elements [][]byte) {
	if len(elements) == 0 {
		delete(x.model, list)
		return
	}
	x.model[list] = elements
}

// toAnotherKey renames, moves or copies a list.
func (x *listStore) toAnotherKey(txn *Txn, database int, key string) {
	db := txn.DB(database)
	k, err := db.Lookup([]byte(key))
	must(x.t, err)
	otherDatabase, otherKey := x.key()
	from, to := name(database, key), name(otherDatabase, otherKey)
	other := txn.DB(otherDatabase)
	old, err := other.Lookup([]byte(otherKey))
	must(x.t, err)
	switch {
	case !k.Exists || from == to:
		return
	case x.random.IntN(2) == 0:
		must(x.t, db.CopyTo(k, other, []byte(otherKey), old))
		x.model[to] = x.model[from]
		return
	case database == otherDatabase:
		must(x.t, db.Move([]byte(key), k, []byte(otherKey)))
	case old.Exists || key != otherKey:
		return
	default:
		must(x.t, db.MoveTo([]byte(key), k, other))
	}
	x.model[to] = x.model[from]
	delete(x.model, from)
}

// values are new elements, sometimes so many that ranges of them are deleted.
func (x *listStore) values() (values [][]byte) {
	n := 1 + x.random.IntN(12)
	if x.random.IntN(10) == 0 {
		n = 2 * engine.InspectDeleteOneByOne
	}
	for range n {
		values = append(values, x.element())
	}
	return values
}

// element is a new element: a number, or some text.
func (x *listStore) element() []byte {
	x.next++
	if x.next%2 == 0 {
		return strconv.AppendInt(nil, int64(x.next), 10)
	}
	return fmt.Appendf(nil, "element %d", x.next)
}

// change does something to a list and returns what it has then. elements stays as it is.
func (x *listStore) change(l *List, elements [][]byte) [][]byte {
	switch x.random.IntN(7) {
	case 0, 1:
		values := x.values()
		must(x.t, l.Push(true, values))
		slices.Reverse(values)
		return slices.Concat(values, elements)
	case 2:
		values := x.values()
		must(x.t, l.Push(false, values))
		return slices.Concat(elements, values)
	case 3, 4:
		n := x.count(len(elements))
		left := x.random.IntN(2) == 0
		popped := 0
		must(x.t, l.Pop(left, n, func([]byte) { popped++ }))
		if popped != n {
			x.t.Fatalf("%d popped of %d", popped, n)
		}
		if left {
			return elements[n:]
		}
		return elements[:len(elements)-n]
	case 5:
		from := x.count(len(elements))
		n := len(elements) - from - x.count(len(elements)-from)
		must(x.t, l.Trim(from, n))
		return elements[from : from+n]
	}
	if len(elements) == 0 {
		return elements
	}
	at := x.random.IntN(len(elements))
	if x.random.IntN(3) == 0 {
		value := x.element()
		if x.random.IntN(3) == 0 {
			value = append(value, make([]byte, x.random.IntN(300))...)
		}
		must(x.t, l.Set(at, value))
		changed := slices.Clone(elements)
		changed[at] = value
		return changed
	}
	if x.random.IntN(4) == 0 {
		var indexes []int
		changed := elements[:at:at]
		for i := at; i < len(elements); i++ {
			if x.random.IntN(3) == 0 {
				indexes = append(indexes, i)
			} else {
				changed = append(changed, elements[i])
			}
		}
		if x.random.IntN(2) == 0 {
			slices.Reverse(indexes)
		}
		if len(indexes) > 0 {
			must(x.t, l.removeIndexes(indexes))
		}
		return changed
	}
	if x.random.IntN(2) == 0 {
		removed, err := l.RemoveEqual(elements[at], 0, false)
		must(x.t, err)
		if removed != 1 {
			x.t.Fatalf("%d elements removed", removed)
		}
		return slices.Delete(slices.Clone(elements), at, at+1)
	}
	value := x.element()
	must(x.t, l.Insert(at, value))
	return slices.Insert(slices.Clone(elements), at, value)
}

// count is a number up to most: mostly few, sometimes most of them, and now and then all.
func (x *listStore) count(most int) int {
	switch x.random.IntN(8) {
	case 0:
		return most
	case 1:
		return x.random.IntN(most + 1)
	}
	return min(most, x.random.IntN(6))
}

// disturb does what happens to a store beside its transactions.
func (x *listStore) disturb() {
	x.check("before", x.store.NewTxn(), x.model)
	switch x.random.IntN(14) {
	case 0, 1:
		freeze(x.store)
	case 2, 3: // generations wait
		if !x.held && !x.stages && inside(x.store).WaitingGenerations() == 0 {
			x.log.hold.Lock()
			x.held = true
		}
	case 4:
		x.settle()
		x.checkBelow()
	case 5:
		x.views[x.store.View()] = maps.Clone(x.model)
	case 6:
		x.leaveViews()
	case 7:
		x.letGo()
		must(x.t, x.store.Persist())
		must(x.t, inside(x.store).Reap())
	case 8:
		x.kill()
	}
	if inside(x.store).WaitingGenerations() > 2 {
		x.letGo()
	}
	x.check("now", x.store.NewTxn(), x.model)
}

func (x *listStore) letGo() {
	if x.held {
		x.log.hold.Unlock()
		x.held = false
	}
}

func (x *listStore) settle() {
	x.letGo()
	settle(x.t, x.store)
}

// kill goes on with what RocksDB has at this moment.
func (x *listStore) kill() {
	x.t.Helper()
	if len(x.views) > 0 {
		return
	}
	directory := filepath.Join(x.t.TempDir(), "killed")
	must(x.t, x.store.Rocks().Checkpoint(directory))
	x.letGo()
	must(x.t, x.store.Close())
	x.o.Rocks.Directory = directory
	position := x.positionOf(directory)
	x.open(position)
	x.model = maps.Clone(x.at[position])
	if x.model == nil {
		x.model = listKeys{}
	}
	x.check("after a kill", x.store.NewTxn(), x.model)
	x.checkBelow()
}

func (x *listStore) positionOf(directory string) int64 {
	s, err := Open(x.o)
	must(x.t, err)
	defer s.Close()
	return s.Position()
}

func (x *listStore) leaveViews() {
	for view, model := range x.views {
		txn := x.store.NewTxn()
		txn.ReadFrom(view)
		x.check("in a view", txn, model)
		view.Release()
	}
	clear(x.views)
}

// check reads all lists, as a whole and their ends.
func (x *listStore) check(when string, txn *Txn, model listKeys) {
	x.t.Helper()
	txn.Begin(Mode{}, 1, 0)
	for database := range 2 {
		for _, key := range []string{"a", "b", "c"} {
			db, want := txn.DB(database), model[name(database, key)]
			l, err := db.List([]byte(key))
			must(x.t, err)
			if l.Len() != len(want) {
				x.t.Fatalf("%s, %s has %d elements, want %d", when, name(database, key), l.Len(), len(want))
			}
			for _, n := range []int{len(want), min(3, len(want))} {
				for _, from := range []int{0, len(want) - n} {
					x.checkRange(&l, from, n, want[from:from+n])
				}
			}
			from := x.random.IntN(len(want) + 1)
			n := x.random.IntN(len(want) - from + 1)
			x.checkRange(&l, from, n, want[from:from+n])
			if l.Exists() && !l.packed() {
				var all [][]byte
				must(x.t, db.Elements(&l.old.Metadata, func(e, _ []byte, _ float64) error { all = append(all, bytes.Clone(e)); return nil }))
				if !slices.EqualFunc(all, want, bytes.Equal) {
					x.t.Fatalf("%s, %s: Elements shows %q, want %q", when, name(database, key), all, want)
				}
			}
		}
	}
}

func (x *listStore) checkRange(l *List, from, n int, want [][]byte) {
	x.t.Helper()
	var got [][]byte
	must(x.t, l.Range(from, n, false, func(_ int, v []byte) bool { got = append(got, bytes.Clone(v)); return true }))
	if !slices.EqualFunc(got, want, bytes.Equal) {
		x.t.Fatalf("%d elements from %d on: got %q, want %q", n, from, got, want)
	}
	got = nil
	must(x.t, l.Range(from, n, true, func(_ int, v []byte) bool { got = append(got, bytes.Clone(v)); return true }))
	slices.Reverse(got)
	if !slices.EqualFunc(got, want, bytes.Equal) {
		x.t.Fatalf("%d elements from %d on, backwards: got %q, want %q", n, from, got, want)
	}
}

// below are the keys of RocksDB's records that begin with a prefix, of all databases.
func (x *listStore) below(prefix []byte) (keys []string) {
	for database := range 2 {
		family := inside(x.store).Family(database)
		if family == nil {
			continue
		}
		it := x.store.Rocks().NewIterator(family, nil, rocks.IteratorOptions{LowerBound: prefix, UpperBound: layout.Successor(nil, prefix)})
		for it.Next() {
			_, found, err := x.store.Rocks().Get(family, nil, it.Key(), nil)
			must(x.t, err)
			if found { // a walk shows what was deleted by a range, too
				keys = append(keys, string(it.Key()))
			}
		}
		must(x.t, it.Err())
		it.Close()
	}
	return keys
}

// checkBelow asserts that RocksDB, which has everything, has just the elements within the bounds of
// their lists, and those that wait for the reaper.
func (x *listStore) checkBelow() {
	x.t.Helper()
	want := map[string]bool{}
	txn := x.store.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	for database := range 2 {
		must(x.t, txn.DB(database).Keys(nil, func(_ []byte, m *layout.Metadata) bool {
			for index := m.Head; m.Encoding == layout.Spread && index < m.Tail; index++ {
				if m.Blocks.Has(index) {
					want[string(layout.AppendBlockKey(nil, m.ID, m.Blocks.At(index)))] = true
				} else {
					want[string(layout.AppendSequenceKey(nil, m.ID, index))] = true
				}
			}
			return true
		}))
	}
	waiting := map[string]bool{}
	for _, key := range x.below([]byte{layout.KindDeleted}) {
		waiting[key[1:]] = true
	}
	found := 0
	for _, key := range append(x.below([]byte{layout.KindListElement}), x.below([]byte{layout.KindListBlock})...) {
		if want[key] {
			found++
		} else if !waiting[key[1:layout.ElementPrefix]] {
			x.t.Fatalf("RocksDB has element %x, which no list has", key)
		}
	}
	if found != len(want) {
		x.t.Fatalf("RocksDB has %d elements of %d", found, len(want))
	}
}

// fillList makes a list of so many elements.
func fillList(t *testing.T, s *Store, key string, n int) {
	t.Helper()
	in(t, s, 0, func(db DB) error {
		l, err := db.List([]byte(key))
		must(t, err)
		for i := range n {
			must(t, l.Push(false, [][]byte{strconv.AppendInt(nil, int64(i), 10)}))
		}
		return l.Save(keyevent.Changed)
	})
}

// changeList changes a list with a budget.
func changeList(t *testing.T, s *Store, key string, budget int, change func(l *List) error) {
	t.Helper()
	in(t, s, 0, func(db DB) error {
		db.Txn().Begin(Mode{Writing: true}, 1, budget)
		l, err := db.List([]byte(key))
		must(t, err)
		must(t, change(&l))
		return l.Save(keyevent.Changed)
	})
}

func TestWhatIsPushedAndPoppedWithinAGenerationStaysInMemory(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	fillList(t, s, "list", 5000)
	settle(t, s)
	before := s.Counters().FlushedRecords.Load()
	for i := range 1000 {
		changeList(t, s, "list", 0, func(l *List) error { return l.Push(true, [][]byte{fmt.Append(nil, "new", i)}) })
	}
	for i := range 990 {
		changeList(t, s, "list", 0, func(l *List) error {
			return l.Pop(true, 1, func(v []byte) {
				if want := fmt.Sprint("new", 999-i); string(v) != want {
					t.Fatalf("popped %q, want %q", v, want)
				}
			})
		})
	}
	settle(t, s)
	if n := s.Counters().FlushedRecords.Load() - before; n != 11 { // the elements that stayed, and the list's own record
		t.Errorf("%d records went to RocksDB", n)
	}
}

func TestAnEndOfAListIsCutOffByOneWrite(t *testing.T) {
	for _, atOnce := range []int{1, 30000} {
		cutOffAnEnd(t, atOnce)
	}
}

// cutOffAnEnd cuts off what came many at once, in blocks, or not.
func cutOffAnEnd(t *testing.T, atOnce int) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	var elements [][]byte
	for i := range 30000 {
		elements = append(elements, strconv.AppendInt(nil, int64(i), 10))
	}
	in(t, s, 0, func(db DB) error {
		l, err := db.List([]byte("list"))
		must(t, err)
		for values := range slices.Chunk(elements, atOnce) {
			must(t, l.Push(false, values))
		}
		return l.Save(keyevent.Changed)
	})
	settle(t, s)
	before := s.Counters().FlushedRecords.Load()
	changeList(t, s, "list", 40, func(l *List) error { return l.Trim(10000, 10000) })
	settle(t, s)
	most := int64(3 + 10000/128) // blocks are so few that each is deleted; a range at each end, and the list's own record
	if atOnce > 1 {
		most += 10000/128 + 128 // and the single elements behind the blocks
	}
	if n := s.Counters().FlushedRecords.Load() - before; n < 3 || n > most {
		t.Errorf("%d records went to RocksDB", n)
	}
	changeList(t, s, "list", 0, func(l *List) error {
		if l.Len() != 10000 {
			t.Errorf("%d elements", l.Len())
		}
		return l.Range(0, l.Len(), false, func(index int, v []byte) bool {
			if string(v) != strconv.Itoa(10000+index) {
				t.Fatalf("element %d is %q", index, v)
			}
			return true
		})
	})
}

// TestAnElementIsNotServedFromAnOldCopy pops an element that was read, and pushes another one to
// its index, in the same generation and in the next.
func TestAnElementIsNotServedFromAnOldCopy(t *testing.T) {
	for _, freezeBetween := range []bool{false, true} {
		s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
		fillList(t, s, "list", 2000)
		settle(t, s)
		for round := range 3 {
			value := fmt.Append(nil, "round", round)
			changeList(t, s, "list", 0, func(l *List) error { return l.Pop(false, 300, func([]byte) {}) })
			if freezeBetween {
				settle(t, s)
			}
			for range 300 {
				changeList(t, s, "list", 0, func(l *List) error { return l.Push(false, [][]byte{value}) })
			}
			for range 2 {
				changeList(t, s, "list", 0, func(l *List) error {
					return l.Range(1700, 300, true, func(index int, v []byte) bool {
						if string(v) != string(value) {
							t.Fatalf("round %d: element %d is %q", round, index, v)
						}
						return true
					})
				})
				settle(t, s)
			}
		}
	}
}

// TestReapingAListThatWasNearlyEmptied deletes a list that RocksDB has more of than it had in the
// end.
func TestReapingAListThatWasNearlyEmptied(t *testing.T) {
	o := testOptions(t.TempDir(), 64<<20, 1<<20)
	s := openStore(t, o)
	fillList(t, s, "list", 2*engine.InspectReapByPoints+5)
	must(t, s.Persist())
	changeList(t, s, "list", 0, func(l *List) error { return l.Trim(7, 1) })
	remove(t, s, 0, "list")
	must(t, s.Persist())
	must(t, inside(s).Reap())
	x := listStore{t: t, store: s}
	if n := len(x.below([]byte{layout.KindListElement})) + len(x.below([]byte{layout.KindListBlock})) + len(x.below([]byte{layout.KindDeleted})); n > 0 {
		t.Errorf("%d records are left", n)
	}
}
