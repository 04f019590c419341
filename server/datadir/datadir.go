// Package datadir is the data directory: the store and the log that belongs to it, on a disk.
//
// It opens the directory, recovers it from the log, reserves room for a start on a full disk, and
// exchanges the log for another. It makes new directories of a checkpoint and a log (Restore) and
// of keys and commands from elsewhere (Fill), and writes one as an RDB file. It runs commands
// through an engine of package command, gives replication its Host, and knows no client: it must
// not import package server.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/internal/durable"
	"kedis/storage"
	"kedis/storage/rocks"
)

// Directory is an open data directory.
//
//	DIR/db/          RocksDB
//	DIR/binlog/N/    the log; N grows with each full synchronization
//	DIR/parted/      what a former primary has written and no other server has (parted.go)
//	DIR/reserve      room for a start on a full disk
type Directory struct {
	Store *storage.Store

	log     atomic.Pointer[binlog.Log]
	refusal atomic.Pointer[error] // why writes are kept out, whatever log and store say

	path      string
	logger    hclog.Logger
	config    *config.Config
	recovered binlog.Recovered
	created   bool // by Open, and the history with it
}

// Open opens the configuration's data directory, or makes one.
func Open(c *config.Config, logger hclog.Logger) (*Directory, error) {
	directory := c.Dir.Get()
	if err := makeDurable(directory, 0o755); err != nil {
		var failed *os.PathError // which names the one above that can't be entered
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("datadir: data directory %s: %w", directory, err)
	}
	if err := checkDirectory(directory); err != nil {
		return nil, err
	}
	d := &Directory{path: directory, logger: logger, config: c}
	if err := d.openStore(); err != nil {
		return nil, err
	}
	if err := d.openLog(); err != nil {
		return nil, errors.Join(err, d.Store.Close())
	}
	return d, nil
}

// openStore opens the store, on a full disk with the room that is reserved for that.
func (d *Directory) openStore() (err error) {
	o := d.storageOptions()
	room := reserve(filepath.Join(d.path, "reserve"))
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

// reclaim brings the data to RocksDB's files, so that more of its log may be removed. Nothing of
// another log may be.
func (d *Directory) reclaim(number uint64) (persisted int64, err error) {
	if d.Store.LogDirectory() != number {
		return 0, nil
	}
	return d.Store.Reclaim()
}

// openLog opens the log that the data belongs to; for a new data directory it makes one.
func (d *Directory) openLog() error {
	number := d.Store.LogDirectory()
	if number == 0 {
		if err := d.checkLaterLogs(number, nil); err != nil {
			return err
		}
		return d.createLog()
	}
	log, recovered, err := binlog.Open(d.logOptions(number))
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	if err := d.checkLaterLogs(number, log); err != nil {
		return errors.Join(err, log.Close())
	}
	d.log.Store(log)
	d.recovered = recovered
	d.Store.Attach(log, number)
	if err := d.removeOtherLogs(); err != nil { // nothing is lost: the next start tries again
		d.logger.Error("a log that the data does not belong to is not removed", "error", err)
	}
	return nil
}

// createLog makes the first log. One that a crash has left behind has no records, since the state
// that names it is persisted before clients are served.
func (d *Directory) createLog() error {
	warnOfRedisData(d.path, d.logger)
	const first = 1
	o := d.logOptions(first)
	if err := os.RemoveAll(o.Directory); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	log, err := d.firstLog(o, 0)
	if err != nil {
		return err
	}
	d.log.Store(log)
	d.created, d.recovered = true, binlog.Recovered{Clean: true}
	d.Store.Attach(log, first)
	return d.Store.PersistState()
}

// firstLog makes the log of a new data directory. With it, all that the directory has so far is on
// the disk.
func (d *Directory) firstLog(o binlog.Options, at int64) (*binlog.Log, error) {
	log, err := binlog.Create(o, binlog.History{ID: binlog.NewID()}, at, 0)
	if err != nil {
		return nil, fmt.Errorf("datadir: %w", err)
	}
	if err := durable.SyncDirectory(d.path); err != nil {
		return nil, errors.Join(fmt.Errorf("datadir: %w", err), log.Close())
	}
	return log, nil
}

// Created reports whether Open made the data directory.
func (d *Directory) Created() bool { return d.created }

// Ready is nil, or why no writes are taken now.
func (d *Directory) Ready() error {
	if refusal := d.refusal.Load(); refusal != nil {
		return *refusal
	}
	if err := d.Log().Ready(); err != nil {
		return err
	}
	return d.Store.Ready()
}

// ReadyForLess is Ready for what makes room on a full disk.
func (d *Directory) ReadyForLess() error {
	if refusal := d.refusal.Load(); refusal != nil {
		return *refusal
	}
	return d.Log().Usable()
}

// RefuseWrites keeps writes out for a reason; nil lets them in again.
func (d *Directory) RefuseWrites(reason error) {
	if reason == nil {
		d.refusal.Store(nil)
		return
	}
	d.refusal.Store(&reason)
}

// Log is the log that the data belongs to.
func (d *Directory) Log() *binlog.Log { return d.log.Load() }

// Close persists everything and closes the store and the log.
func (d *Directory) Close() error {
	return errors.Join(d.Store.Close(), d.Log().Close())
}
