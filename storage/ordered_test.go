package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// The model tests below do the same to a list or a sorted set and to a Go slice, with everything
// small: collections go from packed to spread, records leave memory, commands are taken back, and
// the store is reopened.

type orderedTest struct {
	t      *testing.T
	random *rand.Rand
	store  *Store
	log    *testLog
	o      Options
}

func newOrderedTest(t *testing.T, o Options) *orderedTest {
	seed := seed.Of(t)
	o.Limits.ListSize, o.Limits.ZSetEntries = constant[int64](8), constant[int64](8)
	x := &orderedTest{t: t, random: rand.New(rand.NewPCG(seed, 7)), o: o}
	x.store, x.log = reopen(t, o, &testLog{})
	countSmall(x.store)
	t.Cleanup(func() { must(t, x.store.Close()) })
	return x
}

// step runs a command in a transaction. It is committed, or taken back, which step tells.
func (x *orderedTest) step(run func(db DB)) (committed bool) {
	txn := x.store.NewTxn()
	savepoint := begin(txn, Mode{Writing: true}, 1, 0)
	run(txn.DB(0))
	txn.Effect(0, []byte("EFFECT"))
	if x.random.IntN(5) == 0 {
		txn.Rollback(savepoint)
		return false
	}
	must(x.t, x.store.Commit(txn))
	if x.random.IntN(60) == 0 {
		must(x.t, x.store.Close())
		x.store, x.log = reopen(x.t, x.o, x.log)
	}
	return true
}

// transact runs commands in a transaction, of which some are taken back, and checks what it sees
// after each. It returns what there is when it was committed, or wasn't since the log failed or
// nobody asked for it.
func transact[V any](x *orderedTest, model map[string]V, command, check func(db DB, model map[string]V)) map[string]V {
	txn, now := x.store.NewTxn(), model
	for range 1 + x.random.IntN(4) {
		savepoint := begin(txn, Mode{Writing: true}, 1, 0)
		next := maps.Clone(now)
		command(txn.DB(0), next)
		if x.random.IntN(4) == 0 {
			txn.Rollback(savepoint)
			next = now
		}
		now = next
		check(txn.DB(0), now)
	}
	txn.Effect(0, []byte("EFFECT"))
	switch x.random.IntN(6) {
	case 0:
		x.log.fail = errors.New("the disk is full")
		if x.store.Commit(txn) == nil {
			x.t.Fatal("the log failed and the commit didn't")
		}
		x.log.fail = nil
		now = model
	case 1:
		now = model // it is never committed
	default:
		must(x.t, x.store.Commit(txn))
	}
	txn.Reset()
	return now
}

func (x *orderedTest) read(run func(db DB)) {
	txn := x.store.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	run(txn.DB(0))
}

func (x *orderedTest) value() []byte {
	switch x.random.IntN(3) {
	case 0:
		return fmt.Append(nil, x.random.IntN(12))
	case 1:
		return bytes.Repeat([]byte{byte('a' + x.random.IntN(4))}, 1+x.random.IntN(80))
	}
	return fmt.Appendf(nil, "v%d", x.random.IntN(20))
}

func TestListAgainstModel(t *testing.T) { inAllTiers(t, listAgainstModel) }

func listAgainstModel(t *testing.T, o Options) {
	x := newOrderedTest(t, o)
	key := []byte("list")
	var model [][]byte
	for i := range 400 {
		next := slices.Clone(model)
		committed := x.step(func(db DB) {
			l, err := db.List(key)
			must(t, err)
			next = x.changeList(&l, next)
			must(t, l.Save(keyevent.Changed))
		})
		if committed {
			model = next
		}
		x.read(func(db DB) { x.checkList(db, key, model, i) })
	}
}

// changeList does something at random to a list and its model.
func (x *orderedTest) changeList(l *List, model [][]byte) [][]byte {
	at := x.random.IntN(len(model) + 1)
	switch x.random.IntN(8) {
	case 0, 1:
		values := [][]byte{x.value(), x.value()}
		must(x.t, l.Push(true, values))
		return slices.Concat([][]byte{values[1], values[0]}, model)
	case 2:
		values := [][]byte{x.value(), x.value(), x.value()}
		must(x.t, l.Push(false, values))
		return append(model, values...)
	case 3:
		n := min(x.random.IntN(4), len(model))
		var popped [][]byte
		must(x.t, l.Pop(false, n, func(v []byte) { popped = append(popped, bytes.Clone(v)) }))
		want := slices.Clone(model[len(model)-n:])
		slices.Reverse(want)
		x.same("popped", popped, want)
		return model[:len(model)-n]
	case 4:
		value := x.value()
		must(x.t, l.Insert(at, value))
		return slices.Insert(model, at, value)
	case 5:
		if at == len(model) {
			return model
		}
		value := x.value()
		must(x.t, l.Set(at, value))
		model[at] = value
		return model
	case 6:
		value, limit, reverse := x.value(), x.random.IntN(3), x.random.IntN(2) == 0
		removed, err := l.RemoveEqual(value, limit, reverse)
		must(x.t, err)
		kept := removeEqual(model, value, limit, reverse)
		if removed != len(model)-len(kept) {
			x.t.Fatalf("removed %d of %q, want %d", removed, value, len(model)-len(kept))
		}
		return kept
	}
	n := x.random.IntN(len(model) - at + 1)
	if x.random.IntN(4) > 0 && n < len(model)/2 {
		n = len(model) - at
	}
	must(x.t, l.Trim(at, n))
	return model[at : at+n]
}

func removeEqual(model [][]byte, value []byte, limit int, reverse bool) [][]byte {
	kept := slices.Clone(model)
	if reverse {
		slices.Reverse(kept)
	}
	removed := 0
	kept = slices.DeleteFunc(kept, func(v []byte) bool {
		if !bytes.Equal(v, value) || limit > 0 && removed == limit {
			return false
		}
		removed++
		return true
	})
	if reverse {
		slices.Reverse(kept)
	}
	return kept
}

func (x *orderedTest) same(what string, got, want [][]byte) {
	x.t.Helper()
	if !slices.EqualFunc(got, want, bytes.Equal) {
		x.t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func (x *orderedTest) checkList(db DB, key []byte, model [][]byte, step int) {
	x.t.Helper()
	l, err := db.List(key)
	must(x.t, err)
	if l.Len() != len(model) || l.Exists() != (len(model) > 0) {
		x.t.Fatalf("step %d: %d elements, want %d", step, l.Len(), len(model))
	}
	from := x.random.IntN(len(model) + 1)
	n := x.random.IntN(len(model) - from + 1)
	want := slices.Clone(model[from : from+n])
	for _, reverse := range []bool{false, true} {
		var got [][]byte
		must(x.t, l.Range(from, n, reverse, func(_ int, v []byte) bool { got = append(got, bytes.Clone(v)); return true }))
		x.same(fmt.Sprint("step ", step, " range ", from, " ", n, " reverse ", reverse), got, want)
		slices.Reverse(want)
	}
	all := collection{kind: layout.List}
	for _, value := range model {
		all.list = append(all.list, string(value))
	}
	x.checkDumps(db, l.Key(), all)
}

// checkDumps dumps a key twice: what the first walk has left in memory, the second one reads.
func (x *orderedTest) checkDumps(db DB, k Key, want collection) {
	x.t.Helper()
	if !k.Exists {
		return
	}
	for range 2 {
		payload, err := db.Dump(nil, k, rdb.NewPayloadWriter())
		must(x.t, err)
		checkPayload(x.t, payload, want)
	}
}

func TestZSetAgainstModel(t *testing.T) { inAllTiers(t, zsetAgainstModel) }

func zsetAgainstModel(t *testing.T, o Options) {
	x := newOrderedTest(t, o)
	key := []byte("zset")
	model := map[string]float64{}
	for i := range 400 {
		next := map[string]float64{}
		for member, score := range model {
			next[member] = score
		}
		committed := x.step(func(db DB) {
			z, err := db.ZSet(key)
			must(t, err)
			x.changeZSet(&z, next)
			must(t, z.Save(keyevent.Changed))
		})
		if committed {
			model = next
		}
		x.read(func(db DB) { x.checkZSet(db, key, model, i) })
	}
}

func (x *orderedTest) changeZSet(z *ZSet, model map[string]float64) {
	for range x.random.IntN(5) {
		member := x.value()
		was, existed, err := z.Score(member)
		must(x.t, err)
		if score, known := model[string(member)]; known != existed || score != was {
			x.t.Fatalf("%q has the score %v, %v; want %v, %v", member, was, existed, score, known)
		}
		if existed && x.random.IntN(2) == 0 {
			must(x.t, z.Remove(member, was))
			delete(model, string(member))
			continue
		}
		score := float64(x.random.IntN(7)) / 2
		must(x.t, z.Put(member, score, was, existed))
		model[string(member)] = score
	}
	if x.random.IntN(100) == 0 {
		for member, score := range model {
			must(x.t, z.Remove([]byte(member), score))
		}
		clear(model)
	}
}

func (x *orderedTest) checkZSet(db DB, key []byte, model map[string]float64, step int) {
	x.t.Helper()
	z, err := db.ZSet(key)
	must(x.t, err)
	sorted := sortScored(model)
	if z.Len() != len(sorted) || z.Exists() != (len(sorted) > 0) {
		x.t.Fatalf("step %d: %d members, want %d", step, z.Len(), len(sorted))
	}
	reverse := x.random.IntN(2) == 0
	if reverse {
		slices.Reverse(sorted)
	}
	from, n := x.random.IntN(len(sorted)+1), x.random.IntN(10)
	want := sorted[from:min(from+n, len(sorted))]
	x.sameScored(step, "ByRank", want, func(visit Visit) error { return z.ByRank(from, n, reverse, visit) })
	r := ScoreRange{Min: float64(x.random.IntN(4)), Max: float64(x.random.IntN(4)), MinExclusive: x.random.IntN(2) == 0, MaxExclusive: x.random.IntN(2) == 0}
	within := slices.DeleteFunc(slices.Clone(sorted), func(m scoredMember) bool { return r.below(m.score) || r.above(m.score) })
	x.sameScored(step, "ByScore", within, func(visit Visit) error { return z.ByScore(r, 0, reverse, visit) })
	for rank, m := range sorted {
		if got, err := z.Rank(m.member, m.score, reverse); err != nil || got != rank {
			x.t.Fatalf("step %d: the rank of %q is %d, %v; want %d", step, m.member, got, err, rank)
		}
	}
	all := collection{kind: layout.ZSet, rest: map[string]string{}}
	for member, score := range model {
		all.rest[member] = strconv.FormatFloat(score, 'f', -1, 64)
	}
	x.checkDumps(db, z.old, all)
}

func sortScored(model map[string]float64) []scoredMember {
	var sorted []scoredMember
	for member, score := range model {
		sorted = append(sorted, scoredMember{[]byte(member), score})
	}
	slices.SortFunc(sorted, func(a, b scoredMember) int {
		return cmp.Or(cmp.Compare(a.score, b.score), bytes.Compare(a.member, b.member))
	})
	return sorted
}

func (x *orderedTest) sameScored(step int, what string, want []scoredMember, walk func(Visit) error) {
	x.t.Helper()
	var got []scoredMember
	must(x.t, walk(func(member []byte, score float64) bool {
		got = append(got, scoredMember{bytes.Clone(member), score})
		return true
	}))
	if !slices.EqualFunc(got, want, func(a, b scoredMember) bool { return a.score == b.score && bytes.Equal(a.member, b.member) }) {
		x.t.Fatalf("step %d, %s: got %v, want %v", step, what, got, want)
	}
}

func TestAListWithoutAnElementIsCorrupt(t *testing.T) {
	o := testOptions(t.TempDir(), 1, 0)
	o.Limits.noBlocks = true
	x := newOrderedTest(t, o)
	for !x.step(func(db DB) {
		l, err := db.List([]byte("k"))
		must(t, err)
		for i := range 30 {
			must(t, l.Push(false, [][]byte{fmt.Append(nil, "element", i)}))
		}
		must(t, l.Save(keyevent.Changed))
		must(t, db.txn.Delete(db.space, layout.AppendSequenceKey(nil, l.next.ID, l.next.Head+5)))
	}) {
	}
	x.read(func(db DB) {
		l, err := db.List([]byte("k"))
		must(t, err)
		if err := l.Range(0, 30, false, func(int, []byte) bool { return true }); err == nil {
			t.Error("an element is missing and nobody says so")
		}
	})
}
