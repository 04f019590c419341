package storage

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
)

// rereading is a store with spread collections that are read again and again, and what they should
// hold. Each transaction has several commands, some of which are taken back; some transactions are
// never committed.
type rereading struct {
	t      *testing.T
	random *rand.Rand
	store  *Store
	txn    *Txn
	now    collections // as the transaction sees them
}

// collections are a hash, a set and a sorted set, of values and scores by element, and a list.
type collections struct {
	hash, set map[string]string
	scores    map[string]float64
	list      []string
}

func (c collections) clone() collections {
	return collections{maps.Clone(c.hash), maps.Clone(c.set), maps.Clone(c.scores), slices.Clone(c.list)}
}

// element is one of so many, which are long enough for the collection to be spread.
func (r *rereading) element() string {
	return fmt.Sprintf("element%02d", r.random.IntN(40)) + strings.Repeat("-", 64)
}

func (r *rereading) write() {
	r.txn.Begin(Mode{Writing: true}, 1, 0)
	element, value, remove := r.element(), fmt.Sprint(r.random.IntN(1000)), r.random.IntN(4) == 0
	switch r.random.IntN(4) {
	case 0:
		r.writeHash(element, value, remove)
	case 1:
		r.writeSet(element, remove)
	case 2:
		r.writeList(element + value)
	default:
		r.writeSorted(element, float64(r.random.IntN(100)), remove)
	}
	r.txn.Effect(0, []byte("EFFECT"))
}

func (r *rereading) writeHash(field, value string, remove bool) {
	h, err := r.txn.DB(0).Hash([]byte("hash"))
	must(r.t, err)
	if remove {
		_, err = h.Delete([]byte(field))
		delete(r.now.hash, field)
	} else {
		_, err = h.Set([]byte(field), []byte(value))
		r.now.hash[field] = value
	}
	must(r.t, err)
	must(r.t, h.Save(keyevent.Changed))
}

func (r *rereading) writeSet(member string, remove bool) {
	s, err := r.txn.DB(0).Set([]byte("set"))
	must(r.t, err)
	if remove {
		_, err = s.Remove([]byte(member))
		delete(r.now.set, member)
	} else {
		_, err = s.Add([]byte(member))
		r.now.set[member] = ""
	}
	must(r.t, err)
	must(r.t, s.Save(keyevent.Changed))
}

func (r *rereading) writeSorted(member string, score float64, remove bool) {
	z, err := r.txn.DB(0).ZSet([]byte("sorted"))
	must(r.t, err)
	was, existed := r.now.scores[member]
	switch {
	case !remove:
		err = z.Put([]byte(member), score, was, existed)
		r.now.scores[member] = score
	case existed:
		err = z.Remove([]byte(member), was)
		delete(r.now.scores, member)
	}
	must(r.t, err)
	must(r.t, z.Save(keyevent.Changed))
}

// writeList changes the list in one of many ways. Its length stays near 250, which is more than is
// read one by one.
func (r *rereading) writeList(value string) {
	l, err := r.txn.DB(0).List([]byte("list"))
	must(r.t, err)
	element := []byte(value)
	if len(r.now.list) < 250 {
		must(r.t, l.Push(false, slices.Repeat([][]byte{element}, 10)))
		r.now.list = append(r.now.list, slices.Repeat([]string{value}, 10)...)
	}
	index, end := r.random.IntN(len(r.now.list)), len(r.now.list)-1
	switch r.random.IntN(8) {
	case 0:
		must(r.t, l.Push(true, [][]byte{element}))
		r.now.list = slices.Insert(r.now.list, 0, value)
	case 1:
		must(r.t, l.Pop(true, 1, func([]byte) {}))
		r.now.list = slices.Delete(r.now.list, 0, 1)
	case 2:
		must(r.t, l.Pop(false, 1, func([]byte) {}))
		r.now.list = slices.Delete(r.now.list, end, end+1)
	case 3:
		must(r.t, l.Insert(index, element))
		r.now.list = slices.Insert(r.now.list, index, value)
	case 4:
		must(r.t, l.Remove(index, 1))
		r.now.list = slices.Delete(r.now.list, index, index+1)
	default:
		must(r.t, l.Set(index, element))
		r.now.list[index] = value
	}
	must(r.t, l.Save(keyevent.Changed))
}

func (r *rereading) readList() {
	r.t.Helper()
	l, err := r.txn.DB(0).List([]byte("list"))
	must(r.t, err)
	length := len(r.now.list)
	n := min([]int{1, 16, 100, 200, 1000}[r.random.IntN(5)], length)
	reverse, most := r.random.IntN(2) == 0, []int{1, 50, 150, 1000}[r.random.IntN(4)]
	from := []int{0, (length - n) / 2, length - n}[r.random.IntN(3)]
	var got, want []string
	must(r.t, l.Range(from, n, reverse, func(index int, value []byte) bool {
		got = append(got, fmt.Sprint(index, " ", string(value)))
		return len(got) < most
	}))
	for i, value := range r.now.list[from : from+n] {
		want = append(want, fmt.Sprint(from+i, " ", value))
	}
	if reverse {
		slices.Reverse(want)
	}
	if want = want[:min(most, len(want))]; !slices.Equal(got, want) {
		r.t.Fatalf("%d elements from %d on, reverse %v, at most %d: the list has\n%v, want\n%v", n, from, reverse, most, got, want)
	}
}

// read compares what one command finds.
func (r *rereading) read() {
	r.t.Helper()
	r.txn.Begin(Mode{}, 1, 0)
	switch r.random.IntN(9) {
	case 6, 7, 8:
		r.readList()
	case 5:
		r.readScores(float64(r.random.IntN(100)), float64(r.random.IntN(100)))
	case 0:
		r.readHash(false)
	case 1:
		r.readHash(true)
	case 2:
		r.readSet()
	default:
		r.readSorted(r.random.IntN(2) == 0, []int{1, 3, 10, 1000}[r.random.IntN(4)])
	}
}

func (r *rereading) readHash(fieldsOnly bool) {
	r.t.Helper()
	h, err := r.txn.DB(0).Hash([]byte("hash"))
	must(r.t, err)
	got := map[string]string{}
	must(r.t, h.All(fieldsOnly, func(field, value []byte) bool { got[string(field)] = string(value); return true }))
	want := maps.Clone(r.now.hash)
	for field := range want {
		if fieldsOnly {
			want[field], got[field] = "", ""
		}
	}
	if !maps.Equal(got, want) {
		r.t.Fatalf("fields only %v: the hash has %v, want %v", fieldsOnly, got, want)
	}
}

func (r *rereading) readSet() {
	r.t.Helper()
	s, err := r.txn.DB(0).Set([]byte("set"))
	must(r.t, err)
	got := map[string]string{}
	must(r.t, s.All(func(member []byte) bool { got[string(member)] = ""; return true }))
	if !maps.Equal(got, r.now.set) {
		r.t.Fatalf("the set has %v, want %v", got, r.now.set)
	}
}

func (r *rereading) readSorted(reverse bool, n int) {
	r.t.Helper()
	z, err := r.txn.DB(0).ZSet([]byte("sorted"))
	must(r.t, err)
	var got []string
	must(r.t, z.ByRank(0, n, reverse, func(member []byte, score float64) bool {
		got = append(got, fmt.Sprint(score, " ", string(member)))
		return true
	}))
	if want := r.byScore(reverse, n); !slices.Equal(got, want) {
		r.t.Fatalf("reverse %v, %d: the sorted set has %v, want %v", reverse, n, got, want)
	}
}

func (r *rereading) readScores(least, most float64) {
	r.t.Helper()
	z, err := r.txn.DB(0).ZSet([]byte("sorted"))
	must(r.t, err)
	var got, want []string
	must(r.t, z.ByScore(ScoreRange{Min: least, Max: most}, 0, false, func(member []byte, score float64) bool {
		got = append(got, fmt.Sprint(score, " ", string(member)))
		return true
	}))
	for _, member := range r.byScore(false, len(r.now.scores)) {
		score, _ := strconv.ParseFloat(strings.Fields(member)[0], 64)
		if score >= least && score <= most {
			want = append(want, member)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("%v to %v: the sorted set has %v, want %v", least, most, got, want)
	}
}

func (r *rereading) byScore(reverse bool, n int) []string {
	members := slices.SortedFunc(maps.Keys(r.now.scores), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.now.scores[a], r.now.scores[b]), cmp.Compare(a, b))
	})
	if reverse {
		slices.Reverse(members)
	}
	members = members[:min(n, len(members))]
	for i, member := range members {
		members[i] = fmt.Sprint(r.now.scores[member], " ", member)
	}
	return members
}

// transaction reads and writes, and leaves what was there if it isn't committed.
func (r *rereading) transaction() {
	r.t.Helper()
	committed := r.now.clone()
	for range 1 + r.random.IntN(8) {
		if r.random.IntN(5) > 0 {
			r.read()
			continue
		}
		before, savepoint := r.now.clone(), new(Savepoint)
		r.txn.Mark(savepoint)
		r.write()
		if r.random.IntN(4) == 0 {
			r.read()
			r.txn.Rollback(savepoint)
			r.now = before
		}
	}
	if r.random.IntN(5) == 0 {
		r.now = committed
	} else {
		must(r.t, r.store.Commit(r.txn))
	}
	r.txn.Reset()
}

// TestReadAgain reads the same collections again and again between writes to them.
func TestReadAgain(t *testing.T) {
	for _, c := range []struct {
		name       string
		generation int64
		target     int   // entries of a piece
		trees      int64 // bytes
	}{
		{"in memory", 8 << 20, 32, 8 << 20},
		{"in files", 64 << 10, 32, 8 << 20},
		{"pieces come and go", 8 << 20, 4, 16 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := testOptions(t.TempDir(), c.generation, 8<<20)
			options.TreeBytes = constant(c.trees)
			store := openStore(t, options)
			inside(store).OrderBy(c.target, 1)
			rereadAll(t, store, c.generation)
		})
	}
}

func rereadAll(t *testing.T, store *Store, generation int64) {
	r := &rereading{t: t, random: rand.New(rand.NewPCG(seed.Of(t), 0)), store: store, txn: store.NewTxn(),
		now: collections{map[string]string{}, map[string]string{}, map[string]float64{}, nil}}
	for range 3000 {
		r.transaction()
		if generation < 1<<20 && r.random.IntN(100) == 0 {
			must(t, store.Persist())
		}
	}
	if trees, _ := store.Trees(); trees == 0 {
		t.Error("no order is in memory")
	}
}

// TestTopOfLargeSet: scores far from the highest leave what was found of those as it is.
func TestTopOfLargeSet(t *testing.T) {
	store := openStore(t, testOptions(t.TempDir(), 1<<20, 8<<20))
	key := []byte("queue")
	queue(t, store, key, 1000)
	top := func() (found []string) {
		txn := store.NewTxn()
		txn.Begin(Mode{}, 1, 0)
		z, err := txn.DB(0).ZSet(key)
		must(t, err)
		must(t, z.ByRank(0, 3, true, func(member []byte, _ float64) bool { found = append(found, string(member)); return true }))
		txn.Reset()
		return found
	}
	put := func(member string, score float64) {
		txn := store.NewTxn()
		txn.Begin(Mode{Writing: true}, 1, 0)
		z, err := txn.DB(0).ZSet(key)
		must(t, err)
		must(t, z.Put([]byte(member), score, 0, false))
		must(t, z.Save(keyevent.Changed))
		txn.Effect(0, []byte("EFFECT"))
		must(t, store.Commit(txn))
	}
	for i := range 10 {
		put(fmt.Sprint("low", i), float64(i))
		if got := top(); got[0] != "member000999" {
			t.Fatalf("the top is %v", got)
		}
	}
	put("high", 5000)
	if got := top(); !slices.Equal(got, []string{"high", "member000999", "member000998"}) {
		t.Fatalf("the top is %v", got)
	}
}
