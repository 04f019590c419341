package ttl

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// keys is an index in memory, which removes too.
type keys struct {
	databases [][]Due
	space     uint32
	refuses   bool
	fail      error

	steps []int           // the keys of each step
	busy  map[string]bool // keys that somebody uses
	bad   map[string]bool // keys that can't be read
	after func()          // called at the end of each step
}

const stepKeys = 500

func compare(a, b Due) int {
	return cmp.Or(cmp.Compare(a.ExpireMs, b.ExpireMs), bytes.Compare(a.Key, b.Key))
}

func (k *keys) Databases() int { return len(k.databases) }
func (k *keys) Ready() bool    { return !k.refuses }
func (k *keys) Waiting(database int) (uint32, int64) {
	return k.space, int64(len(k.databases[database]))
}

func (k *keys) Due(database int, behind Due, now int64, limit int) ([]Due, error) {
	all := k.databases[database]
	slices.SortFunc(all, compare)
	from, exact := slices.BinarySearchFunc(all, behind, compare)
	if exact {
		from++
	}
	to := from
	for to < len(all) && all[to].ExpireMs <= now && to-from < limit {
		to++
	}
	return slices.Clone(all[from:to]), k.fail
}

func (k *keys) CountDue(database int, behind Due, now int64, limit int) (int, error) {
	due, err := k.Due(database, behind, now, limit)
	return len(due), err
}

func (k *keys) Remove(database int, due []Due) (Step, error) {
	step := Step{Seen: min(len(due), stepKeys)}
	gone := map[string]bool{}
	for _, d := range due[:step.Seen] {
		if k.bad[string(d.Key)] {
			return Step{}, errors.New("it can't be read")
		}
		if k.busy[string(d.Key)] {
			step.Busy = append(step.Busy, d)
		} else {
			gone[string(d.Key)] = true
		}
	}
	before := len(k.databases[database])
	k.databases[database] = slices.DeleteFunc(k.databases[database], func(d Due) bool { return gone[string(d.Key)] })
	step.Removed = before - len(k.databases[database])
	k.steps = append(k.steps, step.Seen)
	if k.after != nil {
		k.after()
	}
	return step, nil
}

func sweeper(k *keys, now *time.Time, failed *error) *Sweeper {
	return New(k, k, Options{
		Enabled:    func() bool { return true },
		Interval:   func() time.Duration { return time.Hour },
		Effort:     func() int { return 25 },
		Served:     func() int64 { return 0 },
		Backlogged: func() bool { return false },
		Now:        func() time.Time { return *now },
		Failed:     func(err error) { *failed = err },
	})
}

func TestRemovesWhatIsDueAndNothingElse(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: make([][]Due, 3)}
	for i := range 3000 {
		database := i % 2
		k.databases[database] = append(k.databases[database], Due{int64(i * 7), fmt.Append(nil, "key", i)})
	}
	var failed error
	s := sweeper(k, &now, &failed)
	s.Round(t.Context())
	for database, left := range k.databases {
		for _, d := range left {
			if d.ExpireMs <= now.UnixMilli() {
				t.Fatalf("database %d still holds %s, due at %d", database, d.Key, d.ExpireMs)
			}
		}
	}
	if left := len(k.databases[0]) + len(k.databases[1]); int64(3000-left) != s.Removed() || left == 0 {
		t.Fatalf("%d keys left, %d removed", left, s.Removed())
	}
	if s.Lag() != 0 || s.Waiting() != 0 {
		t.Fatalf("all is removed, and yet there is a lag of %d ms, and %d keys wait", s.Lag(), s.Waiting())
	}
}

func TestWhatWaitsIsTold(t *testing.T) {
	now := time.UnixMilli(10_000)
	const count = 2*readKeys + 10
	k := &keys{databases: make([][]Due, 1)}
	for i := range count {
		k.databases[0] = append(k.databases[0], Due{int64(1000 + i/1000), fmt.Appendf(nil, "%06d", i)})
	}
	var failed error
	s := sweeper(k, &now, &failed)
	k.after = func() {
		now = now.Add(time.Millisecond)
		left := k.databases[0]
		if int64(len(left)) != s.Waiting()-int64(k.steps[len(k.steps)-1]) { // the sweeper doesn't know of this step yet
			t.Fatalf("%d wait, %d are told", len(left), s.Waiting())
		}
		if len(left) > 0 && s.Lag() < now.UnixMilli()-left[0].ExpireMs {
			t.Fatalf("a lag of %d ms, the oldest key is due since %d", s.Lag(), left[0].ExpireMs)
		}
	}
	s.Round(t.Context())
	if s.Removed() != count || s.Waiting() != 0 || s.Lag() != 0 {
		t.Fatalf("%d removed, %d wait, a lag of %d ms", s.Removed(), s.Waiting(), s.Lag())
	}
}

// Those that somebody uses hold up nobody, neither the others nor the end of the round.
func TestBusyKeysComeAgain(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: make([][]Due, 1), busy: map[string]bool{"000003": true, "000700": true}}
	for i := range 1000 {
		k.databases[0] = append(k.databases[0], Due{int64(1000 + i), fmt.Appendf(nil, "%06d", i)})
	}
	var failed error
	s := sweeper(k, &now, &failed)
	s.Round(t.Context())
	if len(k.databases[0]) != 2 || s.Waiting() != 2 || s.Lag() != now.UnixMilli()-1003 {
		t.Fatalf("left %v, %d wait, a lag of %d ms", k.databases[0], s.Waiting(), s.Lag())
	}
	delete(k.busy, "000003")
	s.Round(t.Context())
	if len(k.databases[0]) != 1 || s.Lag() != now.UnixMilli()-1700 {
		t.Fatalf("left %v, a lag of %d ms", k.databases[0], s.Lag())
	}
	delete(k.busy, "000700")
	s.Round(t.Context())
	if len(k.databases[0]) != 0 || s.Waiting() != 0 {
		t.Fatalf("left %v", k.databases[0])
	}
}

// A round rests after a step only when others were served during it.
func TestRestsWhileOthersAreServed(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: make([][]Due, 1)}
	for i := range 10 * stepKeys {
		k.databases[0] = append(k.databases[0], Due{int64(1000 + i), fmt.Appendf(nil, "%06d", i)})
	}
	var failed error
	served := int64(0)
	s := sweeper(k, &now, &failed)
	s.options.Served = func() int64 { return served }
	k.after = func() {
		now = now.Add(time.Hour) // of which a rest would be as long as may be
		if len(k.steps) > 7 {
			served++
		}
	}
	start := time.Now()
	s.Round(t.Context())
	if rested := time.Since(start); len(k.databases[0]) != 0 || rested < 3*longestRest {
		t.Fatalf("left %d keys, rested for %v", len(k.databases[0]), rested)
	}
}

func TestAnotherDatabaseDoesNotWaitForAllOfTheFirst(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: make([][]Due, 2)}
	for i := range 3 * readKeys {
		k.databases[0] = append(k.databases[0], Due{int64(1000 + i/100), fmt.Appendf(nil, "%06d", i)})
	}
	k.databases[1] = []Due{{1, []byte("only")}}
	var failed error
	s := sweeper(k, &now, &failed)
	met := 0
	k.after = func() {
		if len(k.databases[1]) == 0 && met == 0 {
			met = len(k.databases[0])
		}
	}
	s.Round(t.Context())
	if met < readKeys {
		t.Fatalf("the second database had its turn when %d keys of the first were left", met)
	}
}

func TestStartsOverNowAndThen(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: [][]Due{{{9000, []byte("a")}, {20_000, []byte("z")}}}}
	var failed error
	s := sweeper(k, &now, &failed)
	s.Round(t.Context())
	k.databases[0] = append(k.databases[0], Due{5000, []byte("behind")})
	now = now.Add(time.Second)
	s.Round(t.Context())
	if len(k.databases[0]) != 2 {
		t.Fatal("the walk did not go on from where it stopped")
	}
	now = now.Add(startOver)
	s.Round(t.Context())
	if len(k.databases[0]) != 0 {
		t.Fatalf("left: %v", k.databases[0])
	}
}

// What comes from elsewhere (a SWAPDB, a snapshot, the time as a replica) is as old as it wants.
func TestStartsOverInAnotherSpace(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: [][]Due{{{9000, []byte("a")}, {20_000, []byte("z")}}}}
	var failed error
	s := sweeper(k, &now, &failed)
	s.Round(t.Context())
	k.databases[0], k.space = []Due{{5000, []byte("other")}, {20_000, []byte("z")}}, 1
	s.Round(t.Context())
	if len(k.databases[0]) != 1 {
		t.Fatalf("left: %v", k.databases[0])
	}
}

func TestStartsOverWhenKeysMayBeRemovedAgain(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: [][]Due{{{9000, []byte("a")}, {20_000, []byte("z")}}}}
	var failed error
	s := sweeper(k, &now, &failed)
	s.Round(t.Context())
	k.databases[0] = append(k.databases[0], Due{5000, []byte("behind")})
	k.refuses = true
	s.Round(t.Context())
	if len(k.databases[0]) != 2 {
		t.Fatal("keys were removed that may not be")
	}
	k.refuses = false
	s.Round(t.Context())
	if len(k.databases[0]) != 1 {
		t.Fatalf("left: %v", k.databases[0])
	}
}

func TestAFailureIsTold(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: [][]Due{{{1, []byte("a")}}}, fail: errors.New("disk")}
	var failed error
	s := sweeper(k, &now, &failed)
	s.Round(t.Context())
	if failed == nil || s.Removed() != 0 {
		t.Fatalf("failure %v, %d removed", failed, s.Removed())
	}
}

// piecemeal removes a part of each thing that is due.
type piecemeal struct {
	*keys
	parts map[string]int
}

func (p *piecemeal) Remove(database int, due []Due) (Step, error) {
	first := due[0]
	if p.parts[string(first.Key)]--; p.parts[string(first.Key)] > 0 {
		return Step{Seen: 1, Removed: 1, Again: []Due{first}}, nil
	}
	return p.keys.Remove(database, due[:1])
}

// TestWhatIsLeftComesAgain: what a step has removed a part of comes first in the next one, within
// the same round.
func TestWhatIsLeftComesAgain(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: [][]Due{{{1, []byte("a")}, {2, []byte("b")}}}}
	p := &piecemeal{k, map[string]int{"a": 5, "b": 3}}
	var failed error
	s := sweeper(k, &now, &failed)
	s.remover = p
	s.Round(t.Context())
	if len(k.databases[0]) > 0 || s.Removed() != 8 {
		t.Errorf("%d are left, %d were removed", len(k.databases[0]), s.Removed())
	}
}

// TestUnreadableKeys: keys that can't be read keep no others from being removed, and their turn
// comes again.
func TestUnreadableKeys(t *testing.T) {
	now := time.UnixMilli(10_000)
	k := &keys{databases: make([][]Due, 1), bad: map[string]bool{}}
	for i := range 3 * stepKeys {
		k.databases[0] = append(k.databases[0], Due{int64(i), fmt.Append(nil, i)})
	}
	for _, i := range []int{0, 1, stepKeys - 1, 2 * stepKeys, 3*stepKeys - 1} {
		k.bad[fmt.Sprint(i)] = true
	}
	var failed error
	s := sweeper(k, &now, &failed)
	for range len(k.bad) + 1 {
		s.Round(t.Context())
	}
	if failed == nil || len(k.databases[0]) != len(k.bad) {
		t.Errorf("failure %v, %d keys are left, of which %d can't be read", failed, len(k.databases[0]), len(k.bad))
	}
	k.bad, now = nil, now.Add(2*startOver)
	if s.Round(t.Context()); len(k.databases[0]) != 0 {
		t.Errorf("%d keys are left that can be read again", len(k.databases[0]))
	}
}
