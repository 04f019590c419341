package hyperloglog

import "math"

// A histogram counts the registers of each rank. It is all that the estimate depends on.
type histogram [maxRegister + 1]int

// addDense counts in four histograms in turns: most registers have one of a few ranks, and a
// counter that was just incremented has to be waited for.
func (h *histogram) addDense(dense []byte) {
	var parts [3]histogram
	for ; len(dense) >= 3; dense = dense[3:] {
		a, b, c, d := unpackDense(dense)
		h[a]++
		parts[0][b]++
		parts[1][c]++
		parts[2][d]++
	}
	for i := range parts {
		for rank, count := range parts[i] {
			h[rank] += count
		}
	}
}

func (h *histogram) addSparse(opcodes []byte) error {
	register := 0
	for len(opcodes) > 0 {
		op, ok := decodeOpcode(opcodes)
		if !ok {
			return ErrCorrupt
		}
		h[op.rank] += op.run
		register += op.run
		opcodes = opcodes[op.size:]
	}
	if register != RegisterCount {
		return ErrCorrupt
	}
	return nil
}

// estimate is algorithm 6 of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
// sketches", arXiv:1702.01284. Products are converted explicitly, since a platform with fused
// multiplication and addition would otherwise round differently.
func (h *histogram) estimate() uint64 {
	const alpha = 0.5 / math.Ln2 // the limit of the bias correction for many registers
	const m = float64(RegisterCount)
	z := float64(m * tau((m-float64(h[maxRank]))/m))
	for rank := maxRank - 1; rank >= 1; rank-- {
		z = 0.5 * (z + float64(h[rank]))
	}
	z += float64(m * sigma(float64(h[0])/m))
	count := math.Round(alpha * m * m / z)
	if count >= 1<<63 {
		// Only registers beyond maxRank, which no element leaves, get here. Redis's conversion then
		// gives the smallest integer.
		return 1 << 63
	}
	return uint64(count)
}

// sigma corrects for the registers of rank 0, of which x is the share.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x = float64(x * x)
		previous := z
		z += float64(x * y)
		y += y
		if z == previous {
			return z
		}
	}
}

// tau corrects for the registers of the highest rank, of which 1-x is the share.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		previous := z
		y *= 0.5
		rest := 1 - x
		z -= float64(float64(rest*rest) * y)
		if z == previous {
			return z / 3
		}
	}
}
