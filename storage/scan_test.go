package storage

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/layout"
)

func putString(t *testing.T, d DB, key string, expireMs int64) {
	t.Helper()
	k, err := d.LookupAny([]byte(key))
	must(t, err)
	must(t, d.SetString([]byte(key), &k, []byte("v"), expireMs))
}

// TestScanKeysMissesNothing: a walk in steps of any size, with keys that come and go meanwhile,
// shows each key that is there all the time once, and none that has expired.
func TestScanKeysMissesNothing(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 4))
	s := openStore(t, testOptions(t.TempDir(), 1<<10, 1<<10))
	steady := map[string]bool{"": true}
	inTxn(t, s, func(d DB) {
		putString(t, d, "", 0)
		for range 200 {
			key := strconv.Itoa(random.IntN(1000))
			steady[key] = true
			putString(t, d, key, 0)
			putString(t, d, "expired"+key, 1) // it is 1000
		}
	})
	for _, prefix := range []string{"", "1", "77", "expired", "none", "\xff\xff"} {
		seen := map[string]int{}
		for behind := []byte(nil); ; {
			inTxn(t, s, func(d DB) {
				key := prefix + "x" + strconv.Itoa(random.IntN(1000))
				putString(t, d, key, 0)
				_, err := d.Delete([]byte(prefix + "x" + strconv.Itoa(random.IntN(1000))))
				must(t, err)
				looked := 0
				step := ScanStep{Behind: behind, Prefix: []byte(prefix), Count: 1 + random.IntN(20)}
				last, err := d.ScanKeys(step, func(key []byte, _ *layout.Metadata) {
					looked++
					seen[string(key)]++
				})
				must(t, err)
				if looked > step.Count {
					t.Errorf("a step of %d showed %d keys", step.Count, looked)
				}
				if last != nil && behind != nil && bytes.Compare(last, behind) <= 0 {
					t.Fatalf("from %q to %q", behind, last)
				}
				behind = bytes.Clone(last)
				if last != nil && behind == nil {
					behind = []byte{}
				}
			})
			if behind == nil {
				break
			}
		}
		for key, times := range seen {
			if times != 1 || !strings.HasPrefix(key, prefix) || strings.HasPrefix(key, "expired") && !strings.HasPrefix(key, "expiredx") {
				t.Errorf("prefix %q: %q was shown %d times", prefix, key, times)
			}
		}
		for key := range steady {
			if strings.HasPrefix(key, prefix) && seen[key] == 0 {
				t.Errorf("prefix %q: %q was not shown", prefix, key)
			}
		}
	}
}

// TestScanElements walks collections of every type and encoding.
func TestScanElements(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 5))
	s := openStore(t, tinyOptions(t))
	for range 100 {
		c := randomCollection(random)
		if c.kind == layout.List {
			continue
		}
		prefix := []string{"", "", "1", "0"}[random.IntN(4)]
		inTxn(t, s, func(d DB) {
			checkScan(t, restoreCollection(t, d, "k", c), d, c, prefix, 1+random.IntN(7))
			_, err := d.Delete([]byte("k"))
			must(t, err)
		})
	}
}

func restoreCollection(t *testing.T, d DB, key string, c collection) Key {
	t.Helper()
	v := decode(t, c.payload(t, false))
	old, err := d.Lookup([]byte(key))
	must(t, err)
	must(t, d.Restore([]byte(key), old, v, 0))
	k, err := d.Lookup([]byte(key))
	must(t, err)
	return k
}

func checkScan(t *testing.T, k Key, d DB, c collection, prefix string, count int) {
	t.Helper()
	got := map[string]string{}
	for behind, steps := []byte(nil), 0; steps == 0 || behind != nil; steps++ {
		visited := 0
		last, err := d.ScanElements(k, ScanStep{Behind: behind, Prefix: []byte(prefix), Count: count}, func(element, value []byte) {
			if _, again := got[string(element)]; again {
				t.Errorf("%q was shown twice", element)
			}
			got[string(element)] = string(value)
			visited++
		})
		must(t, err)
		if k.Encoding == layout.Spread && visited > count {
			t.Errorf("a step of %d showed %d elements", count, visited)
		}
		behind = last
	}
	want := maps.Clone(c.rest)
	if k.Encoding == layout.Spread {
		maps.DeleteFunc(want, func(name, _ string) bool { return !strings.HasPrefix(name, prefix) })
	}
	if !maps.Equal(got, want) {
		t.Errorf("encoding %d, prefix %q: %q, want %q", k.Encoding, prefix, got, want)
	}
}

// TestScannedScores are those that C's printf writes, which Redis leaves to it here.
func TestScannedScores(t *testing.T) {
	for score, want := range map[float64]string{0.1: "0.10000000000000001", 3: "3", -1.5: "-1.5", 1e16: "10000000000000000",
		1e17: "1e+17", 1e300: "1.0000000000000001e+300", 1e-5: "1.0000000000000001e-05", 0.0001: "0.0001",
		math.Inf(1): "inf", math.Inf(-1): "-inf", math.Copysign(0, -1): "-0", 123456789012345678: "1.2345678901234568e+17"} {
		if got := string(appendScannedScore(nil, score)); got != want {
			t.Errorf("%v: %q, want %q", score, got, want)
		}
	}
}

// TestRandomKey: in a small database every key has the same chance; in a large one, each comes now
// and then, also in those parts of the key space where there are few.
func TestRandomKey(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<10, 1<<20))
	inTxn(t, s, func(d DB) {
		if key, found, err := d.RandomKey(rand.IntN); found || err != nil {
			t.Errorf("empty database: %q, %v", key, err)
		}
		putString(t, d, "expired", 1)
		if key, found, err := d.RandomKey(rand.IntN); found || err != nil {
			t.Errorf("expired keys only: %q, %v", key, err)
		}
		for i := range 10 {
			putString(t, d, strconv.Itoa(i), 0)
		}
	})
	random := rand.New(rand.NewPCG(1, 6))
	const draws = 2000
	inTxn(t, s, func(d DB) {
		got := map[string]int{}
		for range draws {
			key, _, err := d.RandomKey(random.IntN)
			must(t, err)
			got[string(key)]++
		}
		// 200 are to be expected, with a standard deviation of 13.
		for key, times := range got {
			if times < 120 || times > 280 {
				t.Errorf("%q came %d times of %d", key, times, draws)
			}
		}
		if len(got) != 10 {
			t.Errorf("%d keys came: %v", len(got), got)
		}
	})
	inTxn(t, s, func(d DB) {
		for i := range 3000 {
			putString(t, d, fmt.Sprintf("user:%04d", i), 0)
			putString(t, d, fmt.Sprintf("user:%04d:expired", i), 1)
		}
		putString(t, d, "user:", 0)
		putString(t, d, "\xff\xff", 0)
	})
	inTxn(t, s, func(d DB) {
		single, parts := map[string]int{}, map[string]int{}
		for range draws {
			key, found, err := d.RandomKey(random.IntN)
			must(t, err)
			k, err := d.Lookup(key)
			must(t, err)
			if !found || !k.Exists {
				t.Fatalf("%q, %v: it isn't there", key, found)
			}
			single[string(key)]++
			parts[string(key[:min(len(key), 6)])]++
		}
		for key, times := range single {
			if times > draws/sampleKeys*2 {
				t.Errorf("%q came %d times of %d", key, times, draws)
			}
		}
		for _, part := range []string{"user:0", "user:1", "user:2"} {
			if parts[part] == 0 {
				t.Errorf("none of %d keys began with %q", draws, part)
			}
		}
	})
}

// TestRandomKeyOfManyAlike: keys that were numbered come evenly, from all parts of the database.
func TestRandomKeyOfManyAlike(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<10, 1<<20))
	inTxn(t, s, func(d DB) {
		for i := range 5000 {
			putString(t, d, fmt.Sprintf("user:%04d", 2*i), 0)
		}
	})
	must(t, s.Settle())
	random := rand.New(rand.NewPCG(2, 7))
	const draws = 2000
	inTxn(t, s, func(d DB) {
		parts := map[string]int{}
		for range draws {
			key, _, err := d.RandomKey(random.IntN)
			must(t, err)
			parts[string(key[:6])]++
		}
		// 200 are to be expected, with a standard deviation of 13.
		for part, times := range parts {
			if times < 120 || times > 280 {
				t.Errorf("%q came %d times of %d", part, times, draws)
			}
		}
		if len(parts) != 10 {
			t.Errorf("%d parts: %v", len(parts), parts)
		}
	})
}

// TestRandomKeysAreEven: each of thousands of keys is as likely as any other, whatever they are
// called, and what has expired doesn't come.
func TestRandomKeysAreEven(t *testing.T) {
	digest := func(i int) string { return fmt.Sprintf("%x", sha1.Sum(fmt.Append(nil, i))) }
	for name, shape := range map[string]func(i int) string{
		"numbers": func(i int) string { return fmt.Sprintf("key:%d", i) },
		"digests": digest,
		"several kinds": func(i int) string {
			switch {
			case i < 100:
				return fmt.Sprintf("admin%d", i)
			case i%3 == 0:
				return "session:" + digest(i)
			}
			return fmt.Sprintf("user:%d:%s", i/2, []string{"name", "mail"}[i%2])
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, testOptions(t.TempDir(), 8<<20, 1<<20))
			const keys, draws = 1600, 3200
			times := map[string]int{}
			inTxn(t, s, func(d DB) {
				for i := range keys {
					times[shape(i)] = 0
					putString(t, d, shape(i), 0)
					if i%10 == 0 {
						putString(t, d, shape(i)+"-expired", 1)
					}
				}
			})
			random := rand.New(rand.NewPCG(5, 8))
			inTxn(t, s, func(d DB) {
				for range draws {
					key, _, err := d.RandomKey(random.IntN)
					must(t, err)
					times[string(key)]++
				}
			})
			if len(times) != keys {
				t.Errorf("%d keys came of %d that there are", len(times), keys)
			}
			chiSquare := 0.0
			for _, n := range times {
				chiSquare += (float64(n) - draws/keys) * (float64(n) - draws/keys) / (draws / keys)
			}
			// 1 is to be expected, with a standard deviation of 0.035.
			if degree := chiSquare / (keys - 1); degree > 1.2 {
				t.Errorf("chi-square over degrees of freedom: %.2f", degree)
			}
		})
	}
}

// TestSizeCountsOwnWrites: DBSIZE in a transaction.
func TestSizeCountsOwnWrites(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<10, 1<<20))
	inTxn(t, s, func(d DB) { putString(t, d, "a", 0) })
	inTxn(t, s, func(d DB) {
		putString(t, d, "b", 0)
		putString(t, d, "c", 0)
		_, err := d.Delete([]byte("a"))
		must(t, err)
		if got := d.Size(); got != 2 {
			t.Errorf("%d keys, want 2", got)
		}
		d.Txn().Flush(0)
		if got := d.Txn().DB(0).Size(); got != 0 {
			t.Errorf("%d keys after a flush", got)
		}
	})
}
