package engine

import (
	"sync"
	"sync/atomic"

	"kedis/storage/cache"
)

// clean are copies of what RocksDB has, and what is known of records that are too large for them.
type clean struct {
	records *cache.Cache
	large   largeRecords

	most      atomic.Int64 // bytes that they, and the filters, may take
	granted   atomic.Int64 // to records, when that was last found out; until it is again they may have less
	balancing sync.Mutex   // held while it is found out; it comes before the commit lock
}

// SetCacheBytes changes how much memory clean copies may take, the order of collections included,
// and what knows which records there are.
func (s *Store) SetCacheBytes(bytes int64) {
	s.clean.most.Store(bytes)
	s.presences.memory.most.Store(max(bytes/filterShare, leastFilters))
	s.balance()
}

// Copies is the memory that clean copies take, and the most that they may come to take.
func (s *Store) Copies() (bytes, most int64) {
	return s.clean.records.Bytes(), s.clean.granted.Load()
}

// forgetCopies forgets all clean copies.
func (s *Store) forgetCopies() { s.clean.records.Clear() }
