package storage

import (
	"errors"
	"math"

	"kedis/internal/keyevent"
	"kedis/storage/hyperloglog"
	"kedis/storage/layout"
)

// The functions below return hyperloglog.ErrInvalid for a string that is no HyperLogLog, and
// hyperloglog.ErrCorrupt for one that is broken inside. A sparse one becomes dense when it would
// exceed sparseMaxBytes.
//
// One that is broken inside can grow, but can't become dense. What is repeated from the log was
// carried out under a limit that may have been another one: where making it dense fails, it had
// stayed sparse.

// HyperLogLog looks up a key that holds a HyperLogLog, or doesn't exist.
func (d DB) HyperLogLog(key []byte) (k Key, err error) {
	err = d.hyperLogLog(key, math.MaxInt, &k)
	return k, err
}

// soundHyperLogLog is HyperLogLog for a command that goes over all registers. One that is too long
// to be sound isn't read: its header alone is corrupt, too.
func (d DB) soundHyperLogLog(key []byte, k *Key) error {
	return d.hyperLogLog(key, hyperloglog.MostBytes, k)
}

// hyperLogLog is HyperLogLog that reads only the header of one that is longer than most. What is
// none is refused by its header and its length.
func (d DB) hyperLogLog(key []byte, most int, k *Key) (err error) {
	if err = d.LookupTypeInto(key, layout.String, k); err != nil || !k.Exists {
		return err
	}
	length := k.StringLength()
	if k.Encoding == layout.Spread {
		if k.Value, err = d.appendString(nil, &k.Metadata, 0, min(length, hyperloglog.HeaderSize)); err != nil {
			return err
		}
	}
	if err = hyperloglog.ValidateHeader(k.Value, length); err != nil {
		return err
	}
	if k.Encoding == layout.Spread && length <= most {
		k.Value, err = d.StringBytes(&k.Metadata)
	}
	return err
}

// HyperLogLogAdd adds elements, and reports whether that made or changed the key.
func (d DB) HyperLogLogAdd(key []byte, elements [][]byte, sparseMaxBytes int) (bool, error) {
	var k Key
	if err := d.hyperLogLog(key, math.MaxInt, &k); err != nil {
		return false, err
	}
	if err := d.txn.Spend(len(elements)); err != nil {
		return false, err
	}
	before := k.Value
	if !k.Exists {
		before = hyperloglog.New()
	}
	value, changed, err := hyperloglog.Add(d.txn.scratch.draft, before, elements, sparseMaxBytes)
	if d.txn.Mode().Applying && errors.Is(err, hyperloglog.ErrCorrupt) {
		value, changed, err = hyperloglog.Add(d.txn.scratch.draft, before, elements, math.MaxInt)
	}
	switch {
	case err != nil:
		return false, err
	case changed:
		d.txn.scratch.draft = value
	case k.Exists:
		return false, d.unshare(key, &k)
	}
	err = d.saveRaw(key, &k, value)
	d.Notify(keyevent.PFAdd, key)
	return true, err
}

// HyperLogLogCount estimates the number of distinct elements of a key, and of a missing one 0. In a
// command that may write, the estimate is stored with them.
func (d DB) HyperLogLogCount(key []byte) (uint64, error) {
	var k Key
	err := d.Reading().soundHyperLogLog(key, &k)
	if err != nil || !k.Exists {
		return 0, err
	}
	count, stale, err := hyperloglog.Count(k.Value)
	switch {
	case err != nil:
		return 0, err
	case !d.txn.Mode().Writing || d.txn.Mode().Replica:
		return count, nil
	case !stale:
		return count, d.unshare(key, &k)
	}
	d.txn.scratch.draft = hyperloglog.WithCount(d.txn.scratch.draft, k.Value, count)
	return count, d.saveRaw(key, &k, d.txn.scratch.draft)
}

// HyperLogLogCountUnion estimates the number of distinct elements of several keys together.
func (d DB) HyperLogLogCountUnion(keys [][]byte) (uint64, error) {
	var union hyperloglog.Union
	if err := d.uniteHyperLogLogs(&union, keys); err != nil {
		return 0, err
	}
	return union.Count(), nil
}

// uniteHyperLogLogs adds what keys have seen to a union, up to the first key that is wrong in any
// way. One is in memory at a time.
func (d DB) uniteHyperLogLogs(union *hyperloglog.Union, keys [][]byte) error {
	for _, key := range keys {
		var k Key
		if err := d.Reading().soundHyperLogLog(key, &k); err != nil {
			return err
		}
		if !k.Exists {
			continue
		}
		// However short a value is, all registers are gone over.
		if err := d.txn.SpendBytes(hyperloglog.RegisterCount); err != nil {
			return err
		}
		if err := union.Add(k.Value); err != nil {
			return err
		}
	}
	return nil
}

// HyperLogLogMerge adds the elements of other keys to a key, which is made if it is missing.
func (d DB) HyperLogLogMerge(target []byte, keys [][]byte, sparseMaxBytes int) error {
	var k Key
	err := d.Reading().soundHyperLogLog(target, &k)
	if err != nil {
		return err
	}
	value := k.Value
	if !k.Exists {
		value = hyperloglog.New()
	}
	var union hyperloglog.Union
	if err := union.Add(value); err != nil {
		return err
	}
	if err := d.uniteHyperLogLogs(&union, keys); err != nil {
		return err
	}
	if value, err = union.MergeInto(d.txn.scratch.draft, value, sparseMaxBytes); err != nil {
		return err
	}
	d.txn.scratch.draft = value
	err = d.saveRaw(target, &k, value)
	d.Notify(keyevent.PFAdd, target)
	return err
}

// HyperLogLogDensify makes the key that was found dense, and reports whether it was not.
func (d DB) HyperLogLogDensify(key []byte, k Key) (bool, error) {
	if encoding, err := hyperloglog.EncodingOf(k.Value); err != nil || encoding == hyperloglog.Dense {
		return false, err
	}
	value, err := hyperloglog.ToDense(d.txn.scratch.draft, k.Value)
	if err != nil {
		return false, err
	}
	d.txn.scratch.draft = value
	next := layout.Metadata{Type: layout.String, Encoding: layout.Raw, Value: value, ExpireMs: k.ExpireMs}
	return true, d.saveAs(keyevent.Unseen, key, &k, &next)
}
