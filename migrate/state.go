package migrate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"kedis/internal/durable"
)

// state is what a position file holds: what is moved, and how far that is. It is JSON, so that a
// person can look at it.
type state struct {
	Version     int    `json:"version"`
	From        string `json:"from"`
	To          string `json:"to"`
	What        string `json:"what"` // the filter and what happens on a conflict
	Move        string `json:"move"` // names the connections to the target
	Run         string `json:"run"`  // names the marker at the target
	Connections int    `json:"connections"`
	Phase       phase  `json:"phase"`
	Reason      string `json:"reason,omitempty"` // of phaseFailed
	History     string `json:"history,omitempty"`
	Offset      int64  `json:"offset,omitempty"`
	Database    int    `json:"database,omitempty"`
	Unmarked    int64  `json:"unmarked,omitempty"` // up to where things were done that no marker tells
}

type phase string

const (
	phaseNone     phase = ""         // nothing was written yet
	phaseSnapshot phase = "snapshot" // part of it was written
	phaseStream   phase = "stream"   // written up to a position
	phaseRelease  phase = "release"  // all is written: clients may have been switched
	phaseFailed   phase = "failed"   // the target refused something: its data isn't the source's
)

const stateVersion = 1

// readState reads a position file; a missing one is an empty state.
func readState(path string) (s state, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{Version: stateVersion}, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("the position file %s: %w", path, err)
	}
	if s.Version != stateVersion {
		return s, failure(ExitNoPosition, "the position file %s has format version %d, not %d", path, s.Version, stateVersion)
	}
	return s, nil
}

// write replaces the position file, at once and whole.
func (s *state) write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return positionFailure(replaceFile(path, append(text, '\n')))
}

// lockState keeps other runs off a position file: what two of them move comes twice. The lock is on
// a file beside it, for the position file itself is replaced again and again.
func lockState(path string) (unlock func() error, err error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, positionFailure(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = failure(ExitFailed, "the position file %s is in use by another process: %w", path, err)
		return nil, errors.Join(err, lock.Close())
	}
	// The one who had it may have removed the file meanwhile.
	if mine, err := lock.Stat(); err != nil || !isFile(lock.Name(), mine) {
		err = failure(ExitFailed, "the position file %s is in use by another process", path)
		return nil, errors.Join(err, lock.Close())
	}
	return func() error {
		err := os.Remove(lock.Name())
		if errors.Is(err, fs.ErrNotExist) { // with its directory
			err = nil
		}
		return positionFailure(errors.Join(err, lock.Close()))
	}, nil
}

// isFile says that a name is that of an open file.
func isFile(name string, open fs.FileInfo) bool {
	there, err := os.Stat(name)
	return err == nil && os.SameFile(there, open)
}

// newPath is what a file is called until it is whole.
func newPath(path string) string { return path + ".new" }

// replaceFile leaves the former content or the new one, whole, also behind a power cut.
func replaceFile(path string, content []byte) error {
	f, err := os.OpenFile(newPath(path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(newPath(path), path); err != nil {
		return err
	}
	return durable.SyncDirectory(filepath.Dir(path))
}

// ownPath is the file beside the position file that lists the keys which the target had.
func ownPath(path string) string { return path + ".conflicts" }

// write keeps the list for a run that goes on, for by then the move's own keys are there, too.
func (c *Conflicts) write(path string) error {
	if c == nil {
		return nil
	}
	var b bytes.Buffer
	for key := range c.own {
		fmt.Fprintf(&b, "%d %s\n", key.database, strconv.Quote(key.name))
	}
	return positionFailure(replaceFile(ownPath(path), b.Bytes()))
}

func (c *Conflicts) read(path string) error {
	if c == nil {
		return nil
	}
	f, err := os.Open(ownPath(path))
	if err != nil {
		return failure(ExitNoPosition, "the list of the keys that the target had: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if line == "" {
			return nil
		}
		number, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		database, failed := strconv.Atoi(number)
		name, unquoted := strconv.Unquote(quoted)
		if err := errors.Join(err, failed, unquoted); err != nil {
			return failure(ExitNoPosition, "%s: %w", ownPath(path), err)
		}
		c.own[ownKey{database, name}] = struct{}{}
	}
}

// removeState removes what a finished move has noted.
func removeState(path string) error {
	var failed error
	for _, p := range []string{path, ownPath(path), newPath(path), newPath(ownPath(path))} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return positionFailure(failed)
}

// positionFailure says of a file's error that no server is to blame.
func positionFailure(err error) error {
	if err == nil {
		return nil
	}
	return failure(ExitFailed, "the position file: %w", err)
}
