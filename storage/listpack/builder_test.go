package listpack

import (
	"bytes"
	"math/rand"
	"testing"
)

// TestBuilder makes listpacks of random strings, which have to be the bytes that Push makes of
// them.
func TestBuilder(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var b Builder
	for range 200 {
		b.Reset()
		want := Empty(0)
		if got := b.Listpack(); !bytes.Equal(got, want) {
			t.Fatalf("% x without elements, want % x", got, want)
		}
		for i := range r.Intn(50) {
			value := []byte(randomValue(r))
			b.Add(value)
			if want = want.Push(Of(value)); b.Size() != len(want) || b.Len() != i+1 {
				t.Fatalf("%d elements of %d bytes, want %d of %d", b.Len(), b.Size(), i+1, len(want))
			}
			if r.Intn(4) > 0 {
				continue
			}
			if got := b.Listpack(); !bytes.Equal(got, want) { // it goes on afterwards
				t.Fatalf("% x, want % x", got, want)
			}
		}
		if got := b.Listpack(); !bytes.Equal(got, want) {
			t.Fatalf("% x, want % x", got, want)
		}
	}
}

// TestBuilderOfManyElements says that it doesn't know their number, as Push does.
func TestBuilderOfManyElements(t *testing.T) {
	var b Builder
	for range 70000 {
		b.Add([]byte("e"))
	}
	if l := b.Listpack(); l.headerCount() != countUnknown || l.Len() != 70000 || l.Validate(true) != nil {
		t.Fatal(l.headerCount(), l.Len(), l.Validate(true))
	}
}
