package touches

import (
	"math/rand/v2"
	"sync"
	"testing"
)

const second = int64(1000)

func notes(begun, frequencies bool, bytes int64) *Notes {
	n := &Notes{}
	n.Init(Options{Frequencies: func() bool { return frequencies }, LogFactor: func() int64 { return 10 },
		DecayMinutes: func() int64 { return 1 }, Bytes: func() int64 { return bytes }})
	if begun {
		n.Begin()
	}
	return n
}

func TestNothingIsNotedBeforeSomebodyAsks(t *testing.T) {
	n := notes(false, false, 1<<20)
	n.Touch(1, 100*second)
	n.Set(2, Use{1, 1})
	if n.Active() || n.Of(1, 500*second) != (Use{500, NewFrequency}) {
		t.Errorf("noted: %v", n.Of(1, 500*second))
	}
	n.Begin()
	if began := n.table.Load().began; n.Of(1, (began+7)*second).Last != began {
		t.Error("a key isn't as old as the notes")
	}
}

// TestLeastRecentlyUsed: what the table has room for is exact, and for the rest the answer is no
// earlier than the last access.
func TestLeastRecentlyUsed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	n := notes(true, false, 8*bucketBytes)
	last := map[uint64]int64{}
	began := n.table.Load().began
	for now := began; now < began+5000; now++ {
		hash := random.Uint64N(90) * 0x9e3779b97f4a7c15
		n.Touch(hash, now*second)
		last[hash] = now
		if use := n.Of(hash, now*second); use.Last != now {
			t.Fatalf("just accessed, and told of as %d", use.Last-now)
		}
	}
	exact := 0
	for hash, at := range last {
		use := n.Of(hash, (began+5000)*second)
		if use.Last < at {
			t.Errorf("accessed at %d, told of as %d", at, use.Last)
		} else if use.Last == at {
			exact++
		}
	}
	if exact < 55 { // of 64 entries
		t.Errorf("%d of %d are exact", exact, len(last))
	}
}

// TestFrequencies: keys that are used often have higher frequencies, stay in a table that is too
// small for all, and fall when they are used no more.
func TestFrequencies(t *testing.T) {
	n := notes(true, true, 4*bucketBytes)
	now := n.table.Load().began * second
	random := rand.New(rand.NewPCG(3, 4))
	hot := func(i uint64) uint64 { return (i + 1) * 0x9e3779b97f4a7c15 }
	for range 20000 {
		n.Touch(hot(random.Uint64N(4)), now)
		n.Touch(random.Uint64(), now)
	}
	for i := range uint64(4) {
		if f := n.Of(hot(i), now).Frequency; f < 20 || f > 60 {
			t.Errorf("5000 accesses are told of as %d", f)
		}
	}
	if f := n.Of(hot(100), now).Frequency; f > 10 {
		t.Errorf("a key that was never used is told of as %d", f)
	}
	was := n.Of(hot(0), now).Frequency
	if f := n.Of(hot(0), now+3*60*second).Frequency; f != was-3 {
		t.Errorf("%d falls to %d within 3 minutes", was, f)
	}
	if f := n.Of(hot(0), now+1000*60*second).Frequency; f != 0 {
		t.Errorf("and at last to %d", f)
	}
}

func TestSetSaysHowAKeyWasUsed(t *testing.T) {
	n := notes(true, true, 1<<10)
	now := n.table.Load().began
	n.Set(7, Use{now - 1000, 255})
	if use := n.Of(7, now*second); use.Last != now-1000 || use.Frequency != 255-16 && use.Frequency != 255-17 {
		t.Errorf("%v", use)
	}
	n.Touch(7, now*second)
	if use := n.Of(7, now*second); use.Last != now {
		t.Errorf("after an access: %v", use)
	}
}

// TestConcurrent is for the race detector, too.
func TestConcurrent(t *testing.T) {
	n := notes(true, false, 4*bucketBytes)
	now := n.table.Load().began
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 5))
			for at := range int64(5000) {
				hash := random.Uint64()
				n.Touch(hash, (now+at)*second)
				if use := n.Of(hash, (now+at)*second); use.Last > now+at {
					t.Errorf("accessed in the future: %v", use)
				}
			}
		})
	}
	n.End()
	n.Begin()
	all.Wait()
}

func BenchmarkTouch(b *testing.B) {
	n := notes(true, false, 1<<24)
	now := n.table.Load().began * second
	random := rand.New(rand.NewPCG(3, 4))
	for b.Loop() {
		n.Touch(random.Uint64N(1000000)*0x9e3779b97f4a7c15, now)
	}
}
