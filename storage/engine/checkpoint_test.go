package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSaveWhenTheClockWasSetBack: the checkpoint that goes is never the one that was just made.
func TestSaveWhenTheClockWasSetBack(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	parent := t.TempDir()
	moment := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	for _, made := range []struct {
		at   time.Time
		name string
	}{
		{moment, "checkpoint-20261121T070000.000Z"},
		{moment.Add(-time.Hour), "checkpoint-20261121T070000.001Z"},
		{moment, "checkpoint-20261121T070000.002Z"},
		{moment.Add(time.Second), "checkpoint-20261121T070001.000Z"},
	} {
		directory, err := s.Save(parent, 1, made.at)
		if err != nil {
			t.Fatal(err)
		}
		left, err := checkpoints(parent, "")
		if err != nil || filepath.Base(directory) != made.name || len(left) != 1 || left[0] != directory {
			t.Errorf("made %s, of which are left %q, %v; want %s", directory, left, err, made.name)
		}
	}
}

// TestCheckpointThatCantBeNoted: it doesn't stay, for the next attempt makes another one.
func TestCheckpointThatCantBeNoted(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "checkpoint") // which is no data
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "000001.sst"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if completeCheckpoint(directory) == nil {
		t.Fatal("it was noted")
	}
	if _, err := os.Stat(directory); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
