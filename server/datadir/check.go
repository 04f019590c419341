package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
)

// checkDirectory refuses a directory without data that holds a log or a checkpoint: serving it
// would begin an empty data set in the middle of a backup.
func checkDirectory(directory string) error {
	if exists(filepath.Join(directory, "db")) {
		return nil
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	switch log, err := binlog.HasSegments(directory); {
	case err != nil:
		return err
	case log:
		return notData(directory, "it is a log, which kedis binlog reads and kedis restore applies to a checkpoint")
	}
	for _, entry := range entries {
		why, err := foreign(directory, entry)
		if err != nil {
			return err
		}
		if why != "" {
			return notData(directory, why)
		}
	}
	return nil
}

func notData(directory, why string) error {
	return fmt.Errorf("datadir: %s is no data directory: %s", directory, why)
}

// foreign says why no data directory may begin beside an entry of a directory; "" if one may.
func foreign(directory string, entry fs.DirEntry) (why string, err error) {
	path := filepath.Join(directory, entry.Name())
	switch {
	case entry.Name() == "CURRENT", strings.HasPrefix(entry.Name(), "MANIFEST-"), strings.HasSuffix(entry.Name(), ".sst"):
		return rocksFiles(directory), nil
	case entry.IsDir() && unreadable(path): // lost+found of a file system's root
		return "", nil
	case entry.IsDir() && exists(filepath.Join(path, "CURRENT")):
		return fmt.Sprintf("it has the checkpoint %s in it: kedis restore --checkpoint %s NEWDIR makes a data directory of that", entry.Name(), path), nil
	case entry.IsDir() && entry.Name() == "binlog":
		return orphanedLog(path)
	case entry.IsDir():
		return logWithoutData(path)
	}
	return "", nil
}

// orphanedLog looks for a log in a directory that has lost its data. A start would put a new log in
// its place.
func orphanedLog(path string) (why string, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", fmt.Errorf("datadir: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if why, err := logWithoutData(filepath.Join(path, entry.Name())); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// logWithoutData says that a directory is a log; "" if it isn't.
func logWithoutData(path string) (why string, err error) {
	if found, err := binlog.HasSegments(path); err != nil || !found {
		return "", err
	}
	return fmt.Sprintf("it has the log %s in it, but no db: kedis restore --checkpoint DIR --binlog %s NEWDIR makes a data directory of a checkpoint and the log",
		path, path), nil
}

// rocksFiles says what a directory of RocksDB's files is.
func rocksFiles(directory string) string {
	absolute, err := filepath.Abs(directory)
	if err == nil && filepath.Base(absolute) == "db" && exists(filepath.Join(filepath.Dir(absolute), "binlog")) {
		return fmt.Sprintf("it is the db directory of one: --dir %s serves that", filepath.Dir(absolute))
	}
	return fmt.Sprintf("it has RocksDB's files in it, as a checkpoint has: kedis restore --checkpoint %s NEWDIR makes a data directory of a checkpoint", directory)
}

// unreadable reports whether a directory is none that this user can have made.
func unreadable(path string) bool {
	directory, err := os.Open(path)
	if err == nil {
		err = directory.Close()
	}
	return errors.Is(err, fs.ErrPermission)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// warnOfRedisData says that a new data directory begins beside Redis's files, which are not read.
func warnOfRedisData(directory string, logger hclog.Logger) {
	for _, name := range []string{"dump.rdb", "appendonlydir", "appendonly.aof"} {
		if path := filepath.Join(directory, name); exists(path) {
			logger.Warn("the new data directory has files of Redis in it, which are not read: kedis import brings them in", "file", path)
		}
	}
}
