package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kedis/binlog"
)

// logsDirectory holds a directory for each log, named by its number.
func (d *Data) logsDirectory() string { return filepath.Join(d.directory, "binlog") }

// otherLogs lists the numbers of the logs besides the one that the data belongs to.
func (d *Data) otherLogs(own uint64) (numbers []uint64, err error) {
	entries, err := os.ReadDir(d.logsDirectory())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	for _, entry := range entries {
		number, err := strconv.ParseUint(entry.Name(), 10, 64)
		if err == nil && number != own {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// checkLaterLogs refuses a data directory in which a log has writes that came after the one that the data belongs to, which is nil
// where there is no data. A full synchronization, or a cut, makes its log first and has nothing written to it before the data
// names it. So one that a crash has cut short leaves a later log without records, or with those of the present one. A later log
// with other records has lost its data, which nobody but an operator may give up.
func (d *Data) checkLaterLogs(own uint64, log *binlog.Log) error {
	others, err := d.otherLogs(own)
	if err != nil {
		return err
	}
	for _, number := range others {
		if number < own {
			continue
		}
		if err := checkSuperfluous(d.logOptions(number).Directory, log); err != nil {
			return fmt.Errorf("server: the data belongs to log %d and has reached position %d (0: there is none): %w", own, d.Store.Position(), err)
		}
	}
	return nil
}

// checkSuperfluous returns an error for a log that can't be removed without a loss: it has records that another log, which may be
// nil, hasn't.
func checkSuperfluous(directory string, in *binlog.Log) error {
	history, from, to, err := binlog.Extent(directory)
	switch {
	case errors.Is(err, binlog.ErrNoLog):
		return nil
	case err != nil:
		return err
	case from != to && to > shared(in, history.ID):
		return fmt.Errorf("%s holds writes from position %d to %d that belong to other data: move it elsewhere to go on without them", directory, from, to)
	}
	return nil
}

// shared returns the position up to which a log is the stream of the history with an id; -1 if it never was.
func shared(log *binlog.Log, id string) int64 {
	if log == nil {
		return -1
	}
	history := log.History()
	if history.ID == id {
		return log.Position()
	}
	for _, ancestor := range history.Ancestors {
		if ancestor.ID == id {
			return ancestor.Left
		}
	}
	return -1
}

// removeLogs removes logs that the data doesn't belong to: those of before a full synchronization, and, as
// checkLaterLogs has found them, those of one that never was completed.
func (d *Data) removeLogs(numbers []uint64) error {
	for _, number := range numbers {
		directory := d.logOptions(number).Directory
		d.logger.Warn("removing a log that the data does not belong to", "directory", directory)
		if err := os.RemoveAll(directory); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	return nil
}

// removeOtherLogs is for a start that has checked the later ones.
func (d *Data) removeOtherLogs() error {
	if err := d.removePartialLogs(); err != nil {
		return err
	}
	numbers, err := d.otherLogs(d.Store.LogDirectory())
	if err != nil {
		return err
	}
	return d.removeLogs(numbers)
}

// removePartialLogs removes what a crash has left of forks.
func (d *Data) removePartialLogs() error {
	entries, err := os.ReadDir(d.logsDirectory())
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), binlog.PartialSuffix) {
			continue
		}
		directory := filepath.Join(d.logsDirectory(), entry.Name())
		d.logger.Warn("removing a copy of the log that a crash has left incomplete", "directory", directory)
		if err := os.RemoveAll(directory); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	return nil
}
