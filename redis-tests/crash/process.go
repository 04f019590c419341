package crash

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

const endTimeout = 60 * time.Second

// outcome is how a process ended that was not to go on.
type outcome struct {
	exitCode       int
	stdout, stderr string
}

// runToEnd runs a program that is expected to end by itself. configure, which may be nil, may
// change the command before it starts.
func runToEnd(t *testing.T, program launch.Program, configure func(*exec.Cmd), arguments ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), endTimeout)
	defer cancel()
	line := append(append([]string{}, program.Line...), arguments...)
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Dir = t.TempDir()
	if configure != nil {
		configure(command)
	}
	err := command.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%q didn't end within %v\n%s%s", line, endTimeout, &stdout, &stderr)
	}
	return outcome{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// refuses fails the test unless a process ended with exit code 1 and one line on stderr that holds
// all the given words.
func (o outcome) refuses(t *testing.T, words ...string) {
	t.Helper()
	if o.exitCode != 1 {
		t.Errorf("exit code %d, want 1", o.exitCode)
	}
	if strings.Count(o.stderr, "\n") != 1 || !strings.HasSuffix(o.stderr, "\n") {
		t.Errorf("stderr isn't one line")
	}
	for _, word := range words {
		if !strings.Contains(o.stderr, word) {
			t.Errorf("stderr doesn't say %q", word)
		}
	}
	if t.Failed() {
		t.Logf("stderr:\n%s\nstdout:\n%s", o.stderr, o.stdout)
	}
}

// ends waits until a server that was asked to stop has done so.
func ends(t *testing.T, server *launch.Server) {
	t.Helper()
	for deadline := time.Now().Add(endTimeout); server.Running(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server goes on running")
		}
	}
}
