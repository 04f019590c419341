package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kedis/binlog"
)

// logsDirectory holds a directory for each log, named by its number.
func (d *Directory) logsDirectory() string { return filepath.Join(d.path, "binlog") }

// otherLogs lists the numbers of the logs besides the one that the data belongs to.
func (d *Directory) otherLogs(own uint64) (numbers []uint64, err error) {
	entries, err := os.ReadDir(d.logsDirectory())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("datadir: %w", err)
	}
	for _, entry := range entries {
		number, err := strconv.ParseUint(entry.Name(), 10, 64)
		if err == nil && number != own {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// checkLaterLogs refuses a data directory in which a later log than the data's own has writes. log
// is nil if there is no data. A full synchronization, or a fork, writes nothing to its log before
// the data names it: a crash leaves a later log without records, or with those of the present one.
// A later log with other records has lost its data, which only an operator may give up.
func (d *Directory) checkLaterLogs(own uint64, log *binlog.Log) error {
	others, err := d.otherLogs(own)
	if err != nil {
		return err
	}
	for _, number := range others {
		if number < own {
			continue
		}
		if err := checkSuperfluous(d.logOptions(number).Directory, log); err != nil {
			return fmt.Errorf("datadir: the data belongs to log %d and has reached position %d (0: there is none): %w", own, d.Store.Position(), err)
		}
	}
	return nil
}

// checkSuperfluous returns an error for a log with records that another log, which may be nil,
// lacks.
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

// shared returns the last position up to which a log follows the history with an id, which may have
// been left and taken up again; -1 if it never did.
func shared(log *binlog.Log, id string) int64 {
	if log == nil {
		return -1
	}
	history := log.History()
	if history.ID == id {
		return log.Position()
	}
	for _, ancestor := range slices.Backward(history.Ancestors) {
		if ancestor.ID == id {
			return ancestor.Left
		}
	}
	return -1
}

// removeLogs removes logs that the data doesn't belong to: those of before a full synchronization,
// and those of an unfinished one. checkLaterLogs has looked at the latter. One whose end can't be
// kept stays.
func (d *Directory) removeLogs(numbers []uint64) (err error) {
	for _, number := range numbers {
		err = errors.Join(err, d.removeLog(d.logOptions(number).Directory))
	}
	return err
}

func (d *Directory) removeLog(directory string) error {
	if err := d.keepParted(directory); err != nil {
		return err
	}
	d.logger.Warn("removing a log that the data does not belong to", "directory", directory)
	if err := os.RemoveAll(directory); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	return nil
}

// removeOtherLogs is for a start that has checked the later ones.
func (d *Directory) removeOtherLogs() error {
	if err := errors.Join(d.removePartialLogs(), d.removePartialNotes()); err != nil {
		return err
	}
	numbers, err := d.otherLogs(d.Store.LogDirectory())
	if err != nil {
		return err
	}
	return d.removeLogs(numbers)
}

// removePartialLogs removes what a crash has left of forks.
func (d *Directory) removePartialLogs() error {
	entries, err := os.ReadDir(d.logsDirectory())
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), binlog.PartialSuffix) {
			continue
		}
		directory := filepath.Join(d.logsDirectory(), entry.Name())
		d.logger.Warn("removing a copy of the log that a crash has left incomplete", "directory", directory)
		if err := os.RemoveAll(directory); err != nil {
			return fmt.Errorf("datadir: %w", err)
		}
	}
	return nil
}

// NewLog makes a log in a directory of its own.
func (d *Directory) NewLog(history binlog.History, at int64, database int) (*binlog.Log, uint64, error) {
	o, number, err := d.nextLog()
	if err != nil {
		return nil, 0, err
	}
	log, err := binlog.Create(o, history, at, database)
	if err != nil {
		return nil, 0, fmt.Errorf("datadir: %w", err)
	}
	return log, number, nil
}

// nextLog makes room for the log that comes after the present one.
func (d *Directory) nextLog() (o binlog.Options, number uint64, err error) {
	number = d.Store.LogDirectory() + 1
	o = d.logOptions(number)
	o.Persisted = 0
	if err := checkSuperfluous(o.Directory, d.Log()); err != nil {
		return o, 0, fmt.Errorf("datadir: %w", err)
	}
	if err := os.RemoveAll(o.Directory); err != nil { // of one that never came to anything
		return o, 0, fmt.Errorf("datadir: %w", err)
	}
	return o, number, nil
}

// AdoptLog makes a log the data's.
func (d *Directory) AdoptLog(log *binlog.Log) {
	former := d.log.Swap(log)
	if err := former.Close(); err != nil {
		d.logger.Warn("closing the former log", "error", err)
	}
}

// DiscardLog removes a log that NewLog or ForkLog has made.
func (d *Directory) DiscardLog(log *binlog.Log, number uint64) error {
	err := log.Close()
	if failed := os.RemoveAll(d.logOptions(number).Directory); failed != nil {
		err = errors.Join(err, fmt.Errorf("datadir: %w", failed))
	}
	return err
}

// RemoveFormerLogs removes the logs of before the one that the data belongs to.
func (d *Directory) RemoveFormerLogs() error {
	own := d.Store.LogDirectory()
	numbers, err := d.otherLogs(own)
	if err != nil {
		return err
	}
	return d.removeLogs(slices.DeleteFunc(numbers, func(number uint64) bool { return number > own }))
}
