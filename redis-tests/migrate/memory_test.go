package migrate

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

var megabytes = flag.Int("megabytes", 32, "how large the collection of TestMemory is")

// elementBytes is how large an element of it is.
const elementBytes = 4 << 10

// largeFile writes an RDB file of version 9 with one hash of fields that can't be compressed,
// without a checksum.
func largeFile(t *testing.T, n int) (path string, size int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "large.rdb")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	w.WriteString("REDIS0009\xfe\x00\x04\x05large\x80")
	w.Write(binary.BigEndian.AppendUint32(nil, uint32(n)))
	value := make([]byte, elementBytes-10)
	for i := range n {
		state := uint64(i) + 1
		for j := 0; j < len(value)-8; j += 8 {
			state = state*6364136223846793005 + 1442695040888963407
			binary.LittleEndian.PutUint64(value[j:], state)
		}
		fmt.Fprintf(w, "\x0af%09d", (i*7919)%n)
		w.Write([]byte{0x40 | byte(len(value)>>8), byte(len(value))})
		w.Write(value)
	}
	w.WriteString("\xff\x00\x00\x00\x00\x00\x00\x00\x00")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	size, err = file.Seek(0, io.SeekCurrent)
	if err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	return path, size
}

// longStringFile writes an RDB file of version 9 with one string that can't be compressed, without
// a checksum.
func longStringFile(t *testing.T, size int) string {
	t.Helper()
	file := []byte("REDIS0009\xfe\x00\x00\x04long\x80")
	file = binary.BigEndian.AppendUint32(file, uint32(size))
	for state, end := uint64(1), len(file)+size; len(file) < end; {
		state = state*6364136223846793005 + 1442695040888963407
		file = binary.LittleEndian.AppendUint64(file, state)
	}
	path := filepath.Join(t.TempDir(), "long.rdb")
	if err := os.WriteFile(path, append(file, "\xff\x00\x00\x00\x00\x00\x00\x00\x00"...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLongStringMemory moves a string that is larger than the memory that the tool may have, by
// each way, from a file and from a server.
func TestLongStringMemory(t *testing.T) {
	if launch.RaceDetector {
		t.Skip("the race detector takes many times the memory and the time of what it watches")
	}
	const size = 96 << 20
	path, directory := longStringFile(t, size), filepath.Join(t.TempDir(), "data")
	check := func(what string, used, most int64) {
		t.Helper()
		if t.Logf("%s: %d MB of memory for a string of %d MB", what, used>>20, size>>20); used > most {
			t.Errorf("%s took %d MB", what, used>>20)
		}
	}
	check("import --dir", peak(t, "import", path, "--dir", directory), 2*size)
	server, c := served(t, directory)
	if got := call(t, c, "STRLEN", "long"); got != fmt.Sprintf(":%d", size) {
		t.Fatalf("the string has %s bytes", got)
	}
	want := digest(t, c)
	redis := launch.ForTest(t, launch.MustOracle(t))
	check("import", peak(t, "import", path, "--to", redis.Address), size/2)
	if got := digest(t, redis.MustDial(t)); got != want {
		t.Errorf("imported into a Redis it is %s, expected %s", got, want)
	}
	call(t, c, "SET", "long", "another")
	check("port", peak(t, "port", "--from", redis.Address, "--to", server.Address), size/2)
	if got := digest(t, c); got != want {
		t.Errorf("moved from a Redis it is %s, expected %s", got, want)
	}
	check("verify", peak(t, "verify", "--from", redis.Address, "--to", server.Address), size/2)
}

// peak runs the tool, and returns the most memory that it had, in bytes.
func peak(t *testing.T, args ...string) int64 {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, args...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		err = command.Wait()
		close(exited)
	}()
	peak := launch.PeakMemory(command.Process.Pid, exited)
	if err != nil {
		t.Fatalf("kedis %q: %v\n%s", args, err, output.String())
	}
	return peak
}

// TestMemory moves a collection that is larger than the memory that the tool may have.
func TestMemory(t *testing.T) {
	if launch.RaceDetector {
		t.Skip("the race detector takes many times the memory and the time of what it watches")
	}
	const most = 300 << 20
	n := *megabytes << 20 / elementBytes
	path, size := largeFile(t, n)
	check := func(what string, used int64) {
		t.Helper()
		t.Logf("%s: %d MB of memory for a collection of %d MB", what, used>>20, size>>20)
		if used > most {
			t.Errorf("%s took %d MB", what, used>>20)
		}
	}
	directory := filepath.Join(t.TempDir(), "data")
	check("import --dir", peak(t, "import", path, "--dir", directory))
	server, c := served(t, directory)
	c.SetTimeout(10 * time.Minute)
	if got := call(t, c, "HLEN", "large"); got != fmt.Sprintf(":%d", n) {
		t.Fatalf("the hash has %s fields, expected %d", got, n)
	}
	want := digest(t, c)
	out := filepath.Join(t.TempDir(), "out")
	for _, format := range []string{"resp", "json"} {
		check("export --format "+format, peak(t, "export", out, "--from", server.Address, "--format", format))
	}
	check("export to RDB", peak(t, "export", out, "--from", server.Address))
	other := launch.ForTest(t, launch.MustUnderTest(t))
	check("import", peak(t, "import", out, "--to", other.Address))
	c = other.MustDial(t)
	c.SetTimeout(10 * time.Minute)
	if got := digest(t, c); got != want {
		t.Errorf("after an export and an import: %s, expected %s", got, want)
	}
	if strings.Contains(other.Output(), "panic") {
		t.Error(other.Output())
	}
}
