package storage

import (
	"errors"
	"testing"
)

// What runs when the server ends reads no further, but what is applied from a log does.
func TestInterrupt(t *testing.T) {
	store, _ := openHeld(t, testOptions(t.TempDir(), 1<<30, 0))
	txn := store.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	if _, err := txn.DB(0).Lookup([]byte("k")); err != nil {
		t.Fatal(err)
	}
	store.Interrupt()
	if _, err := txn.DB(0).Lookup([]byte("k")); !errors.Is(err, ErrInterrupted) {
		t.Errorf("a read: %v", err)
	}
	if err := txn.DB(0).Keys(nil, nil); !errors.Is(err, ErrInterrupted) {
		t.Errorf("a walk: %v", err)
	}
	txn.Begin(Mode{Applying: true}, 1, 0)
	if _, err := txn.DB(0).Lookup([]byte("k")); err != nil {
		t.Errorf("applying: %v", err)
	}
}
