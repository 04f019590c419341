package engine

import (
	"sync"
	"sync/atomic"

	"kedis/internal/buffer"
	"kedis/storage/generation"
)

// largeRecords are the known sizes of records in RocksDB that are too large for the cache: those
// that this process has written or read. A reactor leaves such a record to a worker before it reads
// it. An outdated size only costs that detour.
type largeRecords struct {
	count atomic.Int64 // for readers, most of which find none
	mu    sync.RWMutex
	sizes map[uint64]int64 // by hash
}

// mostLarge is how many are known; then it begins anew.
const mostLarge = 1 << 16

// note learns the size of a record's value.
func (l *largeRecords) note(hash uint64, size int) {
	if size <= LargeValue && l.count.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case size <= LargeValue:
		delete(l.sizes, hash)
	case l.sizes == nil || len(l.sizes) >= mostLarge:
		l.sizes = map[uint64]int64{hash: int64(size)}
	default:
		l.sizes[hash] = int64(size)
	}
	l.count.Store(int64(len(l.sizes)))
}

// size is what is known of a record; 0 when it isn't known to be large.
func (l *largeRecords) size(hash uint64) int64 {
	if l.count.Load() == 0 {
		return 0
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sizes[hash]
}

// AwaitRoom waits until RocksDB has taken most of the generations that large records have filled,
// so that memory doesn't fill with them faster than the disk takes them. It doesn't wait when
// RocksDB takes nothing: Ready reports that.
func (s *Store) AwaitRoom() {
	s.flusher.mu.Lock()
	defer s.flusher.mu.Unlock()
	for s.waitingBytes() > frozenUnslowed*s.options.GenerationBytes() && s.flusher.err == nil && !s.closing() {
		s.flusher.changed.Wait()
	}
}

// waitingBytes is the memory of the generations that wait for RocksDB.
func (s *Store) waitingBytes() (bytes int64) {
	for _, f := range s.tiers.Load().frozen {
		bytes += f.Bytes()
	}
	return bytes
}

// large returns the memory of a large record with its value.
func (t *Txn) large(key, head, tail []byte) generation.Large {
	l := t.store.generations.provider.memory.NewLarge(key, len(head)+len(tail))
	buffer.Copy(l.Value(), head)
	buffer.Copy(l.Value()[len(head):], tail)
	return l
}
