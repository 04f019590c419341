package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestZipfFollowsItsLaw(t *testing.T) {
	const count, theta, draws = 10_000, 0.99, 2_000_000
	random, choose := rand.New(rand.NewPCG(1, 1)), zipf(count, theta)
	drawn := make([]int, count)
	for range draws {
		drawn[choose(random)]++
	}
	all := zeta(count, theta)
	// Standing at the head, and up to a rank: Gray's approximation is known to be off by some
	// hundredths in between.
	upTo := 0
	for i := range count {
		upTo += drawn[i]
		switch i {
		case 0, 1, 9, 99, 999:
			want := zeta(i+1, theta) / all
			if got := float64(upTo) / draws; math.Abs(got-want) > 0.02 {
				t.Errorf("the first %d numbers were drawn %.4f of the time, want %.4f", i+1, got, want)
			}
		}
	}
	for i, want := range []float64{1 / all, math.Pow(2, -theta) / all} {
		if got := float64(drawn[i]) / draws; math.Abs(got-want) > want/50 {
			t.Errorf("number %d was drawn %.4f of the time, want %.4f", i, got, want)
		}
	}
	if drawn[count-1] == 0 && drawn[count-2] == 0 && drawn[count-3] == 0 {
		t.Error("none of the last numbers was ever drawn")
	}
}

func TestUniformReachesAll(t *testing.T) {
	random, choose := rand.New(rand.NewPCG(1, 1)), uniform(10)
	var drawn [10]int
	for range 10_000 {
		drawn[choose(random)]++
	}
	for i, n := range drawn {
		if n < 800 || n > 1200 {
			t.Errorf("%d was drawn %d times in 10000", i, n)
		}
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 100_000 {
		seen[string(appendKey(nil, i))] = true
	}
	if len(seen) != 100_000 {
		t.Fatalf("%d different keys", len(seen))
	}
}
