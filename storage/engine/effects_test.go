package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"kedis/internal/resp"
)

// TestEffectsOfLongWords adds, encloses and takes back effects at random, some of which have long
// words, and compares their bytes with those of plain requests.
func TestEffectsOfLongWords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	long := bytes.Repeat([]byte("x"), LargeValue+1)
	var e effects
	e.reset()
	for range 200 {
		var expected []byte
		for range random.IntN(4) {
			var mark effectsMark
			e.mark(&mark)
			var added []byte
			count := random.IntN(4)
			for range count {
				words := [][]byte{[]byte("SET"), []byte("key"), long}[:1+random.IntN(3)]
				e.add(0, words...)
				added = resp.AppendRequest(added, words...)
			}
			e.enclose(mark)
			switch {
			case random.IntN(3) == 0:
				e.rewind(mark)
				continue
			case count > 1:
				added = append(append(bytes.Clone(multi), added...), exec...)
			}
			expected = append(expected, added...)
		}
		pieces := e.appendPieces(nil)
		if got := bytes.Join(pieces, nil); !bytes.Equal(got, expected) {
			t.Fatalf("%d bytes of effects instead of %d", len(got), len(expected))
		}
		for _, l := range e.long {
			if &l.word[0] != &long[0] {
				t.Fatal("a long word was copied")
			}
		}
		e.reset()
	}
}
