package engine

import (
	"testing"

	"kedis/storage/layout"
)

// TestPrefetchKnowsWhatWillBeTaken asks for the elements that requests will take out of a sequence,
// some of which the transaction itself has taken out before.
func TestPrefetchKnowsWhatWillBeTaken(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	key := layout.AppendMetadataKey(nil, []byte("list"))
	bounds := func(head, tail uint64) []byte {
		m := layout.Metadata{Type: layout.List, Encoding: layout.Spread, ID: 7, Head: head, Tail: tail}
		return m.Append(nil)
	}
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	ns := txn.Namespace(0)
	hash := recordHash(ns.Number, key)
	committed := bounds(1000, 4000)
	for round := range uint64(3) {
		head, tail := 1000+3*round, 4000-2*round
		var p taking
		for _, access := range []Access{AccessFirst, AccessLast, AccessFirst, AccessLast, AccessFirst} {
			if !txn.takenKey(&p, committed, hash, ns.Number, &Prefetch{Access: access, Key: []byte("list")}) {
				t.Fatalf("%d takes nothing out", access)
			}
			id, index, _ := layout.DecodeSequenceKey(txn.prefetched.key)
			want := head + p.first - 1
			if access == AccessLast {
				want = tail - p.last
			}
			if id != 7 || index != want {
				t.Errorf("round %d, %d: %d of %d instead of %d", round, access, index, id, want)
			}
		}
		must(t, txn.Put(ns, key, bounds(head+3, tail-2)))
	}
	if txn.takenKey(&taking{}, committed, hash, ns.Number, &Prefetch{Access: AccessKey, Key: []byte("list")}) {
		t.Error("who looks for the key was taken for somebody who takes an element out")
	}
	packed := layout.Metadata{Type: layout.List, Encoding: layout.Listpack, Value: make([]byte, 24)}
	if txn.takenKey(&taking{}, packed.Append(nil), 1, ns.Number, &Prefetch{Access: AccessFirst, Key: []byte("packed")}) {
		t.Error("a packed list was taken for a sequence")
	}
}

// TestPrefetchFindsWhatIsOnItsWay looks ahead for a key that stands in a generation which waits for
// RocksDB, and for one that is nowhere.
func TestPrefetchFindsWhatIsOnItsWay(t *testing.T) {
	s, log := openHeld(t, testOptions(t.TempDir(), 1<<30, 1<<20))
	log.hold.Lock()
	defer log.hold.Unlock()
	write(t, s, 0, "key")
	freeze(s)
	get := func(key string) Prefetch { return Prefetch{Access: AccessKey, Key: []byte(key)} }
	both := []Prefetch{get("key"), get("nowhere")}
	if missing := s.NewTxn().Prefetch(both); missing != 0 {
		t.Errorf("%b are missing", missing)
	}
	Inspect{s}.WithoutFilter(0, func() {
		if missing := s.NewTxn().Prefetch(both); missing != 1<<1 {
			t.Errorf("%b are missing when nobody knows what RocksDB has", missing)
		}
	})
}
