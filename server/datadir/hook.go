package datadir

import (
	"strconv"

	"kedis/storage/rocks"
)

// HookOptions hooks the options that nobody reads at each use, so that CONFIG SET takes effect. It
// is called once, before clients.
func (d *Directory) HookOptions() {
	c, store := d.config, d.Store
	resize := func() error {
		store.SetCacheBytes(cacheBytes(c))
		return nil
	}
	c.OnChange("memory-tier", resize)
	c.OnChange("clean-cache-share", resize)
	c.OnChange("generation-bytes", resize)
	c.OnChange("rocksdb-write-buffer-size", resize)
	for name, apply := range map[string]func(db *rocks.DB) error{
		"rocksdb-block-cache": func(db *rocks.DB) error {
			db.SetBlockCacheBytes(blockCacheBytes(c))
			return nil
		},
		"rocksdb-rate-limit": func(db *rocks.DB) error {
			db.SetRateLimitBytes(c.RocksDBRateLimit.Get())
			return nil
		},
		"rocksdb-max-background-jobs": func(db *rocks.DB) error {
			return db.SetBackgroundJobs(int(c.RocksDBMaxBackgroundJobs.Get()))
		},
		"rocksdb-max-open-files": func(db *rocks.DB) error {
			return db.SetOptions(map[string]string{"max_open_files": strconv.FormatInt(c.RocksDBMaxOpenFiles.Get(), 10)})
		},
		"rocksdb-write-buffer-size":      familyOption("write_buffer_size", c.RocksDBWriteBufferSize.Get),
		"rocksdb-max-write-buffers":      familyOption("max_write_buffer_number", c.RocksDBMaxWriteBuffers.Get),
		"rocksdb-target-file-size":       familyOption("target_file_size_base", c.RocksDBTargetFileSize.Get),
		"rocksdb-compression":            compressionOption("compression", c.RocksDBCompression.Get),
		"rocksdb-bottommost-compression": compressionOption("bottommost_compression", c.RocksDBBottommostCompression.Get),
	} {
		c.OnChange(name, func() error {
			store.Reconfigure(d.rocksOptions()) // for when it is opened again
			return apply(store.Rocks())
		})
	}
}

func familyOption(name string, get func() int64) func(*rocks.DB) error {
	return func(db *rocks.DB) error {
		return db.SetFamilyOptions(map[string]string{name: strconv.FormatInt(get(), 10)})
	}
}

// compressionNames are RocksDB's names for the kinds of compression.
var compressionNames = map[string]string{"none": "kNoCompression", "snappy": "kSnappyCompression",
	"lz4": "kLZ4Compression", "zstd": "kZSTD"}

func compressionOption(name string, get func() string) func(*rocks.DB) error {
	return func(db *rocks.DB) error {
		return db.SetFamilyOptions(map[string]string{name: compressionNames[get()]})
	}
}
