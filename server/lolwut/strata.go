package lolwut

import (
	"math"
	"math/rand/v2"
	"strings"
)

// A braille canvas has two by four dots in each character.
type braille struct {
	columns, rows int
	cells         []byte
}

func newBraille(columns, rows int) *braille {
	return &braille{columns: columns, rows: rows, cells: make([]byte, columns*rows)}
}

// dotBits are the bits of a character's dots, by row and column; U+2800 has none of them.
var dotBits = [4][2]byte{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

func (b *braille) dot(x, y int) {
	b.cells[y/4*b.columns+x/2] |= dotBits[y%4][x%2]
}

func (b *braille) String() string {
	var text strings.Builder
	text.Grow(len(b.cells)*3 + b.rows)
	for i, cell := range b.cells {
		text.WriteRune(0x2800 + rune(cell))
		if i%b.columns == b.columns-1 {
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// A wave is one of the foldings of the ground.
type wave struct {
	height, length, phase float64
}

func (w wave) at(x float64) float64 {
	return w.height * math.Sin(x/w.length+w.phase)
}

// A fault is a break through the ground: what lies to the right of it has moved down.
type fault struct {
	top, slope, drop float64
}

func (f fault) rightOf(x, y float64) bool { return x > f.top+f.slope*y }

// textures tell which dots of a layer of rock are set. The first is air.
var textures = []func(x, y int) bool{
	func(x, y int) bool { return false },
	func(x, y int) bool { return x%4 == y%4 },
	func(x, y int) bool { return x%3 == 0 && y%3 == 0 },
	func(x, y int) bool { return y%2 == 0 && (x+y/2)%5 != 0 },
	func(x, y int) bool { return x%6 == y*2%6 && y%2 == 0 },
	func(x, y int) bool { return (x+y)%2 == 0 },
	func(x, y int) bool { return (x+3*y)%7 == 0 },
	func(x, y int) bool { return false },
	func(x, y int) bool { return (x^y)%3 != 0 },
}

// ground is a cut through layers of rock.
type ground struct {
	depths [][]float64 // of each layer's upper side, by layer and x
	rocks  []int       // the texture below each of them
	faults []fault
}

// strata draws such a cut: folded layers, broken by faults.
func strata(random *rand.Rand, columns, rows, faults int) string {
	canvas := newBraille(columns, rows)
	width, height := columns*2, rows*4
	g := newGround(random, width, height, faults)
	for x := range width {
		above := 0
		for y := range height {
			layer := g.layer(x, y)
			if layer != above || textures[g.rocks[layer]](x, y) {
				canvas.dot(x, y)
			}
			above = layer
		}
	}
	return canvas.String()
}

func newGround(random *rand.Rand, width, height, faults int) ground {
	g := ground{rocks: []int{0}}
	tall, wide := float64(height), float64(width)
	folds := []wave{
		{tall * (0.05 + 0.1*random.Float64()), wide * (0.1 + 0.1*random.Float64()), 6 * random.Float64()},
		{tall * 0.04 * random.Float64(), wide * (0.03 + 0.03*random.Float64()), 6 * random.Float64()},
	}
	for depth := tall * 0.25; depth < tall*1.1; depth += tall * (0.08 + 0.14*random.Float64()) {
		own := wave{tall * 0.03 * random.Float64(), wide * (0.05 + 0.1*random.Float64()), 6 * random.Float64()}
		g.depths = append(g.depths, surface(width, depth, append(folds, own)))
		g.rocks = append(g.rocks, otherRock(random, g.rocks[len(g.rocks)-1]))
	}
	for range faults {
		g.faults = append(g.faults, fault{
			top:   wide * random.Float64(),
			slope: 1.2*random.Float64() - 0.6,
			drop:  tall * (0.25*random.Float64() - 0.125),
		})
	}
	return g
}

// surface returns the depth of a layer at each x.
func surface(width int, depth float64, waves []wave) []float64 {
	depths := make([]float64, width)
	for x := range depths {
		depths[x] = depth
		for _, w := range waves {
			depths[x] += w.at(float64(x))
		}
	}
	return depths
}

// otherRock returns a texture that isn't air, nor that of the layer above.
func otherRock(random *rand.Rand, above int) int {
	for {
		if rock := 1 + random.IntN(len(textures)-1); rock != above {
			return rock
		}
	}
}

// layer returns the number of the layer at a place, counted from the air.
func (g ground) layer(x, y int) int {
	depth := float64(y)
	for _, f := range g.faults {
		if f.rightOf(float64(x), float64(y)) {
			depth -= f.drop
		}
	}
	layer := 0
	for i, surface := range g.depths {
		if surface[x] <= depth {
			layer = i + 1
		}
	}
	return layer
}
