package storage

import (
	"kedis/storage/layout"
	"kedis/ttl"
)

// Due returns up to limit keys whose time (Unix ms) has come, by time and key, behind a place in that
// order. No locks are needed: whoever removes them looks again.
func (d DB) Due(behind ttl.Due, now int64, limit int) ([]ttl.Due, error) {
	lower := append(layout.AppendExpiryKey(nil, behind.ExpireMs, behind.Key), 0)
	if behind.Key == nil {
		lower = []byte{layout.KindExpiry}
	}
	it := d.txn.walk(d.space, lower, layout.AppendExpiryKey(nil, now+1, nil), false, true)
	var due []ttl.Due
	for len(due) < limit && it.Next() {
		at, key, err := layout.DecodeExpiryKey(it.Key())
		if err != nil {
			it.err = err
			break
		}
		due = append(due, ttl.Due{ExpireMs: at, Key: key})
	}
	return due, it.Close()
}

// RemoveExpired removes a key that has expired by now, and says so in the log; false when it has not,
// or is not there.
func (d DB) RemoveExpired(key []byte) (bool, error) {
	k, err := d.LookupAny(key)
	if err != nil || !k.Exists || !d.txn.expired(&k.Metadata) {
		return false, err
	}
	d.txn.expirations++
	d.txn.Effect(d.number, delEffect, key)
	before := len(d.txn.journal.entries)
	err = d.Remove(key, k)
	d.txn.touched[len(d.txn.touched)-1].expired = true
	d.txn.expiredEntries += len(d.txn.journal.entries) - before
	return true, err
}
