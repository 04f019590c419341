package commandline

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// debiansOptions is what Debian 12's /etc/redis/redis.conf sets.
const debiansOptions = `
bind 127.0.0.1 -::1
protected-mode yes
port 6379
tcp-backlog 511
timeout 0
tcp-keepalive 300
daemonize yes
pidfile /run/redis/redis-server.pid
loglevel notice
logfile /var/log/redis/redis-server.log
databases 16
always-show-logo no
set-proc-title yes
proc-title-template "{title} {listen-addr} {server-mode}"
stop-writes-on-bgsave-error yes
rdbcompression yes
rdbchecksum yes
dbfilename dump.rdb
rdb-del-sync-files no
dir /var/lib/redis
replica-serve-stale-data yes
replica-read-only yes
repl-diskless-sync yes
repl-diskless-sync-delay 5
repl-diskless-sync-max-replicas 0
repl-diskless-load disabled
repl-disable-tcp-nodelay no
replica-priority 100
acllog-max-len 128
lazyfree-lazy-eviction no
lazyfree-lazy-expire no
lazyfree-lazy-server-del no
replica-lazy-flush no
lazyfree-lazy-user-del no
lazyfree-lazy-user-flush no
oom-score-adj no
oom-score-adj-values 0 200 800
disable-thp yes
appendonly no
appendfilename "appendonly.aof"
appenddirname "appendonlydir"
appendfsync everysec
no-appendfsync-on-rewrite no
auto-aof-rewrite-percentage 100
auto-aof-rewrite-min-size 64mb
aof-load-truncated yes
aof-use-rdb-preamble yes
aof-timestamp-enabled no
slowlog-log-slower-than 10000
slowlog-max-len 128
latency-monitor-threshold 0
notify-keyspace-events ""
hash-max-listpack-entries 512
hash-max-listpack-value 64
list-max-listpack-size -2
list-compress-depth 0
set-max-intset-entries 512
zset-max-listpack-entries 128
zset-max-listpack-value 64
hll-sparse-max-bytes 3000
stream-node-max-bytes 4096
stream-node-max-entries 100
activerehashing yes
client-output-buffer-limit normal 0 0 0
client-output-buffer-limit replica 256mb 64mb 60
client-output-buffer-limit pubsub 32mb 8mb 60
hz 10
dynamic-hz yes
aof-rewrite-incremental-fsync yes
rdb-save-incremental-fsync yes
jemalloc-bg-thread yes
`

// debiansFile has Debian's options, and says in a file that it includes where this test's
// directories are.
func debiansFile(t *testing.T, directory, local string) string {
	t.Helper()
	for name, content := range map[string]string{
		"redis.conf": debiansOptions + "include local*.conf\n",
		"local.conf": fmt.Sprintf("dir %s/data\nlogfile %[1]s/log\npidfile %[1]s/pid\n%s", directory, local),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(directory, "redis.conf")
}

// TestDebiansFile starts with the file as Debian's unit does, and looks for what the log and CONFIG
// say of it.
func TestDebiansFile(t *testing.T) {
	directory := t.TempDir()
	file := debiansFile(t, directory, "")
	if err := os.Mkdir(filepath.Join(directory, "data"), 0o755); err != nil { // where launch runs the server
		t.Fatal(err)
	}
	s, err := launch.Program{Line: []string{os.Args[0], "serve", file}}.Start(filepath.Join(directory, "data"), "--supervised", "systemd", "--daemonize", "no")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, s) })
	c := s.MustDial(t)
	log, err := os.ReadFile(filepath.Join(directory, "log"))
	if err != nil {
		t.Fatal(err)
	}
	warnings := regexp.MustCompile(`(?m)^.*change nothing here.*$`).FindAllString(string(log), -1)
	if len(warnings) != 1 || !strings.Contains(warnings[0], " rdbcompression ") || strings.Contains(warnings[0], " hz") {
		t.Errorf("the log warns of options without effect: %q", warnings)
	}
	for name, want := range map[string]string{"rdbcompression": "yes", "save": "", "appendonly": "no", "dbfilename": "dump.rdb",
		"oom-score-adj-values": "0 200 800", "auto-aof-rewrite-min-size": "67108864", "daemonize": "no", "supervised": "systemd"} {
		reply, err := c.Must("config", "get", name)
		if err != nil || len(reply.Elements) != 2 || string(reply.Elements[1].Text) != want {
			t.Errorf("CONFIG GET %s: %s (%v), want %q", name, reply, err, want)
		}
	}
	ask(t, c, "config", "set", "rdbcompression", "no")
	waitFor(t, "the log tells of what CONFIG SET changed in vain", func() bool { return fileHas(filepath.Join(directory, "log"), "option=rdbcompression") })
	stop(t, s)
}

// TestDaemonize starts with Debian's file as it is, but for the places of files.
func TestDaemonize(t *testing.T) {
	directory := t.TempDir()
	port := free(t)
	file := debiansFile(t, directory, "port "+port+"\n")
	if got := kedis(t, "serve", file); got.code != 0 || got.stdout+got.stderr != "" {
		t.Fatalf("serve: %+v", got)
	}
	content, err := os.ReadFile(filepath.Join(directory, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid <= 1 {
		t.Fatalf("the pid file has %q", content)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may have ended
	c, err := resp.Dial("127.0.0.1:"+port, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := infoField(t, c, "process_id"); got != strconv.Itoa(pid) {
		t.Errorf("process %s answers, and the pid file has %d", got, pid)
	}
	if session, err := sessionOf(pid); err != nil || session != pid {
		t.Errorf("the server's session is %d (%v), and it is process %d", session, err, pid)
	}
	again := kedis(t, "serve", file)
	if again.code != 1 || strings.Count(again.stderr, "\n") != 1 || !strings.Contains(again.stderr, "address already in use") {
		t.Errorf("a second server on the port: %+v", again)
	}
	if reply, err := c.Do("shutdown"); err == nil {
		t.Errorf("SHUTDOWN answered %s", reply)
	}
	waitFor(t, "the server has removed its pid file", func() bool {
		_, err := os.Stat(filepath.Join(directory, "pid"))
		return errors.Is(err, os.ErrNotExist)
	})
}

// sessionOf returns the session of a process; see proc(5).
func sessionOf(pid int) (int, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return strconv.Atoi(fields[3])
}

// TestSystemd plays systemd, which is told when the server is ready and when it ends.
func TestSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv(systemdVariable, socket)
	message := func() string {
		buffer := make([]byte, 1000)
		n, err := listener.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	for _, supervised := range []string{"systemd", "auto"} {
		s := start(t, t.TempDir(), "--supervised", supervised, "--daemonize", "yes")
		if got := message(); !strings.Contains(got, "READY=1\n") {
			t.Errorf("%s: the first message is %q", supervised, got)
		}
		if got := infoField(t, s.MustDial(t), "process_supervised"); got != "systemd" {
			t.Errorf("%s: process_supervised is %s", supervised, got)
		}
		stop(t, s)
		if got := message(); !strings.Contains(got, "STOPPING=1\n") {
			t.Errorf("%s: the last message is %q", supervised, got)
		}
	}
}

// TestUpstart plays upstart, which waits until the server has stopped itself.
func TestUpstart(t *testing.T) {
	command := exec.Command(os.Args[0], "serve", "--port", free(t), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--supervised", "upstart")
	command.Env = append(os.Environ(), upstartVariable+"=kedis")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(command.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Errorf("upstart gets %v (%v)", status, err)
	}
	signalTo(t, command.Process.Pid, syscall.SIGCONT)
	signalTo(t, command.Process.Pid, syscall.SIGTERM)
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}
