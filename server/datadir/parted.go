package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kedis/binlog"
	"kedis/internal/durable"
)

// A server that was a primary may have written what its new primary never got. Where the histories
// parted is noted beside its log before the primary's data replace its own:
//
//	DIR/binlog/N.parted               the position, as text
//	DIR/parted/HISTORY-FROM-TO/       the log's end, kept when log N is removed; a log to read, whose segments
//	                                  may begin before FROM
//
// Who goes on with its own data after all, as a replica or as a primary, removes the note. Nobody
// but an operator removes what is kept.

const partedSuffix = ".parted"

func (d *Directory) partedDirectory() string { return filepath.Join(d.path, "parted") }

// NoteParted notes that what the log holds behind a position isn't the primary's, before other data
// replace the server's.
func (d *Directory) NoteParted(at int64) error {
	path := d.logOptions(d.Store.LogDirectory()).Directory + partedSuffix
	if err := durable.Replace(path, strconv.FormatInt(at, 10)+"\n"); err != nil {
		return fmt.Errorf("datadir: noting where the log parted: %w", err)
	}
	return nil
}

// ForgetParted takes that back.
func (d *Directory) ForgetParted() error {
	return removeNote(d.logOptions(d.Store.LogDirectory()).Directory)
}

// keepParted keeps the end of a log that is about to be removed, if it was noted that nobody else
// has it.
func (d *Directory) keepParted(log string) error {
	text, err := os.ReadFile(log + partedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	at, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("datadir: %s: %w", log+partedSuffix, err)
	}
	history, first, end, err := binlog.Extent(log)
	if errors.Is(err, binlog.ErrNoLog) {
		return removeNote(log) // a crash came between the two
	}
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	from := max(at, first)
	if err := makeDurable(d.partedDirectory(), 0o750); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	kept := filepath.Join(d.partedDirectory(), fmt.Sprintf("%s-%d-%d", history.ID, from, end))
	if _, err := os.Lstat(kept); err == nil {
		return removeNote(log)
	}
	if err := binlog.LinkTail(log, kept, from); err != nil {
		return fmt.Errorf("datadir: keeping what no primary has: %w", err)
	}
	d.logger.Warn("what the server has written since it and its primary parted is kept", "directory", kept, "from", from, "to", end)
	return removeNote(log)
}

// removePartialNotes removes what a kill has left of notes that were being written.
func (d *Directory) removePartialNotes() error {
	isNote := func(name string) bool { return strings.HasSuffix(name, partedSuffix) }
	if err := durable.RemoveTemporary(d.logsDirectory(), isNote); err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	return nil
}

func removeNote(log string) error {
	if err := os.Remove(log + partedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("datadir: %w", err)
	}
	return nil
}
