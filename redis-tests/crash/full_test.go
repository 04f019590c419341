package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// smallDisk mounts a file system of diskBytes and returns a directory in it; the test is skipped
// where that isn't allowed. Part of the space is taken by a file, until free removes it; fill lets
// it take the rest as well.
func smallDisk(t *testing.T) (directory string, fill, free func()) {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
		launch.Skip(t, "a tmpfs can't be mounted here (%v): a full disk isn't tested", err)
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
	fill = func() { fillUp(t, filler) }
	return filepath.Join(disk, "data"), fill, func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
}

// fillUp appends to a file until the disk is full.
func fillUp(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
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

// filling writes keys until the disk is full, and knows what was acknowledged.
type filling struct {
	t         *testing.T
	directory string
	random    *rand.Rand
	state     *State
	next      int
}

// startFilling starts a server in a directory that it makes.
func startFilling(t *testing.T, directory string, options ...string) (*launch.Server, *filling) {
	t.Helper()
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := launch.MustUnderTest(t).Start(directory, options...)
	if err != nil {
		t.Fatal(err)
	}
	return server, &filling{t: t, directory: directory, random: rand.New(rand.NewPCG(loadSeed(t), 0)), state: NewState([]int{0})}
}

// write sets a key to bytes that can't be compressed, and counts in another, in one transaction; it
// returns the error of a server that refuses.
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

// untilFull writes until the server refuses, and goes on refusing. What it gives back to the disk
// then, fill takes.
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

// refuses waits until a write that would change nothing gets a clear error. What the server still
// gives back to the disk, fill takes; what it still has room for, in a segment of the log that it
// has made meanwhile, is written.
func (f *filling) refuses(connection *resp.Connection, fill func()) {
	f.t.Helper()
	for deadline := time.Now().Add(resumeWithin); ; {
		reply, err := connection.Do("setrange", "nothing", "0", "")
		if err == nil && strings.HasPrefix(string(reply.Text), "MISCONF") {
			return
		}
		if err != nil || reply.IsError() || time.Now().After(deadline) {
			f.t.Fatalf("SETRANGE on a full disk: %s (%v)", reply, err)
		}
		fill()
		f.write(connection)
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

// resumes waits until writes are taken again, and go on being taken, which nobody but the server
// does: the log may have found space some seconds before RocksDB looks.
func (f *filling) resumes(connection *resp.Connection) {
	f.t.Helper()
	deadline := time.Now().Add(resumeWithin)
	for taken := 0; taken < 50; taken++ {
		refusal := f.write(connection)
		if refusal == "" {
			continue
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("there is space, and writes are still refused: %s\nthe disk has %s", refusal, filesBelow(f.t, f.directory))
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
	f := &filling{t: t, directory: directory, random: rand.New(rand.NewPCG(loadSeed(t), 0)), state: NewState([]int{0})}
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

// TestLogFillsTheDisk overwrites a few keys until the log would be much larger than the disk. Its
// retention would keep all of it; what recovery needs is little. Nothing is refused. Beside
// the filler there would hardly be the room to persist that a segment of this size asks for.
func TestLogFillsTheDisk(t *testing.T) {
	directory, _, free := smallDisk(t)
	free()
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	// RocksDB takes room for as much as a compaction reads, up to this file size, before it writes
	// what is left of it. The disk is small.
	server, err := launch.MustUnderTest(t).Start(directory, "--binlog-segment-size", "4mb", "--rocksdb-target-file-size", "1mb")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	f := &filling{t: t, directory: directory, random: rand.New(rand.NewPCG(loadSeed(t), 0)), state: NewState([]int{0})}
	connection := server.MustDial(t)
	for written := 0; written < 2*diskBytes; written += 20_000 {
		f.next %= 100
		if refusal := f.write(connection); refusal != "" {
			t.Fatalf("refused after %d bytes: %s\nthe disk has %s", written, refusal, filesBelow(t, directory))
		}
	}
	f.reads(server)
	server.Kill()
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	f.reads(server)
}

// filesBelow lists the files below a directory with their sizes in bytes.
func filesBelow(t *testing.T, directory string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // A file that is gone by now takes no room.
		}
		if info, err := entry.Info(); err == nil {
			fmt.Fprintf(&list, "\n%10d %s", info.Size(), path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

// TestDeletingOnAFullDisk fills the disk with data. DEL and FLUSHALL make room, and nothing else
// does.
func TestDeletingOnAFullDisk(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) { deleteOnAFullDisk(t, killed) })
	}
}

// largeSegments are fullOptions with segments of the log that are large beside the disk.
var largeSegments = append(slices.Clone(fullOptions), "--binlog-segment-size", "8mb")

func deleteOnAFullDisk(t *testing.T, killed bool) {
	directory, _, _ := smallDisk(t)
	server, f := startFilling(t, directory, largeSegments...)
	defer func() { launch.End(t, server) }()
	connection := server.MustDial(t)
	f.untilFull(connection, func() {})
	if killed { // the new history of a start takes a segment, for which there is hardly any room
		server.Kill()
		var err error
		if server, err = server.Restart(); err != nil {
			t.Fatal(err)
		}
		connection = server.MustDial(t)
		f.untilFull(connection, func() {})
	}
	f.deletes(server, connection)
	f.resumes(connection)
	f.reads(server)
}

// deletes deletes a few keys and then all.
func (f *filling) deletes(server *launch.Server, connection *resp.Connection) {
	f.t.Helper()
	for _, request := range [][]string{{"del", "key0", "key1"}, {"flushall"}} {
		if _, err := connection.Must(request...); err != nil {
			f.t.Fatal(err)
		}
		if request[0] == "flushall" {
			f.state = NewState([]int{0})
		} else {
			f.state.Apply(Unit{Requests: [][]string{request}})
		}
		f.reads(server)
	}
}

// TestDeletingOnADiskThatOthersFill: somebody else takes what the server has left of the disk, to
// the last byte, so RocksDB can't even write that everything is deleted. The log gives it the room
// that it has reserved.
func TestDeletingOnADiskThatOthersFill(t *testing.T) {
	directory, _, free := smallDisk(t)
	server, f := startFilling(t, directory, largeSegments...)
	defer func() { launch.End(t, server) }()
	connection := server.MustDial(t)
	free()
	f.untilFull(connection, func() {})
	fillUp(t, filepath.Join(filepath.Dir(directory), "of others"))
	f.refuses(connection, func() {})
	f.deletes(server, connection)
	f.resumes(connection)
	f.reads(server)
}

// TestNoRoomForANewHistory starts a server that was killed where its log can't get another segment
// file, which the new history of such a start needs: reads are served, writes refused until it can.
func TestNoRoomForANewHistory(t *testing.T) {
	program, directory := withoutPrivileges(t)
	server, err := program.Start(directory, "--binlog-segment-size", "1mb")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	if _, err := server.MustDial(t).Must("set", "k", "v"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	log := filepath.Join(directory, "binlog", "1")
	// What had been made ahead is not there on a full disk.
	if err := os.Remove(filepath.Join(log, "0000000002.log")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Chmod(log, 0o500); err != nil {
		t.Fatal(err)
	}
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	connection := server.MustDial(t)
	if reply, err := connection.Do("get", "k"); err != nil || reply.String() != `"v"` {
		t.Errorf("GET: %s (%v)", reply, err)
	}
	if reply, err := connection.Do("set", "k", "w"); err != nil || !strings.HasPrefix(string(reply.Text), "MISCONF") {
		t.Errorf("SET: %s (%v)", reply, err)
	}
	if reply, err := connection.Do("psync", "?", "-1"); err != nil || !strings.HasPrefix(string(reply.Text), "NOMASTERLINK") {
		t.Errorf("PSYNC: %s (%v)", reply, err)
	}
	former := history(t, connection)
	if err := os.Chmod(log, 0o700); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(resumeWithin); ; time.Sleep(50 * time.Millisecond) {
		reply, err := connection.Do("set", "k", "w")
		if err == nil && reply.Is("OK") {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("SET: %s (%v)", reply, err)
		}
	}
	if history(t, connection) == former {
		t.Error("the history goes on under the id that others may have seen more of")
	}
}

// history returns the id of a server's history.
func history(t *testing.T, connection *resp.Connection) string {
	t.Helper()
	reply, err := connection.Must("info", "replication")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(reply.Text), "master_replid:")
	id, _, _ := strings.Cut(after, "\r\n")
	return id
}

// withoutPrivileges returns a server that may not do everything, also when the test is run by root,
// and a directory of its own.
func withoutPrivileges(t *testing.T) (launch.Program, string) {
	t.Helper()
	program := launch.MustUnderTest(t)
	parent := t.TempDir()
	directory := filepath.Join(parent, "data")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return program, directory
	}
	const nobody = 65534
	if err := errors.Join(os.Chown(directory, nobody, nobody), os.Chmod(parent, 0o755), os.Chmod(filepath.Dir(parent), 0o755)); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(program.Line[0]) // which may be where only root can go
	if err != nil {
		t.Fatal(err)
	}
	line := slices.Clone(program.Line)
	line[0] = filepath.Join(parent, "kedis")
	if err := os.WriteFile(line[0], binary, 0o755); err != nil {
		t.Fatal(err)
	}
	dropping := []string{"setpriv", fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody), "--clear-groups", "--pdeathsig=KILL"}
	return launch.Program{Line: append(dropping, line...)}, directory
}
