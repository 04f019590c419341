package storage

import (
	"errors"

	"kedis/storage/layout"
)

// SortSource is what SORT takes its elements from.
type SortSource struct {
	Type   layout.Type
	list   List
	scored Scored
}

// SortSource opens a list, set or sorted set; a key that doesn't exist is an empty list.
func (d DB) SortSource(key []byte) (s SortSource, err error) {
	k, err := d.Lookup(key)
	if err != nil {
		return s, err
	}
	if s.Type = k.Type; k.Type == layout.Set || k.Type == layout.ZSet {
		s.scored, err = d.Unseen().Scored(key)
	} else {
		s.Type = layout.List
		s.list, err = d.Unseen().List(key)
	}
	return s, err
}

// Len is the number of elements.
func (s *SortSource) Len() int {
	if s.Type == layout.List {
		return s.list.Len()
	}
	return s.scored.Len()
}

// Elements visits the elements from first up to limit in the order that they have by themselves,
// counted from the end if reverse. A set has no order: all of it is visited. An element is valid
// during the call.
func (s *SortSource) Elements(first, limit int, reverse bool, visit func(element []byte)) error {
	scored := func(member []byte, _ float64) bool {
		visit(member)
		return true
	}
	switch s.Type {
	case layout.Set:
		return s.scored.All(scored)
	case layout.ZSet:
		return s.scored.z.ByRank(first, limit-first, reverse, scored)
	}
	if reverse {
		first, limit = s.Len()-limit, s.Len()-first
	}
	return s.list.Range(first, limit-first, reverse, func(_ int, element []byte) bool {
		visit(element)
		return true
	})
}

// SortValue returns the value that a pattern of SORT names: a string's, or a hash's field if one is
// given; false when there is none, or the key holds something else. It is valid until the next one
// is read.
func (d DB) SortValue(key, field []byte) (value []byte, found bool, err error) {
	if field == nil {
		k, err := d.Lookup(key)
		if err != nil || !k.Exists || k.Type != layout.String {
			return nil, false, err
		}
		value, err = d.StringBytes(&k.Metadata)
		return value, true, err
	}
	h, err := d.Hash(key)
	if errors.Is(err, ErrWrongType) {
		return nil, false, nil
	}
	if err != nil || !h.Exists() {
		return nil, false, err
	}
	return h.Get(field)
}

// ReplaceList opens an empty list that takes the place of whatever the key holds. Nothing but
// pushing to its end may follow.
func (d DB) ReplaceList(key []byte) (List, error) {
	k, err := d.Lookup(key)
	return List{db: d, key: key, old: k, pack: emptyListpack, replaces: true,
		next: layout.Metadata{Type: layout.List, Encoding: layout.Listpack}}, err
}
