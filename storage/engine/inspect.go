package engine

import (
	"fmt"

	"kedis/storage/generation"
	"kedis/storage/ordered"
	"kedis/storage/rocks"
)

// Inspect shows the inside of a store to the tests of packages above this one, and runs background
// work at once. Only tests use this file.
type Inspect struct{ *Store }

// Sizes that tests exceed.
const (
	InspectDeleteOneByOne = deleteOneByOne
	InspectColdKeys       = coldKeys
	InspectReapByPoints   = reapByPoints
	InspectRunBytes       = runBytes
	InspectLargeBuffer    = largeBuffer
	InspectSpillBytes     = spillBytes
	InspectSpillElements  = spillCollection
	InspectBytesPerRecord = bytesPerRecord
)

// Freeze ends the active generation.
func (i Inspect) Freeze() {
	i.commit.Lock()
	defer i.commit.Unlock()
	i.freeze()
}

// Reap is what maintenance does about deleted collections.
func (i Inspect) Reap() error { return i.reap() }

// CleanUp is what maintenance does besides persisting.
func (i Inspect) CleanUp() error { return i.cleanUp() }

// ReadPersisted learns how far RocksDB's files have come.
func (i Inspect) ReadPersisted() error { return i.readPersisted() }

// StageFrom changes how much of a collection is gathered before it is staged; 0 is as much as
// usual.
func (i Inspect) StageFrom(bytes int) {
	if bytes == 0 {
		bytes = stageBytes
	}
	i.ids.staged.pieceBytes = bytes
}

// Staged reports whether elements stand in RocksDB, or on their way there, ahead of their commit.
func (i Inspect) Staged(id uint64) bool { return i.ids.staged.has(id) }

// NextID is the id that the next collection gets.
func (i Inspect) NextID() uint64 { return i.ids.next.Load() }

// WaitingGenerations is how many generations wait for RocksDB.
func (i Inspect) WaitingGenerations() int { return i.waitingGenerations() }

// WaitingCommits is how many transactions wait for the commit lock.
func (i Inspect) WaitingCommits() int {
	i.commit.waiting.mu.Lock()
	defer i.commit.waiting.mu.Unlock()
	return len(i.commit.waiting.txns)
}

// CommitLog is the log that commits go to.
func (i Inspect) CommitLog() Log { return i.attached() }

// Family is where RocksDB has the records of a database; nil if it has none.
func (i Inspect) Family(database int) *rocks.Family { return i.namespaceOf(database).family.Load() }

// Namespace is the number of the namespace that a database has.
func (i Inspect) Namespace(database int) uint32 { return i.namespaceOf(database).Number }

func (i Inspect) namespaceOf(database int) *Namespace { return i.tiers.Load().databases[database] }

// Cached reports whether the cache has a copy of a record.
func (i Inspect) Cached(namespace uint32, key []byte) bool {
	_, _, known := i.clean.records.Get(recordHash(namespace, key), namespace, key)
	return known
}

// RetainedUsed calls visit with the keys of the retained generation that are still valid and were
// used.
func (i Inspect) RetainedUsed(visit func(key []byte)) {
	for record, used := range i.tiers.Load().retained.Left() {
		if used {
			visit(record.Key())
		}
	}
}

// OrderBy has the trees of collections that have at least so many entries cut into pieces of about
// so many. Those of kinds with names keep values up to eight pieces.
func (i Inspect) OrderBy(target, least int) {
	i.order.trees.SetTarget(target)
	i.order.sizes = orderSizes{least: least, kept: 2 * target, valued: 8 * target, early: 4 * target, complete: 4 * target,
		ahead: 3 * target, taken: 16 * target, vague: 32 * target}
}

// ForgetOrder forgets all trees.
func (i Inspect) ForgetOrder() { i.order.trees.Clear() }

// InspectTxn shows the inside of a transaction.
type InspectTxn struct{ *Txn }

// Fetched is how many records Fetch has asked RocksDB for.
func (i InspectTxn) Fetched() int {
	return len(i.prefetched.keys.records) + len(i.prefetched.elements.records)
}

// ColdBytes is the size of the buffer of FetchCold.
func (i InspectTxn) ColdBytes() int { return cap(i.prefetched.record) }

// RunBytes is the memory of elements that were read with their neighbours.
func (i InspectTxn) RunBytes() int { return len(i.order.run.memory) }

// ByGroup looks for the elements of a collection by their group. newer is the number that RocksDB
// lacks.
func (i InspectTxn) ByGroup(ns *Namespace, kind byte, id, count uint64) (newer, found int, ok bool) {
	x := i.NewIndex(ns, kind, id, int(count), false, nil)
	f, ok := x.findFew()
	if !ok {
		return 0, 0, false
	}
	f.forget(0)
	return f.newer, f.live, true
}

// HoldsElements reports whether the transaction refers to elements that it has found by their
// group.
func (i InspectTxn) HoldsElements() bool {
	found := i.order.few.newest
	for _, record := range found[:cap(found)] {
		if fmt.Sprint(record) != fmt.Sprint(generation.Record{}) {
			return true
		}
	}
	return false
}

// Budget is how many records the running command may still touch.
func (i InspectTxn) Budget() int { return i.running.budget }

// Trees returns those that the transaction has used.
func (i InspectTxn) Trees() []*ordered.Tree { return i.order.used }

// JournalBytes is the memory of the transaction's own records, without and with the large ones.
func (i InspectTxn) JournalBytes() (copied, all int) { return len(i.journal.buffer), i.journal.size() }

// StagedCollections is how many collections the transaction has staged.
func (i InspectTxn) StagedCollections() int { return len(i.staging.collections) }

// ReadsView reports whether the transaction reads from a view.
func (i InspectTxn) ReadsView() bool { return i.view != nil }
