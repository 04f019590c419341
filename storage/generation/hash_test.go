package generation

import (
	"math/bits"
	"testing"
)

// TestHashWith puts elements of lists into a table as an index does: they have to be as near to
// their places as by chance, wherever a list's indexes begin and however they go on.
func TestHashWith(t *testing.T) {
	testSpread(t, HashWith, 1, size/2, 150) // by chance half a place each, and some 40
}

// TestHashInSequence does the same with numbers eight of which lie side by side.
func TestHashInSequence(t *testing.T) {
	testSpread(t, HashInSequence, sequence, sequence*size/2, sequence*150)
	hash := Hash(7, []byte("a list"))
	for first := uint64(0); first < 80000; first += sequence {
		tags := map[uint64]bool{}
		for i := range uint64(sequence) {
			h := HashInSequence(hash, first+i)
			tags[h>>49] = true
			if h%size != HashInSequence(hash, first)%size+i {
				t.Fatalf("%d isn't beside %d", first+i, first)
			}
		}
		if len(tags) != sequence {
			t.Fatalf("from %d on there are %d different tags, want %d", first, len(tags), sequence)
		}
	}
}

const size = 1 << 14

func testSpread(t *testing.T, hashWith func(hash, number uint64) uint64, together uint64, mostAltogether, mostOfOne int) {
	t.Helper()
	for list, first := range []uint64{0, 1 << 63, 1<<63 - 5000, 0xFFFFFFFFFFFF0000, 12345} {
		for _, step := range []uint64{1, 2, 3, 128, 4096, 1 << 20} {
			hash := Hash(7, []byte{'L', byte(list)})
			taken, farthest, sum := make([]bool, size), 0, 0
			var segments [indexSegments]int
			for i := range uint64(size / 2) {
				h := hashWith(hash, first+i*step)
				segments[h>>segmentShift%indexSegments]++
				distance := 0
				for taken[(h+uint64(distance))%size] {
					distance++
				}
				taken[(h+uint64(distance))%size] = true
				farthest, sum = max(farthest, distance), sum+distance
			}
			if sum > mostAltogether || farthest > mostOfOne {
				t.Errorf("list %d, step %d: %d places from where they belong altogether, at most %d", list, step, sum, farthest)
			}
			for segment, n := range segments {
				if step >= together && (n < size/2/indexSegments/3 || n > 3*size/2/indexSegments) {
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
