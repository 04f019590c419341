package cache

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

var seed = maphash.MakeSeed()

func hashOf(key []byte) uint64 { return maphash.Bytes(seed, key) }

// Whatever the cache knows must be the last thing that it was told.
func TestNeverStale(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	c := New(shardCount * 3 * chunkBytes)
	type told struct {
		value   string
		present bool
	}
	last := map[string]told{}
	known := 0
	for i := range 300000 {
		key := fmt.Appendf(nil, "key%d", random.IntN(60000))
		if random.IntN(2) == 0 {
			size := random.IntN(300)
			if random.IntN(1000) == 0 {
				size = LargestEntry
			}
			value := fmt.Appendf(nil, "%0*d", size, i)
			present := random.IntN(4) > 0
			if !present {
				value = nil
			}
			c.Put(hashOf(key), 1, key, value, present)
			last[string(key)] = told{string(value), present}
			continue
		}
		value, present, ok := c.Get(hashOf(key), 1, key)
		if _, _, other := c.Get(hashOf(key), 2, key); other {
			t.Fatalf("%s is known in a space where it never was", key)
		}
		if !ok {
			continue
		}
		known++
		if want, was := last[string(key)]; !was || want.value != string(value) || want.present != present {
			t.Fatalf("%s: got %q, %v; was told %+v", key, value, present, want)
		}
	}
	if known == 0 {
		t.Fatal("nothing was ever found")
	}
	if limit := int64(shardCount * 3 * chunkBytes); c.Bytes() > limit+shardCount*chunkBytes {
		t.Fatalf("%d bytes in use, the limit is %d", c.Bytes(), limit)
	}
}

func TestWhatIsUsedStays(t *testing.T) {
	c := New(shardCount * 4 * chunkBytes)
	hot := []byte("hot")
	c.Put(hashOf(hot), 0, hot, []byte("v"), true)
	for i := range 400000 {
		key := fmt.Append(nil, i)
		c.Put(hashOf(key), 0, key, key, true)
		if i%100 == 0 {
			if _, _, known := c.Get(hashOf(hot), 0, hot); !known {
				t.Fatalf("after %d other records the one in use is gone", i)
			}
		}
	}
	if _, _, known := c.Get(hashOf([]byte("0")), 0, []byte("0")); known {
		t.Fatal("a record that nobody used again is still there: the test does not fill the cache")
	}
}

func TestValuesOutliveTheirChunk(t *testing.T) {
	c := New(shardCount * 2 * chunkBytes)
	key := []byte("key")
	c.Put(hashOf(key), 0, key, []byte("kept"), true)
	value, _, _ := c.Get(hashOf(key), 0, key)
	for i := range 300000 {
		other := fmt.Append(nil, i)
		c.Put(hashOf(other), 0, other, make([]byte, 50), true)
	}
	if string(value) != "kept" {
		t.Fatalf("the value changed to %q", value)
	}
}

// TestReadersBesideAWriter reads without locks while records are put, evicted and moved, and the
// cache is made smaller now and then: whatever is found is at least as new as what had been put
// when the reading began.
func TestReadersBesideAWriter(t *testing.T) {
	const keys, readers, puts = 3000, 3, 200_000
	c := New(shardCount * 2 * chunkBytes)
	var newest [keys]atomic.Int64
	name := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	done := make(chan struct{})
	failures := make(chan string, readers)
	var running sync.WaitGroup
	for reader := range readers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(5, uint64(reader)))
			for {
				select {
				case <-done:
					return
				default:
				}
				i := random.IntN(keys)
				key := name(i)
				before := newest[i].Load()
				value, _, known := c.Get(hashOf(key), 0, key)
				var found int64
				if _, err := fmt.Sscan(string(value), &found); known && (err != nil || found < before) {
					failures <- fmt.Sprintf("%s is %.40q, which is older than %d", key, value, before)
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(5, 6))
	for n := range int64(puts) {
		i := random.IntN(keys)
		key := name(i)
		c.Put(hashOf(key), 0, key, fmt.Appendf(nil, "%d%*s", n, random.IntN(5000), ""), true)
		newest[i].Store(n)
		if n%1000 == 0 {
			c.SetLimit(Least)
			c.Shrink()
			c.SetLimit(2 * Least)
		}
	}
	close(done)
	running.Wait()
	select {
	case failure := <-failures:
		t.Error(failure)
	default:
	}
}

// TestLongRuns fills slots that all belong to a few neighbours, more than a slot can tell the
// distance of, and forgets them in any order.
func TestLongRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, keys := range []int{40, 250, 400} {
		c := New(1 << 30)
		hash := func(i int) uint64 { return uint64(i)<<37 | uint64(i%3)<<6 }
		for i := range keys {
			c.Put(hash(i), 1, fmt.Appendf(nil, "key%d", i), fmt.Appendf(nil, "value%d", i), true)
		}
		forgotten := map[int]bool{}
		for _, i := range random.Perm(keys)[:keys-5] {
			c.Forget(hash(i), 1, fmt.Appendf(nil, "key%d", i))
			forgotten[i] = true
			if keys > 40 && len(forgotten)%16 != 0 {
				continue
			}
			for other := range keys {
				value, _, known := c.Get(hash(other), 1, fmt.Appendf(nil, "key%d", other))
				if known == forgotten[other] || known && string(value) != fmt.Sprintf("value%d", other) {
					t.Fatalf("of %d, after %d were forgotten, %d is known: %t, with %q", keys, len(forgotten), other, known, value)
				}
			}
		}
	}
}

// TestClearedIsNotClearedAgain: FLUSHALL clears the cache, and may come by the thousand.
func TestClearedIsNotClearedAgain(t *testing.T) {
	c := New(1 << 20)
	c.Put(1, 1, []byte("key"), []byte("value"), true)
	c.Clear()
	if _, _, known := c.Get(1, 1, []byte("key")); known {
		t.Error("an entry is left")
	}
	if allocated := testing.AllocsPerRun(10, c.Clear); allocated != 0 {
		t.Errorf("clearing what is clear allocates %v times", allocated)
	}
}

// TestShrink: what is beyond a smaller limit goes although no more records come in, and what was
// used again stays while there is room.
func TestShrink(t *testing.T) {
	const large, least = 8 * Least, shardCount * leastSlots * 8
	for _, size := range []int{8, 600} { // the index takes most, or the records
		c := New(large)
		put := func(i int) {
			key := fmt.Append(nil, i)
			c.Put(hashOf(key), 0, key, make([]byte, size), true)
		}
		put(0)
		for i := 1; c.Bytes() < large-2*Least; i++ {
			put(i)
		}
		hot := []byte("0")
		for limit := int64(large); limit >= 2*Least; limit /= 2 {
			c.Get(hashOf(hot), 0, hot)
			c.SetLimit(limit)
			c.Shrink()
			if c.Bytes() > limit {
				t.Errorf("records of %d bytes: %d bytes in use, the limit is %d", size, c.Bytes(), limit)
			}
			if _, present, known := c.Get(hashOf(hot), 0, hot); !present || !known {
				t.Errorf("records of %d bytes: the one in use is gone at a limit of %d", size, limit)
			}
		}
		for i := range 1000 {
			put(i)
		}
		c.SetLimit(Least - 1)
		c.Shrink()
		if c.Bytes() != least {
			t.Errorf("records of %d bytes: %d bytes in use when nothing may be", size, c.Bytes())
		}
	}
}
