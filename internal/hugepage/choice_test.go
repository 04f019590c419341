package hugepage

import (
	"testing"
	"time"
)

// TestChoice is told what pages cost, and counts which are asked for.
func TestChoice(t *testing.T) {
	for _, test := range []struct {
		name                   string
		large, small           time.Duration // for a megabyte
		fewestLarge, mostLarge int           // of 640
	}{
		{"large pages are cheaper", 100 * time.Microsecond, 250 * time.Microsecond, 640, 640},
		{"large pages are worth a little more", 400 * time.Microsecond, 100 * time.Microsecond, 640, 640},
		{"large pages cost much more", 3 * time.Millisecond, 250 * time.Microsecond, 5, 20},
		{"both cost much", 3 * time.Millisecond, 3 * time.Millisecond, 620, 635},
		{"nothing is known", 0, 0, 640, 640},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c Choice
			count := 0
			for range 640 {
				large := c.next()
				if large {
					count++
					c.learn(large, test.large)
				} else {
					c.learn(large, test.small)
				}
			}
			if count < test.fewestLarge || count > test.mostLarge {
				t.Errorf("large pages %d times of 640, want %d to %d", count, test.fewestLarge, test.mostLarge)
			}
		})
	}
}

// TestChoiceFollows has large pages become expensive and cheap again.
func TestChoiceFollows(t *testing.T) {
	var c Choice
	for _, large := range []time.Duration{100 * time.Microsecond, 3 * time.Millisecond, 100 * time.Microsecond} {
		count := 0
		for range 20 * tryAgain {
			if c.next() {
				count++
				c.learn(true, large)
			} else {
				c.learn(false, 250*time.Microsecond)
			}
		}
		if cheap := large <= worth; cheap != (count > 10*tryAgain) {
			t.Errorf("at %v for a megabyte large pages were made %d times of %d", large, count, 20*tryAgain)
		}
	}
}

// TestChoiceMakes makes memory, which has to be empty and there.
func TestChoiceMakes(t *testing.T) {
	var c Choice
	for range 3 * tryAgain {
		made := c.Make(100_000)
		if len(made) != 100_000 {
			t.Fatalf("%d bytes were made, want 100000", len(made))
		}
		for i, b := range made {
			if b != 0 {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
		made[0], made[len(made)-1] = 1, 1
	}
	if len(c.Make(0)) != 0 {
		t.Error("nothing was asked for, and something made")
	}
	c.Advise(nil)
}
