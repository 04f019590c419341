package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/storage"
	"kedis/storage/engine"
	"kedis/storage/rocks"
)

// Data is an open data directory: the store and its log.
//
//	DIR/db/          RocksDB
//	DIR/binlog/N/    the log; N grows with each full synchronization
//	DIR/reserve      room for a start on a full disk
type Data struct {
	Store *storage.Store

	log     atomic.Pointer[binlog.Log]
	refusal atomic.Pointer[error] // why writes are kept out, whatever log and store say

	directory string
	logger    hclog.Logger
	config    *config.Config
	recovered binlog.Recovered
	created   bool // by OpenData, and the history with it
}

// OpenData opens the data directory, or makes one.
func OpenData(c *config.Config, logger hclog.Logger) (*Data, error) {
	directory := c.Dir.Get()
	if err := os.MkdirAll(directory, 0o755); err != nil {
		var failed *os.PathError // which names the one above that can't be entered
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("server: data directory %s: %w", directory, err)
	}
	if err := checkDirectory(directory); err != nil {
		return nil, err
	}
	d := &Data{directory: directory, logger: logger, config: c}
	if err := d.openStore(); err != nil {
		return nil, err
	}
	if err := d.openLog(); err != nil {
		return nil, errors.Join(err, d.Store.Close())
	}
	return d, nil
}

// openStore opens the store, on a full disk with the room that is reserved for that.
func (d *Data) openStore() (err error) {
	o := storageOptions(d.config, d.directory, d.logger)
	room := reserve(filepath.Join(d.directory, "reserve"))
	d.Store, err = storage.Open(o)
	if rocks.IsNoSpace(err) && room.give() {
		d.logger.Warn("the disk is full: opening the data takes the room that was reserved for it", "error", err)
		d.Store, err = storage.Open(o)
	}
	if err != nil {
		return err
	}
	if err := room.take(); err != nil {
		return errors.Join(err, d.Store.Close())
	}
	return nil
}

func storageOptions(c *config.Config, directory string, logger hclog.Logger) storage.Options {
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
			Rocks:           rocksOptions(c, directory, logger),
			Databases:       int(c.Databases.Get()),
			GenerationBytes: func() int64 { return generationBytes(c) },
			KeptBytes:       func() int64 { return keptBytes(c) },
			CacheBytes:      cacheBytes(c),
			RankBytes:       c.RankMemory.Get,
			SyncEveryCommit: func() bool { return c.AppendFsync.Get() == config.FsyncAlways },
			FlushLogBytes:   c.PersistLogSize.Get,
			FlushInterval:   c.PersistInterval.Get,
			Logger:          logger.Named("storage"),
		},
	}
}

func rocksOptions(c *config.Config, directory string, logger hclog.Logger) rocks.Options {
	bloomBits := int(c.RocksDBBloomBits.Get())
	if bloomBits == 0 {
		bloomBits = -1 // none; 0 would be the default
	}
	return rocks.Options{
		Directory:             filepath.Join(directory, "db"),
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
		Logger:                logger.Named("rocksdb"),
	}
}

// blockCacheBytes is the size of RocksDB's cache, which can't be 0.
func blockCacheBytes(c *config.Config) int64 { return max(c.RocksDBBlockCache.Get().Bytes, 1) }

// generationBytes is how large a generation becomes: one is written to, up to three wait for RocksDB or are on their way.
func generationBytes(c *config.Config) int64 {
	recent := c.MemoryTier.Get().Bytes / 100 * (100 - c.CleanCacheShare.Get())
	return min(c.GenerationBytes.Get(), max(recent/4, smallestGeneration))
}

// smallestGeneration is below what a small memory-tier makes of a generation; generation-bytes may be less.
const smallestGeneration = 1 << 20

// copyBytes is how much memory copies of what RocksDB has may take: the generation that is kept, and the cache.
func copyBytes(c *config.Config) int64 {
	return c.MemoryTier.Get().Bytes / 100 * c.CleanCacheShare.Get()
}

// keptBytes is how large the generation is that is kept: none where generations are too small for table files, or would take more than half.
func keptBytes(c *config.Config) int64 {
	bytes := generationBytes(c)
	if bytes < c.RocksDBWriteBufferSize.Get()/2 || bytes > copyBytes(c)/2 {
		return 0
	}
	return bytes
}

func cacheBytes(c *config.Config) int64 { return copyBytes(c) - keptBytes(c) }

func (d *Data) logOptions(number uint64) binlog.Options {
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

// reclaim brings the data to RocksDB's files, so that more of its log may be removed. Of another log nothing may.
func (d *Data) reclaim(number uint64) (persisted int64, err error) {
	if d.Store.LogDirectory() != number {
		return 0, nil
	}
	err = d.Store.Persist()
	return d.Store.Persisted(), err
}

// openLog opens the log that the data belongs to; for a new data directory it makes one.
func (d *Data) openLog() error {
	number := d.Store.LogDirectory()
	if number == 0 {
		if err := d.checkLaterLogs(number, nil); err != nil {
			return err
		}
		return d.createLog()
	}
	log, recovered, err := binlog.Open(d.logOptions(number))
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := d.checkLaterLogs(number, log); err != nil {
		return errors.Join(err, log.Close())
	}
	d.log.Store(log)
	d.recovered = recovered
	d.Store.Attach(log, number)
	return d.removeOtherLogs()
}

// createLog makes the first log. A crash may have left one behind that no data has gone to, and has no records: the
// state that names it is persisted before anything is served.
func (d *Data) createLog() error {
	warnOfRedisData(d.directory, d.logger)
	const first = 1
	o := d.logOptions(first)
	if err := os.RemoveAll(o.Directory); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	log, err := binlog.Create(o, binlog.History{ID: binlog.NewID()}, 0, 0)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	d.log.Store(log)
	d.created, d.recovered = true, binlog.Recovered{Clean: true}
	d.Store.Attach(log, first)
	return d.Store.PersistState()
}

// Abandon closes the log and leaves the store as it is, for somebody still uses it: the next start applies from the log
// what isn't in RocksDB's files, as after a kill.
func (d *Data) Abandon() error {
	d.logger.Error("commands still run that should have ended: the store is not closed, and the next start reads more of the log")
	return d.Log().Close()
}

// Close persists everything and closes the store and the log.
func (d *Data) Close() error {
	return errors.Join(d.Store.Close(), d.Log().Close())
}
