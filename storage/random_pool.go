package storage

import (
	"bytes"

	"kedis/storage/engine"
)

// Picking a key costs some hundred times as much as going on to the next one. So whoever asks for
// many gets, once a good number of keys was picked, those that stand behind picked ones, in any
// order: the pool has some of many places. A key is then in the pool as often as it, or one of the
// keys before it, is picked, and so as likely as before; but keys that are neighbours more often
// come in the same second.

const (
	runKeys     = 192     // that are taken from behind a picked one
	poolKeys    = 6144    // that are in the pool before one is taken out of it
	poolBytes   = 1 << 20 // that they may have together
	poolLastsMs = 1000    // without being used
)

// keyPool are keys of a database that were there of late.
type keyPool struct {
	space *engine.Namespace
	used  int64 // Unix ms
	keys  [][]byte
	bytes int
}

// of makes the pool one of a namespace; it is empty if it was one of another, or not used for a
// while.
func (p *keyPool) of(space *engine.Namespace, now int64) {
	if p.space != space || now-p.used > poolLastsMs {
		*p = keyPool{space: space}
	}
	p.used = now
}

// take takes any key out.
func (p *keyPool) take(pick func(n int) int) []byte {
	i, last := pick(len(p.keys)), len(p.keys)-1
	key := p.keys[i]
	p.keys[i], p.keys[last] = p.keys[last], nil
	p.keys = p.keys[:last]
	p.bytes -= len(key)
	return key
}

// AnyKey is RandomKey for who asks for many keys: it costs a fraction then, and neighbours come
// together more often.
func (d DB) AnyKey(pick func(n int) int) (key []byte, found bool, err error) {
	p := &d.txn.pool
	p.of(d.space, d.txn.Now())
	for len(p.keys) >= poolKeys {
		key = p.take(pick)
		if live, err := d.live(key); live || err != nil {
			return key, live, err
		}
	}
	if key, found, err = d.RandomKey(pick); err != nil || !found || d.Size() <= sampleKeys {
		return key, found, err
	}
	return key, true, d.gather(p, key)
}

// gather puts the keys behind one into the pool. The first ones stand behind the last.
func (d DB) gather(p *keyPool, key []byte) error {
	left := runKeys
	take := func(next, _ []byte) bool {
		if p.bytes+len(next) > poolBytes || bytes.Equal(next, key) {
			left = 0
			return false
		}
		p.keys, p.bytes = append(p.keys, bytes.Clone(next)), p.bytes+len(next)
		left--
		return left > 0
	}
	err := keyTree{d}.scan(append(bytes.Clone(key), 0), true, left, take)
	if err == nil && left > 0 {
		err = keyTree{d}.scan(nil, true, left, take)
	}
	return err
}
