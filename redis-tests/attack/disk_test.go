package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// small makes log segments and RocksDB's files small, so that many are made.
var small = []string{"--binlog-segment-size", "1mb", "--binlog-retention-size", "1mb", "--rocksdb-write-buffer-size", "1mb", "--generation-bytes", "256kb",
	"--persist-log-size", "1mb", "--persist-interval", "1s", "--memory-tier", "32mb", "--rocksdb-block-cache", "8mb"}

// TestInodes takes all inodes of a file system. Writes are refused then, nothing that was
// acknowledged is lost, and they go on when there are inodes again.
func TestInodes(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256m,nr_inodes=120"); err != nil {
		launch.Skip(t, "a tmpfs can't be mounted here (%v): lacking inodes isn't tested", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f := filling{t: t, server: startOn(t, disk, small...)}
	defer func() { launch.End(t, f.server) }()
	fillers := filepath.Join(disk, "fillers")
	if err := os.Mkdir(fillers, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := os.WriteFile(filepath.Join(fillers, fmt.Sprint(i)), nil, 0o600); err != nil {
			break
		}
	}
	if !f.until("refused", 4000, func(refused bool) bool { return refused }) {
		t.Error("without inodes the server took 80 MB: nothing was tried")
	}
	f.served()
	if err := os.RemoveAll(fillers); err != nil {
		t.Fatal(err)
	}
	f.until("taken again", 600, func(refused bool) bool { return !refused })
	f.restarted()
}

// startOn starts a server whose data is on a file system of its own.
func startOn(t *testing.T, disk string, options ...string) *launch.Server {
	t.Helper()
	data := filepath.Join(disk, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := launch.MustUnderTest(t).Start(data, options...)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// filling writes keys while a disk takes them, and knows which were acknowledged.
type filling struct {
	t       *testing.T
	server  *launch.Server
	written []string
	last    string // what the last write was answered
}

const fillerValue = 20_000

// until writes until a write is, or isn't, refused.
func (f *filling) until(what string, most int, holds func(refused bool) bool) bool {
	f.t.Helper()
	c := f.server.MustDial(f.t)
	for i := range most {
		key := fmt.Sprintf("filler%d:%d", len(f.written), i)
		reply, err := c.Do("set", key, strings.Repeat(key, fillerValue/len(key)))
		if err != nil {
			f.t.Fatalf("while the disk takes nothing: %v\n%s", err, f.server.Output())
		}
		f.last = reply.String()
		if !reply.IsError() {
			f.written = append(f.written, key)
		}
		if holds(reply.IsError()) {
			return true
		}
		if reply.IsError() {
			time.Sleep(100 * time.Millisecond)
		}
	}
	f.t.Logf("writes were never %s; the last was answered %.300s", what, f.last)
	return false
}

// served asserts that reads go on, and that the refusal is a clear one.
func (f *filling) served() {
	f.t.Helper()
	if !strings.HasPrefix(f.last, "-MISCONF") {
		f.t.Errorf("a write is refused with %.300s", f.last)
	}
	f.holds(f.server)
}

// holds asserts that a server has all that was acknowledged.
func (f *filling) holds(server *launch.Server) {
	f.t.Helper()
	c := server.MustDial(f.t)
	for _, key := range f.written {
		if reply, err := c.Do("get", key); err != nil || !strings.HasPrefix(string(reply.Text), key) {
			f.t.Fatalf("GET %s: %.100s (%v)", key, reply, err)
		}
	}
	if !server.Running() || strings.Contains(server.Output(), "panic") {
		f.t.Fatalf("the server:\n%s", server.Output())
	}
}

// restarted kills the server and starts it again.
func (f *filling) restarted() {
	f.t.Helper()
	f.holds(f.server)
	f.server.Kill()
	again, err := f.server.Restart()
	if err != nil {
		f.t.Fatal(err)
	}
	f.server = again
	f.holds(again)
	if reply, err := again.MustDial(f.t).Do("set", "after", "1"); err != nil || reply.IsError() {
		f.t.Errorf("after a restart a write is answered %s (%v)", reply, err)
	}
	f.t.Logf("%d keys were acknowledged", len(f.written))
}

// mounted is an ext4 in a file, which the kernel makes read only when it meets an error.
type mounted struct {
	t           *testing.T
	image, disk string
}

func mountImage(t *testing.T) *mounted {
	t.Helper()
	m := &mounted{t, filepath.Join(t.TempDir(), "image"), t.TempDir()}
	for _, command := range [][]string{{"truncate", "-s", "96m", m.image}, {"mkfs.ext4", "-q", "-m", "0", m.image}, {"mount", "-o", "loop", m.image, m.disk}} {
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			launch.Skip(t, "%s: %v %s: a disk that becomes read only isn't tested", resp.Line(command), err, output)
		}
	}
	t.Cleanup(func() { _ = exec.Command("umount", m.disk).Run() }) // fails when it isn't mounted any more
	return m
}

func (m *mounted) run(words ...string) {
	m.t.Helper()
	if output, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v %s", resp.Line(words), err, output)
	}
}

// TestReadOnlyDisk has the file system become read only under the server, as the kernel does with
// one that has met an error. Writes are refused and reads are served; mounted anew, it has all that
// was acknowledged.
func TestReadOnlyDisk(t *testing.T) {
	m := mountImage(t)
	f := filling{t: t, server: startOn(t, m.disk, append([]string{"--appendfsync", "always"}, small...)...)}
	defer func() { launch.End(t, f.server) }()
	f.until("taken", 200, func(bool) bool { return len(f.written) == 100 })
	m.run("mount", "-o", "remount,abort", m.disk)
	if !f.until("refused", 4000, func(refused bool) bool { return refused }) {
		t.Error("a server on a read-only disk took 80 MB: nothing was tried")
	}
	f.served()
	f.server.Kill()
	m.run("umount", m.disk)
	_ = exec.Command("fsck.ext4", "-p", m.image).Run() // fails when there was something to repair
	m.run("mount", "-o", "loop", m.image, m.disk)
	again, err := f.server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	f.server = again
	f.holds(again)
	f.restarted()
	f.server.Kill()
}
