package storage

import (
	"errors"
	"sync/atomic"
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

// What nobody wants to know is read no further, among zeros that stand nowhere neither.
func TestUnwanted(t *testing.T) {
	store, _ := openHeld(t, testOptions(t.TempDir(), 1<<30, 0))
	const length = 1 << 20
	txn := store.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	if _, err := txn.DB(0).SetRange([]byte("k"), length-1, []byte("x"), length); err != nil {
		t.Fatal(err)
	}
	var unwanted atomic.Bool
	txn.Begin(Mode{Unwanted: &unwanted}, 1, 0)
	k, err := txn.DB(0).Lookup([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	visited := 0
	err = txn.DB(0).EachString(&k.Metadata, 0, length, func(part []byte) {
		visited += len(part)
		unwanted.Store(true)
	})
	if !errors.Is(err, ErrUnwanted) || visited > pieceBytes {
		t.Errorf("%d bytes were read: %v", visited, err)
	}
	if _, err := txn.DB(0).Lookup([]byte("k")); !errors.Is(err, ErrUnwanted) {
		t.Errorf("a read: %v", err)
	}
}
