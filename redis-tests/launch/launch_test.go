package launch

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStartKillRestartShutdown(t *testing.T) {
	server := ForTest(t, MustUnderTest(t))
	if reply, err := server.MustDial(t).Do("ping"); err != nil || !reply.Is("PONG") {
		t.Fatalf("PING: %s (%v)", reply, err)
	}
	server.Kill()
	if server.Running() {
		t.Fatal("killed, and still running")
	}
	again, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer End(t, again)
	if reply, err := again.MustDial(t).Do("echo", "x"); err != nil || reply.String() != `"x"` {
		t.Fatalf("ECHO after a restart: %s (%v)", reply, err)
	}
	if err := again.Shutdown(); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatDoesNotStart(t *testing.T) {
	_, err := MustOracle(t).Start(t.TempDir(), "--no-such-option", "1")
	var failed *StartError
	if !errors.As(err, &failed) || failed.ExitCode != 1 || !strings.Contains(failed.Output, "no-such-option") {
		t.Fatalf("got %v", err)
	}
}

func TestWaitsUntilLoadingIsOver(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for _, answer := range []string{"-LOADING wait\r\n", "+PONG\r\n"} {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 64)
			if _, err := connection.Read(request); err == nil {
				_, _ = connection.Write([]byte(answer))
			}
			connection.Close()
		}
	}()
	server := &Server{Address: listener.Addr().String(), output: new(output), exited: make(chan struct{})}
	_, _ = server.output.Write([]byte("ready to accept connections"))
	if server.ping() || !server.answers() {
		t.Fatal("LOADING was taken for an answer, or PONG wasn't")
	}
}

// TestAnswerOfAnotherProcess: a server that isn't ready, and ends as its port is taken, isn't the
// one that answers there.
func TestAnswerOfAnotherProcess(t *testing.T) {
	server := &Server{output: new(output), exited: make(chan struct{})}
	time.AfterFunc(20*time.Millisecond, func() { close(server.exited) })
	if server.isReady() {
		t.Error("a server is ready that has ended")
	}
}

// TestDataRaceFailsTheTest runs itself in another process, as a test of a server that has met a
// data race and is killed and forgotten.
func TestDataRaceFailsTheTest(t *testing.T) {
	const variable = "KEDIS_LAUNCH_RACY"
	if os.Getenv(variable) != "" {
		racy := Program{Line: []string{"sh", "-c", `echo "WARNING: DATA RACE ($GORACE)"; exec sleep 60`}}
		server, err := racy.Begin(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for server.Output() == "" {
			time.Sleep(time.Millisecond)
		}
		server.Kill()
		return
	}
	command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	command.Env = append(os.Environ(), variable+"=1", "GORACE=history_size=2")
	output, err := command.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || !strings.Contains(string(output), "WARNING: DATA RACE (history_size=2 halt_on_error=1)") {
		t.Errorf("the other process: %v\n%s", err, output)
	}
}

func TestOutputKeepsTheEnd(t *testing.T) {
	o := new(output)
	for range 100 {
		if _, err := o.Write([]byte(strings.Repeat("x", outputKept/10) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	if got := o.String(); len(got) > 3*outputKept || !strings.HasSuffix(got, "the end") {
		t.Fatalf("%d bytes kept", len(got))
	}
}

// TestSkippedIsTold: what is skipped for what the machine lacks stands in a file.
func TestSkippedIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(SkippedVariable, path)
	for _, lacks := range []string{"disk", "network"} {
		t.Run(lacks, func(t *testing.T) { Skip(t, "no %s", lacks) })
	}
	told, err := os.ReadFile(path)
	if want := "TestSkippedIsTold/disk: no disk\nTestSkippedIsTold/network: no network\n"; err != nil || string(told) != want {
		t.Errorf("it holds %q (%v)", told, err)
	}
}

func TestNamesThatMeanRedis(t *testing.T) {
	for line, want := range map[string]bool{
		"redis-server": true, "env LD_LIBRARY_PATH=/x /x/redict-server": true, "/usr/bin/valkey-server": true,
		"bin/kedis serve": false, "/home/redis-server/bin/kedis serve": false,
	} {
		if got := isRedis(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestModuleRootHoldsTheModule(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !strings.HasPrefix(string(module), "module kedis\n") {
		t.Fatalf("%s (%v)", root, err)
	}
}
