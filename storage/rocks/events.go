package rocks

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/hashicorp/go-hclog"
)

// events brings to the log what RocksDB tells of its background work. RocksDB's threads only queue
// it; a goroutine that waits in C takes it out, so that a log which can't be written to never holds
// up a flush.
type events struct {
	c     *C.rocks_events
	ended chan struct{} // closed when the goroutine is done; nil before it runs
}

func newEvents() *events { return &events{c: C.rocks_events_create()} }

// start logs events until end is called, and calls full for each of a full disk, if it isn't nil.
func (e *events) start(logger hclog.Logger, full func()) {
	e.ended = make(chan struct{})
	go func() {
		defer close(e.ended)
		stalls, disk := stalls{logger: logger, telling: map[string]bool{}}, fullDisk{logger: logger}
		for {
			event := C.rocks_events_next(e.c)
			if event.lost > 0 {
				logger.Warn("rocksdb: events were not logged, there were too many", "count", uint64(event.lost))
			}
			if event.kind == C.ROCKS_EVENT_END {
				return
			}
			logEvent(logger, &stalls, &disk, event)
			if event.kind == C.ROCKS_EVENT_FULL && full != nil {
				full()
			}
		}
	}()
}

func logEvent(logger hclog.Logger, stalls *stalls, disk *fullDisk, event C.rocks_event) {
	text := C.GoString(event.text)
	C.free(unsafe.Pointer(event.text))
	switch event.kind {
	case C.ROCKS_EVENT_ERROR:
		logger.Error("rocksdb: background work failed", "error", text)
	case C.ROCKS_EVENT_RECOVERED:
		logger.Info("rocksdb: recovered from a failure of background work", "error", text)
	case C.ROCKS_EVENT_LINE:
		logger.Debug("rocksdb: diary", "line", text)
	case C.ROCKS_EVENT_FULL:
		disk.begins(text, time.Now())
	case C.ROCKS_EVENT_ROOM:
		disk.ends(time.Now())
	case C.ROCKS_EVENT_STALL:
		stalls.note(text, stallState(event.from), stallState(event.to), time.Now())
	}
}

// fullDisk tells of a full disk, at most once a minute: when room comes and goes it may be met many
// times a second.
type fullDisk struct {
	logger hclog.Logger
	begun  time.Time // when what was told last began
	told   bool      // and its end was not
}

const fullDiskEvery = time.Minute

func (f *fullDisk) begins(failure string, now time.Time) {
	if now.Sub(f.begun) < fullDiskEvery {
		return
	}
	f.begun, f.told = now, true
	f.logger.Error("rocksdb: the disk is full, and RocksDB waits for room", "error", failure)
}

func (f *fullDisk) ends(now time.Time) {
	if f.told {
		f.logger.Info("rocksdb: there is room on the disk again", "after", now.Sub(f.begun).Round(time.Millisecond).String())
	}
	f.told = false
}

// stallState is what RocksDB lets writers do, from normal upwards.
type stallState int

func (s stallState) String() string { return [...]string{"normal", "slowed down", "stopped"}[s] }

// stalls tells of families whose writers are slowed down. With small memtables that happens many
// times a second; so one stall is logged from its beginning to its end, and those that begin within
// a minute after its beginning are only counted.
type stalls struct {
	logger  hclog.Logger
	telling map[string]bool // families whose stall is being logged
	told    time.Time       // when the last that is or was logged began
	untold  int             // stalls since then
}

const stallsEvery = time.Minute

func (s *stalls) note(family string, from, to stallState, now time.Time) {
	begins := from == 0
	switch {
	case begins && now.Sub(s.told) >= stallsEvery:
		s.telling[family], s.told = true, now
	case begins:
		s.untold++
		return
	case !s.telling[family]:
		return
	}
	level := hclog.Info
	if to > from {
		level = hclog.Warn
	}
	details := []any{"family", family, "are", to.String(), "were", from.String()}
	if begins && s.untold > 0 {
		details = append(details, "stalls-not-logged-before", s.untold)
		s.untold = 0
	}
	s.logger.Log(level, "rocksdb: writes to a family", details...)
	if to == 0 {
		delete(s.telling, family)
	}
}

// failure is why RocksDB takes no writes: background work has failed, not for lack of room
// (shim.cc). RocksDB recovers from some failures.
func (e *events) failure(operation string) error {
	return fromStatus(operation, C.rocks_events_failure(e.c))
}

// end stops the goroutine and waits for it.
func (e *events) end() {
	C.rocks_events_end(e.c)
	if e.ended != nil {
		<-e.ended
	}
	C.rocks_events_destroy(e.c)
}
