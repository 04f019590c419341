package rocks

// #include "shim.h"
import "C"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/linxGnu/grocksdb"
)

// Flush writes everything that is in memory to table files, all families as one atomic step, and
// waits until it is durable. While there is no room on the disk it returns an error that satisfies
// IsNoSpace, and the flush may still come to its end later.
func (d *DB) Flush() error {
	return d.exclusively("flush", d.flush)
}

// flush needs d.structure to be held.
func (d *DB) flush() error {
	if err := d.events.failure("flush"); err != nil {
		return err
	}
	families := d.all()
	handles := make([]*C.rocks_family, len(families))
	for i, f := range families {
		handles[i] = f.c
	}
	return fromStatus("flush", C.rocks_flush(d.c, &handles[0], C.size_t(len(handles))))
}

// Checkpoint flushes all families and makes a copy of the database in directory, which must not
// exist while its parent does. Table files are linked where the file system is the same, and copied
// elsewhere, which takes its time. Nobody is stopped, and the copy opens as a database; RocksDB
// deletes no files until it is complete. On a full disk it returns an error that satisfies
// IsNoSpace.
func (d *DB) Checkpoint(directory string) error {
	d.inUse.Add(1)
	defer d.inUse.Add(-1)
	// RocksDB 7.8 leaves out of a checkpoint's own flush a family whose memtable was empty a moment
	// ago, and so tears the batch that comes to it just then (facebook/rocksdb#11148). The flush of
	// named families doesn't.
	if err := d.exclusively("checkpoint", d.flush); err != nil {
		return err
	}
	return d.checkpoint(directory)
}

// checkpoint copies what the manifest has at one moment: of a flush or an ingestion all, or
// nothing. So it doesn't need d.structure, without which nothing comes to the database, for as long
// as the copy takes. It isn't given up: nobody else may come to a directory that is written to.
func (d *DB) checkpoint(directory string) error {
	if err := d.events.failure("checkpoint"); err != nil {
		return err
	}
	checkpoint, err := d.inner.NewCheckpoint()
	if err != nil {
		return fromGrocksdb("checkpoint", err)
	}
	defer checkpoint.Destroy()
	const neverFlush = math.MaxUint64
	if err := checkpoint.CreateCheckpoint(directory, neverFlush); err != nil {
		return fromGrocksdb("checkpoint "+directory, err)
	}
	return nil
}

// compactionStep is about how much data one step of Compact rewrites, in bytes.
const compactionStep = 1 << 30

// Compact rewrites a family's tables without what was deleted or overwritten. It goes in steps over
// the key space and looks at ctx between them, since a flush, a checkpoint or a change of families
// has to wait for a step. No batch for several families may be written beside it: it flushes as
// Checkpoint must not.
func (d *DB) Compact(ctx context.Context, f *Family) error {
	borders, err := d.compactionBorders(f)
	if err != nil {
		return err
	}
	var from []byte // empty: from the beginning; and so for to
	for _, to := range append(borders, nil) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("rocks: compact family %q: %w", f.name, err)
		}
		if err := d.compactStep(f, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (d *DB) compactStep(f *Family, from, to []byte) error {
	return d.exclusively("compact", func() error {
		family, err := f.in(d)
		if err != nil {
			return err
		}
		if err := d.events.failure("compact"); err != nil {
			return err
		}
		return fromStatus(fmt.Sprintf("compact family %q", f.name),
			C.rocks_compact(d.c, family, first(from), C.size_t(len(from)), first(to), C.size_t(len(to))))
	})
}

const (
	collected      = 4 // tables on level 0 that RocksDB compacts
	collectedIdle  = 2 // eagerly
	eagerlyRewrote = 4 // bytes of the level below that are worth a byte of level 0
	// eagerFamilies is how many families there may be. For each that is told anything RocksDB
	// writes the options of all, and flushes wait.
	eagerFamilies = 32
)

// CompactEagerly has RocksDB compact what is on level 0 though little has collected there: fewer
// tables are left to read in. It is for times in which nothing is written, is called now and then
// as long as they last, and with false at their end. A family is left alone in which that would
// rewrite much for little, or more than the disk has room for; all are where there are many.
func (d *DB) CompactEagerly(eagerly bool) error {
	return d.exclusively("set options", func() error {
		families, needed := d.all(), uint64(CompactionRoom)
		few := len(families) <= eagerFamilies
		for _, f := range families {
			if err := d.setEager(f, eagerly && few && d.worthCompacting(f, &needed)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *DB) setEager(f *Family, eager bool) error {
	if f.eager == eager {
		return nil
	}
	tables := collected
	if eager {
		tables = collectedIdle
	}
	err := d.setFamily(f, map[string]string{"level0_file_num_compaction_trigger": strconv.Itoa(tables)})
	if err == nil {
		f.eager = eager
	}
	return err
}

// worthCompacting reports whether a family has tables on level 0 to be compacted, beside those of
// the level that they would go to, and the disk has room for that. It adds it to the room that is
// needed.
func (d *DB) worthCompacting(f *Family, needed *uint64) bool {
	now := d.collectedIn(f)
	with := *needed + uint64(now.bytes+now.below)
	if now.tables < collectedIdle || now.below > eagerlyRewrote*now.bytes || d.RequireRoom(with) != nil {
		return false
	}
	*needed = with
	return true
}

func (d *DB) collectedIn(f *Family) C.rocks_collected { return C.rocks_family_collected(d.c, f.c) }

// DeleteFiles deletes the tables, other than those that were flushed and not compacted yet, that
// have only keys from from up to and without to. Snapshots lose them too, and what was deleted from
// such a range may come back: it is for keys that nobody reads any more.
func (d *DB) DeleteFiles(f *Family, from, to []byte) error {
	return d.exclusively("delete files", func() error {
		family, err := f.in(d)
		if err != nil {
			return err
		}
		return fromStatus(fmt.Sprintf("delete files of family %q", f.name),
			C.rocks_delete_files(d.c, family, first(from), C.size_t(len(from)), first(to), C.size_t(len(to))))
	})
}

// compactionBorders returns keys that cut a family's tables into pieces of about compactionStep
// bytes.
func (d *DB) compactionBorders(f *Family) ([][]byte, error) {
	var tables []grocksdb.SstMetadata
	err := d.exclusively("compact", func() error {
		if _, err := f.in(d); err != nil {
			return err
		}
		for _, level := range d.inner.GetColumnFamilyMetadataCF(f.handle).LevelMetas() {
			tables = append(tables, level.SstMetas()...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tables, func(a, b grocksdb.SstMetadata) int {
		return bytes.Compare(a.LargestKey(), b.LargestKey())
	})
	var borders [][]byte
	size := uint64(0)
	for _, table := range tables {
		if size += table.Size(); size >= compactionStep {
			borders = append(borders, table.LargestKey())
			size = 0
		}
	}
	return borders, nil
}

// ApproximateSize returns about how many bytes the entries from from up to and without to take in
// table files.
func (d *DB) ApproximateSize(f *Family, from, to []byte) (uint64, error) {
	d.families.RLock()
	defer d.families.RUnlock()
	if _, err := f.in(d); err != nil {
		return 0, err
	}
	sizes, err := d.inner.GetApproximateSizesCF(f.handle, []grocksdb.Range{{Start: from, Limit: to}})
	if err != nil {
		return 0, fromGrocksdb("approximate size", err)
	}
	return sizes[0], nil
}

// SetFamilyOptions changes options of all families, those that are created later included, by
// RocksDB's names for them (write_buffer_size, disable_auto_compactions, ...). Options that can't
// be changed while running are an error.
func (d *DB) SetFamilyOptions(options map[string]string) error {
	options = maps.Clone(options)
	err := d.exclusively("set options", func() error {
		for _, f := range d.all() {
			if err := d.setFamily(f, options); err != nil {
				return err
			}
		}
		maps.Copy(d.families.overrides, options)
		return nil
	})
	if err != nil {
		return err
	}
	if bytes, err := strconv.ParseInt(options["write_buffer_size"], 10, 64); err == nil {
		d.noteWriteBuffer(bytes)
	}
	if bytes, err := strconv.ParseInt(options["target_file_size_base"], 10, 64); err == nil {
		d.targetFileBytes.Store(bytes)
	}
	return nil
}

func (d *DB) setFamily(f *Family, options map[string]string) error {
	names := slices.Sorted(maps.Keys(options))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = options[name]
	}
	return fromGrocksdb("set options of family "+f.name, d.inner.SetOptionsCF(f.handle, names, values))
}

// SetOptions changes options of the database, by RocksDB's names for them (max_background_jobs,
// bytes_per_sync, ...). Options that can't be changed while running are an error.
func (d *DB) SetOptions(options map[string]string) error {
	if d.closed.Load() {
		return ErrClosed
	}
	var list strings.Builder
	for name, value := range options {
		if strings.ContainsAny(name+value, ";={}") {
			return errors.New("rocks: set options: a name or value holds one of ;={}")
		}
		list.WriteString(name + "=" + value + ";")
	}
	text := []byte(list.String())
	return fromStatus("set options", C.rocks_set_options(d.c, first(text), C.size_t(len(text))))
}

// SetBackgroundJobs changes how many threads there are for flushes and compactions; 0 for the
// default.
func (d *DB) SetBackgroundJobs(jobs int) error {
	setDefault(&jobs, defaultBackgroundJobs())
	return d.SetOptions(map[string]string{"max_background_jobs": strconv.Itoa(jobs),
		"max_background_compactions": strconv.Itoa(compactions(jobs))})
}

// SetBlockCacheBytes changes the size of the block cache.
func (d *DB) SetBlockCacheBytes(bytes int64) { d.parts.cache.SetCapacity(uint64(bytes)) }

// SetRateLimitBytes changes how many bytes per second flushes and compactions may write; 0 for no
// limit.
func (d *DB) SetRateLimitBytes(bytes int64) {
	setDefault(&bytes, unlimitedRate)
	C.rocks_set_rate(d.c, C.int64_t(bytes))
}
