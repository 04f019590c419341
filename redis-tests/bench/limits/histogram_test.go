package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsFollowOneAnother(t *testing.T) {
	for value := uint64(0); value < 1<<14; value++ {
		if step := bucketOf(value+1) - bucketOf(value); step != 0 && step != 1 {
			t.Fatalf("from %d to %d the bucket goes from %d to %d", value, value+1, bucketOf(value), bucketOf(value+1))
		}
	}
	if last, room := bucketOf(math.MaxInt64), len(new(histogram).counts); last >= room {
		t.Fatalf("the longest duration falls into bucket %d of %d", last, room)
	}
}

func TestMiddlesAreClose(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		value := random.Uint64() >> (1 + random.IntN(63))
		middle := middleOf(bucketOf(value))
		if off := math.Abs(float64(middle)-float64(value)) / max(float64(value), 1); off > 1.0/(2*parts) {
			t.Fatalf("%d is taken for %d, off by %.4f", value, middle, off)
		}
	}
}

func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	var one, other, all histogram
	var exact []time.Duration
	for i := range 50_000 {
		d := time.Duration(math.Exp(random.NormFloat64()*2 + 12))
		exact = append(exact, d)
		if i%2 == 0 {
			one.record(d)
		} else {
			other.record(d)
		}
	}
	all.add(&one)
	all.add(&other)
	slices.Sort(exact)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := exact[max(int(math.Ceil(q*float64(len(exact)))), 1)-1]
		if got := all.quantile(q); math.Abs(float64(got-want)) > float64(want)/(2*parts)+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if all.most != exact[len(exact)-1] || all.count != uint64(len(exact)) {
		t.Errorf("most %v, count %d", all.most, all.count)
	}
	if got := new(histogram).quantile(0.99); got != 0 {
		t.Errorf("an empty histogram has quantile %v", got)
	}
}
