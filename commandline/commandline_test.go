package commandline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"kedis/internal/config"
	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/server/command"
	"kedis/server/datadir"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// asMain makes the test binary behave as kedis, so that nothing has to be built.
const asMain = "KEDIS_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		os.Exit(Run(os.Args))
	}
	os.Setenv(asMain, "1") // for the processes that the tests start
	os.Exit(m.Run())
}

// outcome is what a run of kedis left.
type outcome struct {
	stdout, stderr string
	code           int
}

// kedis runs kedis to its end.
func kedis(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(within, os.Args[0], args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	command.Dir = t.TempDir()
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
}

// program is kedis serve.
func program() launch.Program { return launch.Program{Line: []string{os.Args[0], "serve"}} }

func start(t *testing.T, directory string, options ...string) *launch.Server {
	t.Helper()
	s, err := program().Start(directory, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, s) })
	return s
}

func stop(t *testing.T, s *launch.Server) {
	t.Helper()
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
}

// ask returns the text of the reply to a request that has to succeed.
func ask(t *testing.T, c *resp.Connection, words ...string) string {
	t.Helper()
	reply, err := c.Must(words...)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply.Text)
}

// infoField returns a field of INFO.
func infoField(t *testing.T, c *resp.Connection, name string) string {
	t.Helper()
	for line := range strings.Lines(ask(t, c, "info", "everything")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	t.Fatalf("INFO has no field %s", name)
	return ""
}

// TestVersion asks the built binary: Go notes no modules in the binary of a package's test.
func TestVersion(t *testing.T) {
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(binary, "version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	for _, part := range []string{"kedis " + version + "\n", "RocksDB ", "github.com/linxGnu/grocksdb v"} {
		if !strings.Contains(string(got), part) {
			t.Errorf("version says %q, without %q", got, part)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, test := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"--help"}, []string{"serve", "binlog", "restore", "version"}},
		{nil, []string{"serve", "binlog", "restore", "version"}},
		{[]string{"serve", "--help"}, []string{"[kedis.conf]", "--port value", "--appendfsync value", "default: everysec"}},
		{[]string{"binlog", "--help"}, []string{"dump", "verify", "repair"}},
		{[]string{"binlog", "dump", "--help"}, []string{"DIR", "--from position", "--to position or time"}},
		{[]string{"restore", "--help"}, []string{"NEWDIR", "--checkpoint directory", "--binlog directory", "--to time or position"}},
	} {
		got := kedis(t, test.args...)
		for _, part := range test.parts {
			if !strings.Contains(got.stdout, part) || got.code != 0 || got.stderr != "" {
				t.Errorf("kedis %q: %+v lacks %q", test.args, got, part)
			}
		}
	}
}

// TestMistakes expects one clear line and the exit code 1.
func TestMistakes(t *testing.T) {
	directory := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	notThere := filepath.Join(directory, "nothing")
	bad := file("bad.conf", "port 7000\nmaxclient 3\n")
	occupied := listen(t)
	newer := newerFormat(t)
	data := filepath.Join(directory, "[data]")
	if err := os.MkdirAll(filepath.Join(data, "binlog", "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"serv"}, `unknown command "serv"`},
		{[]string{"--foo"}, "foo"},
		{[]string{"serve", "--prot", "1"}, `unknown option "prot": did you mean port?`},
		{[]string{"serve", "--port", "abc"}, `--port: expected a number from 0 to 65535, got "abc"`},
		{[]string{"serve", "--port=99999"}, `--port: expected a number from 0 to 65535, got "99999"`},
		{[]string{"serve", "--port"}, "--port: expected a value"},
		{[]string{"serve", "-p", "1"}, `"-p": expected --option value`},
		{[]string{"serve", "--bind", "127.0.0.1", "-::1", "--replicaof", "127.0.0.1", "65536"}, "--replicaof: expected a host and a port"},
		{[]string{"serve", "--client-output-buffer-limit", "normal", "0", "0", "--save", "3600"}, `got "normal 0 0"`},
		{[]string{"serve", "--client-output-buffer-limit", "normal", "0", "0", "0", "--save", "3600"}, `got "3600"`},
		{[]string{"serve", "a.conf", "b.conf"}, `"b.conf": expected one configuration file`},
		{[]string{"serve", notThere}, "nothing: no such file or directory"},
		{[]string{"serve", bad}, `bad.conf:2: unknown option "maxclient": did you mean maxclients?`},
		{[]string{"serve", "--bind", "127.0.0.1", "--port", occupied, "--dir", t.TempDir()}, "address already in use"},
		{[]string{"serve", "--bind", "127.0.0.1", "--port", free(t), "--dir", file("file", "")}, "file: not a directory"},
		{[]string{"serve", "--bind", "127.0.0.1", "--port", free(t), "--dir", newer}, "has another format"},
		{[]string{"serve", "--bind", "127.0.0.1", "--port", free(t), "--dir", t.TempDir(), "--pprof-address", "127.0.0.1"}, "pprof-address: listen tcp"},
		{[]string{"serve", "--bind", "127.0.0.1", "--port", free(t), "--dir", t.TempDir(), "--logfile", notThere + "/log"}, "logfile: open"},
		{[]string{"binlog", "fix"}, `unknown command "fix"`},
		{[]string{"binlog", "dump"}, "binlog dump: expected one directory, got 0 words"},
		{[]string{"binlog", "dump", notThere}, "nothing: no such file or directory"},
		{[]string{"binlog", "verify", directory, "--form", "1"}, "unknown option --form"},
		{[]string{"binlog", "verify", directory, "--from", "x"}, `--from: expected a position, got "x"`},
		{[]string{"binlog", "verify", directory, "--to", "x"}, `--to: expected a position, or a time such as`},
		{[]string{"binlog", "repair", directory}, "there is no log"},
		{[]string{"binlog", "verify", data}, "but in " + filepath.Join(data, "binlog", "1")},
		{[]string{"restore", "new"}, "expected --checkpoint DIR, perhaps --binlog DIR, and one new directory"},
		{[]string{"restore", "--checkpoint", directory, "--to", "7", notThere}, "--to needs --binlog DIR"},
		{[]string{"restore", "--checkpoint", directory, "--binlog", directory, notThere}, "is no checkpoint"},
	} {
		got := kedis(t, test.args...)
		if got.code != 1 || strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stderr, "kedis: ") || !strings.Contains(got.stderr, test.want) {
			t.Errorf("kedis %q: exit code %d, %q; want a line with %q", test.args, got.code, got.stderr, test.want)
		}
	}
}

// listen occupies a port until the test ends.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// free is a port that nobody has, as far as one can know.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestDirectoryInUse(t *testing.T) {
	directory := t.TempDir()
	start(t, directory)
	got := kedis(t, "serve", "--bind", "127.0.0.1", "--port", free(t), "--dir", directory)
	if got.code != 1 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "holds it") {
		t.Errorf("exit code %d, %q", got.code, got.stderr)
	}
}

// limited is kedis serve with a limit of open files.
func limited(files int) launch.Program {
	return launch.Program{Line: []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files), os.Args[0], "serve"}}
}

// TestFewDescriptors starts with too few descriptors to serve anybody, and then with enough for
// some: so many are served, and the next is told why it isn't.
func TestFewDescriptors(t *testing.T) {
	_, err := limited(40).Start(t.TempDir())
	var failed *launch.StartError
	if !errors.As(err, &failed) || failed.ExitCode != 1 || !strings.Contains(failed.Output, "Your current 'ulimit -n' of 40 is not enough") {
		t.Fatalf("with 40 descriptors: %v", err)
	}
	s := launch.ForTest(t, limited(150))
	first := s.MustDial(t)
	reply, err := first.Must("config", "get", "maxclients")
	if err != nil || len(reply.Strings()) != 2 {
		t.Fatal(reply, err)
	}
	clients, err := strconv.Atoi(reply.Strings()[1])
	if err != nil || clients < 10 || clients > 100 {
		t.Fatalf("maxclients is %d (%v)", clients, err)
	}
	for range clients - 1 {
		if got := ask(t, s.MustDial(t), "set", "key", "value"); got != "OK" {
			t.Fatal(got)
		}
	}
	one, err := resp.Dial(s.Address, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if reply, err := one.Read(); err != nil || reply.String() != "-ERR max number of clients reached" {
		t.Errorf("client %d got %s (%v)", clients+1, reply, err)
	}
}

// TestNoDescriptorIsLeft takes all free descriptors from the server while clients connect. It goes
// on serving the client that was there, and serves those that wait as soon as there are descriptors
// again.
func TestNoDescriptorIsLeft(t *testing.T) {
	s := launch.ForTest(t, program())
	first := s.MustDial(t)
	ask(t, first, "set", "key", "value")
	var usual unix.Rlimit
	if err := unix.Prlimit(s.ProcessID(), unix.RLIMIT_NOFILE, nil, &usual); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(s.ProcessID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: usual.Max}, nil); err != nil {
		t.Fatal(err)
	}
	waiting := make([]*resp.Connection, 40)
	for i := range waiting {
		var err error
		if waiting[i], err = resp.Dial(s.Address, time.Minute); err != nil {
			t.Fatal(err)
		}
		defer waiting[i].Close()
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.Output(), "too many open files"); {
		if got := ask(t, first, "get", "key"); got != "value" {
			t.Fatal(got)
		}
		if time.Now().After(deadline) {
			t.Fatal("the server had descriptors")
		}
	}
	if err := unix.Prlimit(s.ProcessID(), unix.RLIMIT_NOFILE, &usual, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(waiting, s.MustDial(t), first) {
		if got := ask(t, c, "get", "key"); got != "value" {
			t.Fatal(got)
		}
	}
	if said := strings.Count(s.Output(), "accepting a connection failed"); said != 1 {
		t.Errorf("the failure was logged %d times", said)
	}
}

// TestConnectionBurst opens several times more connections than the server has descriptors. It goes
// on serving the client that was there, and serves new ones as soon as the others have gone.
func TestConnectionBurst(t *testing.T) {
	const descriptors = 150
	s := launch.ForTest(t, limited(descriptors))
	first := s.MustDial(t)
	burst := make([]net.Conn, 6*descriptors)
	var opening sync.WaitGroup
	for i := range burst {
		opening.Go(func() {
			var err error
			if burst[i], err = net.DialTimeout("tcp", s.Address, time.Minute); err != nil {
				t.Errorf("connection %d: %v", i, err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if got := ask(t, first, "ping"); got != "PONG" {
		t.Fatal(got)
	}
	refused := 0
	for _, conn := range burst {
		refused += countRefused(t, conn)
	}
	for _, conn := range burst {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if refused < len(burst)-descriptors {
		t.Errorf("%d of %d connections were refused", refused, len(burst))
	}
	for deadline := time.Now().Add(time.Minute); strings.Count(ask(t, first, "client", "list"), "\n") > 1; {
		if time.Now().After(deadline) {
			t.Fatal("the server still counts the connections that were closed")
		}
	}
	if got := ask(t, s.MustDial(t), "set", "key", "value"); got != "OK" {
		t.Fatal(got)
	}
}

// countRefused asks for a reply through a connection, and returns 1 if the server has refused it.
func countRefused(t *testing.T, conn net.Conn) int {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	// A connection that is closed already may not take the request.
	_, failed := conn.Write([]byte("PING\r\n"))
	line, err := bufio.NewReader(conn).ReadString('\n')
	switch {
	case line == "+PONG\r\n":
		return 0
	case line == "-ERR max number of clients reached\r\n", failed != nil, errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return 1
	}
	t.Errorf("the reply is %q (%v)", line, err)
	return 0
}

func TestServe(t *testing.T) {
	directory := t.TempDir()
	pidFile := filepath.Join(directory, "kedis.pid")
	s := start(t, directory, "--pidfile", pidFile)
	c := s.MustDial(t)
	if content, err := os.ReadFile(pidFile); err != nil || string(content) != fmt.Sprintf("%d\n", s.ProcessID()) {
		t.Errorf("the pid file holds %q (%v), the process is %d", content, err, s.ProcessID())
	}
	ask(t, c, "set", "key", "value")
	stop(t, s)
	if _, err := os.Stat(pidFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a clean end the pid file: %v", err)
	}
	s = start(t, directory, "--pidfile", filepath.Join(directory, "nothing", "pid")) // a server without its file is better than none
	c = s.MustDial(t)
	if got := ask(t, c, "get", "key"); got != "value" {
		t.Errorf("after a restart the key holds %q", got)
	}
}

func TestShutdownCommand(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory)
	c := s.MustDial(t)
	ask(t, c, "set", "key", "value")
	if reply, err := c.Do("shutdown", "save"); err == nil {
		t.Errorf("SHUTDOWN answered %s", reply)
	}
	if err := s.Shutdown(); err != nil { // waits; there is nothing left to end
		t.Error(err)
	}
	checkpoints, err := filepath.Glob(filepath.Join(directory, "backup", "checkpoint-*Z"))
	if err != nil || len(checkpoints) != 1 {
		t.Errorf("SHUTDOWN SAVE left %q (%v)", checkpoints, err)
	}
}

func TestReload(t *testing.T) {
	s := start(t, t.TempDir())
	c := s.MustDial(t)
	ask(t, c, "config", "set", "rocksdb-compression", "zstd", "rocksdb-block-cache", "12345678", "memory-tier", "100000000",
		"rocksdb-rate-limit", "50mb", "rocksdb-max-background-jobs", "3", "rocksdb-max-open-files", "1000", "rocksdb-max-write-buffers", "3",
		"rocksdb-write-buffer-size", "2mb", "rocksdb-target-file-size", "3mb", "rocksdb-bottommost-compression", "none", "clean-cache-share", "40%")
	for i := range 100 {
		ask(t, c, "rpush", "list", strings.Repeat("x", 100)+strconv.Itoa(i))
	}
	ask(t, c, "set", "key", "value")
	before := ask(t, c, "debug", "digest")
	for range 3 {
		ask(t, c, "debug", "reload")
		if after := ask(t, c, "debug", "digest"); after != before {
			t.Fatalf("the digest was %s and is %s", before, after)
		}
	}
	// Of the 40,000,000 for copies, a generation of 15,000,000 that is kept takes its part, and so
	// does the filter, which outlives the reload.
	filters, err := strconv.Atoi(infoField(t, c, "tier_filter_size"))
	if err != nil || filters == 0 {
		t.Fatalf("filters take %d, %v", filters, err)
	}
	for field, want := range map[string]string{"rocksdb_block_cache_capacity": "12345678", "tier_copies_limit": strconv.Itoa(25000000 - filters)} {
		if got := infoField(t, c, field); got != want {
			t.Errorf("after DEBUG RELOAD %s is %s, want %s", field, got, want)
		}
	}
}

func TestBinlog(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory)
	c := s.MustDial(t)
	ask(t, c, "set", "first", "1")
	border := infoField(t, c, "binlog_position")
	ask(t, c, "select", "3")
	ask(t, c, "set", "second", "two words")
	stop(t, s)
	log := filepath.Join(directory, "binlog", "1")

	got := kedis(t, "binlog", "dump", log)
	want := regexp.MustCompile(`^\d+ \S+Z 0 "set" "first" "1"\n\d+ \S+Z 0 "SELECT" "3"\n\d+ \S+Z 3 "set" "second" "two words"\n$`)
	if !want.MatchString(got.stdout) || got.code != 0 {
		t.Errorf("dump: %+v", got)
	}
	for _, args := range [][]string{{"--to", border, log}, {log, "--to=" + border}} {
		if got := kedis(t, append([]string{"binlog", "dump"}, args...)...); strings.Count(got.stdout, "\n") != 1 || !strings.Contains(got.stdout, "first") {
			t.Errorf("dump %q: %+v", args, got)
		}
	}
	if got := kedis(t, "binlog", "dump", log, "--from", border); strings.Contains(got.stdout, "first") || !strings.Contains(got.stdout, "second") {
		t.Errorf("dump --from: %+v", got)
	}
	if got := kedis(t, "binlog", "verify", log); got.code != 0 || !strings.Contains(got.stdout, "sound") {
		t.Errorf("verify of a sound log: %+v", got)
	}
	if got := kedis(t, "binlog", "repair", log); got.code != 0 || !strings.Contains(got.stdout, "nothing was changed") {
		t.Errorf("repair of a sound log: %+v", got)
	}
	damage(t, log, "first")
	if got := kedis(t, "binlog", "verify", log); got.code != 1 {
		t.Errorf("verify of a damaged log: %+v", got)
	}
	// The data is further than the log is then.
	if got := kedis(t, "binlog", "repair", log); got.code != 0 || strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stdout, "kedis restore") {
		t.Errorf("repair of a damaged log: %+v", got)
	}
	if got := kedis(t, "binlog", "dump", log); got.code != 0 || got.stdout != "" {
		t.Errorf("dump of the repaired log: %+v", got)
	}
}

// A server starts with damage in a segment that its data has passed; cutting there would keep it
// from starting.
func TestRepairThatWouldDoHarm(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory, "--binlog-segment-size", "1mb")
	c := s.MustDial(t)
	ask(t, c, "set", "first", "1")
	for i := range 20 {
		ask(t, c, "set", "large"+strconv.Itoa(i), strings.Repeat("x", 100_000))
	}
	position := infoField(t, c, "binlog_position")
	stop(t, s)
	log := filepath.Join(directory, "binlog", "1")
	damage(t, log, "first")
	if got := kedis(t, "binlog", "verify", log); got.code != 1 || !strings.Contains(got.stdout, "the server starts, but") {
		t.Errorf("verify: %+v", got)
	}
	if got := kedis(t, "binlog", "repair", log); got.code != 1 || !strings.Contains(got.stderr, "nothing was changed") {
		t.Errorf("repair: %+v", got)
	}
	stop(t, start(t, directory))
	if got := kedis(t, "binlog", "repair", log, "--force"); got.code != 0 || !strings.Contains(got.stdout, "--to "+position) {
		t.Errorf("repair --force: %+v", got)
	}
	if got := kedis(t, "serve", "--dir", directory, "--port", "0"); got.code != 1 || !strings.Contains(got.stderr, "what follows is missing") {
		t.Errorf("serve with a log that ends below the data: %+v", got)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if got := kedis(t, "restore", "--checkpoint", filepath.Join(directory, "db"), "--binlog", log, "--to", position, restored); got.code != 0 {
		t.Fatalf("restore of the data alone: %+v", got)
	}
	s = start(t, restored)
	if got := ask(t, s.MustDial(t), "dbsize"); got != "21" {
		t.Errorf("%s keys, want 21", got)
	}
	stop(t, s)
}

// damage changes a byte of the first segment where it holds a text.
func damage(t *testing.T, log, text string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(log, "0*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments: %q, %v", segments, err)
	}
	content, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte(text))
	if at < 0 {
		t.Fatalf("%s does not hold %q", segments[0], text)
	}
	content[at] ^= 1
	if err := os.WriteFile(segments[0], content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRestore(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory)
	c := s.MustDial(t)
	library := func(name, does string) {
		ask(t, c, "function", "load", "replace", "#!lua name="+name+"\nredis.register_function('"+name+"', function() return "+does+" end)")
	}
	all := func(c *resp.Connection) string { return ask(t, c, "debug", "digest") + launch.Libraries(t, c) }
	ask(t, c, "set", "counter", "0")
	ask(t, c, "rpush", "list", "a", "b")
	library("stays", "1")
	library("goes", "1")
	ask(t, c, "save")
	ask(t, c, "incr", "counter")
	library("stays", "2")
	library("comes", "3")
	ask(t, c, "function", "delete", "goes")
	ask(t, c, "rpush", "list", "c")
	position, digest := infoField(t, c, "binlog_position"), all(c)
	// Records of one millisecond can't be told apart by time.
	at := laterMillisecond(t, c)
	ask(t, c, "flushall")
	ask(t, c, "set", "later", "1")
	library("comes", "4")
	end := all(c)
	stop(t, s)
	checkpoints, err := filepath.Glob(filepath.Join(directory, "backup", "checkpoint-*"))
	if err != nil || len(checkpoints) != 1 {
		t.Fatalf("checkpoints: %q, %v", checkpoints, err)
	}
	for name, test := range map[string]struct{ to, digest string }{
		"position": {position, digest},
		"time":     {at.UTC().Format(time.RFC3339Nano), digest},
		"end":      {"", end},
	} {
		restored := filepath.Join(t.TempDir(), "restored")
		args := []string{"restore", "--checkpoint", checkpoints[0], "--binlog", filepath.Join(directory, "binlog", "1"), restored}
		if test.to != "" {
			args = append(args, "--to", test.to)
		}
		if got := kedis(t, args...); got.code != 0 || !strings.Contains(got.stdout, "is as of position") {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		s := start(t, restored)
		c := s.MustDial(t)
		if got := all(c); got != test.digest {
			t.Errorf("%s: digest and libraries are %s, want %s", name, got, test.digest)
		}
		ask(t, c, "set", "goes", "on")
		stop(t, s)
		if got := kedis(t, args...); got.code != 1 || !strings.Contains(got.stderr, "is not empty") {
			t.Errorf("%s: again: %+v", name, got)
		}
	}
}

// TestMoreDatabasesThanToolsKnow has tools meet a database that they weren't told of: in a log, in
// a checkpoint and in a data directory.
func TestMoreDatabasesThanToolsKnow(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory, "--databases", "64")
	c := s.MustDial(t)
	ask(t, c, "save")
	empty := onlyCheckpoint(t, directory)
	ask(t, c, "select", "20")
	ask(t, c, "set", "key", "value")
	stop(t, s)
	for _, args := range [][]string{
		{"restore", "--checkpoint", empty, "--binlog", filepath.Join(directory, "binlog", "1"), filepath.Join(t.TempDir(), "restored")},
		{"restore", "--checkpoint", filepath.Join(directory, "db"), filepath.Join(t.TempDir(), "restored")},
		{"export", filepath.Join(t.TempDir(), "dump.rdb"), "--dir", directory},
	} {
		if got := kedis(t, args...); got.code == 0 || !strings.Contains(got.stderr, "(see --databases)") {
			t.Errorf("%q: %+v", args, got)
		}
		if got := kedis(t, append(args, "--databases", "64")...); got.code != 0 {
			t.Errorf("%q with the option: %+v", args, got)
		}
	}
}

// TestRestoreOfTheCheckpointAlone serves what was restored, has a replica follow it, and restores a
// checkpoint of it again.
func TestRestoreOfTheCheckpointAlone(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory)
	c := s.MustDial(t)
	ask(t, c, "set", "counter", "7")
	ask(t, c, "rpush", "list", "a", "b")
	ask(t, c, "save")
	position, digest := infoField(t, c, "binlog_position"), ask(t, c, "debug", "digest")
	for range 2 {
		ask(t, c, "incr", "counter")
		stop(t, s)
		restored := filepath.Join(t.TempDir(), "restored")
		got := kedis(t, "restore", "--checkpoint", onlyCheckpoint(t, directory), restored)
		if got.code != 0 || got.stdout != restored+" is as of position "+position+"\n" {
			t.Fatalf("restore: %+v, want position %s", got, position)
		}
		s = start(t, restored)
		c = s.MustDial(t)
		if got := ask(t, c, "debug", "digest"); got != digest {
			t.Errorf("the digest is %s, want %s", got, digest)
		}
		replica := start(t, t.TempDir(), "--replicaof", "127.0.0.1", strconv.Itoa(s.Port))
		r := replica.MustDial(t)
		ask(t, c, "incr", "counter")
		if got := ask(t, c, "wait", "1", "0"); got != "1" {
			t.Errorf("WAIT: %s", got)
		}
		if got := ask(t, r, "get", "counter"); got != ask(t, c, "get", "counter") {
			t.Errorf("the replica's counter is %s", got)
		}
		ask(t, c, "save")
		position, digest = infoField(t, c, "binlog_position"), ask(t, c, "debug", "digest")
		stop(t, replica)
		directory = restored
	}
}

// onlyCheckpoint returns the one checkpoint of a data directory.
func onlyCheckpoint(t *testing.T, directory string) string {
	t.Helper()
	checkpoints, err := filepath.Glob(filepath.Join(directory, "backup", "checkpoint-*Z"))
	if err != nil || len(checkpoints) != 1 {
		t.Fatalf("checkpoints: %q, %v", checkpoints, err)
	}
	return checkpoints[0]
}

// TestServeOfABackup serves directories that are no data directories but hold parts of one. Nothing
// is written to them.
func TestServeOfABackup(t *testing.T) {
	directory := t.TempDir()
	s := start(t, directory)
	c := s.MustDial(t)
	ask(t, c, "set", "key", "value")
	ask(t, c, "save")
	stop(t, s)
	without := t.TempDir()
	if err := os.CopyFS(filepath.Join(without, "binlog"), os.DirFS(filepath.Join(directory, "binlog"))); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(directory, "backup")
	checkpoint := onlyCheckpoint(t, directory)
	for path, want := range map[string]string{
		checkpoint:                              "kedis restore --checkpoint " + checkpoint,
		backup:                                  "kedis restore --checkpoint " + checkpoint,
		filepath.Join(directory, "db"):          "--dir " + directory + " serves that",
		filepath.Join(directory, "binlog"):      "kedis restore --checkpoint DIR --binlog " + filepath.Join(directory, "binlog", "1"),
		filepath.Join(directory, "binlog", "1"): "it is a log",
		without:                                 "kedis restore --checkpoint DIR --binlog " + filepath.Join(without, "binlog", "1"),
	} {
		before := listing(t, path)
		got := kedis(t, "serve", "--port", "0", "--bind", "127.0.0.1", "--dir", path)
		if got.code != 1 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "is no data directory") || !strings.Contains(got.stderr, want) {
			t.Errorf("serve of %s: %+v, want %q", path, got, want)
		}
		if after := listing(t, path); after != before {
			t.Errorf("serve of %s left\n%s\nof\n%s", path, after, before)
		}
	}
}

// listing has the names, sizes and times of all files below a directory.
func listing(t *testing.T, directory string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Fprintln(&list, path, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

// laterMillisecond waits until the server's clock has moved on, and returns a time before anything
// that it does then.
func laterMillisecond(t *testing.T, c *resp.Connection) time.Time {
	t.Helper()
	now := func() int64 {
		micros, err := strconv.ParseInt(infoField(t, c, "server_time_usec"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return micros / 1000
	}
	first := now()
	for now() < first+2 {
		time.Sleep(time.Millisecond)
	}
	return time.UnixMilli(first + 1)
}

// TestNothingUnhooked wires a server as serve does: then no option that is said to change live is
// left that doesn't.
func TestNothingUnhooked(t *testing.T) {
	c := config.New()
	if err := c.SetFlag("dir", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := newLogger(c); err != nil {
		t.Fatal(err)
	}
	data, err := datadir.Open(c, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	command.NewEngine(data.Store, c, data, hclog.NewNullLogger(), 1)
	data.HookOptions()
	if names := c.Unhooked(); len(names) > 0 {
		t.Errorf("nothing puts a new value of these options into effect: %q", names)
	}
}

// newerFormat is a data directory of a later version.
func newerFormat(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	c := config.New()
	if err := c.SetFlag("dir", directory); err != nil {
		t.Fatal(err)
	}
	data, err := datadir.Open(c, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	writeFormat(t, filepath.Join(directory, "db"))
	return directory
}

// writeFormat makes a database one of a format that is not known yet.
func writeFormat(t *testing.T, directory string) {
	t.Helper()
	db, err := rocks.Open(rocks.Options{Directory: directory})
	if err != nil {
		t.Fatal(err)
	}
	batch := new(rocks.Batch)
	batch.Put(db.Family(rocks.DefaultFamily), layout.FormatKey, []byte{0, 0, 0, layout.Format + 1})
	if err := db.Write(batch); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
