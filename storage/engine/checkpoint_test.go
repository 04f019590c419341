package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
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

// TestSaveBesideWhatStays: a checkpoint, or what is left of one, that can't be removed neither
// fails the next ones nor keeps others, nor looks whole, and the log says which.
func TestSaveBesideWhatStays(t *testing.T) {
	options := testOptions(t.TempDir(), 1<<20, 1<<20)
	var log strings.Builder
	options.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	s := openStore(t, options)
	parent := t.TempDir()
	moment := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	stay := []string{"checkpoint-20261121T065959.000Z", "checkpoint-20261121T065959.001Z.tmp"}
	for _, name := range stay {
		keepDirectory(t, filepath.Join(parent, name))
	}
	var last string
	for i := range 3 {
		directory, err := s.Save(parent, 1, moment.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		last = directory
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if want := []string{stay[0] + ".tmp", stay[1], filepath.Base(last)}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	for _, name := range stay {
		if !strings.Contains(log.String(), "directory="+filepath.Join(parent, name)+" ") {
			t.Errorf("the log doesn't tell of %s:\n%s", name, log.String())
		}
	}
}

// keepDirectory makes a directory that can't be removed before the test ends, but may be renamed to
// a longer name.
func keepDirectory(t *testing.T, path string) {
	t.Helper()
	kept := filepath.Join(path, "kept", "there")
	whatStays := func() string {
		paths, err := filepath.Glob(path + "*/kept/there")
		if err != nil || len(paths) != 1 {
			t.Fatalf("of %s there is %q, %v", path, paths, err)
		}
		return paths[0]
	}
	if err := os.MkdirAll(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(filepath.Dir(kept), 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Chmod(filepath.Dir(whatStays()), 0o700); err != nil {
				t.Error(err)
			}
		})
		return
	}
	if err := syscall.Mount("tmpfs", kept, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("nothing can be mounted here (%v), and root can remove all else", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(whatStays(), syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
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
