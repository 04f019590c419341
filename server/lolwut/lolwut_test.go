package lolwut

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func ExampleDraw() {
	fmt.Print(Draw(7, nil, 1, "1.2.3"))
	// Output: Kedis ver. 1.2.3
}

// TestSize holds the lines of a picture against the size that was asked for.
func TestSize(t *testing.T) {
	for _, test := range []struct {
		piece         int64
		arguments     []int64
		columns, rows int
	}{
		{5, nil, 66, 20},
		{5, []int64{30}, 30, 20},
		{5, []int64{1, 1, 0}, 1, 1},
		{5, []int64{7, 100, 12}, 7, 100},
		{5, []int64{math.MaxInt64, 3, math.MaxInt64, 9}, maxColumns, 3},
		{5, []int64{math.MinInt64, math.MinInt64, math.MinInt64}, 1, 1},
		{6, nil, 80, 20},
		{6, []int64{5}, 5, 20},
		{6, []int64{1, 1}, 1, 1},
		{6, []int64{2, 2}, 2, 2},
		{6, []int64{0, math.MaxInt64, 5}, 1, maxRows},
		{6, []int64{math.MaxInt64, -1}, maxColumns, 1},
	} {
		for seed := range uint64(20) {
			lines := strings.Split(Draw(test.piece, test.arguments, seed, "9.9"), "\n")
			if len(lines) != test.rows+3 {
				t.Fatalf("piece %d %v: %d lines, want %d", test.piece, test.arguments, len(lines), test.rows+3)
			}
			if end := lines[test.rows:]; end[0] != "" || end[1] != "Kedis ver. 9.9" || end[2] != "" {
				t.Fatalf("piece %d %v ends with %q", test.piece, test.arguments, end)
			}
			for _, line := range lines[:test.rows] {
				if utf8.RuneCountInString(line) != test.columns || !utf8.ValidString(line) {
					t.Fatalf("piece %d %v: line %q, want %d columns", test.piece, test.arguments, line, test.columns)
				}
			}
		}
	}
}

// TestSeed shows that the seed, and nothing else, makes the difference.
func TestSeed(t *testing.T) {
	for _, piece := range []int64{5, 6} {
		seen := map[string]bool{}
		for seed := range uint64(50) {
			text := Draw(piece, nil, seed, "1")
			if text != Draw(piece, nil, seed, "1") {
				t.Fatalf("piece %d: seed %d gives two pictures", piece, seed)
			}
			if seen[text] {
				t.Fatalf("piece %d: seed %d gives the picture of an earlier one", piece, seed)
			}
			seen[text] = true
		}
	}
}

func TestOtherPieces(t *testing.T) {
	for _, piece := range []int64{math.MinInt64, -5, 0, 4, 7, 56, math.MaxInt64} {
		if got := Draw(piece, []int64{10, 10}, 1, "1"); got != "Kedis ver. 1\n" {
			t.Errorf("piece %d: %q", piece, got)
		}
	}
}

// TestFaultsMove shows that a fault changes the picture: the same ground with and without.
func TestFaultsMove(t *testing.T) {
	same := 0
	for seed := range uint64(20) {
		if Draw(5, []int64{60, 20, 0}, seed, "1") == Draw(5, []int64{60, 20, 4}, seed, "1") {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d of 20 pictures are without their faults", same)
	}
}

func BenchmarkLargest(b *testing.B) {
	for b.Loop() {
		Draw(5, []int64{maxColumns, maxRows, maxFaults}, 1, "1")
	}
}
