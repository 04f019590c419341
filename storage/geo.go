package storage

import (
	"cmp"

	"kedis/storage/engine"
	"kedis/storage/geo"
	"kedis/storage/layout"
)

// VisitPlace is called for members that lie within a shape, with their distances from its center;
// it returns false to stop.
type VisitPlace func(member []byte, score, meters float64) bool

// Within visits the members that lie within a shape, with their scores and their distances from its
// center in meters: cell by cell, and in each by score. The visit returns false to stop.
func (z *ZSet) Within(shape *geo.Shape, visit VisitPlace) error {
	w := z.db.txn.scratch.places
	if w == nil {
		w = newPlaceWalk()
		z.db.txn.scratch.places = w
	}
	w.finder, w.visit, w.stopped, w.err = shape.Finder(), visit, false, nil
	w.txn, w.cost = z.db.txn, len(shape.Polygon)/verticesPerRecord
	w.cover = shape.AppendCover(w.cover[:0])
	defer w.forget()
	if z.packed() {
		return w.walkPacked(z)
	}
	return w.walkSpread(z)
}

// placeWalk goes over what may lie within a shape. A transaction has one, whose memory is used
// again.
type placeWalk struct {
	finder       geo.Finder
	cover        []geo.Range
	visit        VisitPlace
	stopped      bool
	err          error
	txn          *Txn
	cost         int // of one point, beside its record
	ranges       engine.Ranges
	lower, upper []byte
	look         engine.VisitEntry // lookAt
	see          Visit             // seeMember
}

// verticesPerRecord is how many vertices take as long to look at as a record.
const verticesPerRecord = 256

func newPlaceWalk() *placeWalk {
	w := &placeWalk{}
	w.look, w.see = w.lookAt, w.seeMember
	return w
}

// forget lets go of what belongs to one command.
func (w *placeWalk) forget() { w.finder, w.visit, w.ranges = geo.Finder{}, nil, engine.Ranges{} }

func (w *placeWalk) walkPacked(z *ZSet) error {
	for _, r := range w.cover {
		scores := ScoreRange{Min: float64(r.Min), Max: float64(r.Max), MaxExclusive: true}
		if err := z.ByScore(scores, 0, false, w.see); err != nil || w.stopped {
			return cmp.Or(err, w.err)
		}
	}
	return w.err
}

func (w *placeWalk) walkSpread(z *ZSet) error {
	w.ranges.Begin(z.index(), w.look)
	for _, r := range w.cover {
		w.lower = layout.AppendScored(w.lower[:0], float64(r.Min), nil)
		w.upper = layout.AppendScored(w.upper[:0], float64(r.Max), nil)
		if err := w.ranges.Scan(w.lower, w.upper); err != nil {
			return err
		}
		if w.stopped {
			break
		}
	}
	return w.err
}

func (w *placeWalk) lookAt(key, value []byte) bool {
	score, member, err := layout.DecodeScored(key, value)
	if err != nil {
		w.err, w.stopped = err, true
		return false
	}
	return w.seeMember(member, score)
}

func (w *placeWalk) seeMember(member []byte, score float64) bool {
	if w.cost > 0 {
		if w.err = w.txn.Spend(w.cost); w.err != nil {
			w.stopped = true
			return false
		}
	}
	meters, within := w.finder.Distance(geo.PointOf(score))
	w.stopped = within && !w.visit(member, score, meters)
	return !w.stopped
}
