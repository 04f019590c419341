package generation

import (
	"hash/maphash"
	"math/bits"
)

// seed is drawn once for each process, so that nobody outside can choose keys that collide. It
// is never stored: nothing on disk depends on it.
var seed = maphash.MakeSeed()

// Hash is the hash of a record that Put, Delete and Get expect. It differs from one process to
// the next.
func Hash(space uint32, key []byte) uint64 {
	high, low := bits.Mul64(maphash.Bytes(seed, key)^uint64(space)<<32^uint64(space), 0x9E3779B97F4A7C15)
	return high ^ low
}
