package engine

import (
	"kedis/storage/layout"
	"kedis/storage/rank"
)

// An index from which entries are picked again and again is counted (ranks.go): then the entry with a number is
// found by one walk over some neighbours, and each is exactly as likely as any other. Picking one without that takes about as long as
// counting PickCost members. So with each pick as many are counted, from the first on, until all are: it never takes more than twice the time,
// and a collection of which only few are picked isn't gone over as a whole.

// PickCost is about how many elements could be walked in the time that it takes to pick one.
const PickCost = 2048

// Counted tells whether all members are.
func (x *Index) Counted() bool {
	s := x.Ranked()
	if s == nil {
		return false
	}
	_, left := x.uncounted(s)
	return !left
}

// uncounted returns the last piece; left tells that it is a large one.
func (x *Index) uncounted(s *Ranked) (last rank.Block, left bool) {
	last, left = s.at(x.entries - 1)
	return last, left && last.Count > PickCost
}

// Member returns the member with a number, from 0 on, in the order of their bytes; found is false as long as not all are counted. It is valid until the transaction is reset.
func (x *Index) Member(place int) (member []byte, found bool, err error) {
	s := x.Ranked()
	if s == nil {
		return nil, false, nil
	}
	if last, left := x.uncounted(s); left {
		return nil, false, x.countSome(s, last)
	}
	b, err := x.At(s, place)
	if err != nil {
		return nil, false, err
	}
	place -= b.Before
	err = x.Scan(x.indexKey(b.Lower), x.EndOf(b), false, func(key, _ []byte) bool {
		member = key[layout.ElementPrefix:]
		place--
		return place >= 0
	})
	if err == nil && place >= 0 {
		x.recount("a piece is too short")
	}
	return member, err == nil && place < 0, err
}

// countSome cuts small pieces off the last one, as long as it takes to pick a member otherwise.
func (x *Index) countSome(s *Ranked, last rank.Block) error {
	if !s.dividing.TryLock() {
		return nil // somebody else does
	}
	s.dividing.Unlock()
	left := PickCost
	return x.divide(s, last, false, func(piece rank.Block) bool {
		left -= piece.Count
		return left <= 0
	})
}
