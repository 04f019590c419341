package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
)

// countSmall makes even small sets have counts, of few members each.
func countSmall(s *Store) { inside(s).OrderBy(3, 8) }

// noErrors fails the test when the store says that something is wrong: wrong counts are noticed,
// and made anew.
type noErrors struct{ t *testing.T }

func (n noErrors) Write(line []byte) (int, error) {
	n.t.Errorf("the store says: %s", line)
	return len(line), nil
}

func (n noErrors) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: n, Level: hclog.Error})
}

// ranksTest does the same to a sorted set and to a map, with commands taken back, commits that fail
// and counts that are displaced, and looks for ranks in between, within transactions and after
// them.
type ranksTest struct {
	*orderedTest
	key    []byte
	limit  atomic.Int64
	counts int // ranks that were found by counts
}

func TestRanksAgainstModel(t *testing.T) { inAllTiers(t, ranksAgainstModel) }

func ranksAgainstModel(t *testing.T, o Options) {
	x := &ranksTest{key: []byte("board")}
	x.limit.Store(1 << 20)
	o.TreeBytes, o.Logger = x.limit.Load, noErrors{t}.logger()
	x.orderedTest = newOrderedTest(t, o)
	countSmall(x.store)
	model := map[string]float64{}
	for range 250 {
		x.limit.Store([]int64{1 << 20, 1 << 20, 3000}[x.random.IntN(3)])
		model = transact(x.orderedTest, model, x.command, x.check)
		x.read(func(db DB) { x.check(db, model) })
		switch x.random.IntN(80) {
		case 0:
			must(t, x.store.Reopen())
		case 1:
			must(t, x.store.Close())
			x.store, x.log = reopen(t, x.o, x.log)
			countSmall(x.store)
		}
	}
	if x.counts < 200 {
		t.Errorf("counts were used only %d times", x.counts)
	}
}

// command changes the set, or takes its place.
func (x *ranksTest) command(db DB, model map[string]float64) {
	if x.random.IntN(40) == 0 {
		_, err := db.Delete(x.key)
		must(x.t, err)
		clear(model)
		return
	}
	z, err := db.ZSet(x.key)
	must(x.t, err)
	for range x.random.IntN(40) {
		member := fmt.Sprint("m", x.random.IntN(300))
		was, existed, err := z.Score([]byte(member))
		must(x.t, err)
		if existed && x.random.IntN(2) == 0 {
			must(x.t, z.Remove([]byte(member), was))
			delete(model, member)
			continue
		}
		score := float64(x.random.IntN(60) - 30)
		must(x.t, z.Put([]byte(member), score, was, existed))
		model[member] = score
	}
	must(x.t, z.Save(keyevent.Changed))
}

func (x *ranksTest) check(db DB, model map[string]float64) {
	x.t.Helper()
	z, err := db.ZSet(x.key)
	must(x.t, err)
	sorted := sortScored(model)
	if z.Len() != len(sorted) {
		x.t.Fatalf("%d members, want %d", z.Len(), len(sorted))
	}
	for range 4 {
		x.checkRanks(&z, sorted)
	}
	for _, tree := range insideTxn(db.txn).Trees() {
		if tree.ID().ID != z.next.ID {
			continue
		}
		x.counts++
		if known, vague := tree.Sums(); known > len(sorted) || vague == 0 && known != len(sorted) {
			x.t.Fatalf("%d members are counted, want %d", known, len(sorted))
		}
	}
}

// checkRanks asks a random question of each kind.
func (x *ranksTest) checkRanks(z *ZSet, sorted []scoredMember) {
	x.t.Helper()
	if len(sorted) == 0 {
		return
	}
	reverse := x.random.IntN(2) == 0
	if sorted = slices.Clone(sorted); reverse {
		slices.Reverse(sorted)
	}
	i := x.random.IntN(len(sorted))
	if rank, err := z.Rank(sorted[i].member, sorted[i].score, reverse); err != nil || rank != i {
		x.t.Fatalf("the rank of %q, reverse %v, is %d, %v; want %d of %d", sorted[i].member, reverse, rank, err, i, len(sorted))
	}
	n := x.random.IntN(12)
	x.sameScored(i, "ByRank", sorted[i:min(i+n, len(sorted))], func(visit Visit) error { return z.ByRank(i, n, reverse, visit) })
	r := ScoreRange{Min: float64(x.random.IntN(70) - 35), Max: float64(x.random.IntN(70) - 35), MinExclusive: x.random.IntN(2) == 0, MaxExclusive: x.random.IntN(2) == 0}
	if x.random.IntN(4) == 0 {
		r.Min, r.Max = math.Inf(-1), math.Inf(1)
	}
	within := slices.DeleteFunc(slices.Clone(sorted), func(m scoredMember) bool { return r.below(m.score) || r.above(m.score) })
	if count, err := z.CountByScore(r); err != nil || !r.Empty() && count != len(within) {
		x.t.Fatalf("%d members in %+v, %v; want %d", count, r, err, len(within))
	}
	if !r.Empty() {
		first := x.random.IntN(len(within) + 1)
		x.sameScored(i, "ByScore", within[first:], func(visit Visit) error { return z.ByScore(r, first, reverse, visit) })
	}
}

// A set of equal scores is asked by name.
func TestRanksByName(t *testing.T) {
	x := newOrderedTest(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	countSmall(x.store)
	var names [][]byte
	for !x.step(func(db DB) {
		z, err := db.ZSet([]byte("names"))
		must(t, err)
		names = nil
		for i := range 500 {
			names = append(names, fmt.Appendf(nil, "%03d%s", i, strings.Repeat("x", x.random.IntN(400))))
			must(t, z.Put(names[i], 0, 0, false))
		}
		must(t, z.Save(keyevent.Changed))
	}) {
	}
	for range 300 {
		from, to := x.random.IntN(500), x.random.IntN(500)
		r := LexRange{Min: LexBound{Value: names[from]}, Max: LexBound{Value: names[to], Exclusive: true}}
		if from == 0 {
			r.Min = LexBound{Infinite: -1}
		}
		want := names[from:max(from, to)]
		x.read(func(db DB) {
			z, err := db.ZSet([]byte("names"))
			must(t, err)
			if n, err := z.CountByLex(r); err != nil || n != len(want) {
				t.Fatalf("%d members from %d to %d, %v", n, from, to, err)
			}
			first, reverse := x.random.IntN(len(want)+1), x.random.IntN(2) == 0
			want = slices.Clone(want)
			if reverse {
				slices.Reverse(want)
			}
			var got [][]byte
			must(t, z.ByLex(r, first, reverse, func(m []byte, _ float64) bool { got = append(got, bytes.Clone(m)); return true }))
			x.same("ByLex", got, want[first:])
		})
	}
}

// What is counted in one go is limited, and is kept.
func TestCountAtMost(t *testing.T) {
	x := newOrderedTest(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	countSmall(x.store)
	for !x.step(func(db DB) { putMany(t, db, "board", 1000) }) {
	}
	for _, limit := range []func(txn *Txn){
		func(txn *Txn) { txn.Begin(Mode{}, 1, 300) },
		func(txn *Txn) { txn.Begin(Mode{}, 1, 0); txn.CountAtMost(100) },
	} {
		rounds := 0
		for err := error(ErrBudget); err != nil; rounds++ {
			txn := x.store.NewTxn()
			limit(txn)
			var z ZSet
			z, err = txn.DB(0).ZSet([]byte("board"))
			must(t, err)
			var rank int
			if rank, err = z.Rank([]byte("m000500"), 500, false); err == nil && rank != 500 {
				t.Fatalf("rank %d", rank)
			}
			if err != nil && !errors.Is(err, ErrBudget) && !errors.Is(err, ErrCounting) {
				t.Fatal(err)
			}
		}
		if rounds < 2 || rounds > 12 {
			t.Errorf("500 members were counted in %d rounds", rounds)
		}
		inside(x.store).ForgetOrder()
	}
}

func putMany(t *testing.T, db DB, key string, members int) {
	z, err := db.ZSet([]byte(key))
	must(t, err)
	for i := range members {
		must(t, z.Put(fmt.Appendf(nil, "m%06d", i), float64(i), 0, false))
	}
	must(t, z.Save(keyevent.Changed))
}

// Many sets stay within the limit, and one that is over it alone is counted in larger pieces.
func TestRankMemory(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	o.TreeBytes = constant[int64](8000)
	x := newOrderedTest(t, o)
	countSmall(x.store)
	x.random = rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		key := fmt.Sprint("board", i)
		members := 100 + i*100
		for !x.step(func(db DB) { putMany(t, db, key, members) }) {
		}
		x.read(func(db DB) {
			z, err := db.ZSet([]byte(key))
			must(t, err)
			place := members - 1
			if rank, err := z.Rank(fmt.Appendf(nil, "m%06d", place), float64(place), false); err != nil || rank != place {
				t.Fatalf("rank %d, %v, want %d", rank, err, place)
			}
		})
		sets, bytes := x.store.Trees()
		if bytes > 2*8000 || sets == 0 {
			t.Fatalf("%d sets have counts of %d bytes", sets, bytes)
		}
	}
}

// Writers of a set change it while others, under its lock or from a view, look for ranks; what they
// find is what a walk finds.
func TestRanksOfManyGoroutines(t *testing.T) {
	o := testOptions(t.TempDir(), 200<<10, 1<<20)
	o.Logger = noErrors{t}.logger()
	s, _ := reopen(t, o, &testLog{})
	defer func() { must(t, s.Close()) }()
	countSmall(s)
	var key sync.RWMutex
	var running sync.WaitGroup
	end := time.Now().Add(stressTime(t))
	for i := range 2 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for time.Now().Before(end) {
				writeRanked(t, s, random, &key)
			}
		})
	}
	for i := range 4 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 2))
			for time.Now().Before(end) {
				readRanked(t, s, random, &key)
			}
		})
	}
	running.Wait()
}

func writeRanked(t *testing.T, s *Store, random *rand.Rand, key *sync.RWMutex) {
	key.Lock()
	defer key.Unlock() // also when the test fails here
	txn := s.NewTxn()
	defer txn.Reset()
	savepoint := begin(txn, Mode{Writing: true}, 1, 0)
	z, err := txn.DB(0).ZSet([]byte("board"))
	must(t, err)
	for range 20 {
		member := fmt.Append(nil, random.IntN(1000))
		was, existed, err := z.Score(member)
		must(t, err)
		if existed && random.IntN(3) == 0 {
			must(t, z.Remove(member, was))
		} else {
			must(t, z.Put(member, float64(random.IntN(500)), was, existed))
		}
	}
	must(t, z.Save(keyevent.Changed))
	compareRanks(t, &z, random)
	txn.Effect(0, []byte("EFFECT"))
	switch random.IntN(4) {
	case 0:
	case 1:
		txn.Rollback(savepoint)
		fallthrough
	default:
		must(t, s.Commit(txn))
	}
}

// readRanked looks under the lock, and then from a view that was made under it.
func readRanked(t *testing.T, s *Store, random *rand.Rand, key *sync.RWMutex) {
	txn := s.NewTxn()
	defer txn.Reset()
	key.RLock()
	txn.Begin(Mode{}, 1, 0)
	z, err := txn.DB(0).ZSet([]byte("board"))
	if err == nil && z.Exists() {
		compareRanks(t, &z, random)
	}
	view := s.View()
	defer view.Release()
	txn.ReadFrom(view)
	key.RUnlock()
	if z, err = txn.DB(0).ZSet([]byte("board")); err == nil && z.Exists() {
		for range 3 {
			compareRanks(t, &z, random)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// compareRanks compares what is found by counts with what a walk finds.
func compareRanks(t *testing.T, z *ZSet, random *rand.Rand) {
	if z.Len() == 0 || z.packed() {
		return
	}
	place := random.IntN(z.Len())
	var member []byte
	var score float64
	n := 0
	err := z.scan(false, func(m []byte, s float64) bool {
		if n == place {
			member, score = bytes.Clone(m), s
		}
		n++
		return true
	})
	if err != nil || n != z.Len() {
		t.Errorf("a walk finds %d members of %d, %v", n, z.Len(), err)
		return
	}
	reverse, want := random.IntN(2) == 0, place
	if reverse {
		want = n - 1 - place
	}
	if rank, err := z.Rank(member, score, reverse); err != nil || rank != want {
		t.Errorf("rank %d, %v; want %d of %d", rank, err, want, n)
	}
	err = z.ByRank(place, 1, false, func(m []byte, _ float64) bool {
		if !bytes.Equal(m, member) {
			t.Errorf("%q has rank %d, want %q", m, place, member)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRanksWhileOthersLearn asks for members by their ranks while another one, who holds the key's
// lock shared as well, learns what stands before some of them.
func TestRanksWhileOthersLearn(t *testing.T) {
	const members = 1000
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	o.Logger = noErrors{t}.logger()
	x := newOrderedTest(t, o)
	countSmall(x.store)
	for !x.step(func(db DB) { putMany(t, db, "board", members) }) {
	}
	read := func(question func(z *ZSet) error) {
		txn := x.store.NewTxn()
		defer txn.Reset()
		txn.Begin(Mode{}, 1, 0)
		z, err := txn.DB(0).ZSet([]byte("board"))
		if err == nil {
			err = question(&z)
		}
		if err != nil {
			t.Error(err)
		}
	}
	learn := func(from, to float64) {
		read(func(z *ZSet) error {
			return z.ByScore(ScoreRange{Min: from, Max: to}, 0, false, func([]byte, float64) bool { return true })
		})
	}
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end) && !t.Failed(); {
		inside(x.store).ForgetOrder()
		learn(members/2, members/2+20)
		learn(members*3/4, members)
		var running sync.WaitGroup
		var done atomic.Bool
		running.Go(func() {
			learn(0, members/2)
			done.Store(true)
		})
		for range 2 {
			rank, reverse := x.random.IntN(members), x.random.IntN(2) == 0
			running.Go(func() {
				for !done.Load() {
					read(func(z *ZSet) error { return atRank(t, z, rank, reverse) })
				}
			})
		}
		running.Wait()
	}
}

// atRank looks for a member whose score is its rank from the beginning.
func atRank(t *testing.T, z *ZSet, rank int, reverse bool) error {
	want := float64(z.fromStart(rank, reverse))
	return z.ByRank(rank, 1, reverse, func(member []byte, score float64) bool {
		if score != want {
			t.Errorf("%q has rank %d, reverse %v; want the score %v", member, rank, reverse, want)
		}
		return true
	})
}

// A record that is missing is an error, and isn't counted again and again.
func TestRanksOfACorruptSet(t *testing.T) {
	x := newOrderedTest(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	countSmall(x.store)
	for !x.step(func(db DB) {
		putMany(t, db, "board", 100)
		z, err := db.ZSet([]byte("board"))
		must(t, err)
		for i := range 90 {
			must(t, db.txn.Delete(db.space, layout.AppendScoreKey(nil, z.next.ID, float64(i), fmt.Appendf(nil, "m%06d", i))))
		}
	}) {
	}
	x.read(func(db DB) {
		z, err := db.ZSet([]byte("board"))
		must(t, err)
		if _, err := z.Rank([]byte("m000099"), 99, false); !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
	})
	if sets, _ := x.store.Trees(); sets != 0 {
		t.Error("wrong counts were kept")
	}
}

// TestOrderIsLentMemory gives the order of collections what copies of records leave, and takes it
// back.
func TestOrderIsLentMemory(t *testing.T) {
	const share, most = 32 << 10, 1 << 20
	o := testOptions(t.TempDir(), 1<<20, most)
	o.TreeBytes, o.MostTreeBytes = constant[int64](share), constant[int64](most)
	s := openStore(t, o)
	key := []byte("queue")
	queue(t, s, key, 5000)
	must(t, inside(s).BuildFilters())
	read := func() int64 {
		txn := s.NewTxn()
		defer txn.Reset()
		txn.Begin(Mode{}, 1, 0)
		z, err := txn.DB(0).ZSet(key)
		must(t, err)
		must(t, z.ByRank(0, 5000, false, func([]byte, float64) bool { return true }))
		_, bytes := s.Trees()
		return bytes
	}
	if bytes := read(); bytes < 2*share {
		t.Errorf("with room it takes %d bytes", bytes)
	}
	s.SetCacheBytes(share)
	if bytes := read(); bytes > 2*share {
		t.Errorf("without it takes %d bytes", bytes)
	}
}
