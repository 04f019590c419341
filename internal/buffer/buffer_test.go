package buffer

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestGrowing: whatever is appended, in small and in large portions, stands there in the end.
func TestGrowing(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	var got Writer
	var want []byte
	for len(want) < 5*large {
		portion := make([]byte, random.IntN(1000))
		if random.IntN(1000) == 0 {
			portion = make([]byte, random.IntN(2*large))
		}
		for i := range portion {
			portion[i] = byte(random.Uint32())
		}
		want = append(want, portion...)
		if random.IntN(2) == 0 {
			got.Write(portion)
			continue
		}
		got.Bytes = Grow(got.Bytes, len(portion))
		if room := cap(got.Bytes) - len(got.Bytes); room < len(portion) {
			t.Fatalf("room for %d bytes of %d", room, len(portion))
		}
		got.Bytes = append(got.Bytes, portion...)
	}
	if !bytes.Equal(got.Bytes, want) {
		t.Fatal("something else stands there")
	}
}

// TestGrowKeepsWhatFits: memory that is large enough stays.
func TestGrowKeepsWhatFits(t *testing.T) {
	b := make([]byte, large, large+10)
	if grown := Grow(b, 10); &grown[0] != &b[0] {
		t.Error("it was copied though it had room")
	}
	if grown := Grow(b, 11); cap(grown) < large+large/2 {
		t.Errorf("room for %d bytes: it would grow all the time", cap(grown))
	}
}
