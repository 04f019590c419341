package geo

import (
	"math"
	"math/big"
)

// The functions of package math are off by a bit here and there, and others than the C library's,
// by which Redis computes distances. These are right to the last bit but in one case of some ten
// thousand, in which the exact result lies in the middle between two numbers. They are the same on
// all machines.

// double is an unevaluated sum of two numbers, the second of which is smaller than the last bit of
// the first.
type double struct{ high, low float64 }

// twoSum is a sum and its rounding error.
func twoSum(a, b float64) double {
	sum := a + b
	other := sum - a
	return double{sum, (a - (sum - other)) + (b - other)}
}

var (
	pi     = double{math.Pi, 1.2246467991473532e-16}
	halfPi = double{math.Pi / 2, 6.123233995736766e-17}
)

// sine returns the sine of an angle between -π and π.
func sine(x float64) float64 {
	s := doubleSine(x)
	return s.high + s.low
}

func doubleSine(x float64) double {
	y := math.Abs(x)
	angle := double{high: y}
	if y > math.Pi/2 {
		angle = twoSum(pi.high, -y)
		angle.low += pi.low
	}
	return sineOf(angle).times(math.Copysign(1, x))
}

// cosine returns the cosine of an angle between -π and π.
func cosine(x float64) float64 {
	c := doubleCosine(x)
	return c.high + c.low
}

func doubleCosine(x float64) double {
	angle := twoSum(halfPi.high, -math.Abs(x))
	angle.low += halfPi.low
	if angle.high < 0 {
		return sineOf(angle.times(-1)).times(-1)
	}
	return sineOf(angle)
}

// times is the number with another sign, or the same.
func (d double) times(sign float64) double { return double{d.high * sign, d.low * sign} }

// arcTangent returns the angle, between -π and π, of a point: what package math says, improved by
// one step of Newton's method.
func arcTangent(y, x float64) float64 {
	angle := math.Atan2(y, x)
	if x == 0 || y == 0 {
		return angle
	}
	sin, cos := doubleSine(angle), doubleCosine(angle)
	across, along := y*cos.high, x*sin.high
	lost := math.FMA(y, cos.high, -across) - math.FMA(x, sin.high, -along)
	return angle + (across-along+(lost+(y*cos.low-x*sin.low)))/math.Hypot(x, y)
}

// arcSine returns the angle between 0 and π/2 whose sine is y.
func arcSine(y float64) float64 {
	switch {
	case y == 0:
		return 0
	case y >= 1:
		return math.Pi / 2
	case y <= 0.5:
		a := arcSineOf(double{high: y})
		return a.high + a.low
	}
	// Where the arc sine is steep, that of a smaller number is exact: asin(y) = π/2 - 2
	// asin(√((1-y)/2)).
	square := (1 - y) / 2
	root := math.Sqrt(square)
	a := arcSineOf(double{root, math.FMA(-root, root, square) / (2 * root)})
	angle := twoSum(halfPi.high, -2*a.high)
	return angle.high + (angle.low + (halfPi.low - 2*a.low))
}

// arcSineOf improves what package math says of a number up to 1/2, by one step of Newton's method.
func arcSineOf(y double) double {
	angle := math.Asin(y.high)
	s := sineOf(double{high: angle})
	return double{angle, ((y.high - s.high) - s.low + y.low) / math.Sqrt((1-y.high)*(1+y.high))}
}

// sineSteps is how many known angles there are to one radian.
const sineSteps = 64

// known are the sines and cosines of the angles i/sineSteps from 0 to π/2.
var known = tabulate()

// sineOf returns the sine of an angle from 0 to π/2, with some 15 bits more than a number has. The
// angle is a known one, k, and a rest r: sin(k+r) = sin k cos r + cos k sin r, where cos r is
// nearly 1, and sin r nearly r.
func sineOf(x double) double {
	k := int(x.high*sineSteps + 0.5)
	r := x.high - float64(k)/sineSteps // exact
	sin, cos := known[k].sine, known[k].cosine
	square := r * r
	restOfSine := r * square * (-1.0/6 + square*(1.0/120+square*(-1.0/5040+square*(1.0/362880))))
	restOfCosine := square * (-1.0/2 + square*(1.0/24+square*(-1.0/720+square*(1.0/40320))))

	product := cos.high * r
	lost := math.FMA(cos.high, r, -product)
	sum := twoSum(sin.high, product)
	low := sin.high*(restOfCosine-r*x.low) + cos.high*(restOfSine+x.low) + cos.low*r + sin.low + lost + sum.low
	return double{sum.high, low}
}

// knownAngle has the sine and the cosine of an angle.
type knownAngle struct{ sine, cosine double }

// tabulate finds each angle's sine and cosine from those of the one before.
func tabulate() [sineSteps*2 - 24]knownAngle {
	const precision = 200
	number := func(x float64) *big.Float { return big.NewFloat(x).SetPrec(precision) }
	product := func(a, b *big.Float) *big.Float { return number(0).Mul(a, b) }
	stepSine, stepCosine := number(0), number(0)
	term := number(1) // (1/sineSteps)^i / i!
	for i := 0; i < 24; i++ {
		sum, sign := stepCosine, 1-i&2
		if i%2 == 1 {
			sum = stepSine
		}
		sum.Add(sum, product(term, number(float64(sign))))
		term.Quo(term, number(float64((i+1)*sineSteps)))
	}
	var table [sineSteps*2 - 24]knownAngle
	sin, cos := number(0), number(1)
	for i := range table {
		table[i] = knownAngle{split(sin), split(cos)}
		sin, cos = number(0).Add(product(sin, stepCosine), product(cos, stepSine)),
			number(0).Sub(product(cos, stepCosine), product(sin, stepSine))
	}
	return table
}

// split rounds to a double.
func split(x *big.Float) double {
	high, _ := x.Float64()
	low, _ := new(big.Float).Sub(x, big.NewFloat(high)).Float64()
	return double{high, low}
}
