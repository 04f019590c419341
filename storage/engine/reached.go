package engine

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// reached is what a state has come to at least. RocksDB takes a manifest that was cut off for one
// that a crash has left, and opens the database as it was before: without any state, a start would
// begin an empty data set. So a file beside RocksDB's, which checkpoints have too, says what a
// complete manifest leads to:
//
//	DIR/db/REACHED   log 2 position 4711 id 18 namespace 3 crc32c 89abcdef\n
//
// All numbers only grow. The checksum (Castagnoli) is that of the text before " crc32c".
type reached struct {
	logDirectory  uint64
	position      int64
	nextID        uint64
	nextNamespace uint32
}

const reachedFile = "REACHED"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func reachedBy(s layout.State) reached {
	return reached{s.LogDirectory, s.Position, s.NextID, s.NextNamespace}
}

func (r reached) String() string {
	return fmt.Sprintf("log %d position %d id %d namespace %d", r.logDirectory, r.position, r.nextID, r.nextNamespace)
}

func (r reached) line() string {
	return fmt.Sprintf("%s crc32c %08x\n", r, crc32.Checksum([]byte(r.String()), castagnoli))
}

// behind reports whether a state has not come so far. Positions belong to their log.
func (r reached) behind(other reached) bool {
	return r.logDirectory < other.logDirectory || r.logDirectory == other.logDirectory && r.position < other.position ||
		r.nextID < other.nextID || r.nextNamespace < other.nextNamespace
}

// readReached reads the file; the zero value if there is none.
func readReached(directory string) (r reached, err error) {
	path := filepath.Join(directory, reachedFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return reached{}, nil
	}
	if err != nil {
		return reached{}, fmt.Errorf("storage: %w", err)
	}
	if _, err := fmt.Sscanf(string(content), "log %d position %d id %d namespace %d", &r.logDirectory, &r.position, &r.nextID, &r.nextNamespace); err != nil ||
		r.line() != string(content) {
		return reached{}, fmt.Errorf("storage: %s is damaged; it only confirms that the data is complete, and may be removed", path)
	}
	return r, nil
}

// writeReached replaces the file.
func writeReached(directory string, state layout.State) error {
	path := filepath.Join(directory, reachedFile)
	partial := path + ".tmp"
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	_, err = file.WriteString(reachedBy(state).line())
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return syncDirectory(directory)
}

// checkReached refuses a state that is behind what the file says.
func (s *Store) checkReached(state layout.State) error {
	directory := s.options.Rocks.Directory
	least, err := readReached(directory)
	if err != nil {
		return err
	}
	if now := reachedBy(state); now.behind(least) {
		return fmt.Errorf("storage: %s has lost its end: it leads to %q, the data had come to %q: restore the directory from a backup",
			manifestOf(directory), now, least)
	}
	return nil
}

// manifestOf is the path of the manifest that CURRENT names.
func manifestOf(directory string) string {
	name, err := os.ReadFile(filepath.Join(directory, "CURRENT"))
	if err != nil || len(name) < 2 {
		return directory
	}
	return filepath.Join(directory, string(name[:len(name)-1]))
}

// checkBeforeOpen is checkReached while nothing is opened yet: opening removes table files that the
// manifest doesn't name. What keeps the state from being read is left to opening.
func (s *Store) checkBeforeOpen() error {
	directory := s.options.Rocks.Directory
	if _, err := os.Stat(filepath.Join(directory, reachedFile)); err != nil {
		return nil // there is nothing to compare with
	}
	value, found, err := rocks.Peek(directory, layout.StateKey)
	if err != nil {
		return nil // opening tells it better
	}
	state := layout.State{}
	if found {
		if state, err = layout.DecodeState(value); err != nil {
			return err
		}
	}
	return s.checkReached(state)
}

// noteReached writes down what RocksDB's files have come to.
func (s *Store) noteReached() error {
	value, found, err := s.db().GetPersisted(s.metaFamily(), layout.StateKey)
	if err != nil || !found {
		return err
	}
	state, err := layout.DecodeState(value)
	if err != nil {
		return err
	}
	return writeReached(s.options.Rocks.Directory, state)
}

// noteCheckpoint writes down what a checkpoint has come to.
func noteCheckpoint(directory string) error {
	value, found, err := rocks.Peek(directory, layout.StateKey)
	if err != nil || !found {
		return err
	}
	state, err := layout.DecodeState(value)
	if err != nil {
		return err
	}
	return writeReached(directory, state)
}
