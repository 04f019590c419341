package commandline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// backgroundVariable is set for the process in the background. Its standard error is a pipe to the
// one that has started it.
const backgroundVariable = "KEDIS_IN_BACKGROUND"

// servesClients is what that process says last. Anything else is why it doesn't serve.
const servesClients = "serves clients\n"

// isInBackground reports whether this is the process in the background.
func isInBackground() bool { return os.Getenv(backgroundVariable) != "" }

// serveInBackground runs this command again, in the background and in a session of its own, and
// returns when that accepts clients. The error is the one that kept it from it.
func serveInBackground() error {
	process, said, err := startInBackground()
	if err != nil {
		return fmt.Errorf("daemonize: %w", err)
	}
	text, err := io.ReadAll(said)
	if err := errors.Join(err, said.Close()); err != nil {
		return fmt.Errorf("daemonize: %w", err)
	}
	if strings.HasSuffix(string(text), servesClients) {
		return process.Release()
	}
	state, err := process.Wait()
	if err != nil {
		return fmt.Errorf("daemonize: %w", err)
	}
	if why := strings.TrimSpace(strings.TrimPrefix(string(text), "kedis: ")); why != "" {
		return errors.New(why)
	}
	return fmt.Errorf("daemonize: the server in the background has ended: %s", state)
}

// startInBackground returns the process, and what it says on standard error.
func startInBackground() (process *os.Process, said *os.File, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	said, say, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer say.Close()
	process, err = os.StartProcess(program, os.Args, &os.ProcAttr{Env: append(os.Environ(), backgroundVariable+"=1"),
		Files: []*os.File{null, null, say}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, nil, errors.Join(err, said.Close())
	}
	return process, said, nil
}

// leaveStarter lets the process that has started this one in the background end. Nothing is written
// to standard error any more.
func leaveStarter() error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("daemonize: %w", err)
	}
	defer null.Close()
	if _, err := io.WriteString(os.Stderr, servesClients); err != nil {
		return fmt.Errorf("daemonize: %w", err)
	}
	if err := syscall.Dup3(int(null.Fd()), int(os.Stderr.Fd()), 0); err != nil {
		return fmt.Errorf("daemonize: %w", err)
	}
	return nil
}
