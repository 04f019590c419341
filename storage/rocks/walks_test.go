package rocks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
)

// smallTables are options under which some thousand keys take many tables.
func smallTables(directory string) Options {
	return Options{Directory: directory, BlockCacheBytes: 256 << 10, WriteBufferBytes: 256 << 10, TargetFileBytes: 64 << 10, Compression: "none"}
}

func numberedKey(i int) []byte { return fmt.Appendf(nil, "key %08d, which is long", i) }

func putNumbered(t *testing.T, d *DB, f *Family, keys []int) {
	t.Helper()
	for some := range slices.Chunk(keys, 1000) {
		var b Batch
		for _, i := range some {
			b.Put(f, numberedKey(i), []byte("value"))
		}
		must(t, d.Write(&b))
	}
}

// TestCachedWalksAreWhole: a walk that isn't to wait for files comes to its end, or says that it
// hasn't, wherever one table ends and the next begins.
func TestCachedWalksAreWhole(t *testing.T) {
	const keys, longest = 40_000, 2000
	d, err := Open(smallTables(t.TempDir()))
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	f := create(t, d, "f")
	random := rand.New(rand.NewPCG(seed.Of(t), 0))
	putNumbered(t, d, f, random.Perm(keys))
	must(t, d.Compact(t.Context(), f))
	incomplete := 0
	for n := range 4000 {
		if n > 1000 && n%500 == 0 { // one level first, then several
			putNumbered(t, d, f, random.Perm(keys)[:keys/20])
			must(t, d.Flush())
		}
		from := random.IntN(keys)
		to := min(keys, from+1+random.IntN(longest))
		it := d.NewIterator(f, nil, IteratorOptions{LowerBound: numberedKey(from), UpperBound: numberedKey(to),
			Reverse: random.IntN(2) == 0, CachedOnly: random.IntN(4) > 0})
		seen := 0
		for ; it.Next(); seen++ {
			want := from + seen
			if it.options.Reverse {
				want = to - 1 - seen
			}
			if got := string(it.Key()); got != string(numberedKey(want)) {
				t.Fatalf("%+v: %q behind %d others", it.options, got, seen)
			}
		}
		err := it.Err()
		it.Close()
		switch {
		case it.options.CachedOnly && IsIncomplete(err):
			incomplete++
		case err != nil || seen != to-from:
			t.Fatalf("%+v: %d of %d, %v", it.options, seen, to-from, err)
		}
	}
	if incomplete == 0 {
		t.Error("no walk had to wait")
	}
}

// TestDamagedBeginningsOfTables: a walk that comes to a table whose first block is damaged says so,
// and so does a compaction.
func TestDamagedBeginningsOfTables(t *testing.T) {
	const keys = 40_000
	d, err := Open(smallTables(t.TempDir()))
	must(t, err)
	f := create(t, d, "f")
	putNumbered(t, d, f, rand.Perm(keys))
	must(t, d.Compact(t.Context(), f))
	must(t, d.Close())
	tables, err := filepath.Glob(filepath.Join(d.Directory(), "*.sst"))
	must(t, err)
	if len(tables) < 4 {
		t.Fatalf("%d tables", len(tables))
	}
	for i, table := range tables {
		directory := crash(t, d.Directory())
		path := filepath.Join(directory, filepath.Base(table))
		data, err := os.ReadFile(path)
		must(t, err)
		data[100] ^= 0x55
		must(t, os.WriteFile(path, data, 0o600))
		d, err := Open(smallTables(directory))
		must(t, err)
		wantDamagedWalks(t, d, d.Family("f"))
		if i == len(tables)/2 {
			putNumbered(t, d, d.Family("f"), rand.Perm(keys)[:1000]) // something to compact
			if err := d.Compact(t.Context(), d.Family("f")); !IsCorruption(err) {
				t.Errorf("compaction: %v", err)
			}
		}
		d.Close()
	}
}

func wantDamagedWalks(t *testing.T, d *DB, f *Family) {
	t.Helper()
	for _, reverse := range []bool{false, true} {
		it := d.NewIterator(f, nil, IteratorOptions{Reverse: reverse})
		seen := 0
		for it.Next() {
			seen++
		}
		if !IsCorruption(it.Err()) {
			t.Errorf("reverse: %v: %d keys, %v", reverse, seen, it.Err())
		}
		it.Close()
	}
}

// TestDeletedRanges: what was deleted by ranges isn't found, though walks may show it until it is
// compacted away. What was written behind the deletion is.
func TestDeletedRanges(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	var b Batch
	random := rand.New(rand.NewPCG(seed.Of(t), 0))
	var m model
	for range 10 {
		b.Reset()
		for range 300 {
			key, to := randomKey(random), randomKey(random)
			if random.IntN(20) > 0 {
				b.Put(f, []byte(key), []byte(to))
				m.put(key, to)
				continue
			}
			key, to = min(key, to), max(key, to)
			b.DeleteRange(f, []byte(key), []byte(to))
			i, _ := m.at(key)
			j, _ := m.at(to)
			m = append(m[:i:i], m[j:]...)
		}
		must(t, d.Write(&b))
		if random.IntN(3) == 0 {
			must(t, d.Flush())
		}
		for range 300 {
			key, want := randomKey(random), "-"
			if i, found := m.at(key); found {
				want = m[i].value
			}
			wantValue(t, d, f, nil, key, want)
		}
	}
	must(t, d.Compact(t.Context(), f))
	it := d.NewIterator(f, nil, IteratorOptions{})
	defer it.Close()
	if got := collect(t, it, len(m)+1); fmt.Sprint(got) != fmt.Sprint([]entry(m)) {
		t.Errorf("%d entries after compaction, want %d", len(got), len(m))
	}
}

// TestDeleteFiles: tables within a range go, also after a restart; what lies outside stays.
func TestDeleteFiles(t *testing.T) {
	const keys, from, to = 40_000, 5_001, 35_003
	d, err := Open(smallTables(t.TempDir()))
	must(t, err)
	f := create(t, d, "f")
	putNumbered(t, d, f, rand.Perm(keys))
	must(t, d.Compact(t.Context(), f))
	must(t, d.DeleteFiles(f, numberedKey(from), numberedKey(to)))
	for range 2 {
		it := d.NewIterator(f, nil, IteratorOptions{})
		seen, inside := make(map[string]bool), 0
		for it.Next() {
			seen[string(it.Key())] = true
		}
		must(t, it.Err())
		it.Close()
		for i := range keys {
			switch found := seen[string(numberedKey(i))]; {
			case found && from <= i && i < to:
				inside++
			case !found && (i < from || i >= to):
				t.Fatalf("key %d is gone", i)
			}
		}
		if inside > keys/4 {
			t.Errorf("%d keys of %d are left", inside, to-from)
		}
		must(t, d.Close())
		d, err = Open(smallTables(d.Directory()))
		must(t, err)
		f = d.Family("f")
	}
	must(t, d.Close())
}
