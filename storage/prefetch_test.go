package storage

import (
	"fmt"
	"testing"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// TestPrefetchWhileGenerationsChange looks ahead for keys and elements while others write, and while one generation takes the place of
// another: nothing may be looked up where it was in the one before.
func TestPrefetchWhileGenerationsChange(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 8<<10, 1<<20))
	const keys = 200
	var requests []Prefetch
	for i := range keys {
		requests = append(requests, Prefetch{Access: AccessElement, Key: fmt.Appendf(nil, "key%d", i), Element: fmt.Appendf(nil, "field%d", i)})
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		txn := s.NewTxn()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			from := i * PrefetchBatch % (keys - PrefetchBatch)
			txn.Prefetch(requests[from : from+PrefetchBatch])
			txn.DB(0).PrefetchKeys([][]byte{requests[from].Key}, 1)
		}
	}()
	txn := s.NewTxn()
	for i := range 1500 {
		txn.Begin(Mode{Writing: true}, 1, 0)
		db := txn.DB(0)
		key, field := requests[i%keys].Key, requests[i%keys].Element
		h, err := db.Hash(key)
		if err != nil {
			t.Fatal(err)
		}
		// One value in three is large, so that some of the hashes are spread.
		if _, err := h.Set(field, fmt.Appendf(nil, "%0*d", 1+i%3*60, i)); err != nil {
			t.Fatal(err)
		}
		if err := h.Save(); err != nil {
			t.Fatal(err)
		}
		txn.Effect(0, []byte("HSET"), key, field)
		if err := s.Commit(txn); err != nil {
			t.Fatal(err)
		}
		txn.Reset()
	}
	close(stop)
	<-stopped
	if s.Counters().Flushes.Load() < 10 {
		t.Errorf("only %d generations were written: the test needs more", s.Counters().Flushes.Load())
	}
}

// TestPrefetchKnowsWhatWillBePopped asks for the elements that pops will take, from a list that the transaction itself has popped from.
func TestPrefetchKnowsWhatWillBePopped(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	fillList(t, s, "list", 3000)
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	key := layout.AppendMetadataKey(nil, []byte("list"))
	hash := recordHash(db.space.number, key)
	for round := range 3 {
		var p taking
		for _, access := range []Access{AccessFirst, AccessLast, AccessFirst, AccessLast, AccessFirst} {
			metadata, _ := s.tiers.Load().active.Get(generation.End, hash, db.space.number, key) // before the transaction
			if !txn.takenKey(&p, metadata, hash, db.space.number, &Prefetch{Access: access, Key: []byte("list")}) {
				t.Fatalf("%d takes nothing out", access)
			}
			_, index, _ := layout.DecodeListKey(txn.prefetched.key)
			list, err := db.List([]byte("list"))
			must(t, err)
			last := list.next.Head + p.first - 1
			if access == AccessLast {
				last = list.next.Tail - p.last
			}
			if index != last {
				t.Errorf("round %d, %d: %d instead of %d", round, access, index, last)
			}
		}
		list, err := db.List([]byte("list"))
		must(t, err)
		must(t, list.Pop(true, 3, func([]byte) {}))
		must(t, list.Pop(false, 2, func([]byte) {}))
		must(t, list.Save())
	}
	metadata, _ := s.tiers.Load().active.Get(generation.End, hash, db.space.number, key)
	if txn.takenKey(&taking{}, metadata, hash, db.space.number, &Prefetch{Access: AccessKey, Key: []byte("list")}) {
		t.Error("who looks for the key was taken for somebody who takes an element out")
	}
}

// TestPrefetchFindsWhatIsOnItsWay looks ahead for a key that stands in a generation which waits for RocksDB, and for one that is nowhere.
func TestPrefetchFindsWhatIsOnItsWay(t *testing.T) {
	s, log := openHeld(t, testOptions(t.TempDir(), 1<<30, 1<<20))
	log.hold.Lock()
	defer log.hold.Unlock()
	write(t, s, 0, "key")
	freeze(s)
	get := func(key string) Prefetch { return Prefetch{Access: AccessKey, Key: []byte(key)} }
	if missing := s.NewTxn().Prefetch([]Prefetch{get("key"), get("nowhere")}); missing != 1<<1 {
		t.Errorf("%b are missing", missing)
	}
}
