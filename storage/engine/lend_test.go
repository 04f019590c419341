package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/storage/cache"
	"kedis/storage/filter"
	"kedis/storage/layout"
	"kedis/storage/ordered"
)

// TestCopiesGrowBesideLentTrees fills what is lent to trees, and then has copies come as fast as
// they can: both together take no more than there is, and in the end copies have what is theirs.
func TestCopiesGrowBesideLentTrees(t *testing.T) {
	const share, most = 8 << 20, 64 << 20
	o := testOptions(t.TempDir(), 1<<20, most)
	o.TreeBytes = constant[int64](share)
	o.MostTreeBytes = constant[int64](most)
	s, _ := reopen(t, o, &testLog{})
	defer func() { must(t, s.Close()) }()
	for range 8 { // each time half of what is free is lent
		fillTrees(s)
		s.balance()
	}
	if _, trees := s.order.trees.Stats(); trees < most*3/4 {
		t.Fatalf("trees take %d bytes, and there are %d", trees, most)
	}
	value := make([]byte, 1000)
	copies := int64(0)
	for round := range 64 {
		for i := range 10000 {
			key := fmt.Appendf(nil, "%d %d", round, i)
			s.clean.records.Put(recordHash(1, key), 1, key, value, true)
		}
		copies = s.clean.records.Bytes()
		_, trees := s.order.trees.Stats()
		if all := copies + trees + s.Filters().Bytes; all > most+cache.Least {
			t.Fatalf("after %d rounds copies take %d bytes, and trees %d, of %d", round, copies, trees, most)
		}
		s.balance()
	}
	if copies < most-share-cache.Least {
		t.Errorf("copies take %d bytes in the end, and may take %d", copies, most-share)
	}
}

// TestSharesAreFoundOutOneAtATime: the memory for copies is changed while somebody finds out the
// shares of what it was before. The shares are those of the new one in the end.
func TestSharesAreFoundOutOneAtATime(t *testing.T) {
	const before, after = 64 << 20, 16 << 20
	inside, changed := make(chan bool, 1), make(chan bool)
	var waits atomic.Bool
	o := testOptions(t.TempDir(), 1<<20, before)
	o.MostTreeBytes = func() int64 {
		if waits.Swap(false) {
			inside <- true
			select {
			case <-changed:
			case <-time.After(200 * time.Millisecond): // it is waited for in turn
			}
		}
		return before
	}
	s, _ := reopen(t, o, &testLog{})
	defer func() { must(t, s.Close()) }()
	waits.Store(true)
	var balancing sync.WaitGroup
	balancing.Go(s.balance)
	<-inside
	s.SetCacheBytes(after)
	close(changed)
	balancing.Wait()
	if limit := s.clean.records.Limit(); limit > after {
		t.Errorf("copies may take %d bytes, of %d", limit, after)
	}
}

// TestCopiesGoWithTheirMemory, though nothing is read or written any more.
func TestCopiesGoWithTheirMemory(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 64<<20))
	value := make([]byte, 1000)
	for i := range 20_000 {
		key := fmt.Append(nil, i)
		s.clean.records.Put(recordHash(1, key), 1, key, value, true)
	}
	for _, most := range []int64{2 * cache.Least, cache.Least - 1} {
		s.SetCacheBytes(most)
		waitFor(t, func() bool { return s.clean.records.Bytes() <= most })
	}
}

// TestFiltersGoWithTheirMemory, once.
func TestFiltersGoWithTheirMemory(t *testing.T) {
	const records = 300_000
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	for from := 0; from < records; from += 10_000 {
		commit(t, s, 0, func(txn *Txn, ns *Namespace) (err error) {
			txn.Count(ns, 10_000, 0)
			for i := from; i < from+10_000 && err == nil; i++ {
				err = txn.Put(ns, layout.AppendMetadataKey(nil, fmt.Append(nil, i)), []byte("value"))
			}
			return err
		})
	}
	must(t, s.Persist())
	build := func() *filter.Filter {
		s.balance()
		must(t, s.buildDue())
		return s.tiers.Load().databases[0].presence.complete.Load()
	}
	before := build()
	if before.Bytes() < records {
		t.Fatalf("the filter takes %d bytes", before.Bytes())
	}
	s.SetCacheBytes(256 << 10)
	small := build()
	if most := s.presences.memory.most.Load(); small.Bytes() > most || small.Bytes() < most/2 {
		t.Errorf("the filter takes %d bytes, before %d, and may take %d", small.Bytes(), before.Bytes(), most)
	}
	if build() != small {
		t.Error("it is built again")
	}
	s.SetCacheBytes(250 << 10)
	if build() != small {
		t.Error("it is built anew for a little")
	}
}

// fillTrees makes trees of as many entries as there is room for.
func fillTrees(s *Store) {
	value := make([]byte, 1000)
	for id := range uint64(1000) {
		tree := s.order.trees.Of(ordered.Identity{Space: 1, Kind: layout.KindStreamEntry, ID: id}, true, 0)
		p := tree.Find(nil, false)
		var r ordered.Reading
		r.Begin(tree, &p, nil, false, ordered.Entries)
		for i := range 100 {
			r.Add(fmt.Appendf(nil, "%06d", i), value)
		}
		r.End(nil)
		s.order.trees.Reclaim()
	}
}
