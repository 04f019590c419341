package generation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

const groupPrefix = 4

// byBeginning groups keys of five bytes and more by their first four. Few hashes differ, so that
// groups collide.
func byBeginning(_ uint32, key []byte) (hash uint64, prefix int) {
	if len(key) <= groupPrefix {
		return 0, 0
	}
	return uint64(key[3]%8) << 40, groupPrefix
}

// members lists what a generation has of a group.
func members(g *Generation, space uint32, prefix string) (found []string) {
	hash, _ := byBeginning(space, []byte(prefix+"?"))
	group := g.Group(hash, space, []byte(prefix))
	for {
		record, ok := group.Next()
		if !ok {
			return found
		}
		value, state := record.Value()
		found = append(found, fmt.Sprintf("%s=%s,%d", record.Key(), value, state))
	}
}

func TestGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	g := New(NewMemory(), Hash, byBeginning, 4096, 0, nil)
	type group struct {
		space  uint32
		prefix string
	}
	want := map[group][]string{}
	for i := range 5000 {
		of := group{1 + random.Uint32N(2), fmt.Sprintf("g%03d", random.IntN(100))}
		key, value := fmt.Appendf(nil, "%s%d", of.prefix, random.IntN(10)), fmt.Appendf(nil, "value%d", i)
		state := Present
		if random.IntN(4) == 0 {
			value, state = nil, Deleted
			g.Delete(Hash(of.space, key), of.space, key)
		} else {
			g.Put(Hash(of.space, key), of.space, key, value)
		}
		want[of] = append(want[of], fmt.Sprintf("%s=%s,%d", key, value, state))
		if i%3 == 0 { // one that has no group, though it looks like the beginning of one
			key := []byte(of.prefix)
			g.Put(Hash(of.space, key), of.space, key, []byte("alone"))
		}
	}
	for of, written := range want {
		slices.Reverse(written)
		if got := members(g, of.space, of.prefix); !slices.Equal(got, written) {
			t.Fatalf("%v has %v, want %v", of, got, written)
		}
	}
	if got := members(g, 3, "g001"); got != nil {
		t.Errorf("another space has %v", got)
	}
	checkGroupedRecords(t, g)
}

// checkGroupedRecords finds grouped records and others in all other ways.
func checkGroupedRecords(t *testing.T, g *Generation) {
	t.Helper()
	g.Merge(nil)
	for record := range g.Records() {
		value, state := record.Value()
		got, known := g.Get(End, Hash(record.Space(), record.Key()), record.Space(), record.Key())
		if known != state || string(got) != string(value) {
			t.Fatalf("%s: %q (%d), in order it is %q (%d)", record.Key(), got, known, value, state)
		}
	}
}

// TestGroupsWhileWritten reads a group that grows.
func TestGroupsWhileWritten(t *testing.T) {
	g := New(NewMemory(), Hash, byBeginning, 4096, 0, nil)
	var written atomic.Int64
	var readers sync.WaitGroup
	const records = 2000
	for range 3 {
		readers.Go(func() {
			for last := 0; last < records; {
				least := int(written.Load())
				if last = len(members(g, 1, "same")); last < least {
					t.Errorf("%d records are found where %d were written", last, least)
					return
				}
			}
		})
	}
	for i := range records {
		key := fmt.Appendf(nil, "same%d", i)
		g.Put(Hash(1, key), 1, key, key)
		other := fmt.Appendf(nil, "g%03d.", i%1000)
		g.Put(Hash(1, other), 1, other, key)
		written.Store(int64(i + 1))
	}
	readers.Wait()
}
