package generation

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	seeds "kedis/redis-tests/seed"
)

// TestSample compares searching by a sample with searching by halves, for keys that share much or
// little and end within others, in several spaces.
func TestSample(t *testing.T) {
	random := rand.New(rand.NewPCG(seeds.Of(t), 1))
	g := New(new(Memory), Hash, nil, 1<<20, 0, nil)
	for range 60 * sampleBlock {
		space, key := sampleKey(random)
		g.Put(Hash(space, key), space, key, nil)
	}
	g.Merge(nil)
	refs := *g.merged.Load()
	s := g.sampleOf(refs)
	if len(s.depths) < 4 {
		t.Fatalf("%d blocks: too few to tell", len(s.depths))
	}
	narrowed := 0
	for range 100000 {
		space, key := sampleKey(random)
		switch random.IntN(4) {
		case 0:
			key = key[:random.IntN(len(key)+1)]
		case 1:
			key = append(key, byte(random.IntN(256)))
		}
		var warmed byte
		got := s.search(g, refs, space, key, &warmed)
		want := sort.Search(len(refs), func(i int) bool { return g.entry(refs[i]).compare(space, key) >= 0 })
		if got != want {
			t.Fatalf("search(%d, %q) = %d, want %d of %d", space, key, got, want, len(refs))
		}
		if block := max(want-1, 0) / sampleBlock; s.depths[block] != manySpaces {
			if from, to := s.narrow(g, refs, block, space, key); to-from <= sampleStride {
				narrowed++
			}
		}
	}
	if narrowed < 50000 {
		t.Errorf("%d of 100000 searches were narrowed down: the sample is of little use", narrowed)
	}
}

// sampleKey is one of many keys: numbers behind a prefix, bytes that branch early, and runs of
// zeros, which look like the end of a piece.
func sampleKey(random *rand.Rand) (space uint32, key []byte) {
	space = uint32(random.IntN(3))
	switch random.IntN(4) {
	case 0:
		key = make([]byte, random.IntN(20))
	case 1:
		key = make([]byte, 1+random.IntN(12))
		for i := range key {
			key[i] = byte(random.IntN(4)) * 85
		}
	default:
		key = fmt.Appendf(nil, "collection:element:%08d", random.IntN(1000000))
	}
	return space, key
}
