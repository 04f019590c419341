package storage

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"kedis/storage/hyperloglog"
	"kedis/storage/layout"
)

func elementsBetween(from, to int) [][]byte {
	var e [][]byte
	for i := from; i < to; i++ {
		e = append(e, fmt.Append(nil, "element", i))
	}
	return e
}

// TestHyperLogLogs compares with the functions on plain values, one after another on three keys.
func TestHyperLogLogs(t *testing.T) {
	const sparseMaxBytes = 300 // so that some become dense
	s := openStore(t, testOptions(t.TempDir(), 1, 0))
	want := map[string][]byte{}
	for i := range 60 {
		key, e := fmt.Sprint("h", i%3), elementsBetween(i*i%97, i*i%97+i%7)
		inTxn(t, s, func(d DB) {
			before, existed := want[key]
			if !existed {
				before = hyperloglog.New()
			}
			value, changed, err := hyperloglog.Add(nil, before, e, sparseMaxBytes)
			must(t, err)
			want[key] = value
			got, err := d.HyperLogLogAdd([]byte(key), e, sparseMaxBytes)
			expectSame(t, "pfadd", got, changed || !existed, err, nil)
		})
		if i%10 == 9 {
			inTxn(t, s, func(d DB) {
				union := unionOf(t, want["h1"], want["h2"])
				value, err := union.MergeInto(nil, want["h1"], sparseMaxBytes)
				must(t, err)
				want["h1"] = value
				must(t, d.HyperLogLogMerge([]byte("h1"), [][]byte{[]byte("h2"), []byte("missing")}, sparseMaxBytes))
			})
		}
		inTxn(t, s, func(d DB) {
			k, err := d.Lookup([]byte(key))
			if err != nil || string(k.Value) != string(want[key]) || k.Encoding != layout.Raw {
				t.Fatalf("%s is %q in encoding %d, %v; want %q", key, k.Value, k.Encoding, err, want[key])
			}
		})
	}
	inTxn(t, s, func(d DB) {
		union := unionOf(t, want["h0"], want["h1"], want["h2"])
		got, err := d.HyperLogLogCountUnion([][]byte{[]byte("h0"), []byte("h1"), []byte("missing"), []byte("h2")})
		expectSame(t, "pfcount", got, union.Count(), err, nil)
	})
}

func unionOf(t *testing.T, values ...[]byte) (union hyperloglog.Union) {
	t.Helper()
	for _, value := range values {
		must(t, union.Add(value))
	}
	return union
}

// TestHyperLogLogCountStoresTheCount, but only where it may write.
func TestHyperLogLogCountStoresTheCount(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	key := []byte("h")
	inTxn(t, s, func(d DB) {
		_, err := d.HyperLogLogAdd(key, elementsBetween(0, 50), 3000)
		must(t, err)
	})
	union := unionOf(t, storedString(t, s, key))
	want := union.Count()
	for _, c := range []struct {
		mode   Mode
		stores bool
	}{{Mode{}, false}, {Mode{Writing: true, Replica: true}, false}, {Mode{Writing: true}, true}, {Mode{Writing: true}, false}} {
		txn := s.NewTxn()
		savepoint := begin(txn, c.mode, 1000, 0)
		count, err := txn.DB(0).HyperLogLogCount(key)
		expectSame(t, "pfcount", count, want, err, nil)
		if got := txn.Changed(savepoint); got != c.stores {
			t.Errorf("in %+v: stored %v", c.mode, got)
		}
		if c.stores {
			txn.Effect(0, []byte("EFFECT"))
			must(t, s.Commit(txn))
		}
	}
	if count, stale, err := hyperloglog.Count(storedString(t, s, key)); err != nil || stale || count != want {
		t.Errorf("stored is %d, stale %v, %v; want %d", count, stale, err, want)
	}
}

func storedString(t *testing.T, s *Store, key []byte) []byte {
	t.Helper()
	txn := s.NewTxn()
	k, err := txn.DB(0).Lookup(key)
	if err != nil || !k.Exists {
		t.Fatalf("%q: %v, %v", key, k, err)
	}
	return k.Value
}

func TestHyperLogLogDensify(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	key := []byte("h")
	inTxn(t, s, func(d DB) {
		_, err := d.HyperLogLogAdd(key, elementsBetween(0, 5), 3000)
		must(t, err)
		for _, want := range []bool{true, false} {
			k, err := d.HyperLogLog(key)
			must(t, err)
			converted, err := d.HyperLogLogDensify(key, k)
			expectSame(t, "todense", converted, want, err, nil)
		}
	})
	if encoding, err := hyperloglog.EncodingOf(storedString(t, s, key)); err != nil || encoding != hyperloglog.Dense {
		t.Errorf("encoding %v, %v", encoding, err)
	}
}

// TestFirstWrongHyperLogLogDecides on the error, as in Redis, which looks at one key after another.
func TestFirstWrongHyperLogLogDecides(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	inTxn(t, s, func(d DB) {
		must(t, d.SetString([]byte("invalid"), &Key{}, []byte("no HyperLogLog"), 0))
		must(t, d.SetString([]byte("corrupt"), &Key{}, append(hyperloglog.New(), 0), 0))
		must(t, d.Save([]byte("hash"), Key{}, layout.Metadata{Type: layout.Hash, Encoding: layout.Listpack, Value: []byte("listpack")}))
		wants := map[string]error{"invalid": hyperloglog.ErrInvalid, "corrupt": hyperloglog.ErrCorrupt, "hash": ErrWrongType}
		for first, want := range wants {
			for second := range wants {
				keys := [][]byte{[]byte("missing"), []byte(first), []byte(second)}
				if _, err := d.HyperLogLogCountUnion(keys); !errors.Is(err, want) {
					t.Errorf("pfcount %s %s: %v", first, second, err)
				}
				if err := d.HyperLogLogMerge([]byte("new"), keys, 3000); !errors.Is(err, want) {
					t.Errorf("pfmerge %s %s: %v", first, second, err)
				}
			}
		}
	})
}

// TestABrokenHyperLogLogIsRepeatedUnderAnotherLimit adds to opcodes that cover more than all
// registers, which works until they are to become dense.
func TestABrokenHyperLogLogIsRepeatedUnderAnotherLimit(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1, 0))
	key := []byte("h")
	want, _, err := hyperloglog.Add(nil, hyperloglog.New(), elementsBetween(0, 10), 3000)
	must(t, err)
	broken := append(want, 0)
	inTxn(t, s, func(d DB) {
		k, err := d.LookupType(key, layout.String)
		must(t, err)
		must(t, d.saveRaw(key, &k, broken))
	})
	want, _, err = hyperloglog.Add(nil, broken, elementsBetween(10, 30), 3000)
	must(t, err)
	limit := len(broken)
	inTxn(t, s, func(d DB) {
		if _, err := d.HyperLogLogAdd(key, elementsBetween(10, 30), limit); !errors.Is(err, hyperloglog.ErrCorrupt) {
			t.Fatalf("a client's PFADD: %v", err)
		}
	})
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true, Applying: true}, 0, 0)
	if _, err := txn.DB(0).HyperLogLogAdd(key, elementsBetween(10, 30), limit); err != nil {
		t.Fatal(err)
	}
	k, err := txn.DB(0).Lookup(key)
	expectSame(t, "value", string(k.Value), string(want), err, nil)
}

// TestLongStringsAreNoHyperLogLogs, as their headers or lengths tell: they aren't read for that.
func TestLongStringsAreNoHyperLogLogs(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	const length, room = 62914561, 16 << 20
	counted := hyperloglog.WithCount(nil, hyperloglog.New(), 5)
	inTxn(t, s, func(d DB) {
		for key, start := range map[string][]byte{"zeros": {0}, "dense": []byte("HYLL\x00"), "sparse": hyperloglog.New(), "counted": counted} {
			must(t, d.SetString([]byte(key), &Key{}, start, 0))
			_, err := d.SetRange([]byte(key), length-1, []byte("x"), MaxStringBytes)
			must(t, err)
		}
	})
	inTxn(t, s, func(d DB) {
		before := allocated()
		for key, c := range map[string]struct{ union, add, count error }{
			"zeros":   {hyperloglog.ErrInvalid, hyperloglog.ErrInvalid, hyperloglog.ErrInvalid},
			"dense":   {hyperloglog.ErrInvalid, hyperloglog.ErrInvalid, hyperloglog.ErrInvalid},
			"sparse":  {union: hyperloglog.ErrCorrupt, count: hyperloglog.ErrCorrupt},
			"counted": {union: hyperloglog.ErrCorrupt},
		} {
			name := []byte(key)
			_, err := d.HyperLogLogCountUnion([][]byte{name, name})
			expectSame(t, key+": pfcount twice", 0, 0, err, c.union)
			expectSame(t, key+": pfmerge from", 0, 0, d.HyperLogLogMerge([]byte("new"), [][]byte{name}, 3000), c.union)
			expectSame(t, key+": pfmerge to", 0, 0, d.HyperLogLogMerge(name, nil, 3000), c.union)
			_, err = d.HyperLogLogCount(name)
			expectSame(t, key+": pfcount", 0, 0, err, c.count)
			if c.add != nil { // of a sparse one all opcodes may be looked at
				_, err = d.HyperLogLogAdd(name, nil, 3000)
				expectSame(t, key+": pfadd", 0, 0, err, c.add)
			}
		}
		if n := allocated() - before; n > room {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}

// allocated is how many bytes were allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
