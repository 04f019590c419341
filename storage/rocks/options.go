package rocks

import (
	"fmt"
	"runtime"

	"github.com/hashicorp/go-hclog"
	"github.com/linxGnu/grocksdb"
)

// Options say how to open a database. Only Directory is needed: what is zero takes a default that
// fits the machine.
type Options struct {
	Directory string // created when it is not there; its parents too

	BlockCacheBytes int64 // memory for blocks of table files, their indexes and filters; default 256 MiB
	// WriteBufferBytes is the size at which a memtable is sealed and written out; default 64 MiB.
	// All memtables together stay under MaxWriteBuffers times that, however many families there
	// are.
	WriteBufferBytes  int64
	MaxWriteBuffers   int // sealed and unsealed memtables of a family before writers have to wait; default 4
	MaxBackgroundJobs int // threads for flushes and compactions; default: the processors, at least 2 and at most 8
	BloomBits         int // bits of bloom filter for each key; default 10, -1 for none

	// Compression of table files: none, snappy, lz4 (the default), zstd or zlib; and of the last
	// level, which holds nearly all data: the same names, default as Compression.
	Compression, BottommostCompression string

	TargetFileBytes int64 // size of a table file; default 64 MiB
	TablesBytes     int64 // about how much comes as tables at once; default WriteBufferBytes
	MaxOpenFiles    int   // default -1: no limit, all table files stay open
	RateLimitBytes  int64 // bytes per second that flushes and compactions may write; default 0: no limit

	// Full is called when RocksDB begins to wait for room on the disk, and must not wait itself. It
	// may be called when the database is closed already. nil does nothing.
	Full   func()
	Logger hclog.Logger // what RocksDB does in the background and fails at; default: nothing is logged
}

// unlimitedRate stands for no limit. The limiter is always there, so that a limit can be set while
// running.
const unlimitedRate = int64(1) << 40

func (o *Options) setDefaults() {
	setDefault(&o.BlockCacheBytes, 256<<20)
	setDefault(&o.WriteBufferBytes, 64<<20)
	setDefault(&o.MaxWriteBuffers, 4)
	setDefault(&o.MaxBackgroundJobs, defaultBackgroundJobs())
	setDefault(&o.BloomBits, 10)
	setDefault(&o.Compression, "lz4")
	setDefault(&o.BottommostCompression, o.Compression)
	setDefault(&o.TargetFileBytes, 64<<20)
	setDefault(&o.TablesBytes, o.WriteBufferBytes)
	setDefault(&o.MaxOpenFiles, -1)
	setDefault(&o.RateLimitBytes, unlimitedRate)
}

func defaultBackgroundJobs() int { return min(max(runtime.NumCPU(), 2), 8) }

func setDefault[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

func (o *Options) logger() hclog.Logger {
	if o.Logger == nil {
		return hclog.NewNullLogger()
	}
	return o.Logger
}

func (o *Options) validate() error {
	if o.Directory == "" {
		return fmt.Errorf("rocks: open: no directory given")
	}
	for name, value := range map[string]int64{
		"BlockCacheBytes": o.BlockCacheBytes, "WriteBufferBytes": o.WriteBufferBytes,
		"MaxWriteBuffers": int64(o.MaxWriteBuffers), "MaxBackgroundJobs": int64(o.MaxBackgroundJobs),
		"TargetFileBytes": o.TargetFileBytes, "TablesBytes": o.TablesBytes,
		"RateLimitBytes": o.RateLimitBytes,
	} {
		if value < 0 {
			return fmt.Errorf("rocks: open: %s is %d, want more than 0", name, value)
		}
	}
	return nil
}

func compressionNamed(name string) (grocksdb.CompressionType, error) {
	switch name {
	case "none":
		return grocksdb.NoCompression, nil
	case "snappy":
		return grocksdb.SnappyCompression, nil
	case "lz4":
		return grocksdb.LZ4Compression, nil
	case "zstd":
		return grocksdb.ZSTDCompression, nil
	case "zlib":
		return grocksdb.ZLibCompression, nil
	}
	return 0, fmt.Errorf("rocks: unknown compression %q, want none, snappy, lz4, zstd or zlib", name)
}

// parts are the objects that a database is opened with and that live as long as it does.
type parts struct {
	options *grocksdb.Options
	table   *grocksdb.BlockBasedTableOptions
	cache   *grocksdb.Cache
}

// newParts validates o, completes it and makes RocksDB's objects of it.
func newParts(o *Options) (*parts, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	compression, err := compressionNamed(o.Compression)
	if err != nil {
		return nil, err
	}
	bottommost, err := compressionNamed(o.BottommostCompression)
	if err != nil {
		return nil, err
	}
	p := &parts{
		options: grocksdb.NewDefaultOptions(),
		table:   grocksdb.NewDefaultBlockBasedTableOptions(),
		cache:   newCache(o.BlockCacheBytes),
	}
	p.options.SetCompression(compression)
	p.options.SetBottommostCompression(bottommost)
	p.setDatabase(o)
	p.setMemtables(o)
	p.setLevels(o)
	p.setTables(o)
	return p, nil
}

func newCache(bytes int64) *grocksdb.Cache {
	o := grocksdb.NewLRUCacheOptions()
	defer o.Destroy()
	o.SetCapacity(uint(bytes))
	o.SetNumShardBits(cacheShardBits(bytes))
	return grocksdb.NewLRUCacheWithOptions(o)
}

// cacheShardBits cuts a cache into as many shards as leave each 16 MiB, at most 64. RocksDB's own
// choice goes down to 512 KiB, where the bloom filters of two large tables don't fit into one
// shard: then each read fetches a whole filter anew, and takes 67 µs where it would take 4.
func cacheShardBits(bytes int64) int {
	const smallest, most = 16 << 20, 6
	bits := 0
	for bits < most && bytes>>(bits+1) >= smallest {
		bits++
	}
	return bits
}

func (p *parts) setDatabase(o *Options) {
	p.options.SetCreateIfMissing(true)
	p.options.SetAtomicFlush(true)
	p.options.EnableStatistics()
	p.options.SetMaxBackgroundJobs(o.MaxBackgroundJobs)
	// One flush at a time, for all families: the Listener in shim.cc says why.
	//lint:ignore SA1019 MaxBackgroundJobs alone allows several.
	p.options.SetMaxBackgroundFlushes(1)
	//lint:ignore SA1019 It goes with the one above.
	p.options.SetMaxBackgroundCompactions(compactions(o.MaxBackgroundJobs))
	p.options.SetMaxSubcompactions(uint32(max(1, o.MaxBackgroundJobs/4)))
	p.options.SetMaxOpenFiles(o.MaxOpenFiles)
	const refillMicros, fairness = 100_000, 10
	p.options.SetRateLimiter(grocksdb.NewRateLimiter(o.RateLimitBytes, refillMicros, fairness)) // which takes it over
	// Written out bit by bit, so that a file's end doesn't hold up the disk.
	p.options.SetBytesPerSync(1 << 20)
	// Of RocksDB's own diary, which events.go takes.
	p.options.SetInfoLogLevel(grocksdb.WarnInfoLogLevel)
	p.options.SetStatsDumpPeriodSec(0)
	p.options.SetStatsPersistPeriodSec(0)
	p.options.SetMaxManifestFileSize(64 << 20)
	p.options.SetManifestPreallocationSize(64 << 10) // opening writes one, which a full disk has to have room for
}

// compactions is how many of the background jobs may be compactions.
func compactions(jobs int) int { return max(1, jobs-1) }

func (p *parts) setMemtables(o *Options) {
	p.options.SetWriteBufferSize(uint64(o.WriteBufferBytes))
	p.options.SetMaxWriteBufferNumber(o.MaxWriteBuffers)
	p.options.SetDbWriteBufferSize(uint64(o.WriteBufferBytes) * uint64(o.MaxWriteBuffers))
	// A filter in front of the memtable: most reads are of keys that are not in it.
	p.options.SetMemtableWholeKeyFiltering(true)
	p.options.SetMemTablePrefixBloomSizeRatio(0.02)
}

func (p *parts) setLevels(o *Options) {
	p.options.SetLevelCompactionDynamicLevelBytes(true)
	p.options.SetTargetFileSizeBase(uint64(o.TargetFileBytes))
	// What comes collects on level 0 until it is worth being compacted, into a level that is no
	// larger.
	p.options.SetMaxBytesForLevelBase(uint64(max(collected*max(o.WriteBufferBytes, o.TablesBytes), 256<<20)))
	p.options.SetLevel0FileNumCompactionTrigger(collected)
	// Writers slow down long before they would have to stop.
	p.options.SetLevel0SlowdownWritesTrigger(20)
	p.options.SetLevel0StopWritesTrigger(48)
}

func (p *parts) setTables(o *Options) {
	t := p.table
	t.SetBlockCache(p.cache)
	t.SetFormatVersion(5)
	t.SetBlockSize(8 << 10)
	t.SetDataBlockIndexType(grocksdb.KDataBlockIndexTypeBinarySearchAndHash)
	t.SetDataBlockHashRatio(0.75)
	if o.BloomBits > 0 {
		t.SetFilterPolicy(grocksdb.NewBloomFilterFull(float64(o.BloomBits)))
	}
	t.SetWholeKeyFiltering(true)
	// Indexes and filters stand in blocks of their own, as data does: those of a file of 64 MB have
	// a megabyte together, and a cache that they don't fit into would have to read all of it for
	// one record.
	const metadataBlock = 8 << 10
	t.SetIndexType(grocksdb.KTwoLevelIndexSearchIndexType)
	t.SetPartitionFilters(o.BloomBits > 0)
	t.SetMetadataBlockSize(metadataBlock)
	// Indexes and filters count against the cache, so that the configured size is what is used.
	t.SetCacheIndexAndFilterBlocks(true)
	t.SetCacheIndexAndFilterBlocksWithHighPriority(true)
	t.SetPinL0FilterAndIndexBlocksInCache(true)
	t.SetPinTopLevelIndexAndFilter(true)
	p.options.SetBlockBasedTableFactory(t)
}

func (p *parts) destroy() {
	p.options.Destroy()
	p.table.Destroy()
	p.cache.Destroy()
}
