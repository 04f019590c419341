package launch

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/resp"
)

const (
	startTimeout    = 3 * time.Minute // recovery of a large log included
	shutdownTimeout = 60 * time.Second
	replyTimeout    = 60 * time.Second
	portAttempts    = 8
)

// Server is a running server.
type Server struct {
	Program   Program
	Address   string // host:port
	Port      int
	Directory string
	Options   []string

	command *exec.Cmd
	output  *output
	exited  chan struct{}
	status  error // of the process; valid once exited is closed
}

// StartError says that a server ended, or never answered, instead of serving.
type StartError struct {
	Line     []string
	ExitCode int // -1 when it was killed or went on running without an answer
	Output   string
}

func (e *StartError) Error() string {
	return fmt.Sprintf("launch: %s: exit code %d\n%s", resp.Line(e.Line), e.ExitCode, e.Output)
}

// Start runs p in directory with the given options ("--name", "value", ...) on a free port and
// waits until it answers. When it doesn't come up, the error is a *StartError.
func (p Program) Start(directory string, options ...string) (*Server, error) {
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		placed, err := withFreePort(options)
		if err != nil {
			return nil, err
		}
		server, err := p.startOnce(port, directory, placed)
		// Between asking the kernel for a free port and using it another process may have taken it.
		if portInUse(err) && attempt < portAttempts {
			continue
		}
		return server, err
	}
}

func portInUse(err error) bool {
	var failed *StartError
	return errors.As(err, &failed) && strings.Contains(strings.ToLower(failed.Output), "in use")
}

func (p Program) startOnce(port int, directory string, options []string) (*Server, error) {
	s, err := p.begin(port, directory, options)
	if err != nil {
		return nil, err
	}
	if s.answers() {
		return s, nil
	}
	s.Kill()
	return nil, &StartError{Line: s.command.Args, ExitCode: s.command.ProcessState.ExitCode(), Output: s.Output()}
}

// Begin is Start without waiting for an answer.
func (p Program) Begin(directory string, options ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return p.begin(port, directory, options)
}

func (p Program) begin(port int, directory string, options []string) (*Server, error) {
	defaults := debugOptions
	if p.IsRedis {
		defaults = slices.Concat(defaults, redisOptions)
	}
	host := cmp.Or(p.Host, "127.0.0.1")
	placed := []string{"--bind", host, "--port", strconv.Itoa(port), "--dir", directory}
	line := slices.Concat(p.Line, placed, defaults, options)
	s := &Server{Program: p, Port: port, Address: net.JoinHostPort(host, strconv.Itoa(port)), Directory: directory, Options: options,
		command: exec.Command(line[0], line[1:]...), output: new(output), exited: make(chan struct{})}
	s.command.Dir = directory
	s.command.Env = append(os.Environ(), "GORACE="+os.Getenv("GORACE")+" halt_on_error=1")
	s.command.Stdout, s.command.Stderr = s.output, s.output
	// No server outlives a test binary that was killed.
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	go func() {
		s.status = s.command.Wait()
		s.failAfterRace()
		close(s.exited)
	}()
	return s, nil
}

// failAfterRace ends the test binary when the server, which was built with the race detector, has
// met a data race: whatever the test is about, and though it kills its servers and forgets them. A
// server ends with its first report (halt_on_error), so that the report is the end of its output.
func (s *Server) failAfterRace() {
	if output := s.Output(); strings.Contains(output, "WARNING: DATA RACE") {
		fmt.Fprintf(os.Stderr, "FAIL: %s has met a data race:\n%s\n", resp.Line(s.command.Args), output)
		os.Exit(1)
	}
}

// FreePort stands for a free port in the options.
const FreePort = "FREE-PORT"

// withFreePort replaces it.
func withFreePort(options []string) ([]string, error) {
	place := slices.Index(options, FreePort)
	if place < 0 {
		return options, nil
	}
	port, err := freePort()
	placed := slices.Clone(options)
	placed[place] = strconv.Itoa(port)
	return placed, err
}

// TLSAddress is where the server that was started with a tls-port takes connections with TLS.
func (s *Server) TLSAddress() string {
	return net.JoinHostPort("127.0.0.1", s.Options[slices.Index(s.Options, "--tls-port")+1])
}

// Ports of servers lie below those that the kernel gives to clients, and are taken by chance: other
// tests start servers at the same time.
const (
	firstPort = 12_000
	ports     = 20_000
	portTries = 100
)

// freePort returns a port that nobody listens on.
func freePort() (port int, err error) {
	for range portTries {
		port = firstPort + rand.IntN(ports)
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("launch: %w", err)
}

// answers waits until the server has answered a PING with anything but LOADING; false when it ended
// or took too long.
func (s *Server) answers() bool {
	deadline := time.Now().Add(startTimeout)
	for pause := time.Millisecond; time.Now().Before(deadline); pause = min(2*pause, 50*time.Millisecond) {
		if s.ping() {
			return s.isReady()
		}
		select {
		case <-s.exited:
			return false
		case <-time.After(pause):
		}
	}
	return false
}

// isReady reports whether it was the server that has answered, and no other process on the port
// that this one failed to get, and ends for: Kedis's log says that it is ready, unless that goes
// elsewhere. A Redis looks for its port before anything else.
func (s *Server) isReady() bool {
	for range 2000 {
		if s.Program.IsRedis || strings.Contains(s.Output(), "ready to accept connections") {
			break
		}
		select {
		case <-s.exited:
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return s.Running()
}

func (s *Server) ping() bool {
	connection, err := resp.Dial(s.Address, replyTimeout)
	if err != nil {
		return false
	}
	defer connection.Close()
	reply, err := connection.Do("ping")
	// An array is our own request: see RestartInPlace.
	return err == nil && reply.Kind != resp.Array && !strings.HasPrefix(string(reply.Text), "LOADING")
}

// Running reports whether the process is still there.
func (s *Server) Running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Dial connects to the server.
func (s *Server) Dial() (*resp.Connection, error) { return resp.Dial(s.Address, replyTimeout) }

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (s *Server) Kill() {
	// The process may have ended already; then there is nothing to kill.
	_ = s.command.Process.Kill()
	<-s.exited
}

// Shutdown asks the server to end (SIGTERM) and waits until it has. A server that fails or doesn't
// end in time is an error.
func (s *Server) Shutdown() error {
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("launch: %w", err)
	}
	select {
	case <-s.exited:
	case <-time.After(shutdownTimeout):
		s.Kill()
		return fmt.Errorf("launch: the server didn't end within %v of SIGTERM\n%s", shutdownTimeout, s.Output())
	}
	if s.status != nil {
		return fmt.Errorf("launch: after SIGTERM: %w\n%s", s.status, s.Output())
	}
	return nil
}

// ProcessID returns the id of the server's process.
func (s *Server) ProcessID() int { return s.command.Process.Pid }

// Restart starts the program again with the same directory and options; the server must have ended.
func (s *Server) Restart() (*Server, error) { return s.Program.Start(s.Directory, s.Options...) }

// RestartInPlace is Restart on the port that the server had, where others look for it.
func (s *Server) RestartInPlace() (*Server, error) {
	for attempt := 1; ; attempt++ {
		again, err := s.Program.startOnce(s.Port, s.Directory, s.Options)
		// Whoever looks for a server that is away may be given its port to look from, and meets
		// itself.
		if portInUse(err) && attempt < portAttempts {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		return again, err
	}
}

// Output returns the end of what the server has printed.
func (s *Server) Output() string { return s.output.String() }

// output keeps the last part of what a server prints.
type output struct {
	mutex sync.Mutex
	bytes []byte
}

const outputKept = 1 << 16

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.bytes = append(o.bytes, p...)
	if excess := len(o.bytes) - outputKept; excess > outputKept {
		o.bytes = slices.Delete(o.bytes, 0, excess)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return string(o.bytes)
}

// ForTest starts program in a temporary directory and ends it with the test, whose log gets the
// server's output when it fails.
func ForTest(t testing.TB, program Program, options ...string) *Server {
	t.Helper()
	server, err := program.Start(t.TempDir(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { End(t, server) })
	return server
}

// End kills server if it still runs, and logs the output when the test has failed. Nil is one that
// didn't start.
func End(t testing.TB, server *Server) {
	if server == nil {
		return
	}
	server.Kill()
	if t.Failed() {
		t.Logf("output of %s (status %v):\n%s", resp.Line(server.Program.Line), server.status, server.Output())
	}
}

// Pair starts the oracle and the server under test for one test.
func Pair(t testing.TB, options ...string) (oracle, underTest *Server) {
	t.Helper()
	return ForTest(t, MustOracle(t), options...), ForTest(t, MustUnderTest(t), options...)
}

// MustOracle is Oracle, failing the test.
func MustOracle(t testing.TB) Program {
	t.Helper()
	program, err := Oracle()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// MustNewerOracle is NewerOracle, skipping the test when there is none.
func MustNewerOracle(t testing.TB, name string) Program {
	t.Helper()
	program, given, err := NewerOracle(name)
	if err != nil {
		t.Fatal(err)
	}
	if !given {
		t.Skipf("%s_%s names no server", OracleVariable, strings.ToUpper(name))
	}
	return program
}

// SkippedVariable names a file that gets a line for each test that Skip has skipped.
const SkippedVariable = "KEDIS_SKIPPED"

// Skip skips a test that this machine lacks something for. go test says nothing of skipped tests
// when it runs many packages, so make prints the file in the end.
func Skip(t testing.TB, format string, arguments ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, arguments...)
	if path := os.Getenv(SkippedVariable); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err == nil {
			_, err = fmt.Fprintf(file, "%s: %s\n", t.Name(), reason)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Skip(reason)
}

// MustUnderTest is UnderTest, failing the test.
func MustUnderTest(t testing.TB) Program {
	t.Helper()
	program, err := UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// MustDial connects to s and closes the connection with the test.
func (s *Server) MustDial(t testing.TB) *resp.Connection {
	t.Helper()
	connection, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}
