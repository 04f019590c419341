package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

const countedMembers = 1000

// rankAtMost is the rank of a member; counting more than a few others is an error.
func rankAtMost(s *Store, member []byte, score float64) (int, error) {
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	txn.CountAtMost(50)
	z, err := txn.DB(0).ZSet([]byte("board"))
	if err != nil {
		return 0, err
	}
	return z.Rank(member, score, false)
}

// countAll asks for a rank until all members before it are counted.
func countAll(t *testing.T, s *Store, member []byte, score float64) (rounds int) {
	t.Helper()
	for {
		rank, err := rankAtMost(s, member, score)
		if rounds++; err == nil {
			if rank != int(score) {
				t.Fatalf("%s has rank %d", member, rank)
			}
			return rounds
		}
		if rounds > countedMembers {
			t.Fatal(err)
		}
	}
}

func commitMembers(t *testing.T, s *Store, put func(db DB)) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	put(txn.DB(0))
	txn.Effect(0, []byte("EFFECT"))
	must(t, s.Commit(txn))
}

// What was counted holds after the next start, for what a checkpoint has of the same state, and not
// for what was written since.
func TestCountsAreKept(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	s, log := reopen(t, o, &testLog{})
	inside(s).OrderBy(3, 8)
	commitMembers(t, s, func(db DB) { putMany(t, db, "board", countedMembers) })
	member := fmt.Appendf(nil, "m%06d", countedMembers/2)
	if rounds := countAll(t, s, member, countedMembers/2); rounds < 4 {
		t.Fatalf("all was counted in %d rounds", rounds)
	}
	must(t, s.Close())

	s, _ = reopen(t, o, log)
	if rank, err := rankAtMost(s, member, countedMembers/2); rank != countedMembers/2 || err != nil {
		t.Fatalf("after a start: rank %d, %v", rank, err)
	}
	same, other := filepath.Join(t.TempDir(), "same"), filepath.Join(t.TempDir(), "other")
	must(t, s.Checkpoint(same))
	commitMembers(t, s, func(db DB) {
		z, err := db.ZSet([]byte("board"))
		must(t, err)
		must(t, z.Put([]byte("first"), -1, 0, false))
		must(t, z.Save(keyevent.Changed))
	})
	if rank, err := rankAtMost(s, member, countedMembers/2); rank != countedMembers/2+1 || err != nil {
		t.Fatalf("after a write: rank %d, %v", rank, err)
	}
	must(t, s.Checkpoint(other))
	must(t, s.Close())
	for directory, trees := range map[string]int{same: 1, other: 0} {
		o := testOptions(directory, 1<<20, 1<<20)
		s, err := Open(o)
		must(t, err)
		if n, _ := s.Trees(); n != trees {
			t.Errorf("%s: %d trees, want %d", filepath.Base(directory), n, trees)
		}
		must(t, s.Close())
	}
}

// A store whose counts can't be written is closed all the same, and has what was committed.
func TestCountsThatCannotBeKept(t *testing.T) {
	directory := t.TempDir()
	o := testOptions(directory, 1<<20, 1<<20)
	o.TablesFrom = constant[int64](1 << 40)
	var said strings.Builder
	o.Logger = hclog.New(&hclog.LoggerOptions{Output: &said})
	s, log := reopen(t, o, &testLog{})
	inside(s).OrderBy(3, 8)
	commitMembers(t, s, func(db DB) { putMany(t, db, "board", countedMembers) })
	member := fmt.Appendf(nil, "m%06d", countedMembers-1)
	countAll(t, s, member, countedMembers-1)
	tables := filepath.Join(directory, "tables") // where the record would be written
	must(t, os.Remove(tables))
	must(t, os.WriteFile(tables, nil, 0o600))
	must(t, s.Close())
	if !strings.Contains(said.String(), "can't be kept") {
		t.Errorf("the log says\n%s", said.String())
	}
	s, _ = reopen(t, o, log)
	if trees, _ := s.Trees(); trees > 0 {
		t.Errorf("%d trees", trees)
	}
	countAll(t, s, member, countedMembers-1)
	must(t, s.Close())
}

// A record that ends early, or has other bytes behind the state that it holds for, makes no tree,
// and no start fails.
func TestDamagedCounts(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	s, log := reopen(t, o, &testLog{})
	inside(s).OrderBy(3, 8)
	commitMembers(t, s, func(db DB) { putMany(t, db, "board", countedMembers) })
	member := fmt.Appendf(nil, "m%06d", countedMembers-1)
	countAll(t, s, member, countedMembers-1)
	must(t, s.Close())
	s, _ = reopen(t, o, log)
	whole, found, err := s.Rocks().Get(s.Rocks().Family("default"), nil, layout.CountsKey, nil)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	for length := range len(whole) {
		if length > 200 && length < len(whole)-50 {
			continue
		}
		inside(s).ForgetOrder() // so that nothing is kept
		batch := new(rocks.Batch)
		batch.Put(s.Rocks().Family("default"), layout.CountsKey, whole[:length])
		must(t, s.Rocks().Write(batch))
		must(t, s.Reopen())
		if trees, bytes := s.Trees(); trees > 0 || bytes != 0 {
			t.Fatalf("%d trees of %d bytes come of %d bytes", trees, bytes, length)
		}
	}
	must(t, s.Close())
}
