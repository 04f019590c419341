package storage

import (
	"fmt"
	"testing"
)

// TestReadOnceDisplacesNothing: when the memory for orders is full, a collection comes to be
// resident only when it is read again.
func TestReadOnceDisplacesNothing(t *testing.T) {
	const members, memory, others = 200, 64 << 10, 40
	options := testOptions(t.TempDir(), 8<<20, 1<<20)
	options.TreeBytes = constant[int64](memory)
	store := openStore(t, options)
	name := func(i int) []byte { return fmt.Append(nil, "board", i) }
	for i := range others {
		queue(t, store, name(i), members)
	}
	read := func(i int) (resident int) {
		txn := store.NewTxn()
		defer txn.Reset()
		txn.Begin(Mode{}, 1, 0)
		z, err := txn.DB(0).ZSet(name(i))
		must(t, err)
		seen := 0
		must(t, z.ByRank(0, members, false, func([]byte, float64) bool { seen++; return true }))
		if seen != members {
			t.Fatalf("%s has %d members, want %d", name(i), seen, members)
		}
		return insideTxn(txn).Trees()[0].Resident()
	}
	if resident := read(0); resident != members {
		t.Fatalf("%d members of the first one are resident, want %d", resident, members)
	}
	full := 1
	for ; full < others/2; full++ {
		if _, bytes := store.Trees(); bytes >= memory/16*15 {
			break
		}
		read(full)
	}
	for i := full; i < others; i++ {
		read(0)
		if resident := read(i); resident != 0 {
			t.Fatalf("%d members of %s are resident, though it was read once", resident, name(i))
		}
	}
	if resident := read(others - 1); resident != members {
		t.Errorf("%d members are resident of what was read again, want %d", resident, members)
	}
	if resident := read(0); resident != members {
		t.Errorf("%d members are resident of what is read all the time, want %d", resident, members)
	}
}
