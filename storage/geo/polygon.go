package geo

import "math"

// Polygons are Valkey's, from 9.0 on: the borders are straight lines on a map whose axes are
// longitude and latitude, and none of them crosses the 180th meridian.

// PolygonShape returns the shape with these vertices, at least three, which stay the caller's. Its
// center is in the direction of the sum of the vertices, as vectors from the middle of the Earth.
func PolygonShape(vertices []Point) Shape {
	var x, y, z float64
	for _, p := range vertices {
		longitude, latitude := radians(p.Longitude), radians(p.Latitude)
		x += float64(cosine(latitude) * cosine(longitude))
		y += float64(cosine(latitude) * sine(longitude))
		z += sine(latitude)
	}
	center := Point{
		Longitude: arcTangent(y, x) / degree,
		Latitude:  arcTangent(z, math.Sqrt(float64(x*x)+float64(y*y))) / degree,
	}
	return Shape{Center: center, Unit: 1, Polygon: vertices}
}

// encloses reports whether a point lies within a polygon: whether a ray from it to the east crosses
// the border an odd number of times.
func (s *Shape) encloses(p Point) (inside bool) {
	from := s.Polygon[len(s.Polygon)-1]
	for _, to := range s.Polygon {
		if to.Latitude > p.Latitude != (from.Latitude > p.Latitude) {
			part := (from.Longitude - to.Longitude) * (p.Latitude - to.Latitude) / (from.Latitude - to.Latitude)
			if p.Longitude < part+to.Longitude {
				inside = !inside
			}
		}
		from = to
	}
	return inside
}

// polygonBounds is the area around a polygon.
func (s *Shape) polygonBounds() area {
	a := area{west: maxLongitude, east: minLongitude, south: maxLatitude, north: minLatitude}
	for _, p := range s.Polygon {
		a.west, a.east = min(a.west, p.Longitude), max(a.east, p.Longitude)
		a.south, a.north = min(a.south, p.Latitude), max(a.north, p.Latitude)
	}
	return a
}

// polygonReach is the distance from the center to the farthest corner of the area around a polygon,
// in meters.
func (s *Shape) polygonReach() float64 {
	a := s.polygonBounds()
	reach := 0.0
	for _, corner := range [4]Point{{a.west, a.north}, {a.east, a.north}, {a.west, a.south}, {a.east, a.south}} {
		reach = max(reach, Distance(s.Center, corner))
	}
	return reach
}
