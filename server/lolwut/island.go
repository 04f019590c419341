package lolwut

import (
	"math"
	"math/rand/v2"
	"strings"
)

// island draws a mountain in the sea by night, and its reflection.
func island(random *rand.Rand, columns, rows int) string {
	horizon := (rows*3 + 4) / 5
	sky := newNight(random, columns, horizon)
	var text strings.Builder
	for y := range rows {
		for x := range columns {
			if y < horizon {
				text.WriteRune(sky.at(x, y))
			} else {
				text.WriteRune(sky.reflection(random, x, y-horizon))
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// night is what stands above the horizon.
type night struct {
	columns, rows       int
	ridge               []float64 // the height of the mountain at each column, in rows
	moonX, moonY, moonR float64
	stars               map[[2]int]rune
}

func newNight(random *rand.Rand, columns, rows int) night {
	n := night{columns: columns, rows: rows, stars: map[[2]int]rune{}}
	n.ridge = ridge(random, columns, float64(rows)*0.9)
	n.moonR = max(1, float64(rows)/6)
	n.moonX = float64(columns) * random.Float64()
	n.moonY = n.moonR + float64(rows)*0.25*random.Float64()
	for range columns * rows / 40 {
		star := []rune("·.*˙")[random.IntN(4)]
		n.stars[[2]int{random.IntN(columns), random.IntN(rows)}] = star
	}
	return n
}

// ridge returns heights that halve the distance between two known ones over and over, each time a
// little off the middle, and sink into the sea at both sides.
func ridge(random *rand.Rand, columns int, highest float64) []float64 {
	heights := make([]float64, columns)
	if columns < 3 {
		return heights
	}
	peak := columns/3 + random.IntN(columns/3)
	heights[peak] = highest * (0.6 + 0.4*random.Float64())
	left, right := random.IntN(peak+1)/3, columns-1-random.IntN(columns-peak)/3
	roughen(random, heights, left, peak, highest*0.3)
	roughen(random, heights, peak, right, highest*0.3)
	return heights
}

// roughen fills the heights between two known ones.
func roughen(random *rand.Rand, heights []float64, from, to int, roughness float64) {
	if to-from < 2 {
		return
	}
	middle := (from + to) / 2
	offset := roughness * (random.Float64() - 0.5)
	heights[middle] = max(0, (heights[from]+heights[to])/2+offset)
	roughen(random, heights, from, middle, roughness/2)
	roughen(random, heights, middle, to, roughness/2)
}

// at returns what is to be seen at a place above the horizon.
func (n night) at(x, y int) rune {
	if rock := n.rock(x, n.rows-y); rock != ' ' {
		return rock
	}
	// A character is about twice as high as it is wide.
	distance := math.Hypot((float64(x)-n.moonX)/2, float64(y)-n.moonY) / n.moonR
	switch {
	case distance <= 1:
		return '█'
	case distance <= 1.35:
		return '░'
	}
	if star, ok := n.stars[[2]int{x, y}]; ok {
		return star
	}
	return ' '
}

// rock returns the mountain at a height above the sea: lit on the side of the moon, snow on top.
func (n night) rock(x, height int) rune {
	ridge := n.ridge[x]
	if float64(height) > ridge {
		return ' '
	}
	if ridge > float64(n.rows)*0.6 && float64(height) > ridge-1 {
		return '█'
	}
	next := n.ridge[min(x+1, n.columns-1)]
	if (next < ridge) == (n.moonX > float64(x)) {
		return '▒'
	}
	return '▓'
}

// reflection returns the sea at a depth below the horizon, where waves break what it mirrors.
func (n night) reflection(random *rand.Rand, x, depth int) rune {
	if random.IntN(4+depth) >= 4 {
		return []rune("~ ˜")[random.IntN(3)]
	}
	x = min(max(x+random.IntN(depth+1)-depth/2, 0), n.columns-1)
	// The sea is less high than the sky, and shows all of it.
	above := n.rows - 1 - depth*3/2
	if above < 0 {
		return ' '
	}
	switch mirrored := n.at(x, above); mirrored {
	case '█':
		return '▒'
	case '▓', '▒':
		return '░'
	default:
		return ' '
	}
}
