package storage

import (
	"bytes"

	"kedis/storage/layout"
)

// sampleKeys is among how many neighbours RandomKey chooses evenly. In a database with fewer keys each
// of them has the same chance; in a larger one no key has a chance above one in so many.
const sampleKeys = 256

// RandomKey returns some key that has not expired; false if there is none. pick returns a number from
// 0 on, below n. The key is valid until the transaction is reset. No locks are needed.
func (d DB) RandomKey(pick func(n int) int) (key []byte, found bool, err error) {
	var place []byte
	if d.Size() > sampleKeys {
		if place, err = d.randomPlace(pick); err != nil {
			return nil, false, err
		}
	}
	s := sample{pick: pick}
	if err = d.KeysBetween(place, nil, s.take); err == nil && len(place) > 0 && s.seen < sampleKeys {
		err = d.KeysBetween(nil, place, s.take)
	}
	return s.key, s.key != nil, err
}

// sample chooses evenly among the first keys that it is given.
type sample struct {
	pick func(n int) int
	seen int
	key  []byte
}

func (s *sample) take(key []byte, _ *layout.Metadata) bool {
	if s.seen++; s.pick(s.seen) == 0 {
		s.key = key
	}
	return s.seen < sampleKeys
}

// randomPlace descends through the beginnings that keys have in common: among the bytes with which the
// keys of one beginning go on, each is about as likely as the others. So keys that were numbered, hashed
// or named at random are met evenly, however long the part is that they share. Keys of different kinds
// are not: of two beginnings each gets half, whatever stands behind them.
func (d DB) randomPlace(pick func(n int) int) (place []byte, err error) {
	var first []byte // the first key from place on
	for {
		if first == nil {
			if first, err = d.firstKey(place, place, false); err != nil || first == nil {
				return place, err
			}
		}
		last, err := d.firstKey(place, place, true)
		if err != nil || last == nil || bytes.Equal(first, last) {
			return first, err
		}
		shared := 0
		for shared < len(first) && shared < len(last) && first[shared] == last[shared] {
			shared++
		}
		if shared == len(last) {
			return last, nil // keys came or went meanwhile
		}
		low := wholeKey
		if shared < len(first) {
			low = int(first[shared])
		}
		branch, behind, err := d.randomBranch(first[:shared], low, int(last[shared]), pick)
		if err != nil || branch == wholeKey {
			return first[:shared], err
		}
		place = append(bytes.Clone(first[:shared]), byte(branch))
		if branch != low {
			first = behind
		}
	}
}

// wholeKey stands, among the bytes with which keys go on, for the key that does not.
const wholeKey = -1

// placeTries is how often a byte is drawn until one is met that keys go on with.
const placeTries = 8

// randomBranch returns a byte with which keys go on that begin with prefix, or wholeKey; the first and
// the last of these are known. It also returns the first key that goes on so, where it has met it.
func (d DB) randomBranch(prefix []byte, low, high int, pick func(n int) int) (branch int, first []byte, err error) {
	for range placeTries {
		drawn := low + pick(high-low+1)
		if drawn == low || drawn == high {
			return drawn, nil, nil
		}
		first, err = d.firstKey(append(bytes.Clone(prefix), byte(drawn)), prefix, false)
		if err != nil || len(first) <= len(prefix) {
			return high, nil, err // without an error, keys went meanwhile
		}
		if branch = int(first[len(prefix)]); branch == drawn {
			break
		}
	}
	return branch, first, nil
}

// firstKey returns the first key from a place on with a prefix, or the last one with it if reverse;
// nil if there is none.
func (d DB) firstKey(from, prefix []byte, reverse bool) ([]byte, error) {
	lower := layout.AppendMetadataKey(nil, from)
	upper := layout.Successor(nil, layout.AppendMetadataKey(nil, prefix))
	it := d.txn.walk(d.space, lower, upper, reverse, true)
	var key []byte
	if it.Next() {
		key = it.Key()[1:]
	}
	return key, it.Close()
}
