package storage

import (
	"fmt"
	"testing"

	"kedis/internal/keyevent"
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
		if err := h.Save(keyevent.Changed); err != nil {
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
