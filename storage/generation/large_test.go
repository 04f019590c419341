package generation

import "testing"

// TestPutLargeCopiesNothing: the memory that was filled is what readers get.
func TestPutLargeCopiesNothing(t *testing.T) {
	g := New(NewMemory(), Hash, nil, 1<<10, 0, nil)
	key := []byte("key")
	g.Put(Hash(1, key), 1, key, []byte("before"))
	l := g.memory.NewLarge(key, 1<<20)
	l.Value()[5] = 'x'
	g.PutLarge(Hash(1, key), 1, l)
	g.Put(Hash(1, []byte("other")), 1, []byte("other"), []byte("value"))
	value, state := g.Get(End, Hash(1, key), 1, key)
	if state != Present || len(value) != 1<<20 || &value[0] != &l.Value()[0] {
		t.Fatalf("state %d, %d bytes, of other memory", state, len(value))
	}
	if value, _ := g.Get(End, Hash(1, []byte("other")), 1, []byte("other")); string(value) != "value" {
		t.Errorf("what was written behind it: %q", value)
	}
	if g.Bytes() < 1<<20 {
		t.Errorf("a generation of %d bytes", g.Bytes())
	}
}
