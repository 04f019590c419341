package server

import (
	"errors"
	"fmt"
	"os"

	"kedis/binlog"
)

// ForkLog makes a log in a directory of its own that is the present one up to a position.
func (h *host) ForkLog(at int64) (*binlog.Log, uint64, error) {
	number := h.Data.Store.LogDirectory() + 1
	o := h.logOptions(number)
	o.Persisted = 0
	if err := checkSuperfluous(o.Directory, h.Log()); err != nil {
		return nil, 0, fmt.Errorf("server: %w", err)
	}
	if err := os.RemoveAll(o.Directory); err != nil { // of one that never came to anything
		return nil, 0, fmt.Errorf("server: %w", err)
	}
	log, err := h.openFork(o, at)
	if err != nil {
		return nil, 0, fmt.Errorf("server: %w", errors.Join(err, os.RemoveAll(o.Directory)))
	}
	return log, number, nil
}

func (h *host) openFork(o binlog.Options, at int64) (*binlog.Log, error) {
	if err := h.Log().Fork(o.Directory, at); err != nil {
		return nil, err
	}
	log, _, err := binlog.Open(o)
	if err != nil {
		return nil, err
	}
	if end := log.Position(); end != at {
		return nil, errors.Join(fmt.Errorf("the log that was to end at %d ends at %d", at, end), log.Close())
	}
	return log, nil
}
