// Package lcs finds the longest common subsequence of two byte strings: its length, its bytes, and
// where its runs stand in both. Among equally long ones it takes the one that Redis's LCS command
// takes.
//
// Redis fills a table with four bytes for each pair of bytes, and then walks from its end to its
// start: over a pair of equal bytes to both neighbours, else to the string whose shorter part has
// the longer subsequence, to that of b when they are equally long. Here a table holds one bit for
// each pair, and a row of it is computed 64 bits at a time, after Maxime Crochemore and others, "A
// fast and practical bit-vector algorithm for the longest common subsequence problem" (2001). The
// bit says whether the subsequence of the row's part of a and the column's part of b is longer than
// it would be without the column's byte; where the two bytes differ, that is the direction of the
// walk.
//
// The package works on plain bytes and imports only the standard library. It knows neither keys nor
// commands nor the limit on memory, which the caller checks by TableSize before anything else.
package lcs

import (
	"math/bits"
	"slices"
)

// A Match is a run of bytes that the subsequence takes from both strings: a[A:A+Length] and
// b[B:B+Length].
type Match struct {
	A, B, Length int
}

// TableSize returns the bytes of Redis's table for two strings of these lengths. Redis refuses the
// command when it exceeds proto-max-bulk-len: "ERR Insufficient memory, transient memory for LCS
// exceeds proto-max-bulk-len". Sequence and Matches need about a sixteenth of it when both strings
// are long, and never more than it, a hundred bytes aside. The result is the highest number when it
// would be higher.
func TableSize(lengthA, lengthB int) uint64 {
	high, cells := bits.Mul64(uint64(lengthA)+1, uint64(lengthB)+1)
	if high > 0 || cells >= 1<<62 {
		return 1<<64 - 1
	}
	return 4 * cells
}

// Length returns the length of the subsequence.
func Length(a, b []byte) int {
	columns := newColumns(a, b)
	row := columns.first()
	for _, c := range a {
		columns.next(row, row, c)
	}
	return columns.zeros(row)
}

// Sequence returns the bytes of the subsequence.
func Sequence(a, b []byte) []byte {
	var reversed []byte
	walk(a, b, func(i, _ int) { reversed = append(reversed, a[i]) })
	slices.Reverse(reversed)
	return reversed
}

// Matches returns the runs of the subsequence that have at least minimum bytes, the last one first,
// and the length of the whole subsequence.
func Matches(a, b []byte, minimum int) (matches []Match, length int) {
	var run Match
	flush := func() {
		if run.Length > 0 && run.Length >= minimum {
			matches = append(matches, run)
		}
	}
	walk(a, b, func(i, j int) {
		length++
		if run.Length > 0 && run.A == i+1 && run.B == j+1 {
			run = Match{i, j, run.Length + 1}
			return
		}
		flush()
		run = Match{i, j, 1}
	})
	flush()
	return matches, length
}

// walk calls visit with each pair of bytes of the subsequence, the last one first.
func walk(a, b []byte, visit func(i, j int)) {
	columns := newColumns(a, b)
	words := columns.words
	table := make([]uint64, len(a)*words)
	row := columns.first()
	for i, c := range a {
		next := table[i*words : (i+1)*words]
		columns.next(next, row, c)
		row = next
	}
	for i, j := len(a)-1, len(b)-1; i >= 0 && j >= 0; {
		switch {
		case a[i] == b[j]:
			visit(i, j)
			i--
			j--
		case table[i*words+j/64]>>(j%64)&1 == 0:
			i--
		default:
			j--
		}
	}
}

// columns says where each byte of a occurs in b: bit j of a set stands for b[j].
type columns struct {
	words int // in a set, or a row of the table
	size  int // the length of b
	// set is the number of a byte's set, beginning at 1; 0 is the empty set's.
	set  [256]uint16
	sets []uint64
}

// newColumns makes sets only for bytes that occur in both strings, so that all of them together
// have no more bits than the table.
func newColumns(a, b []byte) *columns {
	c := &columns{words: (len(b) + 63) / 64, size: len(b)}
	var inB [256]bool
	for _, x := range b {
		inB[x] = true
	}
	count := uint16(1)
	for _, x := range a {
		if inB[x] && c.set[x] == 0 {
			c.set[x] = count
			count++
		}
	}
	c.sets = make([]uint64, int(count)*c.words)
	for j, x := range b {
		if set := int(c.set[x]); set > 0 {
			c.sets[set*c.words+j/64] |= 1 << (j % 64)
		}
	}
	return c
}

// first returns the row for the empty part of a. In a row a bit is 0 where the subsequence becomes
// longer by a column's byte.
func (c *columns) first() []uint64 {
	row := make([]uint64, c.words)
	for i := range row {
		row[i] = 1<<64 - 1
	}
	return row
}

// next computes the row below one; both may be the same memory. Within each stretch of columns that
// ends where the subsequence became longer, the addition moves that place to the first occurrence
// of the byte.
func (c *columns) next(dst, row []uint64, x byte) {
	set := c.sets[int(c.set[x])*c.words:]
	var carry uint64
	for i, bitsOfRow := range row {
		matches := bitsOfRow & set[i]
		var sum uint64
		sum, carry = bits.Add64(bitsOfRow, matches, carry)
		dst[i] = sum | bitsOfRow&^matches
	}
}

// zeros counts the columns at which the subsequence becomes longer: its length.
func (c *columns) zeros(row []uint64) int {
	ones := 0
	for _, word := range row {
		ones += bits.OnesCount64(word)
	}
	// Bits beyond the last column never match, so that they stay ones.
	return c.words*64 - ones
}
