package migrate

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// kedis runs the tool, and returns its exit code and what it wrote.
func kedis(t *testing.T, in io.Reader, args ...string) (code int, output string) {
	t.Helper()
	code, out, errors := kedisApart(t, in, args...)
	return code, out + errors
}

func kedisApart(t *testing.T, in io.Reader, args ...string) (code int, output, errorOutput string) {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, args...)
	var out, complaints bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = in, &out, &complaints
	err = command.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String(), complaints.String()
}

// succeeds runs the tool, which has to succeed.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	code, output := kedis(t, nil, args...)
	if code != 0 {
		t.Fatalf("kedis %q: exit code %d\n%s", args, code, output)
	}
	return output
}

// fails runs the tool, which has to fail with a code and to say something.
func fails(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	if got, output := kedis(t, nil, args...); got != code || !strings.Contains(output, says) {
		t.Errorf("kedis %q: exit code %d, expected %d and %q\n%s", args, got, code, says, output)
	}
}

func digest(t *testing.T, c *resp.Connection) string {
	t.Helper()
	return call(t, c, "DEBUG", "DIGEST")
}

// mixed makes keys of all types in several databases, and changes them in ways that an AOF tells
// of.
func mixed(t *testing.T, c *resp.Connection) {
	t.Helper()
	fill(t, c)
	count := 0
	send := func(words ...string) {
		c.Queue(words...)
		count++
	}
	random := rand.New(rand.NewPCG(7, 7))
	for database := range 3 {
		send("SELECT", strconv.Itoa(database))
		for i := range 100 {
			n := strconv.Itoa(random.IntN(60))
			for _, request := range [][]string{
				{"SET", "s" + n, strings.Repeat("v", random.IntN(200))}, {"INCRBYFLOAT", "f" + n, "0.25"}, {"RPUSH", "l" + n, strconv.Itoa(i)},
				{"LPOP", "l" + strconv.Itoa(random.IntN(60))}, {"HSET", "h" + n, "f" + strconv.Itoa(i), "v"}, {"SADD", "i" + n, strconv.Itoa(i)},
				{"SPOP", "i" + strconv.Itoa(random.IntN(60))}, {"ZINCRBY", "z" + n, "1.5", "m" + strconv.Itoa(i%7)},
				{"SET", "e" + n, "x", "EX", "10000"}, {"DEL", "s" + strconv.Itoa(random.IntN(60))},
			} {
				send(request...)
			}
		}
		for _, request := range [][]string{{"MULTI"}, {"INCR", "n"}, {"RPUSH", "l", "a"}, {"RENAME", "n", "renamed"}, {"EXEC"}} {
			send(request...)
		}
	}
	send("SELECT", "0")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range count {
		if _, err := c.Read(); err != nil {
			t.Fatal(err)
		}
	}
}

// source is a Redis with mixed data and its files.
type source struct {
	server *launch.Server
	c      *resp.Connection
	digest string
	rdb    string
	aof    string // the directory of its AOF
}

func newSource(t *testing.T, options ...string) *source {
	t.Helper()
	s := &source{server: launch.ForTest(t, launch.MustOracle(t), append([]string{"--appendonly", "yes"}, options...)...)}
	s.c = s.server.MustDial(t)
	mixed(t, s.c)
	s.digest = digest(t, s.c)
	call(t, s.c, "SAVE")
	s.rdb, s.aof = filepath.Join(s.server.Directory, "dump.rdb"), filepath.Join(s.server.Directory, "appendonlydir")
	return s
}

// rewrite has the AOF rewritten, and writes more.
func (s *source) rewrite(t *testing.T) {
	t.Helper()
	call(t, s.c, "BGREWRITEAOF")
	for {
		reply, err := s.c.Must("INFO", "persistence")
		if err != nil {
			t.Fatal(err)
		}
		if text := string(reply.Text); strings.Contains(text, "aof_rewrite_in_progress:0") && strings.Contains(text, "aof_rewrite_scheduled:0") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	mixed(t, s.c)
	s.digest = digest(t, s.c)
}

// TestImport brings files of all kinds into a Kedis and into a Redis.
func TestImport(t *testing.T) {
	s := newSource(t)
	incremental, err := filepath.Glob(filepath.Join(s.aof, "*.incr.aof"))
	if err != nil || len(incremental) != 1 {
		t.Fatalf("%q, %v", incremental, err)
	}
	plain, err := os.ReadFile(incremental[0])
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := os.ReadFile(s.rdb)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, parts ...[]byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, slices.Concat(parts...), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := s.digest
	s.rewrite(t)
	after := s.digest
	rewritten := func(pattern string) []byte {
		found, err := filepath.Glob(filepath.Join(s.aof, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		content, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	base, increment := rewritten("*.base.rdb"), rewritten("*.incr.aof")
	for i, program := range []launch.Program{launch.MustUnderTest(t), launch.MustOracle(t)} {
		server := launch.ForTest(t, program, "--requirepass", "secret")
		c := server.MustDial(t)
		call(t, c, "AUTH", "secret")
		for _, file := range []struct{ name, path, digest string }{
			{"RDB", s.rdb, before}, {"AOF", write("plain.aof", plain), before},
			{"AOF with a preamble", write("preamble.aof", base, increment), after},
			{"directory of an AOF", s.aof, after}, {"manifest", filepath.Join(s.aof, "appendonly.aof.manifest"), after},
			{"standard input", "-", before},
			{"AOF with times", write("times.aof", []byte("#TS:1700000000\r\n"), plain), before},
			{"AOF that breaks off", write("broken.aof", plain, []byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$10\r\n123")), before},
			{"AOF that breaks off in MULTI", write("multi.aof", plain, []byte("*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n")), before},
		} {
			if i > 0 && file.path != s.aof {
				continue
			}
			call(t, c, "FLUSHALL")
			code, output := kedis(t, bytes.NewReader(snapshot), "import", file.path, "--to", server.Address, "--to-auth", "secret")
			if got := digest(t, c); code != 0 || got != file.digest {
				t.Errorf("%s: exit code %d, digest %s, expected %s\n%s", file.name, code, got, file.digest, output)
			}
		}
	}
}

// TestImportChooses imports some keys, under other names and into another database.
func TestImportChooses(t *testing.T) {
	s := newSource(t)
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	keys := func(c *resp.Connection, database, pattern string) []string {
		call(t, c, "SELECT", database)
		reply, err := c.Must("KEYS", pattern)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(slices.Values(reply.Strings()))
	}
	incremental, err := filepath.Glob(filepath.Join(s.aof, "*.incr.aof"))
	if err != nil || len(incremental) != 1 {
		t.Fatalf("%q, %v", incremental, err)
	}
	for _, file := range []string{s.rdb, incremental[0]} {
		call(t, c, "FLUSHALL")
		succeeds(t, "import", file, "--to", server.Address, "--db-map", "1:4", "--prefix", "h", "--match", "z1*", "--exclude", "h?", "--rewrite-prefix", "h:hash-")
		var want []string
		for _, key := range slices.Concat(keys(s.c, "1", "h??*"), keys(s.c, "1", "z1*")) {
			want = append(want, strings.Replace(key, "h", "hash-", 1))
		}
		slices.Sort(want)
		if got := keys(c, "4", "*"); !slices.Equal(got, want) || len(want) < 20 {
			t.Errorf("%s: %q\nexpected %q", file, got, want)
		}
		call(t, s.c, "SELECT", "1")
		if got, want := digests(t, c, []string{"hash-10", "hash-11", "z12"}), digests(t, s.c, []string{"h10", "h11", "z12"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, expected %q", file, got, want)
		}
		if got := keys(c, "1", "*"); len(got) != 0 {
			t.Errorf("%s: %d keys came to database 1", file, len(got))
		}
	}
}

// TestImportRefuses has files and targets that can't be imported from and to.
func TestImportRefuses(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--requirepass", "secret")
	c := server.MustDial(t)
	call(t, c, "AUTH", "secret")
	s := newSource(t)
	good, err := os.ReadFile(s.rdb)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1]++
	to := []string{"--to", server.Address, "--to-auth", "secret"}
	request := func(words ...string) string { return string(resp.AppendRequest(nil, words...)) }
	for _, c := range []struct {
		code       int
		says, file string
		options    []string
	}{
		{2, "expected --to", s.rdb, nil},
		{2, "--on-conflict", s.rdb, append(to, "--on-conflict", "x")},
		{2, "--db", s.rdb, append(to, "--db", "x")},
		{4, "no such file", filepath.Join(directory, "none"), to},
		{4, "neither", write("text", "hello"), to},
		{4, "neither", write("empty", ""), to},
		{4, "unexpected EOF", write("short", string(good[:len(good)/2])), to},
		{4, "checksum", write("damaged", string(damaged)), to},
		{4, "no AOF", write("more", string(good)+"xyz"), to},
		{4, "manifest", directory + "/..", to},
		{5, "password", s.rdb, []string{"--to", server.Address}},
		{5, "refused", s.rdb, []string{"--to", "127.0.0.1:1"}},
		{8, "TS.ADD", write("unknown", request("SET", "a", "1")+request("TS.ADD", "f", "1", "x")), to},
		{8, `"SETEX" "k" "1": ERR wrong number`, write("arity", request("SETEX", "k", "1")), to},
		{8, `"SMOVE" "a" "b": ERR wrong number`, write("part", request("SMOVE", "a", "b")), append(to, "--prefix", "a")},
		{8, "--on-flush", write("flush", request("SET", "a", "1")+request("FLUSHALL")), to},
	} {
		fails(t, c.code, c.says, append([]string{"import", c.file}, c.options...)...)
	}
	call(t, c, "FLUSHALL")
	call(t, c, "SET", "string", "own")
	fails(t, 6, "string", append([]string{"import", s.rdb, "--on-conflict", "fail"}, to...)...)
	call(t, c, "FLUSHALL")
	call(t, c, "SET", "string", "own")
	if output := succeeds(t, append([]string{"import", s.rdb, "--on-conflict", "skip"}, to...)...); !strings.Contains(output, "skipped: 1, keys that the target had") {
		t.Error(output)
	}
	if got := call(t, c, "GET", "string"); got != `"own"` {
		t.Errorf("the target's key is now %s", got)
	}
	for option, want := range map[string]string{"apply": ":0", "skip": ":1"} {
		call(t, c, "FLUSHALL")
		call(t, c, "SET", "before", "1")
		succeeds(t, append([]string{"import", write("flush", request("FLUSHALL")+request("SET", "a", "1")), "--on-flush", option}, to...)...)
		if got := call(t, c, "EXISTS", "before") + call(t, c, "EXISTS", "a"); got != want+":1" {
			t.Errorf("--on-flush %s: %s", option, got)
		}
	}
}

// TestImportExpired leaves out what has expired, and keeps the rest's expiry.
func TestImportExpired(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	soon := time.Now().Add(-time.Hour).UnixMilli()
	// A file of version 9 without a checksum: two strings, one of which expired an hour ago.
	file := []byte("REDIS0009\xfe\x00\xfc")
	for shift := range 8 {
		file = append(file, byte(soon>>(8*shift)))
	}
	file = append(file, "\x00\x01a\x011\x00\x01b\x012\xff\x00\x00\x00\x00\x00\x00\x00\x00"...)
	path := filepath.Join(t.TempDir(), "old.rdb")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	output := succeeds(t, "import", path, "--to", server.Address)
	if !strings.Contains(output, "1 keys") || !strings.Contains(output, "skipped: 1, keys that had expired") {
		t.Error(output)
	}
	if got := call(t, c, "EXISTS", "a") + call(t, c, "GET", "b"); got != `:0"2"` {
		t.Error(got)
	}
}
