package rocks

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/hashicorp/go-hclog"
)

// events brings to the log what RocksDB tells of its background work. RocksDB's threads only queue it; a goroutine that
// waits in C takes it out, so that a log which can't be written to never holds up a flush.
type events struct {
	c     *C.rocks_events
	ended chan struct{} // closed when the goroutine is done; nil before it runs
}

func newEvents() *events { return &events{c: C.rocks_events_create()} }

// start logs events until end is called.
func (e *events) start(logger hclog.Logger) {
	e.ended = make(chan struct{})
	go func() {
		defer close(e.ended)
		for {
			event := C.rocks_events_next(e.c)
			if event.lost > 0 {
				logger.Warn("rocksdb: events were not logged, there were too many", "count", uint64(event.lost))
			}
			if event.kind == C.ROCKS_EVENT_END {
				return
			}
			logEvent(logger, event)
		}
	}()
}

func logEvent(logger hclog.Logger, event C.rocks_event) {
	text := C.GoString(event.text)
	C.free(unsafe.Pointer(event.text))
	switch event.kind {
	case C.ROCKS_EVENT_ERROR:
		logger.Error("rocksdb: background work failed", "error", text)
	case C.ROCKS_EVENT_RECOVERED:
		logger.Info("rocksdb: recovered from a failure of background work", "error", text)
	case C.ROCKS_EVENT_LINE:
		logger.Debug("rocksdb: diary", "line", text)
	case C.ROCKS_EVENT_STALL:
		logStall(logger, text, event.from, event.to)
	}
}

func logStall(logger hclog.Logger, family string, from, to C.int) {
	states := [...]string{"normal", "slowed down", "stopped"}
	level := hclog.Info
	if to > from {
		level = hclog.Warn
	}
	logger.Log(level, "rocksdb: writes to a family", "family", family, "are", states[to], "were", states[from])
}

// failure is why RocksDB takes no writes until it has recovered by itself.
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
