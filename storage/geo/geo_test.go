package geo

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"kedis/internal/oracle"
)

var seed = flag.Uint64("seed", 1, "seed of the random places that are compared with Redis")

func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

// edges are places at which cells, hemispheres and the world end.
var edges = []Point{
	{180, maxLatitude}, {-180, minLatitude}, {180, minLatitude}, {-180, maxLatitude}, {0, 0}, {180, 0}, {-180, 0}, {0, maxLatitude}, {0, minLatitude},
	{179.9999999, 0.0000001}, {-179.9999999, -0.0000001}, {90, 66}, {-90, -66}, {90, 80.0000001}, {-90, -80.0000001}, {0, 85}, {45, 42.52556439}, {-45, -42.52556439},
}

// randomPoint is anywhere, or near one of the edges, or in Sicily.
func randomPoint(random *rand.Rand) Point {
	near := func(p Point, degrees float64) Point {
		return Point{
			min(max(p.Longitude+random.NormFloat64()*degrees, minLongitude), maxLongitude),
			min(max(p.Latitude+random.NormFloat64()*degrees, minLatitude), maxLatitude),
		}
	}
	switch random.IntN(5) {
	case 0:
		return edges[random.IntN(len(edges))]
	case 1:
		return near(edges[random.IntN(len(edges))], math.Pow(10, 3*random.Float64()-2))
	case 2:
		return near(Point{14, 37.5}, 1)
	}
	return Point{360*random.Float64() - 180, (2*random.Float64() - 1) * maxLatitude}
}

func text(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

const comparisons = 4000

// TestPlacesAsRedis compares scores, coordinates and geohashes.
func TestPlacesAsRedis(t *testing.T) {
	server, random := oracle.Start(t), newRandom(t)
	for i := range comparisons {
		p := randomPoint(random)
		if i < len(edges) {
			p = edges[i]
		}
		server.Send("GEOADD", "places", text(p.Longitude), text(p.Latitude), "place")
		server.Send("ZSCORE", "places", "place")
		server.Send("GEOPOS", "places", "place")
		server.Send("GEOHASH", "places", "place")
		server.Receive()
		score := float64(p.Score())
		if want, err := strconv.ParseFloat(server.Receive().(string), 64); err != nil || want != score {
			t.Fatalf("%v has the score %v, with Redis %v", p, score, want)
		}
		got := PointOf(score)
		for i, want := range server.Receive().([]any)[0].([]any) {
			coordinate, err := strconv.ParseFloat(want.(string), 64)
			if ours := [...]float64{got.Longitude, got.Latitude}[i]; err != nil || math.Abs(ours-coordinate) > 1e-17 {
				t.Fatalf("%v comes back as %v, with Redis %v", p, got, want)
			}
		}
		if want := server.Receive().([]any)[0]; want != string(got.AppendHash(nil)) {
			t.Fatalf("%v has the hash %s, with Redis %v", p, got.AppendHash(nil), want)
		}
	}
}

// oddScores are scores that no place has.
var oddScores = []float64{-1, -4.5, 0.5, 1 << 52, 1<<52 + 1, 1<<54 - 1, 1 << 62, 1 << 63, 1 << 64, 1e300, -1 << 63, -1e300, math.Inf(1), math.Inf(-1)}

func TestOddScoresAsRedis(t *testing.T) {
	server := oracle.Start(t)
	for _, score := range oddScores {
		server.Do("ZADD", "places", text(score), "place")
		p := PointOf(score)
		want := server.Do("GEOHASH", "places", "place").([]any)[0]
		if got := string(p.AppendHash(nil)); got != want {
			t.Errorf("%v has the hash %s, with Redis %v", score, got, want)
		}
	}
}

// TestDistancesAsRedis compares what is written of distances. Sometimes places are within a few
// meters of each other, or on opposite sides of the Earth: there the last bit of a sine, which the
// C library hasn't always right, makes up for decimeters.
func TestDistancesAsRedis(t *testing.T) {
	server, random := oracle.Start(t), newRandom(t)
	opposite := 0
	for range comparisons {
		a, b := randomPoint(random), randomPoint(random)
		switch random.IntN(4) {
		case 0:
			b = Point{min(a.Longitude+1e-5*random.Float64(), maxLongitude), min(a.Latitude+1e-5*random.Float64(), maxLatitude)}
		case 1:
			b = Point{a.Longitude - math.Copysign(180, a.Longitude), -a.Latitude}
		}
		server.Send("GEOADD", "places", text(a.Longitude), text(a.Latitude), "a", text(b.Longitude), text(b.Latitude), "b")
		server.Send("GEODIST", "places", "a", "b")
		server.Receive()
		got := fmt.Sprintf("%.4f", math.RoundToEven(1e4*Distance(PointOf(float64(a.Score())), PointOf(float64(b.Score()))))/1e4)
		if want := server.Receive(); got != want {
			if opposite++; Distance(a, b) < 20_000_000 || opposite > comparisons/1000 {
				t.Errorf("from %v to %v it is %s m, with Redis %v", a, b, got, want)
			}
		}
	}
}

// place is a member of the model of a sorted set.
type place struct {
	name  string
	score float64
}

// randomShape is as small as a meter, or as large as the Earth and more.
func randomShape(random *rand.Rand) Shape {
	units := []float64{1, 1000, 0.3048, 1609.34}
	s := Shape{Center: randomPoint(random), Unit: units[random.IntN(len(units))]}
	length := func() float64 {
		if random.IntN(10) == 0 {
			return []float64{0, 1e-9, 20037726.37, 1e10, 1e300, math.Inf(1)}[random.IntN(6)]
		}
		return math.Pow(10, 7.5*random.Float64()) / s.Unit
	}
	if s.Box = random.IntN(2) == 0; s.Box {
		s.Width, s.Height = length(), length()
	} else {
		s.Radius = length()
	}
	return s
}

func (s *Shape) words() []any {
	unit := map[float64]string{1: "m", 1000: "km", 0.3048: "ft", 1609.34: "mi"}[s.Unit]
	words := []any{"GEOSEARCH", "places", "FROMLONLAT", text(s.Center.Longitude), text(s.Center.Latitude)}
	if s.Box {
		return append(words, "BYBOX", text(s.Width), text(s.Height), unit)
	}
	return append(words, "BYRADIUS", text(s.Radius), unit)
}

// search is what a search finds in the model, in its order.
func (s *Shape) search(places []place) []any {
	found := []any{}
	finder := s.Finder()
	for _, r := range s.AppendCover(nil) {
		for _, p := range places {
			if p.score < float64(r.Min) || p.score >= float64(r.Max) {
				continue
			}
			if _, within := finder.Distance(PointOf(p.score)); within {
				found = append(found, p.name)
			}
		}
	}
	return found
}

// TestSearchesAsRedis compares what is found, and in which order the cells are looked at.
func TestSearchesAsRedis(t *testing.T) {
	server, random := oracle.Start(t), newRandom(t)
	places := make([]place, 600)
	for i := range places {
		p := randomPoint(random)
		places[i] = place{strconv.Itoa(i), float64(p.Score())}
		server.Send("ZADD", "places", places[i].score, places[i].name)
	}
	for range places {
		server.Receive()
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name)) })
	found := 0
	for range comparisons {
		s := randomShape(random)
		got, want := s.search(places), server.Do(s.words()...).([]any)
		if !slices.Equal(got, want) {
			t.Fatalf("%v finds %v, with Redis %v", s.words(), got, want)
		}
		found += len(got)
	}
	if found < 10*comparisons {
		t.Errorf("only %d places were found", found)
	}
}

// TestNothingIsRuledOut holds the quick test for points that lie outside of circles against their
// distances.
func TestNothingIsRuledOut(t *testing.T) {
	random := newRandom(t)
	for range 50 * comparisons {
		s := randomShape(random)
		if s.Box {
			continue
		}
		p := randomPoint(random)
		if random.IntN(2) == 0 { // on the border, nearly
			s.Unit = 1
			s.Radius = Distance(s.Center, p) * (1 + random.NormFloat64()*1e-10)
		}
		f := s.Finder()
		if f.beyond(p) && Distance(s.Center, p) <= s.Radius*s.Unit {
			t.Fatalf("%v is within %v", p, s)
		}
	}
}

// TestCellsAreReversible holds the two ways between cells and numbers against each other.
func TestCellsAreReversible(t *testing.T) {
	random := newRandom(t)
	for range 10_000 {
		c := cell{random.Uint32(), random.Uint32(), finest}
		if got := cellNumbered(c.number()); got != c {
			t.Fatalf("%v comes back as %v", c, got)
		}
	}
}

// TestTrigonometry compares with package math, which is right but for the last bit or two.
func TestTrigonometry(t *testing.T) {
	random := newRandom(t)
	near := func(name string, x, got, want float64) {
		if math.Abs(got-want) > 4e-16*math.Abs(want)+1e-300 {
			t.Fatalf("%s(%v) is %v, not %v", name, x, got, want)
		}
	}
	for range 10_000 {
		x := (2*random.Float64() - 1) * math.Pi
		near("sine", x, sine(x), math.Sin(x))
		near("cosine", x/2, cosine(x/2), math.Cos(x/2))
		if math.Abs(math.Abs(x)-math.Pi/2) > 1e-3 { // near its zero the cosine of package math is off
			near("cosine", x, cosine(x), math.Cos(x))
		}
		near("arcTangent", x, arcTangent(2*math.Sin(x), 2*math.Cos(x)), math.Atan2(2*math.Sin(x), 2*math.Cos(x)))
		near("arcSine", math.Abs(x/4), arcSine(math.Abs(x/4)), math.Asin(math.Abs(x/4)))
	}
	for _, exact := range [][2]float64{{sine(0), 0}, {cosine(0), 1}, {arcSine(0), 0}, {arcSine(1), math.Pi / 2}, {sine(math.Pi / 2), 1}, {sine(-math.Pi / 2), -1}} {
		if exact[0] != exact[1] {
			t.Errorf("%v is not %v", exact[0], exact[1])
		}
	}
}

// TestPolygons holds what lies within a polygon against what lies within a box, as long as its
// sides run along parallels and meridians.
func TestPolygons(t *testing.T) {
	random := newRandom(t)
	for range comparisons {
		a, b := randomPoint(random), randomPoint(random)
		west, east, south, north := min(a.Longitude, b.Longitude), max(a.Longitude, b.Longitude), min(a.Latitude, b.Latitude), max(a.Latitude, b.Latitude)
		corners := []Point{{west, south}, {east, south}, {east, north}, {west, north}}
		if random.IntN(2) == 0 {
			slices.Reverse(corners)
		}
		s := PolygonShape(corners)
		finder := s.Finder()
		for range 50 {
			p := randomPoint(random)
			want := p.Longitude >= west && p.Longitude < east && p.Latitude >= south && p.Latitude < north
			if meters, within := finder.Distance(p); within != want || within && meters != Distance(s.Center, p) {
				t.Fatalf("%v within %v: %v at %v", p, corners, within, meters)
			}
		}
	}
}

// TestCenters: that of a polygon doesn't depend on the side of the 180th meridian on which its
// vertices lie.
func TestCenters(t *testing.T) {
	for _, c := range []struct {
		vertices []Point
		center   Point
	}{
		{[]Point{{10, 0}, {20, 10}, {20, -10}, {10, 0}}, Point{15, 0}},
		{[]Point{{170, 5}, {-170, 5}, {-170, -5}, {170, -5}}, Point{180, 0}},
		{[]Point{{0, 80}, {90, 80}, {180, 80}, {-90, 80}}, Point{0, 90}},
	} {
		got := PolygonShape(c.vertices).Center
		if math.Abs(got.Latitude-c.center.Latitude) > 1e-9 || c.center.Latitude < 90 && math.Abs(math.Abs(got.Longitude)-c.center.Longitude) > 0.1 {
			t.Errorf("the center of %v is %v, want %v", c.vertices, got, c.center)
		}
	}
}

func BenchmarkDistance(b *testing.B) {
	palermo, catania := Point{13.361389, 38.115556}, Point{15.087269, 37.502669}
	for range b.N {
		Distance(palermo, catania)
	}
}
