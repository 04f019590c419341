package port

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kedis/redis-tests/launch"
)

// TestFullDisk fills the disk of a Kedis in the stream: the move ends, and goes on when there is
// room. In the snapshot it begins anew.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=160m"); err != nil {
		launch.Skip(t, "a tmpfs can't be mounted here (%v): a full disk isn't tested", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler, data := filepath.Join(disk, "filler"), filepath.Join(disk, "data")
	fill := func(megabytes int) {
		t.Helper()
		if err := os.WriteFile(filler, make([]byte, megabytes<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill(112)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	to, err := launch.MustUnderTest(t).Start(data, "--binlog-segment-size", "1mb", "--binlog-retention-size", "1mb", "--rocksdb-write-buffer-size", "1mb",
		"--rocksdb-target-file-size", "1mb", "--generation-bytes", "256kb", "--persist-log-size", "1mb", "--persist-interval", "1s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, to) })
	from := start(t, launch.MustOracle(t))
	c := from.MustDial(t)
	random := rand.NewChaCha8([32]byte{})
	write := func(prefix string, keys int) {
		value := make([]byte, 50_000)
		for i := range keys {
			random.Read(value)
			do(t, c, "SET", fmt.Sprintf("%s%04d", prefix, i), string(value))
		}
	}
	do(t, c, "SET", "counter", "1")
	directory := t.TempDir()
	line := port(from, to, "--until", "forever")
	p := startTool(t, directory, line...)
	p.says("has caught up")
	write("stream:", 1000) // 50 MB, of which there is no room for
	do(t, c, "INCR", "counter")
	if output := p.ends(5); !strings.Contains(output, "its disk may be full") {
		t.Errorf("said %s", output)
	}
	do(t, c, "DEL", "stream:0001")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// A Kedis takes writes again, and may refuse some once more, before its RocksDB has noticed
	// that there is room.
	until(t, "the move to come to its end", func() bool {
		p = startTool(t, directory, line...)
		p.says("going on at position")
		p.signal(syscall.SIGINT)
		<-p.exited
		code := p.command.ProcessState.ExitCode()
		if code != 0 && code != 5 {
			t.Fatalf("exit code %d", code)
		}
		return code == 0
	})
	same(t, from, to)
}
