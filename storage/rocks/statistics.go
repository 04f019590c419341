package rocks

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Statistics are what RocksDB counts. Counters begin at Open.
type Statistics struct {
	Counters

	BlockCacheBytes         uint64 // capacity
	BlockCacheUsedBytes     uint64
	BlockCachePinnedBytes   uint64
	EstimatedKeys           uint64
	LiveDataBytes           uint64 // estimated, in table files
	TableFileBytes          uint64
	MemtableBytes           uint64 // memtables that are written to, sealed, or pinned by iterators
	ImmutableMemtables      uint64 // sealed and not yet flushed
	TableReaderBytes        uint64
	PendingCompactionBytes  uint64
	RunningFlushes          uint64
	RunningCompactions      uint64
	BackgroundErrors        uint64
	DelayedWriteBytesPerSec uint64 // what writers are slowed down to; 0 when they are not
	WritesStopped           bool
}

// Counters are RocksDB's tickers, in the order in which the shim fills them in.
type Counters struct {
	BlockCacheHits, BlockCacheMisses          uint64
	BlockCacheDataHits, BlockCacheDataMisses  uint64
	BloomUseful, BloomPassed                  uint64 // the filter spared a table; the filter let a read through
	MemtableHits, MemtableMisses              uint64
	KeysRead, KeysWritten                     uint64
	BytesRead, BytesWritten                   uint64 // by callers
	FlushedBytes                              uint64 // of tables that were ingested, too
	CompactionReadBytes, CompactionWriteBytes uint64
	StallMicros                               uint64
}

// The shim fills in one number for each counter.
var _ [C.ROCKS_TICKERS * 8]byte = [unsafe.Sizeof(Counters{})]byte{}

// Statistics reads all counters and gauges.
func (d *DB) Statistics() (Statistics, error) {
	d.families.RLock() // which waits for a Drop or a Close, but not for a flush
	defer d.families.RUnlock()
	standard := d.families.byName[DefaultFamily]
	if d.closed.Load() || standard == nil {
		return Statistics{}, ErrClosed
	}
	var s Statistics
	C.rocks_tickers(d.c, (*C.uint64_t)(unsafe.Pointer(&s.Counters)))
	s.FlushedBytes += d.tableBytes.Load()
	s.BlockCacheBytes = d.parts.cache.GetCapacity()
	s.BlockCacheUsedBytes = d.parts.cache.GetUsage()
	s.BlockCachePinnedBytes = d.parts.cache.GetPinnedUsage()
	for _, f := range d.families.byName {
		if err := d.addFamily(&s, f); err != nil {
			return Statistics{}, err
		}
	}
	return s, d.addDatabase(&s, standard)
}

// addFamily adds the properties that each family has for itself.
func (d *DB) addFamily(s *Statistics, f *Family) error {
	return d.addProperties(f, map[string]*uint64{
		"rocksdb.estimate-num-keys":                 &s.EstimatedKeys,
		"rocksdb.estimate-live-data-size":           &s.LiveDataBytes,
		"rocksdb.total-sst-files-size":              &s.TableFileBytes,
		"rocksdb.size-all-mem-tables":               &s.MemtableBytes,
		"rocksdb.num-immutable-mem-table":           &s.ImmutableMemtables,
		"rocksdb.estimate-table-readers-mem":        &s.TableReaderBytes,
		"rocksdb.estimate-pending-compaction-bytes": &s.PendingCompactionBytes,
	})
}

// addDatabase adds the properties of the database as a whole.
func (d *DB) addDatabase(s *Statistics, f *Family) error {
	var stopped uint64
	err := d.addProperties(f, map[string]*uint64{
		"rocksdb.num-running-flushes":       &s.RunningFlushes,
		"rocksdb.num-running-compactions":   &s.RunningCompactions,
		"rocksdb.background-errors":         &s.BackgroundErrors,
		"rocksdb.actual-delayed-write-rate": &s.DelayedWriteBytesPerSec,
		"rocksdb.is-write-stopped":          &stopped,
	})
	s.WritesStopped = stopped != 0
	return err
}

// FamilyBytes returns what a family takes in table files and memtables. It may be called while the
// family is dropped, or the database closed.
func (d *DB) FamilyBytes(f *Family) (int64, error) {
	return d.sumProperties(f, "rocksdb.live-sst-files-size", "rocksdb.cur-size-all-mem-tables")
}

// FamilyRecords returns about how many records a family has.
func (d *DB) FamilyRecords(f *Family) (int64, error) {
	return d.sumProperties(f, "rocksdb.estimate-num-keys")
}

func (d *DB) sumProperties(f *Family, names ...string) (int64, error) {
	d.families.RLock()
	defer d.families.RUnlock()
	if _, err := f.in(d); err != nil {
		return 0, err
	}
	var sum uint64
	properties := make(map[string]*uint64, len(names))
	for _, name := range names {
		properties[name] = &sum
	}
	err := d.addProperties(f, properties)
	return int64(sum), err
}

func (d *DB) addProperties(f *Family, properties map[string]*uint64) error {
	for name, sum := range properties {
		value, ok := d.inner.GetIntPropertyCF(name, f.handle)
		if !ok {
			return fmt.Errorf("rocks: family %q has no property %s", f.name, name)
		}
		*sum += value
	}
	return nil
}

// MemtableBytes returns how much memory all memtables take, about which the files that are made of
// them don't exceed.
func (d *DB) MemtableBytes() int64 {
	var bytes int64
	_ = d.whileOpen(func(*Family) { bytes = int64(C.rocks_memtable_bytes(d.c)) })
	return bytes
}

// Property returns a property of a family by RocksDB's name for it, such as rocksdb.stats, and
// whether there is one.
func (d *DB) Property(f *Family, name string) (value string, ok bool, err error) {
	d.families.RLock()
	defer d.families.RUnlock()
	if _, err := f.in(d); err != nil {
		return "", false, err
	}
	value = d.inner.GetPropertyCF(name, f.handle)
	return value, value != "", nil
}

// Version returns the version of the RocksDB that is linked, such as 7.8.3.
func Version() string {
	version := C.rocks_version()
	defer C.free(unsafe.Pointer(version))
	return C.GoString(version)
}

// BuildKind tells which RocksDB is linked: "release static", the Makefile's own build without
// assertions, or "shared", the system's library (Debian's has assertions compiled in).
func BuildKind() string { return buildKind }
