package datadir

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	reserveBytes      = 4 << 20
	leastReserveBytes = 64 << 10
)

// reserve is the path of a file that keeps room on the disk for the next start: RocksDB writes a
// manifest when it is opened, so on a full disk the data could not even be read.
type reserve string

// give gives the room back to the disk; false when there was none.
func (r reserve) give() bool { return os.Remove(string(r)) == nil }

// take sets room aside, less of it where the disk hasn't more. A disk without any is no error.
func (r reserve) take() (err error) {
	file, err := os.OpenFile(string(r), os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("datadir: reserving room on the disk: %w", err)
	}
	size := int64(reserveBytes)
	for size >= leastReserveBytes && unix.Fallocate(int(file.Fd()), 0, 0, size) != nil {
		size /= 2
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("datadir: reserving room on the disk: %w", err)
	}
	if size < leastReserveBytes {
		r.give() // the file system can't reserve, or there is nothing left
	}
	return nil
}
