package ordered

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
)

// TestBlockAgainstSlice takes entries out of blocks and puts others in, with more than can be
// marked and with fewer.
func TestBlockAgainstSlice(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.Of(t), 1))
	for _, size := range []int{1, 2, 32, marks, marks + 1, 200} {
		for range 20 {
			var b Builder
			var keys []string
			values := map[string]string{}
			for i := range size {
				key := fmt.Sprintf("%04d", 2*i)
				b.Add([]byte(key), []byte("v"+key))
				keys, values[key] = append(keys, key), "v"+key
			}
			block := b.Block(false)
			for len(keys) > 0 {
				before, was := block, slices.Clone(keys)
				block, keys = changeBlock(block, keys, values, random)
				checkBlock(t, block, keys, values)
				checkBlock(t, before, was, values)
				checkAbsent(t, block, keys, random)
				at := random.IntN(len(keys) + 1)
				left, right := block.split(at)
				checkBlock(t, left, keys[:at], values)
				checkBlock(t, left.join(right), keys, values)
			}
		}
	}
}

// changeBlock takes an entry out, from an end or by chance, or puts one in.
func changeBlock(block Block, keys []string, values map[string]string, random *rand.Rand) (Block, []string) {
	at := []int{0, len(keys) - 1, random.IntN(len(keys))}[random.IntN(3)]
	if random.IntN(8) > 0 {
		return block.without(at), slices.Delete(slices.Clone(keys), at, at+1)
	}
	key := keys[at] + "+"
	if slices.Contains(keys, key) || len(key) > 8 {
		return block, keys
	}
	values[key] = "w" + key
	return block.replaced(at+1, at+1, []byte(key), []byte(values[key])), slices.Insert(slices.Clone(keys), at+1, key)
}

// checkAbsent looks for what may have been taken out.
func checkAbsent(t *testing.T, block Block, keys []string, random *rand.Rand) {
	t.Helper()
	key := fmt.Sprintf("%04d", random.IntN(420))
	want, there := slices.BinarySearch(keys, key)
	if at, found := block.Search([]byte(key)); at != want || found != there {
		t.Fatalf("%q is at %d, %v, want %d, %v", key, at, found, want, there)
	}
}
