package rocks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// numbered matches the names that RocksDB takes for its own: 000123.sst, MANIFEST-000123,
// OPTIONS-000123.dbtmp.
var numbered = regexp.MustCompile(`^(MANIFEST-|OPTIONS-)?([0-9]+)(\.dbtmp|\.sst|\.ldb|\.blob|\.log)?$`)

// mostFileNumber is more than RocksDB ever gives a file, and less than what it can't count on from.
const mostFileNumber = 1 << 48

// refuseStrays refuses a directory with files that RocksDB would take for its own, and has not
// written. It deletes those that it doesn't need, replays logs, which here are always empty, and
// aborts on some numbers.
func (d *DB) refuseStrays() error {
	entries, err := os.ReadDir(d.directory)
	if err != nil {
		return fmt.Errorf("rocks: open %s: %w", d.directory, err)
	}
	for _, entry := range entries {
		stray, err := isStray(entry)
		if err != nil {
			return fmt.Errorf("rocks: open %s: %w", d.directory, err)
		}
		if stray {
			return fmt.Errorf("rocks: open %s: %s is no file of this database, although its name looks like one: move it away",
				d.directory, filepath.Join(d.directory, entry.Name()))
		}
	}
	return nil
}

func isStray(entry os.DirEntry) (bool, error) {
	parts := numbered.FindStringSubmatch(entry.Name())
	if parts == nil || parts[1] == "" && parts[3] == "" {
		return false, nil
	}
	number, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil || number > mostFileNumber || parts[2] != fmt.Sprintf("%06d", number) {
		return true, nil
	}
	if parts[3] != ".log" {
		return false, nil
	}
	information, err := entry.Info()
	if err != nil {
		return false, err
	}
	return number == 0 || information.Size() > 0, nil
}
