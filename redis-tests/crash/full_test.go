package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const (
	diskBytes    = 64 << 20
	fillerBytes  = 24 << 20 // of a file that is removed to make space
	resumeWithin = 60 * time.Second
)

// fullOptions make the log and RocksDB's files small, so that a full disk is met in all of them.
var fullOptions = []string{"--binlog-segment-size", "1mb", "--binlog-retention-size", "1mb", "--rocksdb-write-buffer-size", "1mb",
	"--rocksdb-target-file-size", "1mb", "--generation-bytes", "256kb", "--persist-log-size", "1mb", "--persist-interval", "1s"}

// smallDisk mounts a file system of diskBytes and returns a directory in it; the test is skipped where that isn't allowed. Part of the
// space is taken by a file, until free removes it; fill lets it take the rest as well.
func smallDisk(t *testing.T) (directory string, fill, free func()) {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
		t.Skipf("a tmpfs can't be mounted here (%v): a full disk isn't tested", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, fillerBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	fill = func() {
		file, err := os.OpenFile(filler, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = file.Write(make([]byte, os.Getpagesize()))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(disk, "data"), fill, func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
}

// filling writes keys until the disk is full, and knows what was acknowledged.
type filling struct {
	t      *testing.T
	random *rand.Rand
	state  *State
	next   int
}

// write sets a key to bytes that can't be compressed, and counts in another, in one transaction; it returns the error of a server that refuses.
func (f *filling) write(connection *resp.Connection) (refusal string) {
	f.t.Helper()
	value := make([]byte, 20_000)
	for i := range value {
		value[i] = byte(f.random.Uint32())
	}
	unit := Unit{Transaction: true, Requests: [][]string{{"set", "key" + strconv.Itoa(f.next), string(value)}, {"incrby", "count", "1"}}}
	queue(connection, unit)
	if err := connection.Flush(); err != nil {
		f.t.Fatal(err)
	}
	var replies []resp.Reply
	for range len(unit.Requests) + 2 {
		reply, err := connection.Read()
		if err != nil {
			f.t.Fatal(err)
		}
		replies = append(replies, reply)
		if reply.IsError() && refusal == "" {
			refusal = string(reply.Text)
		}
	}
	if refusal == "" {
		f.next++
		f.state.Apply(unit)
		return ""
	}
	if !replies[len(replies)-1].IsError() {
		f.t.Fatalf("refused (%s), and yet EXEC answers %s", refusal, replies[len(replies)-1])
	}
	return refusal
}

// untilFull writes until the server refuses, and goes on refusing. What it gives back to the disk then, fill takes.
func (f *filling) untilFull(connection *resp.Connection, fill func()) {
	f.t.Helper()
	refused := 0
	for written := 0; written < 2*diskBytes; {
		refusal := f.write(connection)
		if refusal == "" {
			written += 20_000
			refused = 0
			continue
		}
		if !strings.Contains(refusal, "MISCONF") && !strings.HasPrefix(refusal, "EXECABORT") {
			f.t.Fatalf("a full disk is refused with %q", refusal)
		}
		fill()
		if refused++; refused == 5 {
			return
		}
		// The server tries again each second.
		time.Sleep(300 * time.Millisecond)
	}
	f.t.Fatal("the disk never was full")
}

// refuses waits until a write that would change nothing gets a clear error. What the server still gives back to the disk, fill takes.
func (f *filling) refuses(connection *resp.Connection, fill func()) {
	f.t.Helper()
	for deadline := time.Now().Add(resumeWithin); ; time.Sleep(50 * time.Millisecond) {
		reply, err := connection.Do("del", "nothing")
		if err == nil && strings.HasPrefix(string(reply.Text), "MISCONF") {
			return
		}
		if err != nil || reply.IsError() || time.Now().After(deadline) {
			f.t.Fatalf("DEL on a full disk: %s (%v)", reply, err)
		}
		fill()
	}
}

// reads checks that everything acknowledged can be read.
func (f *filling) reads(server *launch.Server) {
	f.t.Helper()
	connection := server.MustDial(f.t)
	if reply, err := connection.Do("ping"); err != nil || !reply.Is("PONG") {
		f.t.Fatalf("PING: %s (%v)", reply, err)
	}
	data, err := ReadData(connection, []int{0})
	if err != nil {
		f.t.Fatal(err)
	}
	if differences := f.state.differences(data); len(differences) > 0 {
		f.t.Fatalf("%d differences, the first: %.300s", len(differences), differences[0])
	}
}

// resumes waits until writes are taken again, and go on being taken, which nobody but the server does: the log may have
// found space some seconds before RocksDB looks.
func (f *filling) resumes(connection *resp.Connection) {
	f.t.Helper()
	deadline := time.Now().Add(resumeWithin)
	for taken := 0; taken < 50; taken++ {
		refusal := f.write(connection)
		if refusal == "" {
			continue
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("there is space, and writes are still refused: %s", refusal)
		}
		taken = 0
		time.Sleep(50 * time.Millisecond)
	}
}

func TestDiskFull(t *testing.T) {
	for i, fsync := range []string{"everysec", "always"} {
		for j, killed := range []bool{false, true} {
			if *rounds == 0 && i != j {
				continue
			}
			t.Run(fmt.Sprintf("%s, killed %v", fsync, killed), func(t *testing.T) { fillDisk(t, fsync, killed) })
		}
	}
}

func fillDisk(t *testing.T, fsync string, killed bool) {
	directory, fill, free := smallDisk(t)
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := launch.MustUnderTest(t).Start(directory, append([]string{"--appendfsync", fsync}, fullOptions...)...)
	if err != nil {
		t.Fatal(err)
	}
	// Another one than the first, when it has been killed.
	defer func() { launch.End(t, server) }()
	f := &filling{t: t, random: rand.New(rand.NewPCG(*seed, 0)), state: NewState([]int{0})}
	connection := server.MustDial(t)
	f.untilFull(connection, fill)
	f.refuses(connection, fill)
	f.reads(server)
	if killed {
		server.Kill()
		fill()
		if server, err = server.Restart(); err != nil {
			t.Fatal(err)
		}
		f.reads(server)
		// A start removes what was half-written, so there may be a little space.
		connection = server.MustDial(t)
		f.untilFull(connection, fill)
		f.refuses(connection, fill)
	}
	free()
	f.resumes(connection)
	f.reads(server)
	server.Kill()
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	f.reads(server)
}
