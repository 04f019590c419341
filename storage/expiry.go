package storage

import (
	"math"
	"runtime"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/ttl"
)

// Due returns up to limit keys whose time (Unix ms) has come, by time and key, behind a place in
// that order, and those before it that have got their time since Due was called last: a commit may
// take longer than its keys live. No locks are needed: whoever removes them looks again.
func (d DB) Due(behind ttl.Due, now int64, limit int) ([]ttl.Due, error) {
	if behind.Key == nil {
		if none, err := d.noneDue(now); none || err != nil {
			return nil, err
		}
	}
	return d.dueIn(engine.TimedKey, layout.KindExpiry, behind, now, limit)
}

// noneDue reports whether no key's time has come, as far as that is known without a walk, or at the
// cost of one to the first key: a walk through memory that is written to has to bring it into
// order.
func (d DB) noneDue(now int64) (bool, error) {
	if d.space.FirstDue() > now {
		return true, nil
	}
	err := d.space.LearnFirstDue(func() (first int64, err error) {
		it := d.txn.Iterate(d.space, []byte{layout.KindExpiry}, []byte{layout.KindExpiry + 1}, IteratorOptions{KeysOnly: true, Expected: 1})
		first = math.MaxInt64
		if it.Next() {
			if first, _, err = layout.DecodeExpiryKey(it.Key()); it.Fail(err) {
				first = 0
			}
		}
		return first, it.Close()
	})
	return d.space.FirstDue() > now, err
}

// dueIn is Due for one of the indexes by time: that of keys that expire, or that of hashes of which
// fields do.
func (d DB) dueIn(what engine.Timed, index byte, behind ttl.Due, now int64, limit int) ([]ttl.Due, error) {
	given := d.space.TakeGiven(what) // before the index is read: what is given meanwhile is met the next time
	if given <= behind.ExpireMs && behind.Key != nil {
		behind = ttl.Due{ExpireMs: max(given, 1) - 1, Key: []byte{}}
	}
	var due []ttl.Due
	keys := []byte{} // copies, for what the walk returns keeps whole pieces of memory from being given back
	err := d.scanDue(index, behind, now, limit, func(expireMs int64, key []byte) {
		from := len(keys)
		keys = append(keys, key...)
		due = append(due, ttl.Due{ExpireMs: expireMs, Key: keys[from:len(keys):len(keys)]})
	})
	if err != nil {
		d.space.GiveBack(what, given)
	}
	return due, err
}

// CountDue is how many keys Due would return.
func (d DB) CountDue(behind ttl.Due, now int64, limit int) (count int, err error) {
	err = d.scanDue(layout.KindExpiry, behind, now, limit, func(int64, []byte) { count++ })
	return count, err
}

// yieldEvery is how many records a long scan in the background reads before others may run.
// Otherwise a reactor waits some ten milliseconds until the runtime preempts the scan.
const yieldEvery = 256

// scanDue visits up to limit keys that expire at or before now in one of the indexes, behind a
// cursor.
func (d DB) scanDue(index byte, behind ttl.Due, now int64, limit int, f func(expireMs int64, key []byte)) error {
	lower := append(layout.AppendExpiryKey(nil, behind.ExpireMs, behind.Key), 0)
	if behind.Key == nil {
		lower = lower[:1]
	}
	upper := layout.AppendExpiryKey(nil, now+1, nil)
	lower[0], upper[0] = index, index
	it := d.txn.Iterate(d.space, lower, upper, IteratorOptions{KeysOnly: true})
	for i := 0; i < limit && it.Next(); i++ {
		expireMs, key, err := layout.DecodeExpiryKey(it.Key())
		if err != nil {
			it.Fail(err)
			break
		}
		f(expireMs, key)
		if i%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
	}
	return it.Close()
}

// RemoveExpired removes a key that has expired by now, and says so in the log; false when it has
// not, or is not there. One whose time was put off gets its place in the index.
func (d DB) RemoveExpired(key []byte) (bool, error) {
	k, err := d.LookupAny(key)
	if err != nil || !k.Exists {
		return false, err
	}
	if !d.expired(&k.Metadata) {
		return false, d.settleExpiry(key, &k)
	}
	d.txn.Effect(d.number, delEffect, key)
	d.txn.KeyEvents().Add(d.number, key, keyevent.Expired, k.Type)
	d.Notify(keyevent.Expired, key)
	return true, d.txn.Expire(func() error { return d.remove(key, &k) })
}

// settleExpiry moves a key that expires later than it is indexed to where it belongs, when the
// earlier time has come. No client sees that.
func (d DB) settleExpiry(key []byte, k *Key) error {
	if k.IndexedMs == 0 || k.IndexedMs > d.txn.Now() {
		return nil
	}
	if err := d.moveExpiry(key, k.IndexedMs, k.ExpireMs, k.Type); err != nil {
		return err
	}
	next := k.Metadata
	next.IndexedMs = 0
	return d.putMetadata(key, &next)
}
