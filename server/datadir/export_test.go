package datadir

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/server/command"
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
	options := ofSmallSegments(t, directory, "1gb")
	data, err := Open(options, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	engine := command.NewEngine(data.Store, options, data, hclog.NewNullLogger(), 1)
	if err := data.Recover(context.Background(), engine); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		write(t, engine, "set", "key", strings.Repeat("x", 400<<10))
	}
	engine.Stop()
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
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
