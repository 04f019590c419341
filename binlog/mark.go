package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// mark is what a clean stop leaves behind: the log ended here, durable, and no position of its id
// is in doubt. It is taken away before the log is written to again.
//
//	position(8) | history id(40) | crc32c(4)
type mark struct {
	position Position
	id       string
}

const (
	markName  = "clean"
	markBytes = 8 + idBytes + 4
)

func writeMark(o Options, m mark) error {
	b := make([]byte, 0, markBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(m.position))
	b = append(b, m.id...)
	b = binary.BigEndian.AppendUint32(b, checksum(0, b))
	path := filepath.Join(o.Directory, markName)
	f, err := o.files.create(path)
	if err != nil {
		return fmt.Errorf("binlog: mark of a clean stop: %w", err)
	}
	err = f.writeAt([][]byte{b}, 0)
	if err == nil {
		err = f.sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = o.files.syncDirectory(o.Directory)
	}
	if err != nil {
		return fmt.Errorf("binlog: mark of a clean stop: %w", err)
	}
	return nil
}

// readMark returns the mark of a directory. A mark that was not written to its end, as on a full
// disk, is no mark.
func readMark(directory string) (m mark, found bool, err error) {
	b, err := os.ReadFile(filepath.Join(directory, markName))
	if errors.Is(err, os.ErrNotExist) {
		return mark{}, false, nil
	}
	if err != nil {
		return mark{}, false, fmt.Errorf("binlog: %w", err)
	}
	const body = markBytes - 4
	if len(b) != markBytes || checksum(0, b[:body]) != binary.BigEndian.Uint32(b[body:]) {
		return mark{}, false, nil
	}
	return mark{position: Position(binary.BigEndian.Uint64(b)), id: string(b[8:body])}, true, nil
}

// removeMark takes the mark away, durably.
func removeMark(o Options) error {
	err := o.files.remove(filepath.Join(o.Directory, markName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = o.files.syncDirectory(o.Directory)
	}
	if err != nil {
		return fmt.Errorf("binlog: %w", err)
	}
	return nil
}
