package rocks

// #include "shim.h"
import "C"

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// recovery takes up the background work again that a full disk has stopped, as soon as there is room. Why RocksDB is not to do
// that itself, shim.cc says (Listener).
type recovery struct {
	stop, ended chan struct{}
}

const (
	recoverEvery = time.Second
	// recoveryRoom is what has to be free beside the size of all memtables, which the files that are made of them don't exceed:
	// for the manifest.
	recoveryRoom = 4 << 20
)

func (d *DB) startRecovery() {
	d.recovery = recovery{make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(d.recovery.ended)
		ticker := time.NewTicker(recoverEvery)
		defer ticker.Stop()
		for {
			select {
			case <-d.recovery.stop:
				return
			case <-ticker.C:
				d.resume()
			}
		}
	}()
}

func (r *recovery) end() {
	close(r.stop)
	<-r.ended
}

// resume has RocksDB write out all memtables and go on, if a full disk has stopped it and there is room for them. When that fails
// RocksDB reports another failure of background work, and it is tried again.
func (d *DB) resume() {
	if !IsNoSpace(d.events.failure("resume")) {
		return
	}
	needed := uint64(C.rocks_memtable_bytes(d.c)) + recoveryRoom
	var disk unix.Statfs_t
	if err := unix.Statfs(d.directory, &disk); err != nil {
		d.logger.Error("rocksdb: looking for room on the disk", "error", err)
		return
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < needed {
		return
	}
	if !d.structure.TryLock() {
		return // Close waits for this goroutine, and holds it
	}
	defer d.structure.Unlock()
	d.resumed.Store(true)
	err := d.begun(func() error { return fromStatus("resume", C.rocks_resume(d.c)) })
	if err != nil {
		d.logger.Debug("rocksdb: the disk is full still", "error", err)
	}
}

// askAgainEvery is how long a flush that is waited for may take before another one is asked for.
const askAgainEvery = time.Second

// begun makes a call that waits for a flush, and sees to it that the flush begins. RocksDB counts the flushes that it has yet to begin
// apart from the queue in which they stand. One that finds background work stopped has been taken off the count and stays in the
// queue; from then on each begins only when the next one is asked for, and whoever waits for the last would wait without end. So, once
// background work has failed, others are asked for meanwhile. d.structure is held.
func (d *DB) begun(wait func() error) error {
	if !d.events.failed.Load() {
		return wait()
	}
	done := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() { d.askAgain(done) })
	defer asking.Wait()
	defer close(done)
	return wait()
}

func (d *DB) askAgain(done <-chan struct{}) {
	ticker := time.NewTicker(askAgainEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			d.logger.Info("rocksdb: a flush may not have begun; another one is asked for")
			if err := d.askForFlush(true, false); err != nil {
				d.logger.Debug("rocksdb: asking for another flush", "error", err)
			}
		}
	}
}
