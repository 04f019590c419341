package rocks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
)

type entry struct{ key, value string }

// model is what the family should hold, in the order of its keys.
type model []entry

func (m model) at(key string) (int, bool) {
	return slices.BinarySearchFunc(m, key, func(e entry, key string) int { return bytes.Compare([]byte(e.key), []byte(key)) })
}

func (m *model) put(key, value string) {
	i, found := m.at(key)
	if found {
		(*m)[i].value = value
		return
	}
	*m = slices.Insert(*m, i, entry{key, value})
}

func (m *model) delete(key string) {
	if i, found := m.at(key); found {
		*m = slices.Delete(*m, i, i+1)
	}
}

// walk lists what an iterator with these options should see, from seek on when there is one.
func (m model) walk(o IteratorOptions, seek *string) []entry {
	var seen []entry
	for _, e := range m {
		k := []byte(e.key)
		inside := (o.LowerBound == nil || bytes.Compare(k, o.LowerBound) >= 0) &&
			(o.UpperBound == nil || bytes.Compare(k, o.UpperBound) < 0)
		ahead := seek == nil || !o.Reverse && e.key >= *seek || o.Reverse && e.key <= *seek
		if !inside || !ahead {
			continue
		}
		if o.KeysOnly {
			e.value = ""
		}
		seen = append(seen, e)
	}
	if o.Reverse {
		slices.Reverse(seen)
	}
	return seen
}

func collect(t *testing.T, it *Iterator, most int) []entry {
	t.Helper()
	var seen []entry
	for len(seen) < most && it.Next() {
		seen = append(seen, entry{string(it.Key()), string(it.Value())})
	}
	must(t, it.Err())
	return seen
}

// Random writes and deletions, flushes in between; after each round, random walks
// in both directions must see what a sorted slice in Go holds.
func TestIteratorAgainstModel(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	d := openNew(t)
	f := create(t, d, "f")
	var m model
	for range 15 {
		change(t, d, f, &m, random)
		if random.IntN(3) == 0 {
			must(t, d.Flush())
		}
		s := d.Snapshot()
		then := slices.Clone(m)
		change(t, d, f, &m, random)
		for range 20 {
			if random.IntN(2) == 0 {
				checkWalk(t, d, f, s, then, random)
			} else {
				checkWalk(t, d, f, nil, m, random)
			}
		}
		s.Release()
	}
}

func randomKey(random *rand.Rand) string { return fmt.Sprintf("%03x", random.IntN(1500)) }

func change(t *testing.T, d *DB, f *Family, m *model, random *rand.Rand) {
	t.Helper()
	var b Batch
	for range random.IntN(300) {
		key := randomKey(random)
		switch random.IntN(20) {
		case 0, 1, 2, 3, 4, 5:
			b.Delete(f, []byte(key))
			m.delete(key)
		default:
			value := randomValue(random)
			b.Put(f, []byte(key), []byte(value))
			m.put(key, value)
		}
	}
	must(t, d.Write(&b))
}

// randomValue is short, mostly; sometimes larger than a whole block.
func randomValue(random *rand.Rand) string {
	most := 100
	switch random.IntN(100) {
	case 0:
		most = 3 * blockBytes
	case 1, 2:
		most = blockBytes / 4
	}
	return string(randomBytes(random, most))
}

func checkWalk(t *testing.T, d *DB, f *Family, s *Snapshot, m model, random *rand.Rand) {
	t.Helper()
	o := IteratorOptions{
		Reverse: random.IntN(2) == 0, KeysOnly: random.IntN(4) == 0, NoFillCache: random.IntN(4) == 0,
		ReadAheadBytes: random.IntN(2) << 16, Expected: max(0, random.IntN(200)-100),
	}
	if random.IntN(2) == 0 {
		o.LowerBound = []byte(randomKey(random))
	}
	if random.IntN(2) == 0 {
		o.UpperBound = []byte(randomKey(random))
	}
	it := d.NewIterator(f, s, o)
	defer it.Close()
	for range 3 { // a walk, then walks from elsewhere with the same iterator, some of them not to the end
		var seek *string
		if it.opened || random.IntN(2) == 0 {
			key := randomKey(random)
			seek = &key
			it.Seek([]byte(key))
		}
		want := m.walk(o, seek)
		most := len(want) + 1
		if random.IntN(2) == 0 {
			most = random.IntN(len(want) + 1)
		}
		got := collect(t, it, most)
		if !slices.Equal(got, want[:min(most, len(want))]) {
			t.Fatalf("%+v from %v: %d entries, want %d", o, seek, len(got), min(most, len(want)))
		}
	}
}

func TestIteratorBounds(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	put(t, d, f, "", "empty", "a", "1", "b", "2", "c", "3")
	for _, c := range []struct {
		o    IteratorOptions
		want string
	}{
		{IteratorOptions{}, "|a|b|c|"},
		{IteratorOptions{Reverse: true}, "c|b|a||"},
		{IteratorOptions{LowerBound: []byte("a"), UpperBound: []byte("c")}, "a|b|"},
		{IteratorOptions{LowerBound: []byte("a"), UpperBound: []byte("c"), Reverse: true}, "b|a|"},
		{IteratorOptions{LowerBound: []byte("a0"), UpperBound: []byte("a1")}, ""},
		{IteratorOptions{LowerBound: []byte("c"), UpperBound: []byte("a")}, ""},
		{IteratorOptions{UpperBound: []byte{}}, ""},
		{IteratorOptions{LowerBound: []byte{}, UpperBound: []byte("a")}, "|"},
	} {
		it := d.NewIterator(f, nil, c.o)
		got := ""
		for it.Next() {
			got += string(it.Key()) + "|"
		}
		if it.Err() != nil || got != c.want {
			t.Errorf("%+v: %q, %v, want %q", c.o, got, it.Err(), c.want)
		}
		if it.Next() || it.Key() != nil {
			t.Errorf("%+v goes on after its end", c.o)
		}
		it.Close()
		if it.Next() {
			t.Errorf("%+v goes on after Close", c.o)
		}
	}
}

func TestIteratorErrors(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	must(t, d.Drop(f))
	it := d.NewIterator(f, nil, IteratorOptions{})
	defer it.Close()
	if it.Next() || it.Err() == nil {
		t.Errorf("walk over a dropped family: %v", it.Err())
	}
}

// A damaged block must end the walk with an error, not as if nothing followed; and a read of it
// must not say "none".
func TestDamagedBlockIsAnError(t *testing.T) {
	d := openNew(t)
	f := d.Family(DefaultFamily)
	var b Batch
	for i := range 5000 {
		b.Put(f, fmt.Appendf(nil, "key%05d", i), randomBytes(rand.New(rand.NewPCG(uint64(i), 0)), 200))
	}
	must(t, d.Write(&b))
	must(t, d.Close())
	flip(t, matching(t, d.Directory(), "*.sst"))
	d = openAt(t, d.Directory())
	f = d.Family(DefaultFamily)
	it := d.NewIterator(f, nil, IteratorOptions{})
	defer it.Close()
	n := 0
	for it.Next() {
		n++
	}
	if !IsCorruption(it.Err()) || n == 0 || n >= 5000 {
		t.Fatalf("%d entries, then %v", n, it.Err())
	}
	if _, found, err := d.Get(f, nil, fmt.Appendf(nil, "key%05d", n), nil); found || !IsCorruption(err) {
		t.Errorf("get: %v, %v", found, err)
	}
}
