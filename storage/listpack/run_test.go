package listpack

import (
	"bytes"
	"math/rand"
	"testing"
)

// TestRuns copies listpacks run by run, of random lengths, whole and split.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 300 {
		want, values := Empty(0), [][]byte{}
		for range r.Intn(60) {
			values = append(values, []byte(randomValue(r)))
			want = want.Push(Of(values[len(values)-1]))
		}
		var copied Builder
		for pos := want.First(); pos != None; {
			var run Run
			run, pos = want.Run(pos, 1+r.Intn(70))
			first, second := run.Split()
			if first.Len()+second.Len() != run.Len() || first.Size()+second.Size() != run.Size() || run.Len() > 1 && first.Len() == 0 {
				t.Fatalf("%d elements become %d and %d", run.Len(), first.Len(), second.Len())
			}
			for e := range run.All() {
				if !e.Equal(values[0]) {
					t.Fatalf("%q stands where %q should", e.AppendTo(nil), values[0])
				}
				values = values[1:]
			}
			copied.AddRun(first)
			copied.AddRun(second)
		}
		if got := copied.Listpack(); !bytes.Equal(got, want) || len(values) > 0 {
			t.Fatalf("% x, want % x", got, want)
		}
	}
}

// TestRunsOfManyElements has a listpack that doesn't say how many it has.
func TestRunsOfManyElements(t *testing.T) {
	var b, copied Builder
	for range 70000 {
		b.Add([]byte("e"))
	}
	pack := b.Listpack()
	all, next := pack.Run(pack.First(), 80000)
	if copied.AddRun(all); next != None || all.Len() != 70000 || !bytes.Equal(copied.Listpack(), pack) {
		t.Errorf("a run of %d elements, and %d behind it", all.Len(), next)
	}
	if none, next := pack.Run(None, 1); none.Len() > 0 || next != None {
		t.Errorf("%d elements behind the last one, and %d", none.Len(), next)
	}
}
