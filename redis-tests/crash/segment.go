package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Where things stand in a segment file; docs/binlog.md draws them.
const (
	versionAt    = 8  // 4 bytes
	prologueEnd  = 28 // a checksum of 4 bytes follows
	beginningAt  = 512
	recordsAt    = 4096
	recordHeader = 40 // bytes in front of a payload
)

// record is one record of a segment file.
type record struct {
	offset, end int64 // in the file
	payload     string
}

// lastSegment returns the path of the newest segment file that has records, and its records.
func lastSegment(directory string) (string, []record, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "binlog", "*", "*.log"))
	if err != nil {
		return "", nil, err
	}
	slices.Sort(paths)
	for _, path := range slices.Backward(paths) {
		bytes, err := os.ReadFile(path)
		if err != nil {
			return "", nil, err
		}
		records, err := parseRecords(bytes)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(records) > 0 {
			return path, records, nil
		}
	}
	return "", nil, errors.New("crash: no segment has records")
}

func parseRecords(bytes []byte) ([]record, error) {
	var records []record
	for at := recordsAt; at+recordHeader <= len(bytes); {
		length := int(binary.BigEndian.Uint32(bytes[at:]))
		if length == 0 {
			break
		}
		end := at + recordHeader + length
		if end > len(bytes) {
			return nil, fmt.Errorf("crash: a record at %d is longer than the file", at)
		}
		records = append(records, record{int64(at), int64(end), string(bytes[at+recordHeader : end])})
		at = end
	}
	return records, nil
}

// flip changes the bits of one byte of a file.
func flip(path string, offset int64) error {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	bytes[offset] ^= 0xff
	return os.WriteFile(path, bytes, 0o644)
}
