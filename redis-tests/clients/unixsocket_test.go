package clients

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// overSocket runs redis-cli through a Unix socket and returns what it prints.
func overSocket(t *testing.T, socket string, arguments ...string) string {
	t.Helper()
	output, err := exec.Command("redis-cli", append([]string{"-s", socket}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli -s %s %q: %v\n%s", socket, arguments, err, output)
	}
	return string(output)
}

// socketDirectory is one whose path leaves room for a socket's name.
func socketDirectory(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "kedis-socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	return directory
}

// TestUnixSocket lets redis-cli tell of a client of the Unix socket, on Kedis and on Redis.
func TestUnixSocket(t *testing.T) {
	var told []string
	for _, program := range []launch.Program{launch.MustOracle(t), launch.MustUnderTest(t)} {
		socket := filepath.Join(socketDirectory(t), "a b%41.sock")
		server, err := program.Start(t.TempDir(), "--unixsocket", socket, "--unixsocketperm", "710", "--slowlog-log-slower-than", "0")
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, strings.ReplaceAll(aboutSocket(t, socket), socket, "SOCKET"))
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(socket); !os.IsNotExist(err) {
			t.Errorf("the socket's file after the end: %v", err)
		}
	}
	if told[0] != told[1] {
		t.Errorf("Redis:\n%s\nKedis:\n%s", told[0], told[1])
	}
}

// aboutSocket is what a server tells a client of its Unix socket, and about it.
func aboutSocket(t *testing.T, socket string) string {
	t.Helper()
	info, err := os.Lstat(socket)
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	fmt.Fprintln(&told, info.Mode())
	list := untilAlone(t, socket)
	fmt.Fprintln(&told, regexp.MustCompile(` (l?addr=.*sock:0|flags=\w+)`).FindAllString(list, -1))
	fmt.Fprint(&told, overSocket(t, socket, "config", "get", "unixsocketperm"), overSocket(t, socket, "config", "get", "unixsocket"))
	fmt.Fprint(&told, overSocket(t, socket, "debug", "digest"))
	fmt.Fprint(&told, regexp.MustCompile(`(?m)^.*sock:0$`).FindString(overSocket(t, socket, "slowlog", "get")), "\n")
	fmt.Fprint(&told, monitoredThrough(t, socket))
	untilAlone(t, socket)
	fmt.Fprint(&told, overSocket(t, socket, "client", "kill", "type", "normal", "addr", socket+":0"))
	return told.String()
}

// untilAlone waits until the server has seen that those who were connected are gone, and returns
// its list of the one who asks: another reactor than the asking client's may learn that a program
// has ended a moment after it has.
func untilAlone(t *testing.T, socket string) string {
	t.Helper()
	var list string
	for range 1000 {
		if list = overSocket(t, socket, "client", "list"); strings.Count(list, "\n") == 1 {
			return list
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("clients that don't go:\n%s", list)
	return ""
}

// monitoredThrough is what MONITOR shows of a GET through the socket, without its time.
func monitoredThrough(t *testing.T, socket string) string {
	t.Helper()
	monitor := exec.Command("redis-cli", "-s", socket, "monitor")
	output, err := monitor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := monitor.Start(); err != nil {
		t.Fatal(err)
	}
	defer monitor.Wait()
	defer monitor.Process.Kill()
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err != nil || line != "OK\n" {
		t.Fatalf("MONITOR: %q (%v)", line, err)
	}
	overSocket(t, socket, "get", "key")
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(line, " ")
	return shown
}

// TestUnixSocketOnly starts Kedis without a port, on the socket that a killed one has left.
func TestUnixSocketOnly(t *testing.T) {
	program := launch.MustUnderTest(t)
	directory, socket := t.TempDir(), filepath.Join(socketDirectory(t), "s")
	killed, err := program.Start(directory, "--unixsocket", socket)
	if err != nil {
		t.Fatal(err)
	}
	overSocket(t, socket, "set", "key", "value")
	killed.Kill()
	if info, err := os.Lstat(socket); err != nil || info.Mode().Type() != fs.ModeSocket {
		t.Fatalf("what a killed server leaves: %v (%v)", info, err)
	}
	line := slices.Concat(program.Line, []string{"--port", "0", "--unixsocket", socket, "--dir", directory})
	server := exec.Command(line[0], line[1:]...)
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if _, addresses, ready := strings.Cut(lines.Text(), "ready to accept connections: addresses="); ready {
			if addresses, _, _ = strings.Cut(addresses, " "); addresses != socket {
				t.Errorf("listens on %s", addresses)
			}
			break
		}
	}
	if got := overSocket(t, socket, "get", "key"); got != "value\n" {
		t.Errorf("GET: %q", got)
	}
}
