package migrate

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// served is a Kedis that serves a data directory.
func served(t *testing.T, directory string) (*launch.Server, *resp.Connection) {
	t.Helper()
	server, err := launch.MustUnderTest(t).Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, server) })
	return server, server.MustDial(t)
}

// absent checks that nothing is where a directory would be, nor beside it.
func absent(t *testing.T, directory string) {
	t.Helper()
	if left, err := os.ReadDir(directory); err == nil && len(left) > 0 {
		t.Errorf("%d files are in %s", len(left), directory)
	}
	if _, err := os.Stat(directory + ".filling"); err == nil {
		t.Errorf("%s.filling is left", directory)
	}
}

// TestFill makes data directories of files, serves them, and starts the servers again.
func TestFill(t *testing.T) {
	s := newSource(t)
	before := s.digest
	incremental, err := filepath.Glob(filepath.Join(s.aof, "*.incr.aof"))
	if err != nil || len(incremental) != 1 {
		t.Fatalf("%q, %v", incremental, err)
	}
	plain := filepath.Join(t.TempDir(), "plain.aof")
	content, err := os.ReadFile(incremental[0])
	if err == nil {
		err = os.WriteFile(plain, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	call(t, s.c, "SELECT", "1")
	want := digests(t, s.c, []string{"z1", "z2"}) // before rewrite changes them: the RDB has these
	call(t, s.c, "SELECT", "0")
	s.rewrite(t)
	for _, file := range []struct{ name, path, digest string }{
		{"RDB", s.rdb, before}, {"AOF", plain, before}, {"directory of an AOF", s.aof, s.digest},
	} {
		directory := filepath.Join(t.TempDir(), "data")
		succeeds(t, "import", file.path, "--dir", directory)
		server, c := served(t, directory)
		if got := digest(t, c); got != file.digest {
			t.Errorf("%s: served as %s, expected %s", file.name, got, file.digest)
		}
		size := call(t, c, "DBSIZE")
		call(t, c, "SET", "another", "1")
		call(t, c, "HSET", "hash:large", "another", "1")
		want := digest(t, c)
		server.Kill()
		_, c = served(t, directory)
		if got := digest(t, c); got != want || call(t, c, "DBSIZE") == size {
			t.Errorf("%s: after a kill it is %s, expected %s", file.name, got, want)
		}
		call(t, c, "DEL", "another")
		call(t, c, "HDEL", "hash:large", "another")
		if got := digest(t, c); got != file.digest {
			t.Errorf("%s: %s, expected %s", file.name, got, file.digest)
		}
	}
	directory := t.TempDir()
	succeeds(t, "import", s.rdb, "--dir", directory, "--db-map", "1:2", "--prefix", "z", "--rewrite-prefix", "z:y")
	_, c := served(t, directory)
	call(t, c, "SELECT", "2")
	if got := digests(t, c, []string{"y1", "y2"}); call(t, c, "EXISTS", "y1") != ":1" || !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

// TestFillRefuses has files that are bad, and directories that are taken.
func TestFillRefuses(t *testing.T) {
	s := newSource(t)
	good, err := os.ReadFile(s.rdb)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	directory := filepath.Join(t.TempDir(), "data")
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1]++
	twice := []byte("REDIS0009\xfe\x00\x00\x01a\x011\x00\x01a\x012\xff\x00\x00\x00\x00\x00\x00\x00\x00")
	member := []byte("REDIS0009\xfe\x00\x02\x01a\x02\x01b\x01b\xff\x00\x00\x00\x00\x00\x00\x00\x00")
	aof := func(words ...string) []byte { return resp.AppendRequest(nil, words...) }
	for _, c := range []struct {
		code    int
		says    string
		content []byte
		options []string
	}{
		{4, "checksum", damaged, nil},
		{4, "EOF", good[:len(good)/2], nil},
		{4, "twice", twice, nil},
		{4, "twice", member, nil},
		{5, "--databases", good, []string{"--databases", "1"}},
		{5, "WRONGTYPE", slices.Concat(aof("SET", "a", "1"), aof("LPUSH", "a", "1")), nil},
		{8, "BF.ADD", slices.Concat(aof("SET", "a", "1"), aof("BF.ADD", "f", "x")), nil},
	} {
		fails(t, c.code, c.says, append([]string{"import", write(c.content), "--dir", directory}, c.options...)...)
		absent(t, directory)
	}
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "something"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, 5, "not empty", "import", s.rdb, "--dir", taken)
	fails(t, 2, "--dir", "import", s.rdb, "--dir", directory, "--to", "127.0.0.1:1")
}

// TestFillKilled kills the tool in the middle; what it leaves is no data directory, and the next
// one clears it away.
func TestFillKilled(t *testing.T) {
	s := newSource(t)
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(s.rdb)
	if err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(t.TempDir(), "data")
	reader, writer := io.Pipe()
	command := exec.Command(binary, "import", "-", "--dir", directory)
	command.Stdin = reader
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(content[:len(content)-100]); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(directory+".filling", "db", "CURRENT")); err == nil {
			break
		}
	}
	fails(t, 5, "another process", "import", s.rdb, "--dir", directory)
	if err := command.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if err := command.Wait(); err == nil {
		t.Error("it went on")
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("%d files are in the directory (%v)", len(left), err)
	}
	succeeds(t, "import", s.rdb, "--dir", directory)
	if _, err := os.Stat(directory + ".filling"); err == nil {
		t.Error("what the killed one left is still there")
	}
	_, c := served(t, directory)
	if got := digest(t, c); got != s.digest {
		t.Errorf("served as %s, expected %s", got, s.digest)
	}
}
