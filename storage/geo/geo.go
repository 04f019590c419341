// Package geo is the mathematics of the geo commands: places on the Earth as scores of a sorted
// set, the distance between two places, and the ranges of scores that cover a circle, a box or a
// polygon.
//
// It knows no storage and imports only the standard library. What it computes is, bit for bit, what
// Redis computes: clients see distances and coordinates as text, and the order of places that
// aren't sorted is the order of the cells that are looked at. Products that something is added to
// are converted to float64, which keeps a compiler from fusing the two operations.
package geo

import "math"

// The places that have a score. Latitudes end where the Mercator projection of the world is a
// square.
const (
	minLongitude, maxLongitude = -180.0, 180.0
	minLatitude, maxLatitude   = -85.05112878, 85.05112878
)

// Point is a place, in degrees.
type Point struct{ Longitude, Latitude float64 }

// Valid reports whether the point has a score.
func (p Point) Valid() bool {
	return p.Longitude >= minLongitude && p.Longitude <= maxLongitude && p.Latitude >= minLatitude && p.Latitude <= maxLatitude
}

// finest is how often the world is halved for a score, in each direction.
const finest = 26

// Score is what a sorted set keeps of a valid point: the number of its cell at the finest division,
// 52 bits, of which those of the longitude and of the latitude alternate. The borders of the world
// in the north and in the east have one bit more.
func (p Point) Score() uint64 { return cellOf(p, finest).number() }

// PointOf is the middle of the cell that a score is the number of. Any score has one: sorted sets
// can have been made by ZADD.
func PointOf(score float64) Point {
	a := cellNumbered(toUnsigned(score)).area()
	return Point{
		Longitude: min(max((a.west+a.east)/2, minLongitude), maxLongitude),
		Latitude:  min(max((a.south+a.north)/2, minLatitude), maxLatitude),
	}
}

// toUnsigned converts as a C compiler does on x86-64, for numbers out of range, too: Go leaves
// those open.
func toUnsigned(score float64) uint64 {
	const half = 1 << 63
	switch {
	case score >= 2*half:
		return 0
	case score >= half:
		return uint64(score-half) + half
	case score >= -half:
		return uint64(int64(score))
	}
	return half
}

// hashAlphabet are the digits of geohash.org, to the base 32.
const hashAlphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

// hashLength is the length of a hash. The last digit would need three bits more than there are, and
// is always 0.
const hashLength = 11

// AppendHash appends the geohash of a point, whose cells, other than those of scores, reach up to
// the poles.
func (p Point) AppendHash(dst []byte) []byte {
	const poles = 90
	x := scale(p.Longitude, minLongitude, maxLongitude, finest)
	y := scale(p.Latitude, -poles, poles, finest)
	number := cell{x, y, finest}.number()
	for i := 1; i < hashLength; i++ {
		dst = append(dst, hashAlphabet[number>>(2*finest-5*i)&31])
	}
	return append(dst, hashAlphabet[0])
}

// earthRadius is the quadratic mean of WGS 84, in meters.
const earthRadius = 6372797.560856

const degree = math.Pi / 180 // in radians

func radians(degrees float64) float64 { return degrees * degree }

// Distance is the length of the great circle between two points, in meters.
func Distance(a, b Point) float64 {
	o := originAt(a)
	return o.distance(b, o.sineTo(b))
}

// alongMeridian is the distance between two latitudes.
func alongMeridian(a, b float64) float64 { return earthRadius * math.Abs(radians(b)-radians(a)) }

// origin is a point from which distances are measured, by the haversine formula.
type origin struct{ longitude, latitude, cosine float64 } // in radians; the cosine is the latitude's

func originAt(p Point) origin {
	latitude := radians(p.Latitude)
	return origin{radians(p.Longitude), latitude, cosine(latitude)}
}

// sineTo is the sine of half of the angle between the meridians.
func (o *origin) sineTo(p Point) float64 { return sine((radians(p.Longitude) - o.longitude) / 2) }

// distance is how far a point is; v is sineTo of it.
func (o *origin) distance(p Point, v float64) float64 {
	latitude := radians(p.Latitude)
	if v == 0 {
		return earthRadius * math.Abs(latitude-o.latitude)
	}
	u := sine((latitude - o.latitude) / 2)
	return arc(float64(u*u) + float64(o.cosine*cosine(latitude)*v*v))
}

// arc is the length of a great circle's part whose half has a sine with a square.
func arc(square float64) float64 { return 2 * earthRadius * arcSine(math.Sqrt(square)) }

// alongParallel is the distance between two points on a latitude; v is the sine of half of the
// angle between their meridians.
func alongParallel(latitude, v float64) float64 {
	c := cosine(radians(latitude))
	return arc(c * c * v * v)
}
