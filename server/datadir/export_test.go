package datadir

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
)

// ofSmallSegments is a configuration that keeps so much of the log.
func ofSmallSegments(t *testing.T, directory, retained string) *config.Config {
	t.Helper()
	options := configured(t, directory)
	if err := errors.Join(options.SetFlag("binlog-segment-size", "1mb"), options.SetFlag("binlog-retention-size", retained)); err != nil {
		t.Fatal(err)
	}
	return options
}

// slowly takes so long for what is written to it first that the store has tidied up meanwhile.
type slowly struct{ once sync.Once }

func (s *slowly) Write(b []byte) (int, error) {
	s.once.Do(func() { time.Sleep(2500 * time.Millisecond) })
	return len(b), nil
}

// TestSnapshotLeavesTheLog writes a snapshot of a directory with more of the log than the
// configuration would keep.
func TestSnapshotLeavesTheLog(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	large := []string{"set", "key", strings.Repeat("x", 400<<10)}
	write(t, ofSmallSegments(t, directory, "1gb"), slices.Repeat([][]string{large}, 10)...)
	segments := func() int {
		names, err := filepath.Glob(filepath.Join(directory, "binlog", "*", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := segments()
	if err := WriteSnapshot(context.Background(), ofSmallSegments(t, directory, "0"), &slowly{}, "0", hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	if after := segments(); before < 4 || after != before {
		t.Errorf("%d segments, and %d afterwards", before, after)
	}
}
