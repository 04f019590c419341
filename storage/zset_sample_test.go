package storage

import (
	"errors"
	"fmt"
	"testing"

	"kedis/storage/layout"
)

// TestSamplesOfSortedSets takes members of packed and spread sets, few of many and nearly all, with
// their scores.
func TestSamplesOfSortedSets(t *testing.T) {
	for _, size := range []int{1, 50, 3000} {
		z, err := writingTxn(t).DB(0).ZSet([]byte("z"))
		must(t, err)
		members := map[string]float64{}
		for i := range size {
			member, score := fmt.Sprintf("member %d", i), float64(i%7)-2.5
			members[member] = score
			must(t, z.Put([]byte(member), score, 0, false))
		}
		for _, count := range []int{0, 1, 5, size / 2, size - 1, size, 2 * size} {
			taken := 0
			take := func(member []byte, score float64) bool {
				if want, found := members[string(member)]; !found || score != want {
					t.Fatalf("of %d: %q with the score %v, want %v", size, member, score, want)
				}
				taken++
				return true
			}
			must(t, z.RandomRepeated(uint64(count), take))
			if taken != count {
				t.Errorf("%d of %d members with repetition, want %d", taken, size, count)
			}
			taken = 0
			seen := map[string]bool{}
			must(t, z.RandomDistinct(uint64(count), func(member []byte, score float64) bool {
				seen[string(member)] = true
				return take(member, score)
			}))
			if want := min(count, size); taken != want || len(seen) != want {
				t.Errorf("%d of %d members, %d different ones, want %d", taken, size, len(seen), want)
			}
		}
	}
}

// TestSamplesNoticeMissingMembers: an index of scores that lacks some of a set's members is an
// error.
func TestSamplesNoticeMissingMembers(t *testing.T) {
	const size = 3000
	txn := writingTxn(t)
	z, err := txn.DB(0).ZSet([]byte("z"))
	must(t, err)
	for i := range size {
		must(t, z.Put(fmt.Appendf(nil, "member %d", i), float64(i), 0, false))
	}
	for i := range size - 1 {
		must(t, z.deleteScore(fmt.Appendf(nil, "member %d", i), float64(i)))
	}
	none := func([]byte, float64) bool { return true }
	for what, sample := range map[string]func(uint64, Visit) error{"distinct": z.RandomDistinct, "repeated": z.RandomRepeated} {
		for _, count := range []uint64{10, size / 2, 2 * size} {
			if err := sample(count, none); !errors.Is(err, layout.ErrCorrupt) {
				t.Errorf("%d %s: %v", count, what, err)
			}
		}
	}
}
