package main

import "testing"

// TestInterval takes the ranks from tables of the sign test: 6 and 15 of 20, 2 and 9 of 10.
func TestInterval(t *testing.T) {
	for _, c := range []struct{ samples, low, high int }{{20, 6, 15}, {10, 2, 9}, {6, 1, 6}, {3, 1, 3}} {
		var samples []float64
		for i := c.samples; i > 0; i-- {
			samples = append(samples, float64(i))
		}
		if low, high := interval(samples); low != float64(c.low) || high != float64(c.high) {
			t.Errorf("%d samples: %v to %v, want %d to %d", c.samples, low, high, c.low, c.high)
		}
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}
