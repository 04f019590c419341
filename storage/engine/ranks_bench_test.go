package engine

import "testing"

// BenchmarkChanged is what each change of an index costs a set without counts while others have
// some.
func BenchmarkChanged(b *testing.B) {
	var r ranks
	r.init(constant[int64](1 << 20))
	for id := range uint64(100) {
		r.of(id, 1000)
	}
	key := []byte("z\x00\x00\x00\x00\x00\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00member")
	for b.Loop() {
		r.changed(key, 1)
	}
}
