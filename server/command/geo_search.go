package command

import (
	"encoding/binary"
	"math"
	"sync"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage"
	"kedis/storage/geo"
	"kedis/storage/sortorder"
)

// geoForm is how one of the commands that search names the center and the shape.
type geoForm int

const (
	aroundPoint  geoForm = iota // GEORADIUS
	aroundMember                // GEORADIUSBYMEMBER
	anyShape                    // GEOSEARCH
	anyStored                   // GEOSEARCHSTORE
)

// geoSearchCommands look for the places within a shape.
func geoSearchCommands() []Command {
	const complexity = "O(N+log(M)), N being the number of members in the cells around the shape and M of those of the sorted set"
	const answered = " [WITHCOORD] [WITHDIST] [WITHHASH]"
	const some = " [COUNT count [ANY]]"
	const order = " [ASC | DESC]"
	const store = " [STORE key | STOREDIST key]"
	const unit = " <M | KM | FT | MI>"
	const shape = " <<FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius" + unit + " | BYBOX width height" + unit + "> | " +
		"BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]>"
	read := func(name string, form geoForm, arity int, since, syntax, summary string) Command {
		return Command{Name: name, Arity: arity, Flags: ReadOnly, Categories: CategoryGeo, Keys: []KeySpec{oneKey(1, RO|Access)},
			Group: "geo", Since: since, Complexity: complexity, Syntax: syntax, Summary: summary,
			Run: func(c *Invocation) error { return searchPlaces(c, geoQuery{form: form}) }}
	}
	storing := func(name string, form geoForm, arity int, syntax, summary string) Command {
		options := optionsBehind(form)
		target := KeySpec{Flags: OW | Update, Keyword: "STORE", From: options, Step: 1}
		distances := target
		distances.Keyword = "STOREDIST"
		return Command{Name: name, Arity: arity, Flags: Write | DenyOOM | MovableKeys, Categories: CategoryGeo,
			Keys: []KeySpec{oneKey(1, RO|Access), target, distances}, GetKeys: geoKeys(options), Adapt: geoFlags(options),
			Group: "geo", Since: "3.2.0", Complexity: complexity, Syntax: syntax, Summary: summary,
			Run: func(c *Invocation) error { return searchPlaces(c, geoQuery{form: form, mayStore: true}) }}
	}
	const circle = "key longitude latitude radius" + unit + answered + some + order
	const circleOfMember = "key member radius" + unit + answered + some + order
	return []Command{
		read("geosearch", anyShape, -7, "6.2.0", "key"+shape+order+some+answered, "Returns the places within a circle, a box or a polygon."),
		{Name: "geosearchstore", Arity: -8, Flags: Write | DenyOOM, Categories: CategoryGeo,
			Keys: []KeySpec{oneKey(1, OW|Update), oneKey(2, RO|Access)}, Group: "geo", Since: "6.2.0", Complexity: complexity,
			Syntax:  "destination source" + shape + order + some + " [STOREDIST]",
			Summary: "Stores the places within a circle, a box or a polygon in another key.",
			Run: func(c *Invocation) error {
				return searchPlaces(c, geoQuery{form: anyStored, stores: true, store: c.Args[1]})
			}},
		storing("georadius", aroundPoint, -6, circle+store, "Returns or stores the places within a circle."),
		read("georadius_ro", aroundPoint, -6, "3.2.10", circle, "Returns the places within a circle."),
		storing("georadiusbymember", aroundMember, -5, circleOfMember+store, "Returns or stores the places within a circle around another one."),
		read("georadiusbymember_ro", aroundMember, -5, "3.2.10", circleOfMember, "Returns the places within a circle around another one."),
	}
}

// optionsBehind is the word where a form's options begin.
func optionsBehind(form geoForm) int {
	return map[geoForm]int{aroundPoint: 6, aroundMember: 5, anyShape: 2, anyStored: 3}[form]
}

// eachTarget visits the words that name where results are to be stored. The last of them is where
// they are.
func eachTarget(args [][]byte, options int, visit func(index int)) {
	for i := options; i+1 < len(args); i++ {
		if equalFold(args[i], "STORE") || equalFold(args[i], "STOREDIST") {
			i++
			visit(i)
		}
	}
}

func geoKeys(options int) func(args [][]byte) ([]KeyReference, error) {
	return func(args [][]byte) ([]KeyReference, error) {
		keys := []KeyReference{{Index: 1, Flags: RO | Access}}
		eachTarget(args, options, func(index int) { keys = append(keys, KeyReference{Index: index, Flags: OW | Update}) })
		return keys, nil
	}
}

// geoFlags makes GEORADIUS a read when it stores nothing.
func geoFlags(options int) func(flags Flags, args [][]byte) Flags {
	return func(flags Flags, args [][]byte) Flags {
		stores := false
		eachTarget(args, options, func(int) { stores = true })
		if !stores {
			flags = flags&^(Write|DenyOOM) | ReadOnly
		}
		return flags
	}
}

// geoSearch is a search, with what it has found so far.
type geoSearch struct {
	geoQuery
	found   sortorder.Elements
	polygon []geo.Point
	element []byte // that is found
	text    []byte // of a number
	visit   storage.VisitPlace
}

// geoSearches lends searches, whose memory is used again.
type geoSearches struct{ pool sync.Pool }

func (s *geoSearches) borrow(query geoQuery) *geoSearch {
	q, ok := s.pool.Get().(*geoSearch)
	if !ok {
		q = &geoSearch{}
		q.visit = q.add
	}
	q.geoQuery = query
	return q
}

// keptVertices is the largest polygon whose memory is used again.
const keptVertices = 4096

func (s *geoSearches) giveBack(q *geoSearch) {
	q.geoQuery = geoQuery{}
	q.found.Reset()
	if cap(q.polygon) > keptVertices {
		q.polygon = nil
	}
	s.pool.Put(q)
}

// geoQuery is what was asked for.
type geoQuery struct {
	form     geoForm
	mayStore bool

	shape                 geo.Shape
	fromMember, fromPoint bool
	circle, box, within   bool // which shape

	withDistance, withHash, withPoint bool
	sorted, descending                bool
	any                               bool  // any places are as good as the nearest
	count                             int64 // 0: all
	stores                            bool
	store                             []byte // the key
	storeDistance                     bool   // as scores
}

func searchPlaces(c *Invocation, query geoQuery) error {
	searches := &keptBy(c.Engine).places
	q := searches.borrow(query)
	defer searches.giveBack(q)
	source := 1
	if q.form == anyStored {
		source = 2
	}
	z, err := c.DB.Reading().ZSet(c.Args[source])
	if err != nil {
		return err
	}
	if err := q.parse(c.Args, &z); err != nil {
		return err
	}
	if z.Exists() {
		if err := q.find(&z); err != nil {
			return err
		}
	}
	if q.stores {
		return q.storeFound(c)
	}
	q.replyFound(c)
	return nil
}

// parse reads the words. Of a set that doesn't exist no member is asked for.
func (q *geoSearch) parse(args [][]byte, z *storage.ZSet) error {
	options := optionsBehind(q.form)
	var err error
	switch q.form {
	case aroundPoint:
		if q.shape.Center, err = parsePoint(args[2], args[3]); err == nil {
			err = q.parseCircle(args[4], args[5])
		}
	case aroundMember:
		if z.Exists() {
			if err = q.centerOn(z, args[2]); err == nil {
				err = q.parseCircle(args[3], args[4])
			}
		}
	}
	if err != nil {
		return err
	}
	searches := q.form == anyShape || q.form == anyStored
	a := arguments{words: args[options:]}
	for a.more() {
		if !q.parseOption(&a) && !(searches && (q.parseCenter(&a, z) || q.parseShape(&a))) {
			a.fail(ErrSyntax)
		}
	}
	if a.err != nil {
		return a.err
	}
	return q.check(args[0])
}

// parseOption reads one of the options that most commands have.
func (q *geoSearch) parseOption(a *arguments) bool {
	takesKey := q.mayStore && len(a.words) > 1
	switch {
	case a.flag("WITHDIST"):
		q.withDistance = true
	case a.flag("WITHHASH"):
		q.withHash = true
	case a.flag("WITHCOORD"):
		q.withPoint = true
	case a.flag("ANY"):
		q.any = true
	case a.flag("ASC"):
		q.sorted, q.descending = true, false
	case a.flag("DESC"):
		q.sorted, q.descending = true, true
	case a.integer("COUNT", &q.count):
		if q.count <= 0 {
			a.fail(Error("ERR COUNT must be > 0"))
		}
	case takesKey && a.flag("STORE"):
		q.stores, q.store, q.storeDistance = true, a.next(), false
	case takesKey && a.flag("STOREDIST"):
		q.stores, q.store, q.storeDistance = true, a.next(), true
	case q.form == anyStored && a.flag("STOREDIST"):
		q.storeDistance = true
	default:
		return false
	}
	return true
}

// parseCenter reads the center of a shape, which only GEOSEARCH and GEOSEARCHSTORE name so. A
// polygon has none.
func (q *geoSearch) parseCenter(a *arguments, z *storage.ZSet) bool {
	words := len(a.words)
	switch {
	case q.within:
		return false
	case words > 1 && !q.fromPoint && a.flag("FROMMEMBER"):
		q.fromMember = true
		if member := a.next(); z.Exists() {
			a.fail(q.centerOn(z, member))
		}
	case words > 2 && !q.fromMember && a.flag("FROMLONLAT"):
		q.fromPoint = true
		var err error
		q.shape.Center, err = parsePoint(a.next(), a.next())
		a.fail(err)
	default:
		return false
	}
	return true
}

// parseShape reads the shape, which only they name.
func (q *geoSearch) parseShape(a *arguments) bool {
	words := len(a.words)
	switch {
	case words > 2 && !q.box && !q.within && a.flag("BYRADIUS"):
		q.circle = true
		a.fail(q.parseCircle(a.next(), a.next()))
	case words > 3 && !q.circle && !q.within && a.flag("BYBOX"):
		q.box = true
		a.fail(q.parseBox(a.next(), a.next(), a.next()))
	case words > 2 && !q.circle && !q.box && !q.fromMember && !q.fromPoint && a.flag("BYPOLYGON"):
		q.within = true
		a.fail(q.parsePolygon(a))
	default:
		return false
	}
	return true
}

func (q *geoSearch) centerOn(z *storage.ZSet, member []byte) (err error) {
	var found bool
	if q.shape.Center, found, err = placeOf(z, member); err == nil && !found {
		err = Error("ERR could not decode requested zset member")
	}
	return err
}

func (q *geoSearch) parseCircle(radius, unit []byte) (err error) {
	if q.shape.Radius, err = parseLength(radius, "radius"); err != nil {
		return err
	}
	if q.shape.Radius < 0 {
		return Error("ERR radius cannot be negative")
	}
	q.shape.Unit, err = parseUnit(unit)
	return err
}

func (q *geoSearch) parseBox(width, height, unit []byte) (err error) {
	s := &q.shape
	s.Box = true
	if s.Width, err = parseLength(width, "width"); err != nil {
		return err
	}
	if s.Height, err = parseLength(height, "height"); err != nil {
		return err
	}
	if s.Width < 0 || s.Height < 0 {
		return Error("ERR height or width cannot be negative")
	}
	s.Unit, err = parseUnit(unit)
	return err
}

// parsePolygon reads the number of vertices, and each of them.
func (q *geoSearch) parsePolygon(a *arguments) error {
	const fewest = 3
	n, err := parseInteger(a.next())
	switch {
	case err != nil || n > math.MaxInt32 || n < math.MinInt32:
		return Error("ERR invalid number of vertices")
	case n < fewest || n > int64(len(a.words)/2):
		return Error("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices")
	}
	q.polygon = q.polygon[:0]
	for range n {
		vertex, err := parsePoint(a.next(), a.next())
		if err != nil {
			return err
		}
		q.polygon = append(q.polygon, vertex)
	}
	q.shape = geo.PolygonShape(q.polygon)
	return nil
}

func parseLength(word []byte, name string) (float64, error) {
	length, ok := number.ParseDouble(word)
	if !ok {
		return 0, Errorf("ERR need numeric %s", name)
	}
	return length, nil
}

// check refuses what doesn't go together; name is the command's, as it was given.
func (q *geoSearch) check(name []byte) error {
	searches := q.form == anyShape || q.form == anyStored
	switch {
	case q.stores && (q.withDistance || q.withHash || q.withPoint):
		command := "STORE option in GEORADIUS"
		if searches {
			command = "GEOSEARCHSTORE"
		}
		return Errorf("ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options", command)
	case searches && !q.fromMember && !q.fromPoint && !q.within:
		return Errorf("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for %s", name)
	case searches && !q.circle && !q.box && !q.within:
		return Errorf("ERR exactly one of BYRADIUS and BYBOX can be specified for %s", name)
	case q.any && q.count == 0:
		return Error("ERR the ANY argument requires COUNT argument")
	}
	return nil
}

// A place that was found stands among the elements as its score's bits and its name, with its
// distance in meters as its number.
const scoreBytes = 8

func foundScore(element []byte) float64 {
	return math.Float64frombits(binary.BigEndian.Uint64(element))
}

// find gathers the places within the shape, as many as are asked for, in their order.
func (q *geoSearch) find(z *storage.ZSet) error {
	if err := z.Within(&q.shape, q.visit); err != nil {
		return err
	}
	found := &q.found
	first, limit := 0, found.Len()
	if q.count > 0 {
		limit = int(min(q.count, int64(limit)))
	}
	if q.sorted || q.count > 0 && !q.any {
		sortorder.Order{By: true, NumbersOnly: true, Descending: q.descending}.Sort(found, first, limit)
	} else {
		found.Cut(first, limit)
	}
	return nil
}

// add takes a place. It returns false when there are enough.
func (q *geoSearch) add(member []byte, score, meters float64) bool {
	q.element = append(binary.BigEndian.AppendUint64(q.element[:0], math.Float64bits(score)), member...)
	q.found.Add(q.element)
	q.found.SetNumber(q.found.Len()-1, meters)
	return !q.any || int64(q.found.Len()) < q.count
}

func (q *geoSearch) replyFound(c *Invocation) {
	found, parts := &q.found, 1
	for _, with := range []bool{q.withDistance, q.withHash, q.withPoint} {
		if with {
			parts++
		}
	}
	c.Reply.Array(found.Len())
	for i := range found.Len() {
		letOthersRun(i)
		element := found.Value(i)
		if parts > 1 {
			c.Reply.Array(parts)
		}
		c.Reply.Bulk(element[scoreBytes:])
		if q.withDistance {
			q.text = appendDistance(q.text[:0], found.Number(i)/q.shape.Unit)
			c.Reply.Bulk(q.text)
		}
		if q.withHash {
			c.Reply.Integer(int64(foundScore(element)))
		}
		if q.withPoint {
			q.text = replyPoint(c, geo.PointOf(foundScore(element)), q.text)
		}
	}
}

// storeFound stores what was found, with its scores or its distances. It is repeated as the sorted
// set that came out: another server's distances could be others in the last bit.
func (q *geoSearch) storeFound(c *Invocation) error {
	found := &q.found
	longest := 0
	members := &sortorder.Elements{}
	for i := range found.Len() {
		letOthersRun(i)
		element := found.Value(i)
		score := foundScore(element)
		if q.storeDistance {
			score = found.Number(i) / q.shape.Unit
		}
		longest = max(longest, len(element)-scoreBytes)
		members.Add(element[scoreBytes:])
		members.SetNumber(i, score)
	}
	if err := repeatStored(c, q.store, members); err != nil {
		return err
	}
	event := keyevent.GeoRadiusStore
	if q.form == anyStored {
		event = keyevent.GeoSearchStore
	}
	return storeScored(c, event, q.store, members, longest)
}

// repeatStored leaves effects that make a key a sorted set, whatever it held; the members' numbers
// are their scores.
func repeatStored(c *Invocation, key []byte, members *sortorder.Elements) error {
	old, err := c.DB.Lookup(key)
	if err != nil {
		return err
	}
	c.NoEffect()
	if old.Exists {
		c.Effect(wordDel, key)
	}
	repeatMembers(c, key, members)
	return nil
}

// membersPerEffect is how many members one effect adds.
const membersPerEffect = 1024

// repeatMembers leaves effects that add members, whose numbers are their scores, to a sorted set.
func repeatMembers(c *Invocation, key []byte, members *sortorder.Elements) {
	words := make([][]byte, 0, 2+2*min(members.Len(), membersPerEffect))
	for i := 0; i < members.Len(); {
		words = append(words[:0], wordZAdd, key)
		for end := min(i+membersPerEffect, members.Len()); i < end; i++ {
			words = append(words, number.AppendDouble(nil, members.Number(i)), members.Value(i))
		}
		c.Effect(words...)
	}
}
