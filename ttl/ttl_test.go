package ttl

import (
	"bytes"
	"cmp"
	"context"
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
	limits    []int
	fail      error
}

func compare(a, b Due) int {
	return cmp.Or(cmp.Compare(a.ExpireMs, b.ExpireMs), bytes.Compare(a.Key, b.Key))
}

func (k *keys) Databases() int { return len(k.databases) }
func (k *keys) Ready() bool    { return !k.refuses }
func (k *keys) Waiting(database int) (uint32, int64) {
	return k.space, int64(len(k.databases[database]))
}

func (k *keys) Due(database int, behind Due, now int64, limit int) ([]Due, error) {
	k.limits = append(k.limits, limit)
	var found []Due
	slices.SortFunc(k.databases[database], compare)
	for _, d := range k.databases[database] {
		if compare(d, behind) > 0 && d.ExpireMs <= now && len(found) < limit {
			found = append(found, d)
		}
	}
	return found, k.fail
}

func (k *keys) Remove(_ context.Context, database int, due []Due) (int, error) {
	before := len(k.databases[database])
	k.databases[database] = slices.DeleteFunc(k.databases[database], func(d Due) bool {
		return slices.ContainsFunc(due, func(other Due) bool { return compare(d, other) == 0 })
	})
	return before - len(k.databases[database]), nil
}

func sweeper(k *keys, now *time.Time, failed *error) *Sweeper {
	return New(k, k, Options{Enabled: func() bool { return true }, Interval: func() time.Duration { return time.Hour },
		Effort: func() int { return 25 }, Now: func() time.Time { return *now }, Failed: func(err error) { *failed = err }})
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
	if s.Lag() != now.UnixMilli() {
		t.Fatalf("a lag of %d ms, the oldest key was due at 0", s.Lag())
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
	if failed == nil || s.Late() != 1 {
		t.Fatalf("failure %v, late rounds %d", failed, s.Late())
	}
}
