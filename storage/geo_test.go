package storage

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/geo"
)

// geoTest does the same to places and to a map, and searches shapes of all sizes in between: some
// cells of a search share a piece of the order, some are larger than many, and some pieces aren't
// resident.
type geoTest struct {
	*orderedTest
	key   []byte
	limit atomic.Int64
	found int
}

func TestWithinAgainstModel(t *testing.T) { inAllTiers(t, withinAgainstModel) }

func withinAgainstModel(t *testing.T, o Options) {
	x := &geoTest{key: []byte("places")}
	x.limit.Store(1 << 20)
	o.TreeBytes, o.Logger = x.limit.Load, noErrors{t}.logger()
	x.orderedTest = newOrderedTest(t, o)
	countSmall(x.store)
	model := map[string]float64{}
	for range 120 {
		x.limit.Store([]int64{1 << 20, 1 << 20, 3000}[x.random.IntN(3)])
		model = transact(x.orderedTest, model, x.command, x.check)
		x.read(func(db DB) { x.check(db, model) })
		if x.random.IntN(40) == 0 {
			must(t, x.store.Reopen())
		}
	}
	if x.found < 500 {
		t.Errorf("only %d places were found", x.found)
	}
}

// point is one of a region of some degrees, so that places have neighbours.
func (x *geoTest) point() geo.Point {
	return geo.Point{Longitude: 10 + 4*x.random.Float64(), Latitude: 50 + 2*x.random.Float64()}
}

func (x *geoTest) command(db DB, model map[string]float64) {
	z, err := db.ZSet(x.key)
	must(x.t, err)
	for range x.random.IntN(60) {
		member := fmt.Sprint("m", x.random.IntN(600))
		was, existed, err := z.Score([]byte(member))
		must(x.t, err)
		if existed && x.random.IntN(3) == 0 {
			must(x.t, z.Remove([]byte(member), was))
			delete(model, member)
			continue
		}
		score := float64(x.point().Score())
		must(x.t, z.Put([]byte(member), score, was, existed))
		model[member] = score
	}
	must(x.t, z.Save(keyevent.Changed))
}

func (x *geoTest) check(db DB, model map[string]float64) {
	x.t.Helper()
	z, err := db.ZSet(x.key)
	must(x.t, err)
	for range 4 {
		shape := geo.Shape{Center: x.point(), Unit: 1000, Radius: []float64{0, 1, 20, 200, 3000}[x.random.IntN(5)]}
		if x.random.IntN(2) == 0 {
			shape.Box, shape.Width, shape.Height = true, 2*shape.Radius, shape.Radius
		}
		x.checkShape(&z, &shape, model)
	}
	around, size := x.point(), []float64{0.1, 1, 20}[x.random.IntN(3)]
	vertices := make([]geo.Point, 3+x.random.IntN(600))
	for i := range vertices {
		vertices[i] = geo.Point{Longitude: min(around.Longitude+size*x.random.Float64(), 180), Latitude: min(around.Latitude+size*x.random.Float64(), 85)}
	}
	shape := geo.PolygonShape(vertices)
	x.checkShape(&z, &shape, model)
}

func (x *geoTest) checkShape(z *ZSet, shape *geo.Shape, model map[string]float64) {
	x.t.Helper()
	finder := shape.Finder()
	want := map[string]float64{}
	for member, score := range model {
		if meters, within := finder.Distance(geo.PointOf(score)); within {
			want[member] = meters
		}
	}
	got, enough := map[string]float64{}, x.random.IntN(20)
	must(x.t, z.Within(shape, func(member []byte, score, meters float64) bool {
		if _, again := got[string(member)]; again || score != model[string(member)] {
			x.t.Fatalf("%q of score %v, want %v; seen before: %v", member, score, model[string(member)], again)
		}
		got[string(member)] = meters
		return enough > 9 || len(got) < enough
	}))
	x.found += len(got)
	if enough <= 9 && len(got) == max(enough, 1) {
		for member, meters := range got {
			if want[member] != meters {
				x.t.Fatalf("%q at %v, want %v", member, meters, want[member])
			}
		}
		return
	}
	if !maps.Equal(got, want) {
		x.t.Fatalf("%+v holds %v, want %v", shape, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
