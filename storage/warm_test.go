package storage

import (
	"fmt"
	"testing"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// TestWarmWhileGenerationsChange looks ahead for keys and elements while others write, and while one generation takes the place of
// another: nothing may be looked up where it was in the one before.
func TestWarmWhileGenerationsChange(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 8<<10, 1<<20))
	const keys = 200
	var requests []Upcoming
	for i := range keys {
		args := [][]byte{[]byte("hset"), fmt.Appendf(nil, "key%d", i), fmt.Appendf(nil, "field%d", i)}
		requests = append(requests, Upcoming{Database: 0, Args: args})
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
			from := i * WarmRequests % (keys - WarmRequests)
			txn.Warm(requests[from : from+WarmRequests])
			txn.DB(0).WarmKeys(requests[from].Args, 1)
		}
	}()
	txn := s.NewTxn()
	for i := range 1500 {
		txn.Begin(Mode{Writing: true}, 1, 0)
		db := txn.DB(0)
		args := requests[i%keys].Args
		h, err := db.Hash(args[1])
		if err != nil {
			t.Fatal(err)
		}
		// One value in three is large, so that some of the hashes are spread.
		if _, err := h.Set(args[2], fmt.Appendf(nil, "%0*d", 1+i%3*60, i)); err != nil {
			t.Fatal(err)
		}
		if err := h.Save(); err != nil {
			t.Fatal(err)
		}
		txn.Effect(0, args...)
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

// TestWarmKnowsWhatWillBePopped asks for the elements that pops will take, from a list that the transaction itself has popped from.
func TestWarmKnowsWhatWillBePopped(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	fillList(t, s, "list", 3000)
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	key := layout.AppendMetadataKey(nil, []byte("list"))
	hash := recordHash(db.space.number, key)
	for round := range 3 {
		var p popping
		for _, command := range []string{"lpop", "RPOP", "Lpop", "rpop", "lpop"} {
			metadata, _ := s.current.Load().active.Get(generation.End, hash, db.space.number, key) // before the transaction
			if !txn.warmPoppedKey(&p, metadata, hash, db.space.number, [][]byte{[]byte(command), []byte("list")}) {
				t.Fatalf("%s pops nothing", command)
			}
			_, index, _ := layout.DecodeListKey(txn.key)
			list, err := db.List([]byte("list"))
			must(t, err)
			last := list.next.Head + p.left - 1
			if command[0]|0x20 == 'r' {
				last = list.next.Tail - p.right
			}
			if index != last {
				t.Errorf("round %d, %s: %d instead of %d", round, command, index, last)
			}
		}
		list, err := db.List([]byte("list"))
		must(t, err)
		must(t, list.Pop(true, 3, func([]byte) {}))
		must(t, list.Pop(false, 2, func([]byte) {}))
		must(t, list.Save())
	}
	for _, args := range [][][]byte{{[]byte("llen"), []byte("list")}, {[]byte("lpop"), []byte("list"), []byte("2")}} {
		metadata, _ := s.current.Load().active.Get(generation.End, hash, db.space.number, key)
		if txn.warmPoppedKey(&popping{}, metadata, hash, db.space.number, args) {
			t.Errorf("%s was taken for a pop", args)
		}
	}
}

// TestWarmFindsWhatIsOnItsWay looks ahead for a key that stands in a generation which waits for RocksDB, and for one that is nowhere.
func TestWarmFindsWhatIsOnItsWay(t *testing.T) {
	s, log := openHeld(t, testOptions(t.TempDir(), 1<<30, 1<<20))
	log.hold.Lock()
	defer log.hold.Unlock()
	write(t, s, 0, "key")
	freeze(s)
	get := func(key string) Upcoming { return Upcoming{Args: [][]byte{[]byte("get"), []byte(key)}} }
	if missing := s.NewTxn().Warm([]Upcoming{get("key"), get("nowhere")}); missing != 1<<1 {
		t.Errorf("%b are missing", missing)
	}
}
