package storage

import (
	"bytes"

	"kedis/internal/number"
	"kedis/storage/intset"
	"kedis/storage/layout"
	"kedis/storage/listpack"
)

// Scored is what sorted sets are combined from: a sorted set, or a set, each of whose members
// counts 1.
type Scored struct {
	db  DB
	key Key
	z   ZSet
}

// Scored opens a key as such; one that doesn't exist is empty, and one of another type
// ErrWrongType.
func (d DB) Scored(key []byte) (Scored, error) {
	k, err := d.Lookup(key)
	if err != nil || !k.Exists {
		return Scored{}, err
	}
	switch k.Type {
	case layout.ZSet:
		s := Scored{db: d, key: k, z: ZSet{old: k}}
		s.z.open(d, key)
		return s, nil
	case layout.Set:
		return Scored{db: d, key: k}, nil
	}
	return Scored{}, ErrWrongType
}

// Len is the number of members.
func (s *Scored) Len() int {
	switch {
	case !s.key.Exists:
		return 0
	case s.key.Type == layout.ZSet:
		return s.z.Len()
	case s.key.Encoding == layout.Intset:
		return intset.Intset(s.key.Value).Len()
	case s.key.Encoding == layout.Listpack:
		return listpack.Listpack(s.key.Value).Len()
	}
	return int(s.key.Count)
}

// All visits all members. A member is valid during the call.
func (s *Scored) All(visit Visit) error {
	switch {
	case !s.key.Exists:
		return nil
	case s.key.Type == layout.ZSet:
		return s.z.All(visit)
	case s.key.Encoding == layout.Spread:
		return s.allSpread(visit)
	}
	s.allPacked(visit)
	return nil
}

func (s *Scored) allPacked(visit Visit) {
	var scratch []byte
	if s.key.Encoding == layout.Intset {
		for _, n := range intset.Intset(s.key.Value).All() {
			scratch = number.AppendInt(scratch[:0], n)
			if !visit(scratch, 1) {
				return
			}
		}
		return
	}
	for _, e := range listpack.Listpack(s.key.Value).All() {
		scratch = e.AppendTo(scratch[:0])
		if !visit(scratch, 1) {
			return
		}
	}
}

func (s *Scored) allSpread(visit Visit) error {
	r := spreadElements{s.db, layout.KindSetMember, s.key.ID, false}
	return r.all(s.key.Count, true, func(member, _ []byte) bool { return visit(member, 1) })
}

// Score returns a member's score.
func (s *Scored) Score(member []byte) (score float64, found bool, err error) {
	switch {
	case !s.key.Exists:
		return 0, false, nil
	case s.key.Type == layout.ZSet:
		return s.z.Score(member)
	case s.key.Encoding == layout.Spread:
		_, found, err = s.db.getElement(layout.KindSetMember, s.key.ID, member)
		return 1, found, err
	}
	s.allPacked(func(m []byte, _ float64) bool {
		found = bytes.Equal(m, member)
		return !found
	})
	return 1, found, nil
}
