package commandline

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

func signalTo(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// fileHas reports whether a file is there and has a text.
func fileHas(name, text string) bool {
	content, err := os.ReadFile(name)
	return err == nil && strings.Contains(string(content), text)
}

// TestHangup rotates the log file and says so with SIGHUP, as logrotate may.
func TestHangup(t *testing.T) {
	directory := t.TempDir()
	log := filepath.Join(directory, "log")
	s := start(t, directory, "--logfile", log)
	c := s.MustDial(t)
	ask(t, c, "set", "key", "value")
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	signalTo(t, s.ProcessID(), syscall.SIGHUP)
	waitFor(t, "the new log file tells of SIGHUP", func() bool { return !s.Running() || fileHas(log, "hangup") })
	if got := ask(t, c, "get", "key"); got != "value" {
		t.Errorf("after SIGHUP the key holds %q", got)
	}
	stop(t, s)
	if !fileHas(log, "ends") || fileHas(log+".1", "ends") {
		t.Error("the end stands in the file that was moved away")
	}
}

// TestReaderOfOutputGoesAway closes the pipe that the log goes to, and has the server log some
// more.
func TestReaderOfOutputGoesAway(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	command := exec.Command(os.Args[0], "serve", "--port", "0", "--unixsocket", socket, "--dir", t.TempDir())
	command.Stdout, command.Stderr = w, w
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer func() { _ = command.Process.Kill() }() // it may have ended
	w.Close()
	waitFor(t, "the server listens", func() bool { _, err := os.Stat(socket); return err == nil })
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	signalTo(t, command.Process.Pid, syscall.SIGHUP) // is logged
	signalTo(t, command.Process.Pid, syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// TestReceive gives signals to a server that takes long to end.
func TestReceive(t *testing.T) {
	for name, test := range map[string]struct {
		signals []os.Signal
		asked   bool
		exits   []int
	}{
		"hangup":                    {[]os.Signal{syscall.SIGHUP, syscall.SIGHUP}, false, nil},
		"terminate":                 {[]os.Signal{syscall.SIGTERM}, true, nil},
		"interrupt":                 {[]os.Signal{syscall.SIGINT}, true, nil},
		"terminate twice":           {[]os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGHUP}, true, nil},
		"interrupt twice":           {[]os.Signal{syscall.SIGINT, syscall.SIGINT}, true, []int{1}},
		"terminate, then interrupt": {[]os.Signal{syscall.SIGTERM, syscall.SIGINT}, true, []int{1}},
		"interrupt, then terminate": {[]os.Signal{syscall.SIGINT, syscall.SIGTERM}, true, nil},
	} {
		s := newStopper()
		var exits []int
		for _, signal := range test.signals {
			s.receive(signal, hclog.NewNullLogger(), func(code int) { exits = append(exits, code) })
		}
		if s.isAsked() != test.asked || len(exits) != len(test.exits) || len(exits) > 0 && exits[0] != test.exits[0] {
			t.Errorf("%s: asked to end: %t, exits: %d", name, s.isAsked(), exits)
		}
	}
}

// TestCrashReport makes Go end the process as it does after an error of its own: the stacks stand
// in the log file, too, since a server in the background has no standard error.
func TestCrashReport(t *testing.T) {
	directory := t.TempDir()
	log := filepath.Join(directory, "log")
	s := start(t, directory, "--logfile", log)
	signalTo(t, s.ProcessID(), syscall.SIGQUIT)
	waitFor(t, "the process has ended", func() bool { return !s.Running() })
	if !fileHas(log, "goroutine 1 ") {
		t.Error("the log file has no stacks")
	}
}
