package command

import (
	"math"
	"slices"
	"strconv"

	"kedis/internal/number"
	"kedis/storage"
	"kedis/storage/geo"
)

func geoFamily() Family {
	return Family{Commands: slices.Concat(geoMemberCommands(), geoSearchCommands())}
}

// geoMemberCommands look at and change single places, which are members of a sorted set.
func geoMemberCommands() []Command {
	return []Command{
		{Name: "geoadd", Arity: -5, Flags: Write | DenyOOM, Categories: CategoryGeo, Run: cmdGeoAdd,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Group: "geo", Since: "3.2.0", Prefetch: PrefetchLastElement,
			Complexity: "O(log(N)) for each place, N being the number of members",
			Syntax:     "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
			Summary:    "Adds places to a sorted set, or moves them."},
		{Name: "geodist", Arity: -4, Flags: ReadOnly, Categories: CategoryGeo, Run: cmdGeoDist,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "geo", Since: "3.2.0", Complexity: "O(1)",
			Syntax: "key member1 member2 [M | KM | FT | MI]", Summary: "Returns the distance between two places."},
		{Name: "geohash", Arity: -2, Flags: ReadOnly, Categories: CategoryGeo, Run: cmdGeoHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "geo", Since: "3.2.0", Prefetch: PrefetchLastElement,
			Complexity: "O(N), N being the number of members asked for",
			Syntax:     "key [member [member ...]]", Summary: "Returns the geohashes of places."},
		{Name: "geopos", Arity: -2, Flags: ReadOnly, Categories: CategoryGeo, Run: cmdGeoPos,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "geo", Since: "3.2.0", Prefetch: PrefetchLastElement,
			Complexity: "O(N), N being the number of members asked for",
			Syntax:     "key [member [member ...]]", Summary: "Returns the longitudes and latitudes of places."},
	}
}

func cmdGeoAdd(c *Invocation) error {
	o := addOptions{}
	a := arguments{words: c.Args[2:]}
	for more := true; more; {
		switch {
		case a.flag("NX"):
			o.nx = true
		case a.flag("XX"):
			o.xx = true
		case a.flag("CH"):
			o.ch = true
		default:
			more = false
		}
	}
	if len(a.words) == 0 || len(a.words)%3 != 0 || o.nx && o.xx {
		return ErrSyntax
	}
	// Redis repeats it as ZADD, with the scores.
	o.repeated = append([][]byte{wordZAdd}, c.Args[1:len(c.Args)-len(a.words)]...)
	options := len(o.repeated)
	for place := range slices.Chunk(a.words, 3) {
		p, err := parsePoint(place[0], place[1])
		if err != nil {
			return err
		}
		o.repeated = append(o.repeated, formatInteger(int64(p.Score())), place[2])
	}
	return addScores(c, o, o.repeated[options:])
}

func parsePoint(longitude, latitude []byte) (p geo.Point, err error) {
	if p.Longitude, err = parseScore(longitude); err != nil {
		return p, err
	}
	if p.Latitude, err = parseScore(latitude); err != nil {
		return p, err
	}
	if !p.Valid() {
		return p, Errorf("ERR invalid longitude,latitude pair %s,%s", sixPlaces(p.Longitude), sixPlaces(p.Latitude))
	}
	return p, nil
}

// sixPlaces writes a number as C's %f.
func sixPlaces(f float64) string {
	if math.IsInf(f, 0) {
		return number.FormatDouble(f)
	}
	return strconv.FormatFloat(f, 'f', 6, 64)
}

// parseUnit returns how many meters a unit of length has.
func parseUnit(word []byte) (meters float64, err error) {
	switch {
	case equalFold(word, "m"):
		return 1, nil
	case equalFold(word, "km"):
		return 1000, nil
	case equalFold(word, "ft"):
		return 0.3048, nil
	case equalFold(word, "mi"):
		return 1609.34, nil
	}
	return 0, Error("ERR unsupported unit provided. please use M, KM, FT, MI")
}

func cmdGeoDist(c *Invocation) error {
	unit := 1.0
	if len(c.Args) == 5 {
		var err error
		if unit, err = parseUnit(c.Args[4]); err != nil {
			return err
		}
	} else if len(c.Args) > 5 {
		return ErrSyntax
	}
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	var ends [2]geo.Point
	for i := range ends {
		p, found, err := placeOf(&z, c.Args[2+i])
		if err != nil {
			return err
		}
		if !found {
			c.Reply.Null()
			return nil
		}
		ends[i] = p
	}
	c.Reply.Bulk(appendDistance(nil, geo.Distance(ends[0], ends[1])/unit))
	return nil
}

// placeOf returns where a member is.
func placeOf(z *storage.ZSet, member []byte) (p geo.Point, found bool, err error) {
	score, found, err := z.Score(member)
	if err != nil || !found {
		return p, false, err
	}
	return geo.PointOf(score), true, nil
}

// appendDistance writes a distance with four places behind the point.
func appendDistance(dst []byte, distance float64) []byte {
	return strconv.AppendFloat(dst, distance, 'f', 4, 64)
}

// replyPoint uses scratch memory, and returns it.
func replyPoint(c *Invocation, p geo.Point, scratch []byte) []byte {
	c.Reply.Array(2)
	scratch = number.AppendDecimal(scratch[:0], p.Longitude)
	c.Reply.DoubleText(scratch)
	scratch = number.AppendDecimal(scratch[:0], p.Latitude)
	c.Reply.DoubleText(scratch)
	return scratch
}

func cmdGeoHash(c *Invocation) error {
	var hash []byte
	return replyPlaces(c, c.Reply.Null, func(p geo.Point) {
		hash = p.AppendHash(hash[:0])
		c.Reply.Bulk(hash)
	})
}

func cmdGeoPos(c *Invocation) error {
	var text []byte
	return replyPlaces(c, c.Reply.NullArray, func(p geo.Point) { text = replyPoint(c, p, text) })
}

// replyPlaces replies with something for each member that is named, or is missing.
func replyPlaces(c *Invocation, missing func(), reply func(p geo.Point)) error {
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		p, found, err := placeOf(&z, member)
		switch {
		case err != nil:
			return err
		case found:
			reply(p)
		default:
			missing()
		}
	}
	return nil
}
