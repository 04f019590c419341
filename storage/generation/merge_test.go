package generation

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMerge brings generations into order. Their keys come in runs up and down, and some keys are
// written again and again. Parts of some generations were merged before.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	continued := 0
	for range 300 {
		g := New(NewMemory(), Hash, nil, 8<<10, 16, nil)
		want := map[string]string{}
		put := func(space uint32, key []byte) {
			value := fmt.Append(nil, "value", len(want), random.IntN(10))
			g.Put(Hash(space, key), space, key, value)
			want[fmt.Sprint(space, " ", string(key))] = string(value)
		}
		between := []int{1 << 30, 40, 400}[random.IntN(3)]
		for range 1 + random.IntN(16) {
			space, at, step := uint32(random.IntN(2)), random.IntN(1<<16), 1-2*random.IntN(2)
			for range random.IntN(300) {
				at += step * (1 + random.IntN(3))
				put(space, binary.BigEndian.AppendUint32([]byte("list"), uint32(at+1<<20)))
				if random.IntN(between) == 0 {
					put(0, fmt.Append(nil, "again", random.IntN(2)))
				}
			}
			if random.IntN(4) == 0 {
				g.Tidy(new(Scratch))
			}
		}
		if spans := g.tidy(); len(spans) > 0 && behind(spans) < len(*g.chunks.Load()) {
			continued++
		}
		g.Merge(nil)
		checkMerged(t, g, want)
	}
	if continued < 50 {
		t.Errorf("%d generations had been merged in part", continued)
	}
}

// checkMerged looks whether a merged generation shows just some records, in order.
func checkMerged(t *testing.T, g *Generation, want map[string]string) {
	t.Helper()
	var previous entry
	seen := 0
	for r := range g.Records() {
		if previous != nil && previous.compare(r.Space(), r.Key()) >= 0 {
			t.Fatalf("%x comes behind %x", r.Key(), previous.key())
		}
		previous = r.entry
		seen++
		if value, _ := r.Value(); want[fmt.Sprint(r.Space(), " ", string(r.Key()))] != string(value) {
			t.Fatalf("%x has the value %q", r.Key(), value)
		}
	}
	if seen != len(want) || seen != g.Keys() {
		t.Fatalf("%d records, want %d", seen, len(want))
	}
}

// TestHiddenEntriesEndWalks has a walk end behind its range, though the mark shows nothing there
// nor in it.
func TestHiddenEntriesEndWalks(t *testing.T) {
	for _, order := range []string{"of the whole", "of chunks"} {
		var sealed []*Chunk
		g := New(NewMemory(), Hash, nil, 64<<10, 16, func(c *Chunk) { sealed = append(sealed, c) })
		mark := g.Mark()
		for i := range 20000 {
			key := fmt.Appendf(nil, "%05d", i)
			g.Put(Hash(1, key), 1, key, []byte("value"))
		}
		var runs []run
		if order == "of the whole" {
			g.Merge(nil)
			runs = []run{{merged: *g.merged.Load()}}
		} else {
			for _, c := range sealed {
				runs = append(runs, c.run(new(Scratch)))
			}
		}
		for _, reverse := range []bool{false, true} {
			it := &Iterator{g: g, mark: mark, bounds: Range{1, []byte("10000"), []byte("10010")}, reverse: reverse}
			for _, r := range runs {
				r = it.from(r)
				before := r.end - r.at
				r.advance(it)
				if passed := before - (r.end - r.at); r.entry != nil || passed > 11 {
					t.Errorf("%s, backwards: %v: %d entries were passed, and %v found", order, reverse, passed, r.entry)
				}
			}
		}
	}
}

// TestMergeSpaces merges the entries of many spaces. Most spaces have a few entries, and one has
// half of them all.
func TestMergeSpaces(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	g := New(NewMemory(), Hash, nil, 4<<10, 16, nil)
	want := map[string]string{}
	for i := range 20000 {
		space, key, value := uint32(random.IntN(3000)), fmt.Append(nil, random.IntN(5)), fmt.Append(nil, i)
		if random.IntN(2) == 0 {
			space = 1500
		}
		g.Put(Hash(space, key), space, key, value)
		want[fmt.Sprint(space, " ", string(key))] = string(value)
		if i%5000 == 0 {
			g.Tidy(new(Scratch))
		}
	}
	g.Merge(nil)
	checkMerged(t, g, want)
	if g.tidy() != nil {
		t.Error("spans are kept that nobody reads any more")
	}
}
