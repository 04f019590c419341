package migrate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"kedis/storage/rdb"
)

// TestLongStrings: whatever Kedis lets its clients write is read, and longer strings aren't. The
// string itself is missing, so what is read of it ends early.
func TestLongStrings(t *testing.T) {
	header := func(length uint64) []byte {
		return binary.BigEndian.AppendUint64([]byte("REDIS0010\xfe\x00\x00\x01k\x81"), length)
	}
	for length, read := range map[uint64]bool{1<<30 + 1: true, rdb.TrustedMaxString: true, rdb.TrustedMaxString + 1: false} {
		files := Files{Progress: &Progress{}, Filter: &Filter{}}
		err := files.Read(context.Background(), "-", strings.NewReader(string(header(length))), nil)
		if errors.Is(err, io.ErrUnexpectedEOF) != read || err == nil {
			t.Errorf("a file with a string of %d bytes: %v", length, err)
		}
		from := loader{progress: &Progress{}, filter: &Filter{}, interrupted: func() error { return nil }}
		err = from.load(strings.NewReader(string(header(length))))
		if errors.Is(err, io.ErrUnexpectedEOF) != read || err == nil {
			t.Errorf("a source with a string of %d bytes: %v", length, err)
		}
	}
}

// TestLongCommand: an AOF may have a string that is as long, too.
func TestLongCommand(t *testing.T) {
	file := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4294967295\r\nthe rest is missing"
	r := fileReader{Files: &Files{Progress: newProgress(io.Discard, "", false)}, ctx: context.Background(), last: true}
	if err := r.commands(bufio.NewReader(strings.NewReader(file))); err != nil {
		t.Error(err)
	}
}
