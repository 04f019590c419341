package filter

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// filled is a filter of so many records, whose hashes come from a generator that begins the same
// each time.
func filled(records, expected int64) (*Filter, *rand.PCG) {
	f, source := New(expected, plenty), rand.NewPCG(1, 1)
	for range records {
		f.Add(Hash(source.Uint64()))
	}
	return f, rand.NewPCG(1, 1)
}

func BenchmarkMayHave(b *testing.B) {
	const records = 10_000_000
	for _, layers := range []struct {
		name     string
		expected int64
	}{{"one layer", records}, {"layers", 1 << 20}} {
		f, present := filled(records, layers.expected)
		absent := rand.NewPCG(2, 2)
		for _, c := range []struct {
			name   string
			hashes *rand.PCG
		}{{"absent", absent}, {"present", present}} {
			b.Run(layers.name+" of "+strconv.Itoa(f.Layers())+"/"+c.name, func(b *testing.B) {
				for range b.N {
					f.MayHave(Hash(c.hashes.Uint64()))
				}
			})
			b.Run(layers.name+" of "+strconv.Itoa(f.Layers())+"/"+c.name+", sixteen at once", func(b *testing.B) {
				var hashes [16]Hash
				var touched uint64
				for at := 0; at < b.N; at += len(hashes) {
					for i := range hashes {
						hashes[i] = Hash(c.hashes.Uint64())
						touched += f.Touch(hashes[i])
					}
					for _, hash := range hashes {
						f.MayHave(hash)
					}
				}
			})
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	f, source := New(1<<20, plenty), rand.NewPCG(1, 1)
	for range b.N {
		f.Add(Hash(source.Uint64()))
	}
}
