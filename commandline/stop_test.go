package commandline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"kedis/internal/config"
	"kedis/redis-tests/launch"
	"kedis/server/datadir"
)

// TestStopOnADiskThatDoesNotAnswer: the file that marks a clean stop can't be opened. A lease holds
// up who opens a file, until it is given back or the kernel takes it away after 45 seconds.
func TestStopOnADiskThatDoesNotAnswer(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory)
	ask(t, s.MustDial(t), "set", "key", "value")
	file, err := os.Create(filepath.Join(directory, "binlog", "1", "clean"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		launch.Skip(t, "the file system has no leases: %v", err)
	}
	err = s.Shutdown()
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "closing the log has not ended") {
		t.Errorf("the stop: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, directory)
	if got := ask(t, again.MustDial(t), "get", "key"); got != "value" {
		t.Errorf("the next start has %q", got)
	}
	stop(t, again)
}

// TestWhatStillRunsIsToldOf: a stop that leaves the store open isn't a success.
func TestWhatStillRunsIsToldOf(t *testing.T) {
	c := config.New()
	if err := c.SetFlag("dir", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	data, err := datadir.Open(c, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	v := &service{data: data}
	if err := v.end(true); !errors.Is(err, errLeft) {
		t.Errorf("the end is %v", err)
	}
	if err := data.Log().Ready(); err == nil {
		t.Error("the log is open")
	}
	if err := data.Store.Close(); err != nil {
		t.Error(err)
	}
}
