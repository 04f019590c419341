package hyperloglog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"kedis/redis-tests/seed"
)

func TestSelfTest(t *testing.T) {
	if err := SelfTest(1); err != nil {
		t.Error(err)
	}
}

// TestSelfTestCanFail shows that it tells a wrong estimate and different registers.
func TestSelfTestCanFail(t *testing.T) {
	some, _, err := Add(nil, New(), [][]byte{[]byte("a"), []byte("b")}, 3000)
	if err != nil {
		t.Fatal(err)
	}
	dense, err := ToDense(nil, some)
	if err != nil {
		t.Fatal(err)
	}
	if testCheckpoint(some, dense, 2) != nil {
		t.Error("the right count failed")
	}
	if testCheckpoint(some, dense, 9) == nil || testCheckpoint(New(), dense, 2) == nil {
		t.Error("a wrong count or encoding passed")
	}
}

// TestRegisterPacking holds single registers and groups of four against each other.
func TestRegisterPacking(t *testing.T) {
	dense := make([]byte, denseSize-HeaderSize)
	for register := range RegisterCount {
		setDenseRegister(dense, register, uint8(register*7%(maxRegister+1)))
	}
	var registers Registers
	registers.mergeDense(dense)
	for register, rank := range registers {
		if want := uint8(register * 7 % (maxRegister + 1)); rank != want || denseRegister(dense, register) != want {
			t.Fatalf("register %d: %d and %d, want %d", register, rank, denseRegister(dense, register), want)
		}
	}
}

// TestResume raises registers in order, and compares with searches that all start at the first
// opcode. It starts from runs that nobody has joined, as a foreign value may have them.
func TestResume(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		value := unjoined(random)
		resumed := sketch{value: value, sparseMaxBytes: denseSize}
		fresh := sketch{value: value, sparseMaxBytes: denseSize}
		for register := range 60 {
			if random.IntN(2) == 0 {
				continue
			}
			rank := uint8(1 + random.IntN(3))
			fresh.resume = mark{}
			if err := errors.Join(resumed.raise(register, rank), fresh.raise(register, rank)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(resumed.value, fresh.value) {
				t.Fatalf("seed %d, register %d:\n%x\n%x", seed, register, resumed.value, fresh.value)
			}
		}
	}
}

// unjoined returns a valid sparse value that begins with short runs of ranks 1 and 2.
func unjoined(random *rand.Rand) []byte {
	value := New()[:HeaderSize]
	left := RegisterCount
	for range 20 {
		run := 1 + random.IntN(maxRanks)
		value = appendRanks(value, run, uint8(1+random.IntN(2)))
		left -= run
	}
	return appendZeros(value, left)
}

// TestReuse shows that nothing is allocated when dst is large enough.
func TestReuse(t *testing.T) {
	dst := make([]byte, 0, denseSize)
	dense, err := ToDense(nil, New())
	if err != nil {
		t.Fatal(err)
	}
	counter, element := uint64(0), make([]byte, 8)
	elements := [][]byte{element}
	for name, value := range map[string][]byte{"sparse": New(), "dense": dense} {
		if allocations := testing.AllocsPerRun(100, func() {
			counter++
			binary.LittleEndian.PutUint64(element, counter)
			if _, changed, err := Add(dst, value, elements, 3000); err != nil || !changed {
				t.Fatal(changed, err)
			}
		}); allocations > 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

func FuzzValue(f *testing.F) {
	f.Add(New(), []byte("element"))
	f.Fuzz(func(t *testing.T, value, element []byte) {
		before := bytes.Clone(value)
		added, _, err := Add(nil, value, [][]byte{element}, 3000)
		if err == nil {
			if _, changed, err := Add(nil, added, [][]byte{element}, 3000); err != nil || changed {
				t.Errorf("the second time: %v, %v", changed, err)
			}
		}
		_, _, countErr := Count(value)
		_, unionErr := countUnion(value)
		if countErr != nil && unionErr == nil {
			t.Errorf("counted alone: %v", countErr)
		}
		if merged, err := merge(New(), [][]byte{value}, 3000); err == nil {
			got, err := countUnion(merged)
			if want, _ := countUnion(value); err != nil || got != want {
				t.Errorf("merged: %d, %v, want %d", got, err, want)
			}
		}
		if text, err := Opcodes(nil, value); err == nil && len(text) == 0 && len(value) > HeaderSize {
			t.Error("no opcodes")
		}
		if !bytes.Equal(value, before) {
			t.Error("the input was changed")
		}
	})
}

func BenchmarkAddDense(b *testing.B) {
	dense, err := ToDense(nil, New())
	if err != nil {
		b.Fatal(err)
	}
	dst, element := make([]byte, 0, denseSize), make([]byte, 8)
	elements := [][]byte{element}
	for i := 0; b.Loop(); i++ {
		binary.LittleEndian.PutUint64(element, uint64(i))
		if _, _, err := Add(dst, dense, elements, 3000); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCountUnion(b *testing.B) {
	dense, err := ToDense(nil, New())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := countUnion(dense, dense); err != nil {
			b.Fatal(err)
		}
	}
}

// union is what values have seen together.
func union(values [][]byte) (u Union, err error) {
	for _, value := range values {
		if err := u.Add(value); err != nil {
			return u, err
		}
	}
	return u, nil
}

// countUnion is PFCOUNT.
func countUnion(values ...[]byte) (uint64, error) {
	u, err := union(values)
	return u.Count(), err
}

// merge is PFMERGE.
func merge(target []byte, sources [][]byte, sparseMaxBytes int) ([]byte, error) {
	u, err := union(append([][]byte{target}, sources...))
	if err != nil {
		return nil, err
	}
	return u.MergeInto(nil, target, sparseMaxBytes)
}
