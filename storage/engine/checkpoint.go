package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Checkpoint makes a copy of the data as RocksDB files in a directory, which must not exist while
// its parent does. The copy's state is that of some commit between call and return, and holds its
// position in the log. Nobody is stopped meanwhile.
func (s *Store) Checkpoint(directory string) error {
	return s.whileOpen(func() error {
		if err := s.Settle(); err != nil {
			return err
		}
		if err := s.db().Checkpoint(directory); err != nil {
			return fmt.Errorf("storage: checkpoint: %w", err)
		}
		return completeCheckpoint(directory)
	})
}

// completeCheckpoint notes what a checkpoint has come to. If that fails, it removes the checkpoint,
// which would only take room.
func completeCheckpoint(directory string) error {
	err := noteCheckpoint(directory)
	if err != nil {
		return fmt.Errorf("storage: checkpoint: %w", errors.Join(err, removeCheckpoint(directory)))
	}
	return nil
}

// removeCheckpoint renames a complete checkpoint to an unfinished one, and removes that: what can't
// be removed of it isn't taken for a checkpoint, and the next Save tries again.
func removeCheckpoint(directory string) error {
	unfinished := directory + checkpointUnfinished
	if err := os.Rename(directory, unfinished); err != nil {
		return err
	}
	return os.RemoveAll(unfinished)
}

// A checkpoint's directory is named by when it was begun: checkpoint-20261121T074634.123Z. The
// order of the names is the order of the checkpoints: when the clock was set back, a name is later
// than its checkpoint.
const (
	checkpointPrefix = "checkpoint-"
	checkpointTime   = "20060102T150405.000Z"
	// checkpointUnfinished is what RocksDB adds to the name until the checkpoint is there.
	checkpointUnfinished = ".tmp"
)

// Save makes a checkpoint in a directory of its own below parent, which it makes if need be. It
// then removes older ones until keep are left; with 0 it removes none. It also removes what
// interrupted attempts have left, so that no other Save may be under way. What can't be removed is
// left as an unfinished one, and told of in the log. Only their owner can read checkpoints, as with
// the data. It returns the new one's path.
func (s *Store) Save(parent string, keep int, now time.Time) (string, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("storage: checkpoint: %w", err)
	}
	unfinished, err := checkpoints(parent, checkpointUnfinished)
	if err != nil {
		return "", err
	}
	s.removeCheckpoints(unfinished, os.RemoveAll)
	directory, err := newCheckpoint(parent, now)
	if err != nil {
		return "", err
	}
	if err := s.Checkpoint(directory); err != nil {
		return "", err
	}
	if err := syncDirectory(parent); err != nil {
		return "", err
	}
	if keep == 0 {
		return directory, nil
	}
	complete, err := checkpoints(parent, "")
	if err != nil {
		return "", err
	}
	s.removeCheckpoints(complete[:max(0, len(complete)-keep)], removeCheckpoint)
	return directory, nil
}

// removeCheckpoints removes those that it can.
func (s *Store) removeCheckpoints(directories []string, remove func(directory string) error) {
	for _, directory := range directories {
		if err := remove(directory); err != nil {
			s.logger.Warn("a checkpoint that isn't needed any more can't be removed", "directory", directory, "error", err)
		}
	}
}

// newCheckpoint names a checkpoint that is begun now, behind all others.
func newCheckpoint(parent string, now time.Time) (string, error) {
	made, err := checkpoints(parent, "")
	if err != nil {
		return "", err
	}
	name := checkpointPrefix + now.UTC().Format(checkpointTime)
	if len(made) > 0 && filepath.Base(made[len(made)-1]) >= name {
		last, err := time.Parse(checkpointPrefix+checkpointTime, filepath.Base(made[len(made)-1]))
		if err != nil {
			return "", fmt.Errorf("storage: checkpoint: %w", err)
		}
		name = checkpointPrefix + last.Add(time.Millisecond).Format(checkpointTime)
	}
	return filepath.Join(parent, name), nil
}

// checkpoints lists the directories of checkpoints, the oldest first. Unfinished ones have a
// suffix.
func checkpoints(parent, suffix string) ([]string, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("storage: checkpoint: %w", err)
	}
	var found []string
	for _, entry := range entries {
		moment, ok := strings.CutPrefix(entry.Name(), checkpointPrefix)
		moment, whole := strings.CutSuffix(moment, suffix)
		if _, err := time.Parse(checkpointTime, moment); ok && whole && err == nil && entry.IsDir() {
			found = append(found, filepath.Join(parent, entry.Name()))
		}
	}
	return found, nil // ReadDir sorts
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("storage: checkpoint: %w", err)
	}
	if err := errors.Join(directory.Sync(), directory.Close()); err != nil {
		return fmt.Errorf("storage: checkpoint: %w", err)
	}
	return nil
}
