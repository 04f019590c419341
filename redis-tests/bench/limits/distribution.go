package main

import (
	"math"
	"math/rand/v2"
)

// chooser chooses one of the numbers from 0.
type chooser func(random *rand.Rand) int

// uniform chooses each of count numbers as often.
func uniform(count int) chooser {
	return func(random *rand.Rand) int { return random.IntN(count) }
}

// zipf chooses number i, of count (2 or more), in proportion to 1/(i+1)^theta, for theta between 0
// and 1, where math/rand's generator doesn't reach. After Gray et al., "Quickly generating
// billion-record synthetic databases" (SIGMOD 1994), which YCSB uses too: the first two numbers are
// exact, the others approximate.
func zipf(count int, theta float64) chooser {
	n := float64(count)
	zetaTwo, zetaAll := zeta(2, theta), zeta(count, theta)
	alpha := 1 / (1 - theta)
	eta := (1 - math.Pow(2/n, 1-theta)) / (1 - zetaTwo/zetaAll)
	return func(random *rand.Rand) int {
		u := random.Float64()
		switch scaled := u * zetaAll; {
		case scaled < 1:
			return 0
		case scaled < zetaTwo:
			return 1
		}
		return min(int(n*math.Pow(eta*u-eta+1, alpha)), count-1)
	}
}

// zeta is the sum of 1/i^theta for i from 1 to count.
func zeta(count int, theta float64) float64 {
	var sum float64
	for i := 1; i <= count; i++ {
		sum += math.Pow(float64(i), -theta)
	}
	return sum
}
