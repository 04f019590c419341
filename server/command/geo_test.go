package command

import "testing"

// TestGeoEffects: a server that repeats what was stored needs no distances, whose last bit could be
// another one there.
func TestGeoEffects(t *testing.T) {
	const places = "geoadd g 1 1 a 1.001 1 b"
	checkEffects(t, aTime, []effectCase{
		{"", "geoadd g nx 1 1 a ch 2 2 b", ""},
		{"", "geoadd g NX ch 1 1 a 1.001 1 b", "ZADD g NX ch 3377822707026402 a 3377822707067242 b"},
		{places, "geoadd g 1 1 a", ""},
		{places, "geoadd g xx 1 1 c", ""},
		{places, "georadius g 1 1 1 km", ""},
		{places, "georadius g 1 1 1 km store h", "ZADD h 3377822707026402 a 3377822707067242 b"},
		{places + "; set h x", "georadius g 1 1 1 m storedist h", "MULTI; DEL h; ZADD h 0.06052161712586649 a; EXEC"},
		{places + "; set h x", "geosearchstore h g fromlonlat 50 1 byradius 1 m", "DEL h"},
		{places, "geosearchstore h g fromlonlat 50 1 byradius 1 m", ""},
		{places + "; set h x", "geosearchstore h nothing fromlonlat 50 1 byradius 1 m", "DEL h"},
		{places, "geosearchstore g g frommember a byradius 1 m", "MULTI; DEL g; ZADD g 3377822707026402 a; EXEC"},
	})
}

// TestDistancesAreRoundedOnce: as by C's "%.4f", and not once more when they are multiplied.
func TestDistancesAreRoundedOnce(t *testing.T) {
	for distance, want := range map[float64]string{0: "0.0000", 166274.15156960033: "166274.1516", 18990911.03495: "18990911.0349", 16942945.01955: "16942945.0195"} {
		if got := string(appendDistance(nil, distance)); got != want {
			t.Errorf("%v is written %s, want %s", distance, got, want)
		}
	}
}
