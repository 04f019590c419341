package datadir

import (
	"errors"
	"fmt"
	"os"

	"kedis/binlog"
)

// ForkLog makes a log in a directory of its own that is the present one up to a position.
func (d *Directory) ForkLog(at int64) (*binlog.Log, uint64, error) {
	o, number, err := d.nextLog()
	if err != nil {
		return nil, 0, err
	}
	log, err := d.openFork(o, at)
	if err != nil {
		return nil, 0, fmt.Errorf("datadir: %w", errors.Join(err, os.RemoveAll(o.Directory)))
	}
	return log, number, nil
}

func (d *Directory) openFork(o binlog.Options, at int64) (*binlog.Log, error) {
	if err := d.Log().Fork(o.Directory, at); err != nil {
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
