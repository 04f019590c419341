package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// spreadOptions has collections of more than four elements spread, and no copies.
func spreadOptions(t *testing.T) Options {
	o := tinyOptions(t)
	o.CacheBytes, o.RetainedBytes = 0, nil
	return o
}

// putAll writes a string and a collection of each type whose elements are looked up, and brings
// them to RocksDB.
func putAll(t *testing.T, s *Store) {
	t.Helper()
	inTxn(t, s, func(d DB) {
		must(t, setString(d, []byte("string"), []byte("value")))
		h, err := d.Hash([]byte("hash"))
		must(t, err)
		set, err := d.Set([]byte("set"))
		must(t, err)
		z, err := d.ZSet([]byte("zset"))
		must(t, err)
		for i := range 100 {
			element := fmt.Appendf(nil, "element%d", i)
			_, err := h.Set(element, element)
			must(t, err)
			_, err = set.Add(element)
			must(t, err)
			must(t, z.AddNew(element, float64(i)))
		}
		must(t, h.Save(keyevent.Changed))
		must(t, set.Save(keyevent.Changed))
		must(t, z.Save(keyevent.Changed))
	})
	settle(t, s)
}

// askAll looks for what is there, and for a neighbour of each that isn't.
func askAll(t *testing.T, s *Store) {
	t.Helper()
	txn := s.NewTxn()
	defer txn.Reset()
	txn.Begin(Mode{}, 1000, 0)
	d := txn.DB(0)
	for key, want := range map[string]bool{"string": true, "strinh": false, "hash": true, "hasi": false} {
		if k, err := d.Lookup([]byte(key)); err != nil || k.Exists != want {
			t.Errorf("%s: %v, %v", key, k.Exists, err)
		}
	}
	h, err := d.Hash([]byte("hash"))
	must(t, err)
	set, err := d.Set([]byte("set"))
	must(t, err)
	z, err := d.ZSet([]byte("zset"))
	must(t, err)
	for i := range 200 {
		element, want := fmt.Appendf(nil, "element%d", i), i < 100
		_, inHash, err := h.Get(element)
		must(t, err)
		inSet, err := set.Contains(element)
		must(t, err)
		_, inZSet, err := z.Score(element)
		must(t, err)
		if inHash != want || inSet != want || inZSet != want {
			t.Errorf("%s: %v, %v, %v", element, inHash, inSet, inZSet)
		}
	}
}

// TestRocksDBIsNotAskedForWhatIsNotThere, before and after a start.
func TestRocksDBIsNotAskedForWhatIsNotThere(t *testing.T) {
	o := spreadOptions(t)
	s, err := Open(o)
	must(t, err)
	log := &testLog{}
	s.Attach(log, 1)
	putAll(t, s)
	expectAsked := func(when string, s *Store) {
		t.Helper()
		before, rulings := s.Counters().RocksReads.Load(), s.Filters().RuledOut
		askAll(t, s)
		// What is there is read: four kinds of keys by name, and a hundred elements three times. Of
		// what isn't, one in a hundred may be, too.
		if reads := s.Counters().RocksReads.Load() - before; reads > 305+20 {
			t.Errorf("%s, %d records were read", when, reads)
		}
		if f := s.Filters(); f.RuledOut-rulings < 302-20 || f.Building || f.Bytes == 0 || f.Records < 304 {
			t.Errorf("%s: %+v", when, f)
		}
	}
	expectAsked("when it was written", s)
	must(t, s.Close())
	s, err = Open(o)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	s.Attach(log, 1)
	inside(s).WithoutFilter(0, func() { askAll(t, s) })
	must(t, inside(s).BuildFilters())
	expectNothingRuledOut(t, s)
	expectAsked("after a start", s)
	must(t, s.Reopen())
	must(t, inside(s).BuildFilters())
	expectNothingRuledOut(t, s)
	expectAsked("after another one", s)
}

// TestAFilterAwaitsWritesThatHaveBegun and don't know of it.
func TestAFilterAwaitsWritesThatHaveBegun(t *testing.T) {
	s := openStore(t, spreadOptions(t))
	commitString(t, s, "first", "value")
	settle(t, s)
	built := make(chan error, 1)
	inside(s).DuringWrite(func() {
		go func() { built <- inside(s).BuildFilter(0) }()
		select {
		case err := <-built:
			t.Fatal("a filter was built while a write was under way", err)
		case <-time.After(50 * time.Millisecond): // enough for whoever doesn't wait
		}
		batch, metadata := new(rocks.Batch), layout.Metadata{Type: layout.String, Encoding: layout.Plain}
		batch.Put(inside(s).Family(0), layout.AppendMetadataKey(nil, []byte("second")), metadata.Append(nil))
		must(t, s.Rocks().Write(batch))
	})
	must(t, <-built)
	expectNothingRuledOut(t, s) // nobody has added the second key, so a snapshot had to show it
}

// TestFiltersAreBuiltWhileOthersWrite, and what is there is found at any time, whatever
// generations, staging and namespaces do.
func TestFiltersAreBuiltWhileOthersWrite(t *testing.T) {
	s := openWithHash(t, spreadOptions(t))
	stop := make(chan struct{})
	var building sync.WaitGroup
	building.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := inside(s).BuildFilter(0); err != nil {
				t.Error(err)
				return
			}
		}
	})
	random := rand.New(rand.NewPCG(seed.Of(t), 1))
	model := map[string]string{}
	for step := range 600 {
		key := fmt.Sprintf("key%d", random.IntN(100))
		switch n := random.IntN(300); {
		case n == 0:
			txn := s.NewTxn()
			txn.Flush(0)
			txn.Effect(0, []byte("FLUSHDB"))
			must(t, s.Commit(txn))
			clear(model)
			putHash(t, s)
		case n < 5:
			settle(t, s)
		case n < 10:
			model[key] = wholeHash
			inTxn(t, s, func(d DB) {
				_, err := d.Delete([]byte(key))
				must(t, err)
				k, err := d.Lookup([]byte("h"))
				must(t, err)
				must(t, d.CopyTo(k, d, []byte(key), Key{}))
			})
		case n < 60:
			delete(model, key)
			inTxn(t, s, func(d DB) {
				_, err := d.Delete([]byte(key))
				must(t, err)
			})
		default:
			model[key] = fmt.Sprint(step)
			commitString(t, s, key, model[key])
		}
		expectKey(t, s, key, model[key])
	}
	close(stop)
	building.Wait()
	settle(t, s)
	for key, want := range model {
		expectKey(t, s, key, want)
	}
}

// wholeHash stands for a copy of the hash that openWithHash makes.
const wholeHash = "hash"

// expectKey expects a string, a whole hash, or with "" nothing.
func expectKey(t *testing.T, s *Store, key, want string) {
	t.Helper()
	txn := s.NewTxn()
	defer txn.Reset()
	txn.Begin(Mode{}, 1000, 0)
	if want == wholeHash {
		expectHash(t, txn.DB(0), key)
		return
	}
	if k, err := txn.DB(0).Lookup([]byte(key)); err != nil || k.Exists != (want != "") || string(k.Value) != want {
		t.Errorf("%s: %q, %v, %v; want %q", key, k.Value, k.Exists, err, want)
	}
}

// TestFiltersForgetWhatIsGone once it is most of what they know.
func TestFiltersForgetWhatIsGone(t *testing.T) {
	o := testOptions(t.TempDir(), 64<<10, 1<<20)
	s := openStore(t, o)
	const keys = 3 * engine.InspectRebuiltFrom
	for from := 0; from < keys; from += 1000 {
		inTxn(t, s, func(d DB) {
			for i := range 1000 {
				must(t, setString(d, fmt.Appendf(nil, "key%d", from+i), []byte("value")))
			}
		})
	}
	must(t, s.Persist())
	must(t, inside(s).BuildFilters())
	full := s.Filters().Records
	if full < keys*9/10 || full > keys {
		t.Fatalf("%d records are known of %d", full, keys)
	}
	inTxn(t, s, func(d DB) {
		for i := range keys - 1000 {
			_, err := d.Delete(fmt.Appendf(nil, "key%d", i))
			must(t, err)
		}
	})
	must(t, s.Persist())
	must(t, inside(s).BuildFilters())
	if f := s.Filters(); f.Records > 2000 || inside(s).FilterLayers(0) != 1 {
		t.Errorf("%d records are known of 1000, in %d layers", f.Records, inside(s).FilterLayers(0))
	}
}

// TestFiltersAreMadeForElements, too: one layer takes all, or two when it is a guess how many there
// are, and how many of those aren't known, which the order of sorted sets isn't.
func TestFiltersAreMadeForElements(t *testing.T) {
	const fields, members = 20_000, 20_000
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	s, log := reopen(t, o, &testLog{})
	inTxn(t, s, func(d DB) {
		h, err := d.Hash([]byte("hash"))
		must(t, err)
		z, err := d.ZSet([]byte("zset"))
		must(t, err)
		for i := range fields {
			_, err := h.Set(fmt.Appendf(nil, "field%d", i), nil)
			must(t, err)
		}
		for i := range members {
			must(t, z.AddNew(fmt.Appendf(nil, "member%d", i), float64(i)))
		}
		must(t, h.Save(keyevent.Changed))
		must(t, z.Save(keyevent.Changed))
	})
	must(t, s.Persist())
	expectFitting := func(when string, most int64) {
		t.Helper()
		const bytes = (fields + members) * 10 / 8
		if f, layers := s.Filters(), inside(s).FilterLayers(0); int64(layers) > most || f.Bytes > most*bytes*5/4 {
			t.Errorf("%s, %d records are known in %d layers of %d bytes", when, f.Records, layers, f.Bytes)
		}
	}
	must(t, inside(s).BuildFilter(0))
	expectFitting("in place of another one", 1)
	must(t, s.Close())
	must(t, os.Remove(filtersFile(o)))
	s, _ = reopen(t, o, log)
	defer func() { must(t, s.Close()) }()
	must(t, inside(s).BuildFilters())
	expectFitting("after a crash", 2)
	expectNothingRuledOut(t, s)
}

// TestFiltersForgetWhatWasReaped of large collections.
func TestFiltersForgetWhatWasReaped(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<10, 1<<20))
	inTxn(t, s, func(d DB) {
		h, err := d.Hash([]byte("hash"))
		must(t, err)
		for i := range 2 * engine.InspectRebuiltFrom {
			_, err := h.Set(fmt.Appendf(nil, "field%d", i), nil)
			must(t, err)
		}
		must(t, h.Save(keyevent.Changed))
	})
	must(t, s.Persist())
	inTxn(t, s, func(d DB) {
		_, err := d.Delete([]byte("hash"))
		must(t, err)
	})
	persistAndReap(t, s)
	if records := s.Filters().Records; records < engine.InspectRebuiltFrom {
		t.Fatalf("%d records are known", records)
	}
	must(t, inside(s).BuildFilters())
	if f := s.Filters(); f.Records > 1 {
		t.Errorf("%d records are known when all are gone", f.Records)
	}
}

// TestFiltersTakeTheirShareOfMemory, and give it back.
func TestFiltersTakeTheirShareOfMemory(t *testing.T) {
	const cacheBytes, most = 256 << 10, 128 << 10
	s := openStore(t, testOptions(t.TempDir(), 64<<10, cacheBytes))
	_, before := s.Copies()
	for from := 0; from < 200_000; from += 2000 {
		inTxn(t, s, func(d DB) {
			for i := range 2000 {
				must(t, setString(d, fmt.Appendf(nil, "key%d", from+i), nil))
			}
		})
	}
	settle(t, s)
	must(t, inside(s).BuildFilters())
	_, now := s.Copies()
	f := s.Filters()
	if f.Bytes > most || f.Bytes < most/2 || before-now != f.Bytes {
		t.Errorf("filters take %d bytes, of at most %d; copies may take %d, and before %d", f.Bytes, most, now, before)
	}
	txn := s.NewTxn()
	txn.Flush(0)
	txn.Effect(0, []byte("FLUSHDB"))
	must(t, s.Commit(txn))
	must(t, inside(s).BuildFilters())
	if _, after := s.Copies(); after != before || s.Filters().Bytes != 0 {
		t.Errorf("copies may take %d bytes when everything is gone, and before %d", after, before)
	}
}

// TestImportedKeysAreKnown as soon as they are there.
func TestImportedKeysAreKnown(t *testing.T) {
	for name, begin := range map[string]func(s *Store) (*Import, error){
		"in any order": (*Store).NewImport,
		"sorted":       func(s *Store) (*Import, error) { return s.NewSortedImport(t.TempDir(), 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, spreadOptions(t))
			commitString(t, s, "former", "value")
			i, err := begin(s)
			must(t, err)
			for n := range 10 {
				restoreString(t, i, fmt.Sprint("key", n), "value")
			}
			must(t, i.Finish())
			must(t, i.Swap(inside(s).CommitLog(), 1))
			must(t, s.PersistState())
			expectKey(t, s, "key7", "value")
			expectKey(t, s, "former", "")
			expectNothingRuledOut(t, s)
			must(t, inside(s).BuildFilters())
			expectKey(t, s, "key7", "value")
		})
	}
}
