package rocks

// #include "shim.h"
import "C"

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// RocksDB never learns of a full disk (Room in shim.cc): its flushes wait, and its compactions are
// given up. Callers here must not wait with it, or a full disk would hang the server. They get an
// error that satisfies IsNoSpace, and what RocksDB has begun ends later.

const (
	// lookEvery is how often a call that RocksDB doesn't return from looks whether it waits for
	// room.
	lookEvery = 20 * time.Millisecond
	// recoverEvery is how long after compactions were given up they begin again, and how long after
	// families were dropped what they have left is deleted. It doubles each time, up to
	// recoverAtMost.
	recoverEvery  = time.Second
	recoverAtMost = 16 * time.Second
)

// CompactionRoom is how many bytes of the disk have to be free for compactions that were given up
// to begin again.
const CompactionRoom = C.ROCKS_COMPACTION_LEAVES * 3 / 2

var (
	errWaits   = errors.New("RocksDB waits for room on the disk")
	errNoMerge = errors.New("RocksDB has no room on the disk for a compaction that has to come first")
)

// full is why a call that writes would have to wait: there is no room on the disk.
func (d *DB) full(operation string) error {
	if err := d.waits(operation); err != nil {
		return err
	}
	if d.givenUp() != d.recovery.begunAgain.Load() && d.writesStopped() {
		return noSpace(operation, errNoMerge)
	}
	return nil
}

// waits is why a call would have to wait that doesn't need a compaction: RocksDB waits itself.
func (d *DB) waits(operation string) error {
	var waiting bool
	err := d.whileOpen(func(*Family) { waiting = C.rocks_room_state(d.events.c).waiting > 0 })
	if err == nil && waiting {
		return noSpace(operation, errWaits)
	}
	return err
}

// givenUp is how many compactions were given up.
func (d *DB) givenUp() (count uint64) {
	_ = d.whileOpen(func(*Family) { count = uint64(C.rocks_room_state(d.events.c).given_up) })
	return count
}

// whileOpen calls f, which asks RocksDB for something that it knows at once, with the family
// "default". Close, which takes the families away first, waits for it.
func (d *DB) whileOpen(f func(*Family)) error {
	d.families.RLock()
	defer d.families.RUnlock()
	family := d.families.byName[DefaultFamily]
	if d.closed.Load() || family == nil {
		return ErrClosed
	}
	f(family)
	return nil
}

func noSpace(operation string, why error) error {
	return &Error{Operation: operation, Code: codeIOError, Subcode: subcodeNoSpace, Text: "No space left on device: " + why.Error()}
}

// writesStopped reports whether a Write has to wait for a flush or a compaction.
func (d *DB) writesStopped() (stopped bool) {
	_ = d.whileOpen(func(f *Family) {
		value, ok := d.inner.GetIntPropertyCF("rocksdb.is-write-stopped", f.handle)
		stopped = ok && value != 0
	})
	return stopped
}

// unless runs f, which may wait for room on the disk. It returns an error of full, which satisfies
// IsNoSpace, as soon as RocksDB waits, and ErrClosed once the database is closed. f then ends
// later, and must not refer to anything that its caller goes on with.
func (d *DB) unless(full func(operation string) error, operation string, f func() error) error {
	if err := full(operation); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			if err := full(operation); err != nil {
				return err
			}
		}
	}
}

// exclusively is unless for what holds structure. f doesn't begin after exclusively has returned.
func (d *DB) exclusively(operation string, f func() error) error {
	_, err := d.beginExclusively(d.full, operation, f)
	return err
}

// beginExclusively is exclusively, for who says himself what he would have to wait for. It reports
// whether f has begun, be it that it hasn't ended.
func (d *DB) beginExclusively(full func(operation string) error, operation string, f func() error) (begun bool, err error) {
	var decided atomic.Bool // whether f begins
	err = d.unless(full, operation, func() error {
		d.structure.Lock()
		defer d.structure.Unlock()
		if d.closed.Load() {
			return ErrClosed
		}
		if decided.Swap(true) {
			return nil // too late
		}
		return f()
	})
	return decided.Swap(true), err
}

// recovery has compactions begin again that were given up on a full disk, and deletes what was left
// of dropped families.
type recovery struct {
	stop, ended chan struct{}
	begunAgain  atomic.Uint64 // how many had been given up when compactions began again last
	compactions pauses

	dropped atomic.Uint64 // families
	swept   uint64        // how many were dropped before sweep found nothing running
	sweeps  pauses
}

// pauses lie between attempts, and become longer.
type pauses struct {
	last time.Duration
	due  time.Time // when the last one ends
}

// begin begins the next one.
func (p *pauses) begin(now time.Time) {
	p.last = min(max(2*p.last, recoverEvery), recoverAtMost)
	p.due = now.Add(p.last)
}

func (d *DB) startRecovery() {
	C.rocks_room_await(d.events.c, 1)
	d.recovery.stop, d.recovery.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(d.recovery.ended)
		ticker := time.NewTicker(recoverEvery)
		defer ticker.Stop()
		for {
			select {
			case <-d.recovery.stop:
				return
			case now := <-ticker.C:
				if err := d.sweep(now); err != nil {
					d.logger.Debug("rocksdb: no leftovers are deleted", "error", err)
				}
				d.recover(now)
			}
		}
	}()
}

func (r *recovery) end() {
	close(r.stop)
	<-r.ended
}

// sweep deletes the files of no family: what a flush or a compaction had written when its family
// was dropped, which RocksDB leaves there until the next start. It looks at all files when
// deletions are allowed again (DBImpl::EnableFileDeletions), and spares those that are newer than
// what a job has begun with.
func (d *DB) sweep(now time.Time) error {
	r := &d.recovery
	dropped := r.dropped.Load()
	if dropped == r.swept || now.Before(r.sweeps.due) {
		return nil
	}
	r.sweeps.begin(now)
	running := new(Statistics)
	if err := d.addDatabase(running, d.Family(DefaultFamily)); err != nil {
		return err
	}
	if err := errors.Join(d.inner.DisableFileDeletions(), d.inner.EnableFileDeletions(false)); err != nil {
		return err
	}
	if running.RunningFlushes+running.RunningCompactions == 0 {
		r.swept, r.sweeps = dropped, pauses{}
	}
	return nil
}

// recover has RocksDB look for compactions again if some were given up and there is room.
func (d *DB) recover(now time.Time) {
	r := &d.recovery
	givenUp := d.givenUp()
	if givenUp == r.begunAgain.Load() {
		if now.Sub(r.compactions.due) > recoverAtMost {
			r.compactions.last = 0
		}
		return
	}
	if now.Before(r.compactions.due) || d.RequireRoom(CompactionRoom) != nil {
		return
	}
	r.compactions.begin(now)
	if _, err := d.beginExclusively(d.waits, "compact again", d.compactAgain); err != nil {
		d.logger.Debug("rocksdb: compactions don't begin again", "error", err)
		return
	}
	r.begunAgain.Store(givenUp)
}

// compactAgain has RocksDB look whether a family needs a compaction, which it does after each
// change of an option.
func (d *DB) compactAgain() error {
	const option = "disable_auto_compactions"
	value := d.families.overrides[option]
	if value == "" {
		value = "false"
	}
	for _, f := range d.all() {
		if err := d.setFamily(f, map[string]string{option: value}); err != nil {
			return err
		}
	}
	return nil
}

// free returns how many bytes the disk has for files.
func (d *DB) free() (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(d.directory, &disk); err != nil {
		return 0, wrapPath("statfs", d.directory, err)
	}
	return disk.Bavail * uint64(disk.Bsize), nil
}
