package generation

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	seeds "kedis/redis-tests/seed"
)

// model is what a generation should show: the versions of each key with the mark behind each.
type model map[string][]version

type version struct {
	mark    Mark
	value   string
	deleted bool
}

func (m model) at(mark Mark, key string) (version, bool) {
	versions := m[key]
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].mark <= mark {
			return versions[i], true
		}
	}
	return version{}, false
}

func fill(t *testing.T, random *rand.Rand, g *Generation, writes int) (model, []Mark) {
	t.Helper()
	m := model{}
	var marks []Mark
	for i := range writes {
		key := fmt.Sprintf("key%03d", random.IntN(200))
		v := version{value: fmt.Sprint("value", i), deleted: random.IntN(5) == 0}
		switch {
		case v.deleted:
			g.Delete(Hash(1, []byte(key)), 1, []byte(key))
		case i%9 == 0:
			l := g.memory.NewLarge([]byte(key), len(v.value))
			copy(l.Value(), v.value)
			g.PutLarge(Hash(1, []byte(key)), 1, l)
		default:
			g.Put(Hash(1, []byte(key)), 1, []byte(key), []byte(v.value))
		}
		v.mark = g.Mark()
		m[key] = append(m[key], v)
		other := []byte(key)
		g.Put(Hash(2, other), 2, other, []byte("of another space"))
		if i%37 == 0 {
			marks = append(marks, g.Mark())
			g.Iterate(End, Range{Space: 1}, false) // keeps in order what there is so far
		}
	}
	return m, append(marks, End)
}

func TestAgainstModel(t *testing.T) {
	for _, how := range []string{"unsorted", "sorted chunks", "tidied at last", "tidied again and again", "merged"} {
		t.Run(how, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var sealed []*Chunk
			var g *Generation
			g = New(NewMemory(), Hash, nil, 4096, 0, func(c *Chunk) {
				sealed = append(sealed, c)
				if how == "tidied again and again" && len(sealed)%7 == 0 {
					for g.Tidy(new(Scratch)) {
					}
				}
			})
			m, marks := fill(t, random, g, 3000)
			if how != "unsorted" {
				for _, c := range sealed {
					c.Sort(new(Scratch))
				}
			}
			switch how {
			case "merged":
				g.Merge(nil)
			case "tidied at last", "tidied again and again":
				for g.Tidy(new(Scratch)) {
				}
				spans, doublings := *g.spans.Load(), bits.Len(uint(len(sealed)))
				if len(spans) > doublings || behind(spans) <= len(sealed)-merging || how == "tidied at last" && len(spans) > 1 {
					t.Errorf("%d chunks are %d spans up to %d", len(sealed), len(spans), behind(spans))
				}
			}
			for _, mark := range marks {
				checkGets(t, g, m, mark)
				lower, upper := random.IntN(200), random.IntN(220)
				checkRange(t, g, m, mark, fmt.Sprintf("key%03d", lower), fmt.Sprintf("key%03d", upper))
				checkRange(t, g, m, mark, "", "")
			}
		})
	}
}

func checkGets(t *testing.T, g *Generation, m model, mark Mark) {
	t.Helper()
	for i := range 210 {
		key := fmt.Sprintf("key%03d", i)
		value, state := g.Get(mark, Hash(1, []byte(key)), 1, []byte(key))
		want, known := m.at(mark, key)
		switch {
		case !known && state != Unknown, known && want.deleted != (state == Deleted),
			known && string(value) != want.value && !want.deleted:
			t.Fatalf("mark %d, %s: got %q, %v; want %+v, %v", mark, key, value, state, want, known)
		}
	}
}

func checkRange(t *testing.T, g *Generation, m model, mark Mark, lower, upper string) {
	t.Helper()
	var want []string
	for key := range m {
		if v, known := m.at(mark, key); known && key >= lower && (upper == "" || key < upper) {
			want = append(want, fmt.Sprint(key, v.deleted, map[bool]string{false: v.value}[v.deleted]))
		}
	}
	slices.Sort(want)
	r := Range{Space: 1, Lower: []byte(lower)}
	if upper != "" {
		r.Upper = []byte(upper)
	}
	for _, reverse := range []bool{false, true} {
		var got []string
		for it := g.Iterate(mark, r, reverse); it.Next(); {
			value, state := it.Value()
			got = append(got, fmt.Sprint(string(it.Key()), state == Deleted, string(value)))
		}
		if reverse {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("mark %d, [%s, %s), reverse %v: got %q, want %q", mark, lower, upper, reverse, got, want)
		}
	}
}

// TestKeysThatLookAlike walks over keys that share much, end within each other, or go on with the
// least and the greatest bytes.
func TestKeysThatLookAlike(t *testing.T) {
	random := rand.New(rand.NewPCG(seeds.Of(t), 2))
	for range 30 {
		g := New(NewMemory(), Hash, nil, 1<<10, 0, func(c *Chunk) { c.Sort(new(Scratch)) })
		there := map[string]bool{}
		for range 1 + random.IntN(1500) {
			key := bytes.Repeat([]byte{[]byte{0, 'k', 0xff}[random.IntN(3)]}, random.IntN(20))
			for range random.IntN(3) {
				key = append(key, []byte{0, 1, 0xfe, 0xff}[random.IntN(4)])
			}
			g.Put(Hash(1, key), 1, key, nil)
			there[string(key)] = true
		}
		want := slices.Sorted(maps.Keys(there))
		lower, upper := want[random.IntN(len(want))], want[random.IntN(len(want))]
		from, _ := slices.BinarySearch(want, lower)
		to, _ := slices.BinarySearch(want, upper)
		for _, reverse := range []bool{false, true} {
			for _, within := range []struct {
				Range
				want []string
			}{{Range{Space: 1}, want}, {Range{1, []byte(lower), []byte(upper)}, want[from:max(from, to)]}} {
				var got []string
				for it := g.Iterate(End, within.Range, reverse); it.Next(); {
					got = append(got, string(it.Key()))
				}
				if reverse {
					slices.Reverse(got)
				}
				if !slices.Equal(got, within.want) {
					t.Fatalf("in %v, reverse %v: %q, want %q", within.Range, reverse, got, within.want)
				}
			}
		}
	}
}

func TestReadersBesideAWriter(t *testing.T) {
	g := New(NewMemory(), Hash, nil, 4096, 0, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20000 {
			key := fmt.Append(nil, "k", i%5000)
			g.Put(Hash(0, key), 0, key, key)
		}
	}()
	for finished := false; !finished; {
		select {
		case <-done:
			finished = true
		default:
		}
		for i := range 50 {
			key := fmt.Append(nil, "k", i*100)
			if value, state := g.Get(g.Mark(), Hash(0, key), 0, key); state == Present && !bytes.Equal(value, key) {
				t.Fatalf("%s has the value %q", key, value)
			}
		}
		for it := g.Iterate(g.Mark(), Range{Lower: []byte("k1"), Upper: []byte("k11")}, false); it.Next(); {
			if value, _ := it.Value(); !bytes.Equal(it.Key(), value) {
				t.Fatalf("%s has the value %q", it.Key(), value)
			}
		}
	}
}

func TestAnEntryLargerThanAChunk(t *testing.T) {
	g := New(NewMemory(), Hash, nil, 256, 0, nil)
	big := bytes.Repeat([]byte("x"), 10000)
	for _, key := range []string{"a", "b"} {
		g.Put(Hash(0, []byte(key)), 0, []byte(key), big)
	}
	for _, key := range []string{"a", "b"} {
		if value, state := g.Get(End, Hash(0, []byte(key)), 0, []byte(key)); state != Present || !bytes.Equal(value, big) {
			t.Fatalf("%s: %d bytes, %v", key, len(value), state)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	value := make([]byte, 100)
	keys := make([][]byte, 1<<18)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "Mkey:%012d", rand.IntN(1000000))
	}
	g := New(NewMemory(), Hash, nil, 256<<10, 500000, nil)
	b.ReportAllocs()
	for i := range b.N {
		if g.Bytes() > 256<<20 {
			g = New(NewMemory(), Hash, nil, 256<<10, 500000, nil)
		}
		key := keys[i&(len(keys)-1)]
		g.Put(Hash(1, key), 1, key, value)
	}
}

func BenchmarkGet(b *testing.B) {
	value := make([]byte, 100)
	g := New(NewMemory(), Hash, nil, 256<<10, 500000, nil)
	keys := make([][]byte, 1<<18)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "Mkey:%012d", i)
		g.Put(Hash(1, keys[i]), 1, keys[i], value)
	}
	b.ReportAllocs()
	for i := range b.N {
		key := keys[(i*7919)&(len(keys)-1)]
		if _, state := g.Get(End, Hash(1, key), 1, key); state != Present {
			b.Fatal("missing")
		}
	}
}

// BenchmarkMerge brings generations into order, and reads them in it: of keys by chance, of one
// list to whose head elements are pushed, and of few keys that are written again and again.
func BenchmarkMerge(b *testing.B) {
	const records = 400_000
	random := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []struct {
		name string
		add  func(g *Generation, i int)
	}{
		{"keys", func(g *Generation, _ int) { benchPut(g, fmt.Appendf(nil, "mkey:%012d", random.IntN(1_000_000)), 100) }},
		{"list", func(g *Generation, i int) {
			benchPut(g, binary.BigEndian.AppendUint64([]byte("l\x00\x00\x00\x00\x00\x00\x00\x07"), 1<<63-uint64(i)), 100)
			if i%16 == 0 {
				benchPut(g, []byte("mlist"), 34)
			}
		}},
		{"counters", func(g *Generation, _ int) { benchPut(g, fmt.Appendf(nil, "mcounter:%d", random.IntN(records/10)), 12) }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			var batch []byte
			for b.Loop() {
				b.StopTimer()
				g := New(NewMemory(), Hash, nil, 256<<10, records, nil)
				for i := range records {
					kind.add(g, i)
				}
				b.StartTimer()
				g.Merge(nil)
				batch = batch[:0]
				for it := range g.Records() {
					v, _ := it.Value()
					batch = append(append(batch, it.Key()...), v...)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
		})
	}
}

func benchPut(g *Generation, key []byte, valueLength int) {
	g.Put(Hash(1, key), 1, key, make([]byte, valueLength))
}

// BenchmarkIterate begins to walk a collection that is being written, whose last entries aren't in
// order.
func BenchmarkIterate(b *testing.B) {
	g := New(NewMemory(), Hash, nil, 256<<10, 0, func(c *Chunk) { c.Sort(new(Scratch)) })
	add := func(i int) {
		key := fmt.Appendf(nil, "element:%012d", i*7919%100000)
		g.Put(Hash(1, key), 1, key, nil)
	}
	for i := range 9000 {
		add(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%16 == 0 {
			add(9000 + i)
		}
		g.Iterate(End, Range{Space: 1, Lower: []byte("element:000000050000")}, false).Next()
	}
}

// BenchmarkWalk walks over a collection that stands in many chunks.
func BenchmarkWalk(b *testing.B) {
	const records = 200000
	g := New(NewMemory(), Hash, nil, 256<<10, records, func(c *Chunk) { c.Sort(new(Scratch)) })
	for i := range records {
		benchPut(g, fmt.Appendf(nil, "element:%012d", i*7919%1000003), 0)
	}
	for b.Loop() {
		for it := g.Iterate(End, Range{Space: 1, Lower: []byte("element:")}, false); it.Next(); {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}

// TestRetained uses some records of a retained generation, and supersedes others.
func TestRetained(t *testing.T) {
	g := New(NewMemory(), Hash, nil, 4096, 0, nil)
	hash := func(key string) uint64 { return Hash(1, []byte(key)) }
	for i := range 500 {
		key := fmt.Sprint("key", i)
		g.Put(hash(key), 1, []byte(key), []byte("old"))
		g.Put(hash(key), 1, []byte(key), fmt.Append(nil, i))
	}
	g.Delete(hash("gone"), 1, []byte("gone"))
	g.Merge(nil)
	use := func(key string, noting bool, want string, wantState State) {
		t.Helper()
		if value, state := g.Use(hash(key), 1, []byte(key), noting); string(value) != want || state != wantState {
			t.Errorf("%s: %q, %v, want %q, %v", key, value, state, want, wantState)
		}
	}
	used := func() (keys []string) {
		left := 0
		for record, used := range g.Left() {
			if left++; used {
				keys = append(keys, string(record.Key()))
			}
		}
		if left < 499 || left > 501 {
			t.Errorf("%d records are left", left)
		}
		slices.Sort(keys)
		return keys
	}
	use("key7", true, "7", Present)
	use("key7", true, "7", Present)
	use("key8", false, "8", Present)
	use("key9", true, "9", Present)
	use("gone", true, "", Deleted)
	use("none", true, "", Unknown)
	if got := used(); !slices.Equal(got, []string{"gone", "key7", "key9"}) {
		t.Errorf("used: %q", got)
	}
	for _, key := range []string{"key9", "key10", "none"} {
		g.Supersede(hash(key), 1, []byte(key))
	}
	use("key9", true, "", Unknown)
	use("key10", true, "", Unknown)
	if got := used(); !slices.Equal(got, []string{"gone", "key7"}) {
		t.Errorf("used, without what is superseded: %q", got)
	}
	for i := range 500 { // for those who see it as it was
		key := fmt.Sprint("key", i)
		if value, state := g.Get(End, hash(key), 1, []byte(key)); string(value) != fmt.Sprint(i) || state != Present {
			t.Errorf("%s: %q, %v", key, value, state)
		}
	}
}

// BenchmarkTidy brings a generation's ordered chunks into one order.
func BenchmarkTidy(b *testing.B) {
	const records = 1000000
	random := rand.New(rand.NewPCG(1, 2))
	g := New(NewMemory(), Hash, nil, 1<<20, records, func(c *Chunk) { c.Sort(new(Scratch)) })
	for range records {
		benchPut(g, fmt.Appendf(nil, "Mkey:%012d", random.IntN(records)), 30)
	}
	for b.Loop() {
		g.spans.Store(nil)
		for g.Tidy(new(Scratch)) {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
