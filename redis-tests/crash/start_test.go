package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kedis/redis-tests/launch"
)

// placed are the options that say where a server is to run; port 0 is for those that never come so
// far.
func placed(directory string, port int, more ...string) []string {
	return append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", directory}, more...)
}

func TestPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	directory := t.TempDir()
	program := launch.MustUnderTest(t)
	runToEnd(t, program, nil, placed(directory, port)...).refuses(t, strconv.Itoa(port), "in use")
	// It leaves nothing behind that keeps another from starting.
	server, err := program.Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	launch.End(t, server)
}

// TestUnixSocketThatCannotBe names sockets where none can be made, or another server listens.
func TestUnixSocketThatCannotBe(t *testing.T) {
	directory, err := os.MkdirTemp("", "kedis-socket")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	used := filepath.Join(directory, "used")
	listener, err := net.Listen("unix", used)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	program := launch.MustUnderTest(t)
	for socket, words := range map[string][]string{
		used:                                   {"in use"},
		directory:                              {"no socket"},
		filepath.Join(directory, "a", "b"):     {"no such file or directory"},
		directory + strings.Repeat("/abc", 27): {"longer than 107 bytes"},
	} {
		data := filepath.Join(directory, "data")
		runToEnd(t, program, nil, placed(data, 0, "--unixsocket", socket)...).refuses(t, append(words, "unixsocket", socket)...)
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s: a data directory was made", socket)
		}
	}
}

func TestDirectoryOfARunningServer(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	runToEnd(t, server.Program, nil, placed(server.Directory, 0)...).refuses(t, server.Directory, fmt.Sprintf("process %d holds it", server.ProcessID()))
	if reply, err := server.MustDial(t).Do("set", "k", "v"); err != nil || !reply.Is("OK") {
		t.Errorf("the server that has the directory: %s (%v)", reply, err)
	}
}

// TestDirectoryWithoutRights runs the server as nobody when the test is run by root, who may do
// everything.
func TestDirectoryWithoutRights(t *testing.T) {
	program := launch.MustUnderTest(t)
	parent := t.TempDir()
	var configure func(*exec.Cmd)
	if os.Geteuid() == 0 {
		const nobody = 65534
		program.Line = append([]string{reachable(t, program.Line[0])}, program.Line[1:]...)
		configure = func(command *exec.Cmd) {
			command.Dir = "/"
			command.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		}
	}
	if err := os.Chmod(parent, 0o500); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(parent, "data")
	runToEnd(t, program, configure, placed(directory, 0)...).refuses(t, directory, "permission denied")
}

// reachable copies an executable to where everybody may run it: root's tree may be in a home that
// nobody else may enter.
func reachable(t *testing.T, executable string) string {
	t.Helper()
	content, err := os.ReadFile(executable)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	path := filepath.Join(directory, filepath.Base(executable))
	if err := errors.Join(os.WriteFile(path, content, 0o755), os.Chmod(filepath.Dir(directory), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDirectoryThatIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runToEnd(t, launch.MustUnderTest(t), nil, placed(file, 0)...).refuses(t, file)
}

// TestNewerFormatOfTheLog writes the version that comes after ours into a segment, its checksum
// right.
func TestNewerFormatOfTheLog(t *testing.T) {
	directory := written(t, "no", true)
	copied, path := damaged(t, directory, func(path string) error {
		bytes, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint32(bytes[versionAt:], binary.BigEndian.Uint32(bytes[versionAt:])+1)
		sum := crc32.Checksum(bytes[:prologueEnd], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(bytes[prologueEnd:], sum)
		return os.WriteFile(path, bytes, 0o600)
	})
	runToEnd(t, launch.MustUnderTest(t), nil, placed(copied, 0)...).refuses(t, path, "version 2")
}

func TestBadOptions(t *testing.T) {
	program := launch.MustUnderTest(t)
	directory := t.TempDir()
	configuration := filepath.Join(directory, "kedis.conf")
	if err := os.WriteFile(configuration, []byte("# first\nport 0\nappendfsync sometimes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, example := range []struct {
		name      string
		arguments []string
		words     []string
	}{
		{"unknown option", placed(directory, 0, "--no-such-option", "1"), []string{"no-such-option"}},
		{"bad value", placed(directory, 0, "--appendfsync", "sometimes"), []string{"appendfsync", "sometimes", "always"}},
		{"no number", placed(directory, 0, "--databases", "many"), []string{"databases", "many"}},
		{"out of range", placed(directory, 70_000), []string{"port", "70000", "65535"}},
		{"no address", placed(directory, 0, "--bind", ""), []string{"bind", "nothing to listen on"}},
		{"no value", placed(directory, 0, "--appendfsync"), []string{"appendfsync"}},
		{"bad line", []string{configuration}, []string{"kedis.conf", "3", "appendfsync", "sometimes"}},
		{"no file", []string{filepath.Join(directory, "missing.conf")}, []string{"missing.conf"}},
		{"no address", append(placed(directory, 0), "--bind", "127.0.0.256"), []string{"127.0.0.256"}},
	} {
		t.Run(example.name, func(t *testing.T) { runToEnd(t, program, nil, example.arguments...).refuses(t, example.words...) })
	}
}

// TestLogFileThatIsMovedAway: the lines after that are in a new file, as those who rotate Redis's
// logs are used to.
func TestLogFileThatIsMovedAway(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kedis.log")
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), "--logfile", name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	for file, word := range map[string]string{name + ".1": "ready to accept connections", name: "stopping"} {
		if lines, err := os.ReadFile(file); err != nil || !strings.Contains(string(lines), word) {
			t.Errorf("%s doesn't say %q (%v):\n%s", file, word, err, lines)
		}
	}
}

func TestCleanStop(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) { stopCleanly(t, signal) })
	}
}

func stopCleanly(t *testing.T, signal syscall.Signal) {
	server, err := launch.MustUnderTest(t).Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Another one than the first, once it was stopped.
	defer func() { launch.End(t, server) }()
	connection := server.MustDial(t)
	for i := range tornRecords {
		if _, err := connection.Must("set", tornKey(i), tornValue(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(server.ProcessID(), signal); err != nil {
		t.Fatal(err)
	}
	ends(t, server)
	// The process has ended: Shutdown checks that its exit code was 0.
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	if output := server.Output(); !strings.Contains(output, "records=0 ") || !strings.Contains(output, "clean=true") {
		t.Errorf("the log was replayed after a clean stop:\n%s", output)
	}
	holds(t, server, tornRecords)
}
