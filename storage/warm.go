package storage

import "kedis/storage/generation"

// WarmKeys is how many keys Warm takes at once: enough for the processor to wait for all of them together.
const WarmKeys = 16

// Warm reads what the commands to come are going to look at first for their keys: the slots of the
// indexes, and then the entries. One command after another would wait for memory at each step; here
// the processor waits for many keys at once. It changes nothing, and keys that don't exist do no harm.
// At most WarmKeys keys are read.
func (t *Txn) Warm(database int, keys [][]byte) {
	now := t.store.current.Load()
	space := now.databases[database].number
	var hashes, copies, recent [WarmKeys]uint64
	keys = keys[:min(len(keys), WarmKeys)]
	for i, key := range keys {
		t.key = DB{txn: t}.metadataKey(key)
		hash := generation.Hash(space, t.key)
		hashes[i], recent[i], copies[i] = hash, now.active.Slot(hash), t.store.cache.Slot(hash)
		for _, f := range now.frozen {
			t.warmed += byte(f.Slot(hash))
		}
	}
	for i := range keys {
		t.warmed += now.active.Peek(hashes[i], recent[i]) + t.store.cache.Peek(hashes[i], copies[i])
	}
}
