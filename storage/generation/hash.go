package generation

import (
	"hash/maphash"
	"math/bits"
)

// seed is drawn once for each process, so that nobody outside can choose keys that collide. It
// is never stored: nothing on disk depends on it.
var seed = maphash.MakeSeed()

// Hash is a record's hash. It differs from one process to the next.
func Hash(space uint32, key []byte) uint64 {
	high, low := bits.Mul64(maphash.Bytes(seed, key)^uint64(space)<<32^uint64(space), 0x9E3779B97F4A7C15)
	return high ^ low
}

// HashWith extends a hash by a number, the end of a key. It is for counted numbers: chosen ones
// could be made to collide.
func HashWith(hash, number uint64) uint64 {
	mixed := hash + number*0x9E3779B97F4A7C15
	high, low := bits.Mul64(mixed^mixed>>32, 0xD6E8FEB86659FD93)
	return high ^ low
}

// sequence is how many consecutive numbers HashInSequence puts side by side: the slots in a cache
// line.
const sequence = 8

// HashInSequence is HashWith for numbers that are mostly read one after the other. The lowest bits
// of their hashes put blocks of eight into slots side by side, in the order of the numbers. Their
// upper bits differ, too, so that a search doesn't look at the entry of another one.
func HashInSequence(hash, number uint64) uint64 {
	const inTag = 49 // bits that tags of indexes have
	within := number % sequence
	return HashWith(hash, number/sequence)&^(sequence-1) ^ within ^ within<<inTag
}
