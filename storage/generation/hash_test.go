package generation

import (
	"math/bits"
	"testing"
)

// TestHashWith puts elements of lists into a table as an index does: they have to be as near to their places as by chance, wherever a list's indexes
// begin and however they go on.
func TestHashWith(t *testing.T) {
	const size = 1 << 14
	for list, first := range []uint64{0, 1 << 63, 1<<63 - 5000, 0xFFFFFFFFFFFF0000, 12345} {
		for _, step := range []uint64{1, 2, 3, 128, 4096, 1 << 20} {
			hash := Hash(7, []byte{'L', byte(list)})
			taken, farthest, sum := make([]bool, size), 0, 0
			var segments [indexSegments]int
			for i := range uint64(size / 2) {
				h := HashWith(hash, first+i*step)
				segments[h>>segmentShift%indexSegments]++
				distance := 0
				for taken[(h+uint64(distance))%size] {
					distance++
				}
				taken[(h+uint64(distance))%size] = true
				farthest, sum = max(farthest, distance), sum+distance
			}
			if sum > size/2 || farthest > 150 { // by chance half a place each, and some 40
				t.Errorf("list %d, step %d: %d places from where they belong altogether, at most %d", list, step, sum, farthest)
			}
			for segment, n := range segments {
				if n < size/2/indexSegments/3 || n > 3*size/2/indexSegments {
					t.Errorf("list %d, step %d: segment %d has %d of %d", list, step, segment, n, size/2)
				}
			}
		}
	}
}

// TestHashWithDiffers changes one bit of a number: about half of the hash's bits have to change.
func TestHashWithDiffers(t *testing.T) {
	hash := Hash(7, []byte("a list"))
	for bit := range 64 {
		changed := 0
		const numbers = 1000
		for i := range uint64(numbers) {
			changed += bits.OnesCount64(HashWith(hash, i) ^ HashWith(hash, i^1<<bit))
		}
		if changed < numbers*24 || changed > numbers*40 {
			t.Errorf("bit %d changes %d bits of %d hashes", bit, changed, numbers)
		}
	}
}
