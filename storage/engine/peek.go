package engine

import "kedis/storage/generation"

// Peek is Get for who hasn't got the key's lock: what it reads may be out of date when it returns,
// so no copy of it is kept. The value is valid until the next call.
func (t *Txn) Peek(ns *Namespace, key []byte) (value []byte, found bool, err error) {
	if err := t.Spend(1); err != nil {
		return nil, false, err
	}
	hash := recordHash(ns.Number, key)
	if t.view != nil {
		return t.view.get(hash, ns, key)
	}
	value, state := t.journal.get(hash, ns.Number, key)
	if state == generation.Unknown {
		value, state, _ = t.store.tiers.Load().get(hash, ns.Number, key, false)
	}
	family := ns.family.Load()
	if state != generation.Unknown || family == nil || ns.rulesOut(key) {
		return value, state == generation.Present, nil
	}
	if err := t.Spend(rocksReadCost); err != nil {
		return nil, false, err
	}
	t.store.counters.RocksReads.Add(1)
	t.prefetched.record, found, err = t.store.db().Get(family, nil, key, t.prefetched.record[:0])
	return t.prefetched.record, found, err
}
