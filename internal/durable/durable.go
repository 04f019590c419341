// Package durable replaces files so that a crash leaves the former content or the new one, whole.
// It imports the standard library only.
package durable

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// Replace writes a file, which is on the disk under its name when Replace returns nil.
func Replace(path, content string) error {
	return ReplaceWith(path, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
}

// ReplaceWith is Replace for content that is written piece by piece.
func ReplaceWith(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	if err = cmp.Or(write(buffered), buffered.Flush()); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDirectory(filepath.Dir(path))
}

// temporary matches the names that files have while they are written.
var temporary = regexp.MustCompile(`^(.+)\.[0-9]+\.tmp$`)

// RemoveTemporary removes what a kill has left of files that were being replaced in a directory, if
// they are of those that have such names. Nobody replaces any meanwhile.
func RemoveTemporary(directory string, replaced func(name string) bool) error {
	entries, err := os.ReadDir(directory)
	for _, entry := range entries {
		parts := temporary.FindStringSubmatch(entry.Name())
		if parts != nil && entry.Type().IsRegular() && replaced(parts[1]) {
			err = errors.Join(err, os.Remove(filepath.Join(directory, entry.Name())))
		}
	}
	return err
}

// SyncDirectory makes the creation and removal of files in a directory durable.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
