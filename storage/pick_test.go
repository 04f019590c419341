package storage

import (
	"crypto/sha1"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"kedis/internal/keyevent"
)

// spreadSetOf makes a spread set of what shape returns for 0 to n-1, and settles it.
func spreadSetOf(t *testing.T, n int, shape func(i int) string) (set Set, members []string) {
	t.Helper()
	store := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	txn := store.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	s, err := txn.DB(0).Set([]byte("s"))
	must(t, err)
	s.Expect(max(n, 1000))
	for i := range n {
		_, err := s.Add([]byte(shape(i)))
		must(t, err)
		members = append(members, shape(i))
	}
	must(t, s.Save(keyevent.Changed))
	txn.Effect(0, []byte("EFFECT"))
	must(t, store.Commit(txn))
	must(t, store.Settle())
	txn.Reset()
	txn.Begin(Mode{}, 1, 0)
	s, err = txn.DB(0).Set([]byte("s"))
	must(t, err)
	slices.Sort(members)
	return s, members
}

// The shapes that members of sets have, and how much more often than on average some twentieth of
// them may be picked.
var shapes = []struct {
	name  string
	shape func(i int) string
	most  float64
}{
	{"numbers", func(i int) string { return fmt.Sprint(i) }, 4},
	{"digests", func(i int) string { return fmt.Sprintf("%x", sha1.Sum(fmt.Append(nil, i))) }, 2},
	{"times", func(i int) string { return time.Unix(1700000000+int64(i)*61, 0).UTC().Format(time.RFC3339) }, 4},
	{"unlike groups", func(i int) string {
		switch {
		case i < 10:
			return fmt.Sprintf("admin%d", i)
		case i%3 == 0:
			return fmt.Sprintf("session:%d", i)
		}
		return fmt.Sprintf("user:%d", i)
	}, 6},
}

// TestPicksReachEverything: no part of a large set is left out, none preferred by far, and no
// member comes up all the time. The bounds are far beyond what chance does to a good picker.
func TestPicksReachEverything(t *testing.T) {
	const members, picks, parts = 4000, 1500, 20
	for _, c := range shapes {
		t.Run(c.name, func(t *testing.T) {
			s, all := spreadSetOf(t, members, c.shape)
			elements := s.elements()
			p := newPicker(&elements, s.next.Count)
			var buckets [parts]int
			times := map[string]int{}
			for range picks {
				member, err := p.pick()
				must(t, err)
				at, found := slices.BinarySearch(all, string(member))
				if !found {
					t.Fatalf("%q is no member", member)
				}
				buckets[at*parts/len(all)]++
				times[string(member)]++
			}
			least, most := slices.Min(buckets[:]), slices.Max(buckets[:])
			if least == 0 || float64(most) > c.most*picks/parts {
				t.Errorf("the parts of the set were picked %d times: %v", picks, buckets)
			}
			if often := slices.Max(slices.Collect(maps.Values(times))); often > 40 {
				t.Errorf("one member was picked %d times of %d", often, picks)
			}
		})
	}
}

// TestSmallPicksAreEven: in a small collection each element is as likely as any other, whatever its
// form.
func TestSmallPicksAreEven(t *testing.T) {
	txn := writingTxn(t)
	const members, picks = 10, 20000
	for name, prefix := range map[string]string{"intset": "", "listpack": "m", "hashtable": "member beyond the limit of sixty-four bytes: ................. "} {
		s, err := txn.DB(0).Set([]byte(name))
		must(t, err)
		for i := range members {
			_, err := s.Add(fmt.Appendf(nil, "%s%d", prefix, i))
			must(t, err)
		}
		must(t, s.Save(keyevent.Changed))
		ways := map[string]func(count func(member []byte) bool){
			"Random": func(count func(member []byte) bool) {
				for range picks {
					member, err := s.Random()
					must(t, err)
					count(member)
				}
			},
			"RandomRepeated": func(count func(member []byte) bool) { must(t, s.RandomRepeated(picks, count)) },
			"RandomDistinct": func(count func(member []byte) bool) {
				for range picks / 4 {
					must(t, s.RandomDistinct(4, count))
				}
			},
		}
		for way, pick := range ways {
			times := map[string]int{}
			pick(func(member []byte) bool { times[string(member)]++; return true })
			if len(times) != members {
				t.Errorf("%s of %s: %d members, want %d", way, name, len(times), members)
			}
			for member, n := range times {
				// 2000 are expected, with a standard deviation of about 42.
				if n < 1600 || n > 2400 {
					t.Errorf("%s of %s: %q was picked %d times of %d", way, name, member, n, picks)
				}
			}
		}
	}
}

// TestDistinctNumbers chooses 3 of 6 numbers, in which every choice is as likely as any other, and
// many, which are different.
func TestDistinctNumbers(t *testing.T) {
	const choices = 20
	times := map[[3]int]int{}
	for range 1000 * choices {
		numbers := distinctNumbers(3, 6)
		slices.Sort(numbers)
		times[[3]int(numbers)]++
	}
	for numbers, n := range times {
		// 1000 are expected, with a standard deviation of about 31.
		if numbers[0] == numbers[1] || numbers[1] == numbers[2] || n < 800 || n > 1200 {
			t.Errorf("%v were chosen %d times of %d", numbers, n, 1000*choices)
		}
	}
	if len(times) != choices {
		t.Errorf("%d choices, want %d", len(times), choices)
	}
	for _, count := range []int{0, fewNumbers, fewNumbers + 1, 900, 1000} {
		numbers := distinctNumbers(count, 1000)
		slices.Sort(numbers)
		if different := slices.Compact(numbers); len(different) != count || count > 0 && (different[0] < 0 || different[count-1] > 999) {
			t.Errorf("%d numbers below 1000 are %v", count, different)
		}
	}
}

func TestSamplesOfSpreadSets(t *testing.T) {
	const members = 12_000
	s, all := spreadSetOf(t, members, func(i int) string { return fmt.Sprintf("m%d", i) })
	for _, count := range []int{0, 1, 3, 5, 6, 100, members - 1, members, members + 2000, 3 * members} {
		seen := map[string]bool{}
		must(t, s.RandomDistinct(uint64(count), func(member []byte) bool {
			if _, found := slices.BinarySearch(all, string(member)); !found || seen[string(member)] {
				t.Fatalf("%q is no member, or came twice", member)
			}
			seen[string(member)] = true
			return true
		}))
		if want := min(count, members); count > 0 && len(seen) != want {
			t.Errorf("%d distinct members were asked for, %d came", count, len(seen))
		}
		repeated := 0
		must(t, s.RandomRepeated(uint64(count), func(member []byte) bool { repeated++; return true }))
		if repeated != count {
			t.Errorf("%d members were asked for, %d came", count, repeated)
		}
	}
	stopped := 0
	must(t, s.RandomRepeated(1<<62, func([]byte) bool { stopped++; return stopped < 5000 }))
	if stopped != 5000 {
		t.Errorf("the sample ended after %d members", stopped)
	}
}

// TestPickingFromChains: elements of which each is the beginning of the next have a tree without
// branches.
func TestPickingFromChains(t *testing.T) {
	letters := make([]byte, 3000)
	for i := range letters {
		letters[i] = 'a'
	}
	s, _ := spreadSetOf(t, len(letters), func(i int) string { return string(letters[:i]) })
	elements := s.elements()
	p := newPicker(&elements, s.next.Count)
	for range 20 {
		member, err := p.pick()
		must(t, err)
		if found, err := s.Contains(member); err != nil || !found {
			t.Fatalf("a member of %d bytes: %v, %v", len(member), found, err)
		}
	}
}

// TestRepeatedPicksWalkSeldom: many picks are made in few walks, and not in one each thousand.
func TestRepeatedPicksWalkSeldom(t *testing.T) {
	const elements, picks = 5000, 300_000
	walks := 0
	s := sampler{txn: writingTxn(t), count: elements, all: func(visit visitPair) error {
		walks++
		for i := range elements {
			if !visit(fmt.Appendf(nil, "%d", i), nil) {
				break
			}
		}
		return nil
	}}
	visited := 0
	must(t, s.repeated(picks, func(_, _ []byte) bool { visited++; return true }))
	if visited != picks || walks > 5 {
		t.Errorf("%d of %d picks in %d walks", visited, picks, walks)
	}
	// Of large elements no more are held than of these.
	large := []pair{{element: make([]byte, 1<<20)}}
	if n := nextBatch(large); n != sampleBatch {
		t.Errorf("%d large elements at once", n)
	}
}
