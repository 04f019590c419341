package generation

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMerge brings generations into order whose keys come in runs up and down, with others among
// them that are written again and again, some of which were merged in part before.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	continued := 0
	for range 300 {
		var sealed []*Chunk
		g := New(NewMemory(), Hash, nil, 8<<10, 16, func(c *Chunk) { sealed = append(sealed, c) })
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
				for _, c := range sealed {
					c.Sort(new(Scratch))
				}
				g.Tidy()
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
