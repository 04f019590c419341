package migrate

import (
	"bytes"
	"testing"
)

// TestMarksGoForward: when a move goes on where its last lane was, the others stay where they were
// until it has come there, or another interruption would have them do things twice.
func TestMarksGoForward(t *testing.T) {
	target := &Target{lanes: []*lane{{index: 0}, {index: 1}, {index: 2}}, marker: &marker{id: "run", done: map[int]int64{0: 20, 1: 30, 2: 25}, furthest: 30}}
	for at, want := range map[int64]string{
		20: "HSET kedis:port:run 0 20:4",
		25: "HSET kedis:port:run 0 25:4 2 25:4",
		31: "HSET kedis:port:run 0 31:4 1 31:4 2 31:4",
	} {
		words := target.markWords(target.lanes[0], &batch{all: true, position: Position{at, 4}}, 0)
		if got := string(bytes.Join(words, []byte(" "))); got != want {
			t.Errorf("at %d: %s, expected %s", at, got, want)
		}
	}
}
