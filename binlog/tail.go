package binlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// LinkTail makes a log in a directory that must not exist: the segments of a closed log which hold
// what lies behind a position, shared as hard links. It begins with the segment that holds the
// position, or with the first that is left. All of it is durable when LinkTail returns, and the
// directory gets its name last.
func LinkTail(from, to string, at Position) (err error) {
	n, err := load(from, 0)
	if err != nil {
		return err
	}
	first := 0
	for i, f := range n.files {
		if f.begun() && f.start <= at {
			first = i
		}
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("binlog: %s already exists", to)
	}
	partial := to + PartialSuffix
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	if err := os.MkdirAll(partial, 0o750); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	files := disk{}
	for _, f := range n.files[first:] {
		if err := os.Link(f.path, segmentPath(partial, f.number)); err != nil {
			return fmt.Errorf("binlog: sharing a segment: %w", err)
		}
	}
	if err := files.syncDirectory(partial); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	if err := os.Rename(partial, to); err != nil {
		return fmt.Errorf("binlog: naming a log's end: %w", err)
	}
	if err := files.syncDirectory(filepath.Dir(to)); err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	return nil
}
