package generation

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// TestOrder brings keys into order that have long pieces in common, end within each other, and
// occur several times.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		written := random.IntN(3 * enoughForDigits)
		g := New(NewMemory(), Hash, nil, 16<<10, 16, nil)
		sequential := []uint16{0, 1, 0xffff}[random.IntN(3)] // ascending and descending ones among the others, or none
		for i := range uint16(written) {
			key := bytes.Repeat([]byte{byte(random.IntN(2))}, random.IntN(30))
			for i := range key {
				if random.IntN(8) == 0 {
					key[i] = byte(random.IntN(3))
				}
			}
			if sequential != 0 && random.IntN(50) > 0 {
				key = binary.BigEndian.AppendUint16([]byte("sequence"), 30000+i*sequential)
			}
			space := uint32(random.IntN(3)) * 300
			g.Put(Hash(space, key), space, key, nil)
		}
		var places []item
		for _, c := range *g.chunks.Load() {
			for _, offset := range c.matching(firstOffset, c.end.Load(), func(entry) bool { return true }, new(Scratch)) {
				places = append(places, item{uint64(c.at(offset).space()), reference(uint64(c.number)<<32 | uint64(offset))})
			}
		}
		if len(places) != written {
			t.Fatalf("%d entries, %d written", len(places), written)
		}
		if sequential == 0 || random.IntN(2) == 0 {
			slices.SortFunc(places, func(a, b item) int { return cmp.Compare(a.ref, b.ref) })
		} else {
			random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		}
		want := slices.Clone(places)
		slices.SortFunc(want, func(a, b item) int {
			other := g.entry(b.ref)
			return cmp.Or(g.entry(a.ref).compare(other.space(), other.key()), cmp.Compare(b.ref, a.ref))
		})
		new(Scratch).order(places, g.entry)
		for i := range places {
			if places[i].ref != want[i].ref {
				t.Fatalf("entry %d of %d: %x stands where %x belongs", i, len(places), g.entry(places[i].ref).key(), g.entry(want[i].ref).key())
			}
		}
	}
}

// TestUnsortedIsSortedForMany walks over a chunk that isn't in order: what few walks want few
// entries of is gone over, and put in order for many walks, or for one that wants much of it.
func TestUnsortedIsSortedForMany(t *testing.T) {
	g := New(NewMemory(), Hash, nil, 1<<20, 16, nil)
	for i := range 5000 {
		key := fmt.Appendf(nil, "%04d", i*37%5000)
		g.Put(Hash(1, key), 1, key, []byte("value"))
	}
	c := (*g.chunks.Load())[0]
	walk := func(lower, upper string) {
		t.Helper()
		seen := 0
		for it := g.Iterate(End, Range{1, []byte(lower), []byte(upper)}, false); it.Next(); seen++ {
			if want := fmt.Sprintf("%04d", seen+number(t, lower)); string(it.Key()) != want {
				t.Fatalf("%q, want %q", it.Key(), want)
			}
		}
		if want := number(t, upper) - number(t, lower); seen != want {
			t.Fatalf("%d entries, want %d", seen, want)
		}
	}
	for i := range goneOver {
		if c.partly.Load() != nil {
			t.Fatalf("it is in order after %d walks", i)
		}
		walk("1000", "1010")
	}
	if c.partly.Load() == nil {
		t.Fatalf("it isn't in order after %d walks", goneOver)
	}
	c.partly.Store(nil)
	if walk("1000", "3000"); c.partly.Load() == nil {
		t.Error("it isn't in order after a walk over much of it")
	}
}

func number(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
