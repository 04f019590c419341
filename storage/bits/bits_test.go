package bits

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"testing"

	"kedis/redis-tests/seed"
)

// randomValue returns up to limit bytes, among them long runs of zeros and of ones.
func randomValue(random *rand.Rand, limit int) []byte {
	value := make([]byte, random.IntN(limit+1))
	kind := random.IntN(3)
	for i := range value {
		switch {
		case kind == 0:
			value[i] = byte(random.Uint32())
		case kind == 1:
			value[i] = 0xff
		}
		if random.IntN(40) == 0 {
			value[i] ^= 1 << random.IntN(8)
		}
	}
	return value
}

func randomRange(random *rand.Rand, size int) Range {
	unit := Unit(random.IntN(2))
	if unit == Bits {
		size *= 8
	}
	pick := func() int64 {
		if random.IntN(20) == 0 {
			return []int64{-1 << 63, 1<<63 - 1, 1 << 61, -1 << 61}[random.IntN(4)]
		}
		return int64(random.IntN(2*size+6) - size - 3)
	}
	return Range{Start: pick(), End: pick(), Unit: unit}
}

// naiveRange lists the offsets of the bits of a range.
func naiveRange(value []byte, r Range) []int64 {
	scale := int64(8)
	if r.Unit == Bits {
		scale = 1
	}
	length := int64(len(value)) * 8 / scale
	start, end := r.Start, r.End
	if r.Open {
		end = length - 1
	}
	if start < 0 {
		start = max(start+length, 0)
	}
	if end < 0 {
		end = max(end+length, 0)
	}
	var offsets []int64
	for bit := range length * 8 / (8 / scale) {
		if bit/scale >= start && bit/scale <= end {
			offsets = append(offsets, bit)
		}
	}
	return offsets
}

func TestRangesAgainstNaive(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		value := randomValue(random, 80)
		r := randomRange(random, len(value))
		r.Open = r.Unit == Bytes && random.IntN(3) == 0
		bit := random.IntN(2)
		var ones int64
		position := int64(-1)
		for _, offset := range naiveRange(value, r) {
			got := Get(value, uint64(offset))
			ones += int64(got)
			if got == bit && position < 0 {
				position = offset
			}
			if r.Open && bit == 0 && position < 0 && offset == int64(len(value))*8-1 {
				position = offset + 1
			}
		}
		if got := Position(value, bit, r); got != position {
			t.Fatalf("seed %d: Position(%x, %d, %+v) = %d, want %d", seed, value, bit, r, got, position)
		}
		if !r.Open && r.Start < 0 && r.End < 0 && r.Start > r.End {
			ones = 0
		}
		if got := CountRange(value, r); got != ones {
			t.Fatalf("seed %d: CountRange(%x, %+v) = %d, want %d", seed, value, r, got, ones)
		}
	}
}

// CountRange is what BITCOUNT answers.
func CountRange(value []byte, r Range) int64 {
	first, limit := r.CountSpan(len(value))
	return CountBetween(value, first, limit)
}

// Position is what BITPOS answers for a key that exists.
func Position(value []byte, bit int, r Range) int64 {
	first, limit := r.Span(len(value))
	if first >= limit {
		return -1
	}
	if at := Find(value, bit, first, limit); at < limit {
		return at
	}
	return r.NotFound(bit, limit)
}

func TestGetAndSet(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var value []byte
	want := map[uint64]int{}
	highest := uint64(0)
	for range 3000 {
		offset, bit := random.Uint64N(5000), random.IntN(2)
		if Get(value, offset) != want[offset] {
			t.Fatalf("seed %d: Get(%d) = %d", seed, offset, 1-want[offset])
		}
		var old int
		value, old = Set(value, offset, bit)
		highest = max(highest, offset)
		if old != want[offset] || Get(value, offset) != bit || uint64(len(value)) != highest/8+1 {
			t.Fatalf("seed %d: Set(%d, %d): old %d, %d bytes", seed, offset, bit, old, len(value))
		}
		want[offset] = bit
	}
}

func TestGrowClearsItsCapacity(t *testing.T) {
	memory := bytes.Repeat([]byte{0xff}, 16)
	for _, count := range []uint64{8, 9, 64, 128, 129, 1000} {
		grown := Grow(memory[:1], count)
		if want := int(count+7) / 8; len(grown) != want || grown[0] != 0xff || Count(grown[1:]) != 0 {
			t.Errorf("Grow to %d bits: %x", count, grown)
		}
	}
}

func naiveCombine(operation Operation, sources [][]byte) []byte {
	size := 0
	for _, source := range sources {
		size = max(size, len(source))
	}
	out := make([]byte, size)
	for bit := range uint64(size) * 8 {
		first, all := Get(sources[0], bit), 0
		for _, source := range sources {
			all += Get(source, bit)
		}
		holds := map[Operation]bool{
			And: all == len(sources), Or: all > 0, Xor: all%2 == 1, Not: first == 0,
			Diff: first == 1 && all == 1, Diff1: first == 0 && all > 0, AndOr: first == 1 && all > 1, One: all == 1,
		}
		if holds[operation] {
			out, _ = Set(out, bit, 1)
		}
	}
	return out
}

// combine combines strings with a Combiner.
func combine(room []byte, operation Operation, sources ...[]byte) []byte {
	size := 0
	for _, source := range sources {
		size = max(size, len(source))
	}
	c := Combiner{Operation: operation}
	c.Begin(room, size)
	for _, source := range sources {
		c.Add(source)
	}
	return c.Result()
}

func randomCombination(random *rand.Rand) (Operation, [][]byte) {
	operation := Operation(random.IntN(int(One) + 1))
	sources := make([][]byte, 1+random.IntN(4))
	if operation == Not {
		sources = sources[:1]
	}
	for i := range sources {
		sources[i] = randomValue(random, 60)
	}
	return operation, sources
}

func TestCombineAgainstNaive(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	dst := bytes.Repeat([]byte{0xff}, 30)
	for range 2000 {
		operation, sources := randomCombination(random)
		if got, want := combine(dst, operation, sources...), naiveCombine(operation, sources); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: operation %d of %x: %x, want %x", seed, operation, sources, got, want)
		}
	}
}

// naiveField computes a write with big integers, bit by bit.
func naiveField(value []byte, field Type, offset uint64, number int64, add bool, overflow Overflow) (changed []byte, old, stored int64, ok bool) {
	size := int(field.Bits)
	for len(value)*8 < int(offset)+size {
		value = append(value, 0)
	}
	word := new(big.Int)
	for i := range size {
		word.SetBit(word, size-1-i, uint(Get(value, offset+uint64(i))))
	}
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(size))
	modulus := new(big.Int).Set(high)
	if field.Signed {
		high.Rsh(high, 1)
		low.Neg(high)
		if word.Cmp(high) >= 0 {
			word.Sub(word, modulus)
		}
	}
	high.Sub(high, big.NewInt(1))
	old = word.Int64()
	result := big.NewInt(number)
	if add {
		result.Add(result, word)
	} else if number < 0 && !field.Signed {
		result.Add(result, new(big.Int).Lsh(big.NewInt(1), 64))
	}
	if result.Cmp(low) < 0 || result.Cmp(high) > 0 {
		// What Redis makes of a number whose distance from the maximum exceeds 63 bits.
		distance := new(big.Int).Sub(high, result)
		far := !add && size < 64 && !distance.IsInt64()
		switch {
		case overflow == Fail:
			return value, old, 0, false
		case overflow == Saturate && (result.Cmp(high) > 0 || far):
			result.Set(high)
		case overflow == Saturate:
			result.Set(low)
		default:
			result.Sub(result, low).Mod(result, modulus).Add(result, low)
		}
	}
	for i := range size {
		bit := new(big.Int).Mod(result, modulus).Bit(size - 1 - i)
		value, _ = Set(value, offset+uint64(i), int(bit))
	}
	return value, old, result.Int64(), true
}

func randomType(random *rand.Rand) Type {
	if random.IntN(2) == 0 {
		return Type{Signed: true, Bits: uint8(1 + random.IntN(64))}
	}
	return Type{Bits: uint8(1 + random.IntN(63))}
}

// randomNumber favours the neighbourhood of powers of two, where types end.
func randomNumber(random *rand.Rand) int64 {
	switch random.IntN(4) {
	case 0:
		return int64(random.Uint64())
	case 1:
		return int64(random.IntN(20) - 10)
	}
	return int64(1)<<random.IntN(64)*int64(1-2*random.IntN(2)) + int64(random.IntN(5)-2)
}

func TestFieldsAgainstNaive(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10000 {
		value := randomValue(random, 24)
		field, offset := randomType(random), random.Uint64N(200)
		number, overflow, add := randomNumber(random), Overflow(random.IntN(3)), random.IntN(2) == 0
		want, old, stored, wantOK := naiveField(bytes.Clone(value), field, offset, number, add, overflow)
		if got := field.Get(value, offset); got != old {
			t.Fatalf("seed %d: %+v at %d of %x is %d, want %d", seed, field, offset, value, got, old)
		}
		write, result := Type.Set, old
		if add {
			write, result = Type.Increment, stored
		}
		got, n, ok := write(field, bytes.Clone(value), offset, number, overflow)
		if !bytes.Equal(got, want) || ok != wantOK || ok && n != result {
			t.Fatalf("seed %d: %+v at %d of %x, number %d, overflow %d, add %v:\n%x, %d, %v, want\n%x, %d, %v",
				seed, field, offset, value, number, overflow, add, got, n, ok, want, result, wantOK)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	value := bytes.Repeat([]byte{0x5a}, 1<<20)
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		Count(value)
	}
}

func BenchmarkPosition(b *testing.B) {
	value := make([]byte, 1<<20)
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		Position(value, 1, Range{Open: true})
	}
}

func BenchmarkAnd(b *testing.B) {
	x, y := bytes.Repeat([]byte{0x5a}, 1<<20), bytes.Repeat([]byte{0x3c}, 1<<20)
	var dst []byte
	b.SetBytes(int64(len(x)))
	for b.Loop() {
		dst = combine(dst, And, x, y)
	}
}

func BenchmarkIncrement(b *testing.B) {
	value := make([]byte, 100)
	for b.Loop() {
		value, _, _ = Type{Signed: true, Bits: 37}.Increment(value, 101, 12345, Wrap)
	}
}
