package engine

import (
	"bytes"
	"testing"
)

// TestKept: what is kept stays as it is until reset, however much comes behind it, and the memory
// is used again then, unless one entry took a lot.
func TestKept(t *testing.T) {
	var k kept
	keepAll := func() (all [][]byte) {
		for i := range 3000 {
			all = append(all, k.keep(bytes.Repeat([]byte{byte(i)}, i%100)))
		}
		return all
	}
	for range 2 {
		for i, b := range keepAll() {
			if len(b) != i%100 || cap(b) != len(b) || len(b) > 0 && (b[0] != byte(i) || b[len(b)-1] != byte(i)) {
				t.Fatalf("entry %d is %q", i, b)
			}
		}
		k.reset()
	}
	if cap(k.memory) != mostMemory {
		t.Errorf("%d bytes stay behind reset, want %d", cap(k.memory), mostMemory)
	}
	few := bytes.Repeat([]byte("entry"), 1000)
	if allocations := testing.AllocsPerRun(100, func() { k.keep(few); k.reset() }); allocations > 0 {
		t.Errorf("%v allocations for what there is room for", allocations)
	}
	k.keep(make([]byte, mostMemory+1))
	k.reset()
	if k.memory != nil {
		t.Errorf("%d bytes of a long entry stay behind reset", cap(k.memory))
	}
}
