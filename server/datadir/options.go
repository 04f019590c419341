package datadir

import (
	"path/filepath"
	"strconv"
	"time"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/storage"
	"kedis/storage/engine"
	"kedis/storage/rocks"
)

func (d *Directory) storageOptions() storage.Options {
	c := d.config
	return storage.Options{
		Limits: storage.Limits{
			HashEntries:      c.HashMaxListpackEntries.Get,
			HashValue:        c.HashMaxListpackValue.Get,
			ListSize:         c.ListMaxListpackSize.Get,
			SetIntsetEntries: c.SetMaxIntsetEntries.Get,
			SetEntries:       c.SetMaxListpackEntries.Get,
			SetValue:         c.SetMaxListpackValue.Get,
			ZSetEntries:      c.ZSetMaxListpackEntries.Get,
			ZSetValue:        c.ZSetMaxListpackValue.Get,
			StreamBytes:      c.StreamNodeMaxBytes.Get,
			StreamEntries:    c.StreamNodeMaxEntries.Get,
		},
		Options: engine.Options{
			Rocks:           d.rocksOptions(),
			Databases:       int(c.Databases.Get()),
			GenerationBytes: func() int64 { return generationBytes(c) },
			RetainedBytes:   func() int64 { return retainedBytes(c) },
			CacheBytes:      cacheBytes(c),
			TreeBytes:       func() int64 { return treeBytes(c) },
			MostTreeBytes:   func() int64 { return cacheBytes(c) },
			SyncEveryCommit: func() bool { return c.AppendFsync.Get() == config.FsyncAlways },
			FlushLogBytes:   c.PersistLogSize.Get,
			FlushInterval:   c.PersistInterval.Get,
			Logger:          d.logger.Named("storage"),
		},
	}
}

func (d *Directory) rocksOptions() rocks.Options {
	c := d.config
	bloomBits := int(c.RocksDBBloomBits.Get())
	if bloomBits == 0 {
		bloomBits = -1 // none; 0 would be the default
	}
	return rocks.Options{
		Directory:             filepath.Join(d.path, "db"),
		BlockCacheBytes:       blockCacheBytes(c),
		WriteBufferBytes:      c.RocksDBWriteBufferSize.Get(),
		MaxWriteBuffers:       int(c.RocksDBMaxWriteBuffers.Get()),
		MaxBackgroundJobs:     int(c.RocksDBMaxBackgroundJobs.Get()),
		BloomBits:             bloomBits,
		Compression:           c.RocksDBCompression.Get(),
		BottommostCompression: c.RocksDBBottommostCompression.Get(),
		TargetFileBytes:       c.RocksDBTargetFileSize.Get(),
		TablesBytes:           generationBytes(c),
		MaxOpenFiles:          int(c.RocksDBMaxOpenFiles.Get()),
		RateLimitBytes:        c.RocksDBRateLimit.Get(),
		Full:                  d.giveRoom,
		Logger:                d.logger.Named("rocksdb"),
	}
}

// giveRoom is called when RocksDB waits for room on the disk. Until it gets some, nothing that is
// deleted makes any.
func (d *Directory) giveRoom() {
	if log := d.Log(); log != nil {
		log.GiveRoom()
	}
}

// blockCacheBytes is the size of RocksDB's cache, which can't be 0.
func blockCacheBytes(c *config.Config) int64 { return max(c.RocksDBBlockCache.Get().Bytes, 1) }

// generationBytes is how large a generation becomes. One is written to, and up to three are on
// their way to RocksDB.
func generationBytes(c *config.Config) int64 {
	recent := c.MemoryTier.Get().Bytes / 100 * (100 - c.CleanCacheShare.Get())
	return min(c.GenerationBytes.Get(), max(recent/4, smallestGeneration))
}

// smallestGeneration is the least that a small memory-tier makes of a generation; generation-bytes
// may be less.
const smallestGeneration = 1 << 20

// copyBytes is the memory for copies of what RocksDB has: the retained generation and the cache.
func copyBytes(c *config.Config) int64 {
	return c.MemoryTier.Get().Bytes / 100 * c.CleanCacheShare.Get()
}

// retainedBytes is the size of the retained generation; 0 where generations are too small for table
// files, or would take more than half of copyBytes.
func retainedBytes(c *config.Config) int64 {
	bytes := generationBytes(c)
	if bytes < c.RocksDBWriteBufferSize.Get()/2 || bytes > copyBytes(c)/2 {
		return 0
	}
	return bytes
}

func cacheBytes(c *config.Config) int64 { return copyBytes(c) - retainedBytes(c) }

const (
	treeShare  = 4        // the order of collections may take one part in so many of the memory for copies
	leastTrees = 32 << 10 // bytes that it may take in any case, if there is any memory for records
)

// treeBytes is the memory for the order of collections, a part of cacheBytes.
func treeBytes(c *config.Config) int64 {
	if c.MemoryTier.Get().Bytes == 0 {
		return 0
	}
	return max(cacheBytes(c)/treeShare, leastTrees)
}

func (d *Directory) logOptions(number uint64) binlog.Options {
	c := d.config
	return binlog.Options{
		Directory:    filepath.Join(d.logsDirectory(), strconv.FormatUint(number, 10)),
		SegmentBytes: c.BinlogSegmentSize.Get(),
		Sync: func() binlog.SyncPolicy {
			switch c.AppendFsync.Get() {
			case config.FsyncAlways:
				return binlog.Always
			case config.FsyncNo:
				return binlog.Never
			}
			return binlog.EverySecond
		},
		RetentionBytes: c.BinlogRetentionSize.Get,
		RetentionAge:   func() time.Duration { return c.BinlogRetentionAge.Get() },
		Logger:         d.logger.Named("binlog"),
		Room:           d.Store.RoomToPersist,
		Reclaim:        func() (int64, error) { return d.reclaim(number) },
		Persisted:      d.Store.Position(),
	}
}
