package geo

import "math"

// Shape is what is searched: a circle, a box whose sides run from east to west and from north to
// south, or a polygon, which PolygonShape makes. The measures are in units of Unit meters.
type Shape struct {
	Center        Point
	Unit          float64
	Polygon       []Point // nil: a circle or a box
	Box           bool
	Radius        float64 // of a circle
	Width, Height float64 // of a box
}

// Finder tells which points lie within a shape.
type Finder struct {
	shape  Shape
	origin origin
	// A point of a circle is no farther away than this, in degrees, whatever is lost in rounding.
	aside, up float64
}

// Finder returns what tells which points lie within the shape.
func (s *Shape) Finder() Finder {
	f := Finder{shape: *s, origin: originAt(s.Center)}
	if s.circle() {
		f.aside, f.up = s.reaches(s.Radius * s.Unit / earthRadius)
	}
	return f
}

func (s *Shape) circle() bool { return !s.Box && s.Polygon == nil }

// reaches are the greatest differences in longitude and latitude between the center and what is
// within an angle of it, and a bit more.
func (s *Shape) reaches(angle float64) (aside, up float64) {
	const more, little = 1 + 1e-9, 1e-9
	up = angle/degree*more + little
	if math.Abs(s.Center.Latitude)+up >= 90 {
		return 360, up // the circle holds a pole
	}
	return math.Asin(math.Sin(angle)/math.Cos(radians(s.Center.Latitude)))/degree*more + little, up
}

// Distance is how far a point is from the center, in meters, and whether it lies within the shape.
// Of a point that doesn't the distance isn't known.
func (f *Finder) Distance(p Point) (meters float64, within bool) {
	if f.beyond(p) {
		return 0, false
	}
	v := f.origin.sineTo(p)
	if f.shape.Box && alongParallel(p.Latitude, v) > f.shape.Width*f.shape.Unit/2 {
		return 0, false
	}
	meters = f.origin.distance(p, v)
	return meters, !f.shape.circle() || !(meters > f.shape.Radius*f.shape.Unit)
}

// beyond reports whether a point lies outside of the shape for certain, which is known without a
// sine. A point that isn't beyond a polygon lies within it.
func (f *Finder) beyond(p Point) bool {
	center := f.shape.Center
	switch {
	case f.shape.Polygon != nil:
		return !f.shape.encloses(p)
	case f.shape.Box:
		return alongMeridian(p.Latitude, center.Latitude) > f.shape.Height*f.shape.Unit/2
	}
	aside := math.Abs(p.Longitude - center.Longitude)
	return math.Abs(p.Latitude-center.Latitude) > f.up || min(aside, 360-aside) > f.aside
}

// bounds is the area around the shape, as Redis finds it: a large shape near a pole reaches beyond
// it.
func (s *Shape) bounds() area {
	if s.Polygon != nil {
		return s.polygonBounds()
	}
	width, height := s.Unit*s.Radius, s.Unit*s.Radius
	if s.Box {
		width, height = s.Unit*(s.Width/2), s.Unit*(s.Height/2)
	}
	p := s.Center
	up := height / earthRadius / degree
	far := p.Latitude + up // from the equator, where meridians are nearest to each other
	if p.Latitude < 0 {
		far = p.Latitude - up
	}
	aside := width / earthRadius / math.Cos(radians(far)) / degree
	return area{west: p.Longitude - aside, east: p.Longitude + aside, south: p.Latitude - up, north: p.Latitude + up}
}

// reach is the distance from the center to the farthest points, in meters.
func (s *Shape) reach() float64 {
	switch {
	case s.Polygon != nil:
		return s.polygonReach()
	case !s.Box:
		return s.Radius * s.Unit
	}
	return math.Sqrt(float64(s.Width/2*(s.Width/2))+float64(s.Height/2*(s.Height/2))) * s.Unit
}

// estimateStep is how often the world can be halved so that a cell and its neighbours hold what is
// within a distance of a latitude.
func estimateStep(meters, latitude float64) int {
	const halfOfEquator = 20037726.37
	if meters == 0 {
		return finest
	}
	step := -1
	for ; meters < halfOfEquator; meters *= 2 {
		step++
	}
	if latitude = math.Abs(latitude); latitude > 66 { // columns are narrow there
		step--
		if latitude > 80 {
			step--
		}
	}
	return min(max(step, 1), finest)
}

// compass is the order in which the neighbours of a cell are looked at: north, south, east, west,
// and what is between them.
var compass = [8]struct{ columns, rows int }{{0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}

// AppendCover appends the ranges of scores that hold all points within the shape, in the order in
// which they are to be looked at.
func (s *Shape) AppendCover(ranges []Range) []Range {
	bounds := s.bounds()
	center := cellOf(s.Center, estimateStep(s.reach(), s.Center.Latitude))
	if center.step > 1 && !center.surrounded(bounds) {
		center = cellOf(s.Center, center.step-1)
	}
	ranges = append(ranges, center.scores())
	own := center.area()
	for _, to := range compass {
		if center.step > 1 && own.ends(bounds, to.columns, to.rows) {
			continue
		}
		r := center.neighbour(to.columns, to.rows).scores()
		if last := len(ranges) - 1; last > 0 && ranges[last] == r {
			continue // of a world of two by two cells
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// surrounded reports whether the cell and its neighbours hold an area.
func (c cell) surrounded(a area) bool {
	return !(c.neighbour(0, 1).area().north < a.north || c.neighbour(0, -1).area().south > a.south ||
		c.neighbour(1, 0).area().east < a.east || c.neighbour(-1, 0).area().west > a.west)
}

// ends reports whether nothing of another area can lie so many columns and rows away, because it
// ends within this one.
func (a area) ends(other area, columns, rows int) bool {
	return rows < 0 && a.south < other.south || rows > 0 && a.north > other.north ||
		columns < 0 && a.west < other.west || columns > 0 && a.east > other.east
}
