package storage

import "kedis/storage/geo"

// Within visits the members that lie within a shape, with their scores and their distances from its center in meters: cell by cell,
// and in each by score. The visit returns false to stop.
func (z *ZSet) Within(shape *geo.Shape, visit func(member []byte, score, meters float64) bool) error {
	stopped := false
	finder := shape.Finder()
	for _, r := range shape.Cover() {
		scores := ScoreRange{Min: float64(r.Min), Max: float64(r.Max), MaxExclusive: true}
		err := z.ByScore(scores, 0, false, func(member []byte, score float64) bool {
			meters, within := finder.Distance(geo.PointOf(score))
			stopped = within && !visit(member, score, meters)
			return !stopped
		})
		if err != nil || stopped {
			return err
		}
	}
	return nil
}
