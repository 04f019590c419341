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
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
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

// SyncDirectory makes the creation and removal of files in a directory durable.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
