package hyperloglog

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// selfTestElements is how many elements SelfTest counts. They take it about a tenth of a second.
const selfTestElements = 1_000_000

// SelfTest checks on this machine what PFSELFTEST is about: that dense registers don't disturb each
// other, that the sparse and the dense encoding hold the same registers, and that estimates are
// within six standard errors. The seed chooses what is counted. The error says what was wrong.
func SelfTest(seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	if err := testDense(random); err != nil {
		return err
	}
	return testEstimates(random)
}

func testDense(random *rand.Rand) error {
	dense := make([]byte, denseSize-HeaderSize)
	var want Registers
	for range 20 * RegisterCount {
		register, rank := random.IntN(RegisterCount), uint8(random.IntN(maxRegister+1))
		setDenseRegister(dense, register, rank)
		want[register] = rank
	}
	for register, rank := range want {
		if got := denseRegister(dense, register); got != rank {
			return fmt.Errorf("hyperloglog: register %d is %d, not %d", register, got, rank)
		}
	}
	return nil
}

func testEstimates(random *rand.Rand) error {
	dense, err := ToDense(nil, New())
	if err != nil {
		return err
	}
	d := sketch{value: dense}
	s := sketch{value: New(), sparseMaxBytes: denseSize}
	seed := random.Uint64()
	checkpoint := 1
	for i := 1; i <= selfTestElements; i++ {
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], uint64(i)^seed)
		register, rank := locate(element[:])
		if err := d.raise(register, rank); err != nil {
			return err
		}
		if err := s.raise(register, rank); err != nil {
			return err
		}
		if i == checkpoint {
			if err := testCheckpoint(s.value, d.value, checkpoint); err != nil {
				return err
			}
			checkpoint *= 10
		}
	}
	return nil
}

func testCheckpoint(sparse, dense []byte, elements int) error {
	got, err := RegistersOf(sparse)
	if err != nil {
		return err
	}
	want, err := RegistersOf(dense)
	if err != nil {
		return err
	}
	if *got != *want {
		return fmt.Errorf("hyperloglog: encodings differ after %d elements", elements)
	}
	var union Union
	if err := union.Add(dense); err != nil {
		return err
	}
	count := union.Count()
	standardError := 1.04 / math.Sqrt(RegisterCount)
	if math.Abs(float64(count)-float64(elements)) > math.Ceil(6*standardError*float64(elements)) {
		return fmt.Errorf("hyperloglog: %d elements estimated as %d", elements, count)
	}
	return nil
}
