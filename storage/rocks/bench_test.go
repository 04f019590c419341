package rocks

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

const (
	benchKeys  = 1_000_000
	benchValue = 100 // bytes
)

// BenchmarkMillion works on a million keys with values of 100 bytes, all of which the block cache
// holds. The keys are those that redis-benchmark makes, in a family of their own.
func BenchmarkMillion(b *testing.B) {
	d, err := Open(Options{Directory: b.TempDir(), BlockCacheBytes: 512 << 20})
	must(b, err)
	b.Cleanup(func() { must(b, d.Close()) })
	f := create(b, d, "f")
	b.Run("load", func(b *testing.B) { benchLoad(b, d, f) })
	must(b, d.Flush())
	must(b, d.Compact(b.Context(), f))

	b.Run("get", func(b *testing.B) { benchGet(b, d, f, 0) })
	b.Run("get-absent", func(b *testing.B) { benchGet(b, d, f, benchKeys) })
	b.Run("get-new", func(b *testing.B) { benchGetNew(b, d, f) })
	b.Run("get-parallel", func(b *testing.B) { benchGetParallel(b, d, f) })
	b.Run("get-cached-16", func(b *testing.B) { benchGetCached(b, d, f, 16) })
	b.Run("scan-16", func(b *testing.B) { benchScan(b, d, f, 16) })
	b.Run("scan-100", func(b *testing.B) { benchScan(b, d, f, 100) })
	b.Run("scan-all", func(b *testing.B) { benchScanAll(b, d, f) })
	b.Run("write-sorted-1000", func(b *testing.B) { benchWrite(b, d, f, 1000, true) })
	b.Run("write-random-1000", func(b *testing.B) { benchWrite(b, d, f, 1000, false) })
	b.Run("write-random-16", func(b *testing.B) { benchWrite(b, d, f, 16, false) })
	b.Run("get-after-writes", func(b *testing.B) { benchGet(b, d, f, 0) })
}

func benchKey(dst []byte, i int) []byte { return fmt.Appendf(dst[:0], "key:%012d", i) }

func benchBytes(random *rand.Rand, dst []byte) []byte {
	dst = dst[:0]
	for len(dst) < benchValue/2 { // half of it is random, so that it compresses as real data may
		dst = binary.LittleEndian.AppendUint64(dst, random.Uint64())
	}
	return append(dst, make([]byte, benchValue-len(dst))...)
}

// perKey reports the time that one of the keys of an operation took.
func perKey(b *testing.B, keys int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(keys), "ns/key")
}

func benchLoad(b *testing.B, d *DB, f *Family) {
	random := rand.New(rand.NewPCG(1, 1))
	var batch Batch
	var key, value []byte
	for b.Loop() {
		for i := range benchKeys {
			key, value = benchKey(key, i), benchBytes(random, value)
			batch.Put(f, key, value)
			if batch.Len() == 1000 {
				must(b, d.Write(&batch))
				batch.Reset()
			}
		}
	}
	perKey(b, benchKeys)
}

// benchGet reads random keys, from first on: beyond benchKeys there are none.
func benchGet(b *testing.B, d *DB, f *Family, first int) {
	random := rand.New(rand.NewPCG(2, 2))
	key, dst := []byte(nil), make([]byte, 0, 256)
	for b.Loop() {
		key = benchKey(key, first+random.IntN(benchKeys))
		if _, found, err := d.Get(f, nil, key, dst); err != nil || found != (first == 0) {
			b.Fatal(found, err)
		}
	}
}

// benchGetNew reads into memory that is new each time.
func benchGetNew(b *testing.B, d *DB, f *Family) {
	random := rand.New(rand.NewPCG(2, 2))
	var key []byte
	for b.Loop() {
		key = benchKey(key, random.IntN(benchKeys))
		if _, found, err := d.Get(f, nil, key, nil); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

func benchGetParallel(b *testing.B, d *DB, f *Family) {
	var seed atomic.Uint64
	b.RunParallel(func(loop *testing.PB) {
		random := rand.New(rand.NewPCG(3, seed.Add(1)))
		key, dst := []byte(nil), make([]byte, 0, 256)
		for loop.Next() {
			key = benchKey(key, random.IntN(benchKeys))
			if _, found, err := d.Get(f, nil, key, dst); err != nil || !found {
				b.Error(found, err)
			}
		}
	})
}

func benchGetCached(b *testing.B, d *DB, f *Family, n int) {
	random := rand.New(rand.NewPCG(4, 4))
	keys := make([][]byte, n)
	var v CachedValues
	for b.Loop() {
		for i := range keys {
			keys[i] = benchKey(keys[i], random.IntN(benchKeys))
		}
		must(b, d.GetCached(f, keys, &v))
	}
	perKey(b, n)
}

func benchScan(b *testing.B, d *DB, f *Family, n int) {
	random := rand.New(rand.NewPCG(5, 5))
	var from, to []byte
	for b.Loop() {
		i := random.IntN(benchKeys - n)
		from, to = benchKey(from, i), benchKey(to, i+n)
		it := d.NewIterator(f, nil, IteratorOptions{LowerBound: from, UpperBound: to, Expected: n + 1})
		seen := 0
		for it.Next() {
			seen++
		}
		if it.Err() != nil || seen != n {
			b.Fatal(seen, it.Err())
		}
		it.Close()
	}
	perKey(b, n)
}

func benchScanAll(b *testing.B, d *DB, f *Family) {
	for b.Loop() {
		it := d.NewIterator(f, nil, IteratorOptions{})
		seen := 0
		for it.Next() {
			seen++
		}
		if it.Err() != nil || seen != benchKeys {
			b.Fatal(seen, it.Err())
		}
		it.Close()
	}
	perKey(b, benchKeys)
}

func benchWrite(b *testing.B, d *DB, f *Family, n int, sorted bool) {
	random := rand.New(rand.NewPCG(6, 6))
	var batch Batch
	var key, value []byte
	next := 0
	for b.Loop() {
		batch.Reset()
		for range n {
			next = (next + 1) % benchKeys
			if !sorted {
				next = random.IntN(benchKeys)
			}
			key, value = benchKey(key, next), benchBytes(random, value)
			batch.Put(f, key, value)
		}
		must(b, d.Write(&batch))
	}
	perKey(b, n)
}
