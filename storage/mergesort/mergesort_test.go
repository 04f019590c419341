package mergesort

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

type record struct {
	space      uint32
	key, value string
}

func (a record) compare(b record) int {
	return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.key, b.key))
}

// TestSorts sorts records in memory, in one level of runs and in several, and compares with the
// standard library.
func TestSorts(t *testing.T) {
	for _, n := range []int{0, 1, 100, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			directory := t.TempDir()
			s := New(directory, 4096)
			s.most = 4
			var want []record
			for i := range n {
				r := record{uint32(random.IntN(3)), fmt.Sprint(random.IntN(n)), string(bytes.Repeat([]byte{byte(i)}, random.IntN(30)))}
				if i%1000 == 7 {
					r.value = string(make([]byte, 10_000)) // more than a run
				}
				want = append(want, r)
				if err := s.Add(r.space, []byte(r.key), []byte(r.value)); err != nil {
					t.Fatal(err)
				}
			}
			slices.SortStableFunc(want, record.compare)
			var got []record
			err := s.Merge(func(space uint32, key, value []byte) error {
				got = append(got, record{space, string(key), string(value)})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			byValue := func(a, b record) int { return cmp.Or(a.compare(b), cmp.Compare(a.value, b.value)) }
			if !slices.IsSortedFunc(got, record.compare) {
				t.Error("it is out of order")
			}
			slices.SortFunc(got, byValue)
			slices.SortFunc(want, byValue)
			if !slices.Equal(got, want) {
				t.Errorf("%d records came back, of %d", len(got), len(want))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(directory); err != nil || len(left) != 0 {
				t.Errorf("%d files are left (%v)", len(left), err)
			}
		})
	}
}

// TestFails has no place to write to, and a run that was cut off.
func TestFails(t *testing.T) {
	s := New(t.TempDir()+"/none", 10)
	err := s.Add(1, []byte("key"), []byte("a long value"))
	if err = cmp.Or(err, s.Merge(func(uint32, []byte, []byte) error { return nil })); err == nil {
		t.Error("nothing was said")
	}
	s = New(t.TempDir(), 10)
	if err := s.Add(1, []byte("key"), []byte("a long value")); err != nil {
		t.Fatal(err)
	}
	if err := s.await(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.runs[0].name, 9); err != nil {
		t.Fatal(err)
	}
	if err := s.Merge(func(uint32, []byte, []byte) error { return nil }); err == nil {
		t.Error("half a record was taken for one")
	}
}
