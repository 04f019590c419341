// Package programs runs programs that live on Redis (queues, schedulers, locks, limiters, adapters,
// caches) as they are packaged, each at its main work, against the server under test.
// docs/programs.md lists them.
//
// Each has a driver in a directory of its own. The driver gets the address of the server, whose
// data it may remove, and an empty directory. It checks every result, and says by its exit code
// whether all were right. When it prints "crash", the server is killed and started again at the
// same address; then the driver reads a line.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package programs

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// patience is when a driver is taken to hang.
const patience = 3 * time.Minute

// python is Debian's interpreter, which has Debian's packages; another one may be the first in
// PATH.
const python = "/usr/bin/python3"

// TestMain lets more tests run side by side than there are processors: programs wait most of the
// time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestCelery(t *testing.T) {
	t.Parallel()
	needModule(t, "celery", "5.")
	needModule(t, "redis", "4.")
	survives(t, 1, python, "celery/main.py")
}

func TestRQ(t *testing.T) {
	t.Parallel()
	needModule(t, "rq", "1.")
	survives(t, 1, python, "rq/main.py")
}

func TestSidekiq(t *testing.T) {
	t.Parallel()
	need(t, "ruby-sidekiq", "Sidekiq 6.", "sidekiq", "--version")
	survives(t, 2, "ruby", "sidekiq/main.rb")
}

func TestChannels(t *testing.T) {
	t.Parallel()
	needModule(t, "channels-redis", "4.")
	survives(t, 1, python, "channels/main.py")
}

// TestGo runs the drivers of Go modules, which are a module of their own: nothing of Kedis needs
// what they need.
func TestGo(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	build := exec.Command("go", "build", "-o", programs, "./...")
	build.Dir = "golang"
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
	for _, driver := range []string{"caching", "locks"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			survives(t, 1, filepath.Join(programs, driver))
		})
	}
}

// TestNode runs the drivers of what npm has, with the versions that node/package-lock.json pins.
func TestNode(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		driver  string
		crashes int
	}{{"bull", 1}, {"bullmq", 1}, {"bee", 1}, {"limits", 1}, {"socketio", 3}} {
		t.Run(one.driver, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat("node/node_modules/.package-lock.json"); err != nil {
				t.Fatal("the modules aren't installed; make test-dependencies installs them (npm ci in redis-tests/programs/node)")
			}
			survives(t, one.crashes, "node", "node/"+one.driver+".js")
		})
	}
}

// needModule is need for a package of Python.
func needModule(t *testing.T, module, version string) {
	t.Helper()
	need(t, "python3-"+module, version, python, "-I", "-c", "from importlib.metadata import version; print(version('"+module+"'))")
}

// need skips a test where the distribution has no such package, or has it in another version than
// the driver was written for.
func need(t *testing.T, of, version string, ask ...string) {
	t.Helper()
	have, err := exec.Command(ask[0], ask[1:]...).Output()
	switch {
	case err == nil && strings.HasPrefix(string(have), version):
	case err == nil:
		launch.Skip(t, "the driver is for %s %s, this system has %s", of, version, have)
	case packaged(of):
		t.Fatalf("%s is missing (%v); make test-dependencies installs it", of, err)
	default:
		launch.Skip(t, "this distribution has no package %s", of)
	}
}

// packaged reports whether apt could install a package.
func packaged(name string) bool {
	policy := exec.Command("apt-cache", "policy", name)
	policy.Env = append(os.Environ(), "LC_ALL=C")
	output, err := policy.Output()
	return err == nil && strings.Contains(string(output), "Candidate: ") && !strings.Contains(string(output), "Candidate: (none)")
}

// survives runs a driver that has the server crash a number of times.
func survives(t *testing.T, crashes int, line ...string) {
	t.Helper()
	// Only redis-server needs to be told.
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), "--appendonly", "yes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, server) })
	have := 0
	printed, err := run(t.TempDir(), func() error {
		have++
		server.Kill()
		again, err := server.RestartInPlace()
		if err == nil {
			server = again
		}
		return err
	}, append(line, server.Address, t.TempDir())...)
	t.Logf("%s", printed)
	if err != nil {
		t.Fatal(err)
	}
	if have != crashes {
		t.Errorf("the server was to crash %d times, and has %d times", crashes, have)
	}
}

// run runs a driver, and ends all processes that it has started. It returns what they have printed.
func run(directory string, crash func() error, line ...string) (printed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	input, err := command.StdinPipe()
	if err != nil {
		return "", err
	}
	complaints, err := os.Create(filepath.Join(directory, "stderr"))
	if err != nil {
		return "", err
	}
	defer complaints.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	command.Stdout, command.Stderr = writer, complaints
	err = command.Start()
	writer.Close()
	if err != nil {
		return "", err
	}
	var followed error
	var group sync.WaitGroup
	group.Go(func() { printed, followed = follow(reader, input, crash) })
	err = command.Wait()
	// Workers that are left hold the pipe open. Often there are none to kill.
	_ = command.Cancel()
	group.Wait()
	complained, unread := os.ReadFile(complaints.Name())
	return printed + string(complained), errors.Join(err, ctx.Err(), followed, unread)
}

// follow returns what a driver prints, and has the server crash when the driver says so. The driver
// reads no line when that has failed.
func follow(output io.Reader, input io.WriteCloser, crash func() error) (printed string, err error) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if lines.Text() != "crash" {
			printed += lines.Text() + "\n"
			continue
		}
		if err := crash(); err != nil {
			return printed, errors.Join(err, input.Close())
		}
		if _, err := fmt.Fprintln(input, "crashed"); err != nil {
			return printed, err
		}
	}
	return printed, lines.Err()
}

// TestRun shows that a driver can fail, and that none of its processes outlives it.
func TestRun(t *testing.T) {
	crashes := 0
	crash := func() error { crashes++; return nil }
	printed, err := run(t.TempDir(), crash, "sh", "-c", `echo crash; read line; echo "$line"; echo wrong >&2; sleep 1000 & exit 3`)
	var exit *exec.ExitError
	if crashes != 1 || printed != "crashed\nwrong\n" || !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("%d crashes, %q, %v", crashes, printed, err)
	}
	failing := errors.New("the server doesn't start")
	if _, err := run(t.TempDir(), func() error { return failing }, "sh", "-c", "echo crash; read line"); !errors.Is(err, failing) {
		t.Errorf("%v", err)
	}
}
