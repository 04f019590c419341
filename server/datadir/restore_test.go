package datadir

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/binlog"
	"kedis/internal/config"
	"kedis/server/command"
	"kedis/server/enginetest"
	"kedis/server/execute"
)

// TestRestoredDataAreTheOwners: nobody but their owner can read the copies of a checkpoint that
// everybody can read.
func TestRestoredDataAreTheOwners(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(filepath.Join(from, "CURRENT"), []byte("MANIFEST-000001\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := copyCheckpoint(from, to); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{to: 0o700, filepath.Join(to, "CURRENT"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// TestRestoreFromPositionZero applies a log to a checkpoint of data to which nothing was written
// yet but by an import.
func TestRestoreFromPositionZero(t *testing.T) {
	directory := filled(t)
	checkpoint := checkpointOf(t, directory)
	log := write(t, configured(t, directory), []string{"set", "later", "value"})
	restored := filepath.Join(t.TempDir(), "data")
	logs := filepath.Join(directory, "binlog", strconv.Itoa(int(log)))
	if reached, err := Restore(configured(t, restored), checkpoint, logs, binlog.Range{}, hclog.NewNullLogger()); err != nil || reached == 0 {
		t.Fatalf("restored to position %d: %v", reached, err)
	}
	if keys, err := opened(t, restored); err != nil || keys != manifestKeys+1 {
		t.Errorf("%d keys: %v", keys, err)
	}
}

// write has a data directory take requests, and returns the number of its log.
func write(t *testing.T, options *config.Config, requests ...[]string) (log uint64) {
	t.Helper()
	data, err := Open(options, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	engine := command.NewEngine(data.Store, options, data, hclog.NewNullLogger(), 1)
	if err := data.Recover(context.Background(), engine); err != nil {
		t.Fatal(err)
	}
	batch, session := engine.NewBatch(0), engine.NewClient(execute.Nowhere{})
	for _, request := range requests {
		if outcome := batch.Execute(session, batch.Read(session, enginetest.Words(request...))); outcome != execute.Done {
			t.Fatalf("%.200q: the outcome is %d", request, outcome)
		}
		if err := batch.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	engine.Stop()
	log = data.Store.LogDirectory()
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	return log
}

// TestFillRefusesMountPoints: a fill refuses at once what it couldn't replace at the end.
func TestFillRefusesMountPoints(t *testing.T) {
	if err := replaceable("/proc"); err == nil || !strings.Contains(err.Error(), "mount point") {
		t.Errorf("/proc: %v", err)
	}
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := replaceable(directory); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(directory); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the directory is now %v: %v", info, err)
	}
}
