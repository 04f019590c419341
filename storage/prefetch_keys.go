package storage

import "kedis/ttl"

// PrefetchKeys reads ahead what a command will look for in memory: the first of the arguments, and
// every step-th from there on, is a key. See Txn.PrefetchRecords.
func (d DB) PrefetchKeys(args [][]byte, step int) {
	if len(args) <= step {
		return
	}
	i := -step
	d.txn.PrefetchRecords(d.space, func() []byte {
		if i += step; i >= len(args) {
			return nil
		}
		return d.metadataKey(args[i])
	})
}

// PrefetchDue does the same for keys that are about to be removed, up to PrefetchBatch of them.
func (d DB) PrefetchDue(due []ttl.Due) {
	i := -1
	d.txn.PrefetchRecords(d.space, func() []byte {
		if i++; i >= len(due) {
			return nil
		}
		return d.metadataKey(due[i].Key)
	})
}
