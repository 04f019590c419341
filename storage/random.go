package storage

import (
	"errors"
	"math"

	"kedis/storage/layout"
)

const (
	// sampleKeys is up to how many keys RandomKey looks at all, and among how many neighbours it
	// chooses where it finds none.
	sampleKeys = 256
	// keySurplus is a picker's: how many times as many ways as there are keys may lead to one for
	// it to be as likely as others. Plain numbers need up to 11: in front of the last ones of
	// 11,000 stand as many ways as if there were 120,000.
	keySurplus = 12
	// keyCuriosity is one too. Once in keyThoroughness times everything is looked at on the way.
	keyCuriosity    = 24
	keyThoroughness = 16
	// keyTries is how many keys that have expired are picked before a neighbour of one is taken.
	keyTries = 8
)

// RandomKey returns some key that has not expired; false if there is none. pick returns a number
// from 0 on, below n. The key is valid until the transaction is reset. No locks are needed.
//
// Of up to a thousand keys each is as likely as any other. In a larger database a picker takes one,
// and chi-square can't tell the result from an even choice for keys that were numbered or hashed,
// with or without prefixes, and for kinds of keys of which there are many beside kinds of which
// there are few (TestRandomKeysAreEven). Two sorts of keys are less likely: those that stand where
// keys branch more than keySurplus times as often as they do on average, by as much as it is more;
// and those that go on with a byte that is rare among their like, where keySurplus and keyCuriosity
// don't find it: down to one in keyThoroughness of what they should be.
func (d DB) RandomKey(pick func(n int) int) (key []byte, found bool, err error) {
	if d.Size() <= sampleKeys {
		return d.keyBehind(nil, pick)
	}
	key, live, err := d.pickKey(pick)
	switch {
	case live:
		return key, true, err
	case err != nil && !errors.Is(err, errKeysChanged):
		return nil, false, err
	}
	return d.keyBehind(key, pick) // most have expired, or come and go
}

// pickKey picks keys until one has not expired. If none is live, the last one is returned.
func (d DB) pickKey(pick func(n int) int) (key []byte, live bool, err error) {
	p := newPicker(keyTree{d}, uint64(d.Size()))
	p.surplus, p.curiosity, p.random = keySurplus, keyCuriosity, pick
	if pick(keyThoroughness) == 0 {
		p.curiosity = math.MaxInt
	}
	for tries := 0; tries < keyTries && !live; tries++ {
		picked, err := p.pick()
		if err != nil {
			return key, false, err
		}
		key = picked
		if live, err = d.live(key); err != nil {
			return nil, false, err
		}
	}
	return key, live, nil
}

// live reports whether a key is there and has not expired. It needs no lock.
func (d DB) live(key []byte) (bool, error) {
	value, found, err := d.txn.Peek(d.space, d.metadataKey(key))
	if err != nil || !found {
		return false, err
	}
	m, err := layout.DecodeMetadata(value)
	return err == nil && !d.expired(&m), err
}

// keyBehind chooses evenly among the next keys from a place on, and from the beginning if those are
// few.
func (d DB) keyBehind(place []byte, pick func(n int) int) (key []byte, found bool, err error) {
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

// errKeysChanged says that keys came or went while a picker looked at them: nothing is locked.
var errKeysChanged = errors.New("storage: the keys have changed")

// keyTree are the keys of a database, those that have expired too.
type keyTree struct{ DB }

func (d keyTree) scan(from []byte, keysOnly bool, expected int, visit visitPair) error {
	it := d.txn.Iterate(d.space, layout.AppendMetadataKey(nil, from), []byte{layout.KindMetadata + 1}, IteratorOptions{KeysOnly: keysOnly, Expected: expected})
	for it.Next() {
		if !visit(it.Key()[1:], it.Value()) {
			break
		}
	}
	return d.txn.Often(it.Close())
}

func (d keyTree) lastWith(prefix []byte) (last []byte, err error) {
	lower := layout.AppendMetadataKey(nil, prefix)
	it := d.txn.Iterate(d.space, lower, layout.Successor(nil, lower), IteratorOptions{Reverse: true, KeysOnly: true, Expected: 1})
	if it.Next() {
		last = it.Key()[1:]
	}
	return last, d.txn.Often(it.Close())
}

func (d keyTree) miscounted(uint64) error { return errKeysChanged }
