package migrate

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// loaded is a Redis that has loaded an RDB file.
func loaded(t *testing.T, path string) *resp.Connection {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "dump.rdb"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	server, err := launch.MustOracle(t).Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, server) })
	return server.MustDial(t)
}

// piped is a Redis that has what redis-cli --pipe sent it.
func piped(t *testing.T, path string) *resp.Connection {
	t.Helper()
	server := launch.ForTest(t, launch.MustOracle(t))
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	command := exec.Command("redis-cli", "-p", strconv.Itoa(server.Port), "--pipe")
	command.Stdin = file
	if output, err := command.CombinedOutput(); err != nil || !strings.Contains(string(output), "errors: 0") {
		t.Fatalf("redis-cli --pipe: %v\n%s", err, output)
	}
	return server.MustDial(t)
}

// TestExport writes what a server has to a file, which another server takes.
func TestExport(t *testing.T) {
	for _, program := range []struct {
		name  string
		start func(testing.TB) launch.Program
	}{{"Kedis", launch.MustUnderTest}, {"Redis", launch.MustOracle}} {
		t.Run(program.name, func(t *testing.T) {
			server := launch.ForTest(t, program.start(t), "--requirepass", "secret")
			c := server.MustDial(t)
			call(t, c, "AUTH", "secret")
			if program.name == "Redis" {
				call(t, c, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
			}
			mixed(t, c)
			want := digest(t, c)
			path := filepath.Join(t.TempDir(), "data")
			export := func(options ...string) {
				t.Helper()
				succeeds(t, append([]string{"export", path, "--from", server.Address, "--from-auth", "secret"}, options...)...)
			}
			export()
			if got := digest(t, loaded(t, path)); got != want {
				t.Errorf("redis-server loads the RDB file as %s, expected %s", got, want)
			}
			export("--format", "resp")
			if got := digest(t, piped(t, path)); got != want {
				t.Errorf("redis-cli --pipe brings %s, expected %s", got, want)
			}
			export("--format", "json", "--db-map", "1:2", "--rewrite-prefix", "h:hash-")
			compareJSON(t, c, path)
		})
	}
}

// jsonKey is a line of a JSON file.
type jsonKey struct {
	DB     int
	Key    string
	Type   string
	Expire int64
	Value  any
}

// compareJSON compares a file with database 1, which was called 2, and whose prefixes were
// rewritten.
func compareJSON(t *testing.T, c *resp.Connection, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	call(t, c, "SELECT", "1")
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if size := call(t, c, "DBSIZE"); size != ":"+strconv.Itoa(len(lines)) {
		t.Errorf("%d keys are in the file, and in the database %s", len(lines), size)
	}
	for _, line := range lines {
		var key jsonKey
		if err := json.Unmarshal([]byte(line), &key); err != nil || key.DB != 2 {
			t.Fatalf("%s: %v", line, err)
		}
		key.Key = strings.Replace(key.Key, "hash-", "h", 1)
		compareKey(t, c, key)
	}
}

func compareKey(t *testing.T, c *resp.Connection, key jsonKey) {
	t.Helper()
	if got := call(t, c, "TYPE", key.Key); got != "+"+key.Type {
		t.Errorf("%s is a %s, and %s in the file", key.Key, got, key.Type)
	}
	expires, err := c.Must("PEXPIRETIME", key.Key)
	if got, _ := expires.Integer(); err != nil || max(got, 0) != key.Expire {
		t.Errorf("%s expires at %s, and at %d in the file (%v)", key.Key, expires, key.Expire, err)
	}
	var request, want []string
	add := func(value any) {
		switch v := value.(type) {
		case string:
			want = append(want, v)
		case float64:
			want = append(want, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	switch value := key.Value.(type) {
	case string:
		request = []string{"GET", key.Key}
		add(value)
	case []any:
		request = map[string][]string{"list": {"LRANGE", key.Key, "0", "-1"}, "set": {"SMEMBERS", key.Key},
			"zset": {"ZRANGE", key.Key, "0", "-1", "WITHSCORES"}, "hash": {"HGETALL", key.Key}}[key.Type]
		for _, element := range value {
			if pair, ok := element.([]any); ok {
				add(pair[0])
				add(pair[1])
			}
			add(element)
		}
	}
	reply, err := c.Must(request...)
	if err != nil {
		t.Fatal(err)
	}
	got := reply.Strings()
	if len(got) == 0 {
		got = []string{string(reply.Text)}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s is %.300q, and %.300q in the file", key.Key, got, want)
	}
}

// TestExportDirectory reads the data directory of a Kedis that runs, and when it was killed.
func TestExportDirectory(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	mixed(t, c)
	want := digest(t, c)
	path := filepath.Join(t.TempDir(), "data.rdb")
	fails(t, 4, "holds it", "export", path, "--dir", server.Directory)
	server.Kill()
	for range 2 {
		succeeds(t, "export", path, "--dir", server.Directory)
		if got := digest(t, loaded(t, path)); got != want {
			t.Errorf("the file has %s, expected %s", got, want)
		}
	}
	again, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, again)
	if got := digest(t, again.MustDial(t)); got != want {
		t.Errorf("after the export the server has %s, expected %s", got, want)
	}
}

func TestExportRefuses(t *testing.T) {
	server := launch.ForTest(t, launch.MustOracle(t), "--requirepass", "secret", "--repl-diskless-sync-delay", "0")
	c := server.MustDial(t)
	call(t, c, "AUTH", "secret")
	call(t, c, "XADD", "stream", "1-1", "a", "b")
	call(t, c, "SET", "a", "\xff")
	path := filepath.Join(t.TempDir(), "data")
	from := []string{"--from", server.Address, "--from-auth", "secret"}
	for _, c := range []struct {
		code    int
		says    string
		options []string
	}{
		{2, "--from", nil},
		{2, "--format", []string{"--from", server.Address, "--format", "csv"}},
		{4, "NOAUTH", from[:2]},
		{4, "refused", []string{"--from", "127.0.0.1:1"}},
		{4, "no data directory", []string{"--dir", t.TempDir()}},
	} {
		fails(t, c.code, c.says, append([]string{"export", path}, c.options...)...)
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%q left a file", c.options)
		}
	}
}

// TestExportStreamAsJSON exports a stream with groups, of which one has nothing.
func TestExportStreamAsJSON(t *testing.T) {
	server := launch.ForTest(t, launch.MustOracle(t), "--repl-diskless-sync-delay", "0")
	c := server.MustDial(t)
	call(t, c, "XADD", "s", "1-1", "a", "b", "c", "\xff")
	call(t, c, "XADD", "s", "1-2", "d", "e")
	for _, group := range []string{"g", "h", "i"} {
		call(t, c, "XGROUP", "CREATE", "s", group, "0")
	}
	call(t, c, "XGROUP", "CREATECONSUMER", "s", "h", "idle")
	call(t, c, "XREADGROUP", "GROUP", "h", "reader", "STREAMS", "s", ">")
	code, out, complaints := kedisApart(t, nil, "export", "-", "--format", "json", "--from", server.Address)
	times := regexp.MustCompile(`1\d{12}`)
	want := `{"db":0,"key":"s","type":"stream","value":{"entries":[["1-1",["a","b","c",{"base64":"/w=="}]],["1-2",["d","e"]]],` +
		`"last":"1-2","maxDeleted":"0-0","added":2,"groups":[` +
		`{"name":"g","last":"0-0","read":-1,"pending":[],"consumers":[]},` +
		`{"name":"h","last":"1-2","read":2,"pending":[["1-1",T,1],["1-2",T,1]],"consumers":[` +
		`{"name":"idle","seen":T,"active":T,"pending":[]},{"name":"reader","seen":T,"active":T,"pending":["1-1","1-2"]}]},` +
		`{"name":"i","last":"0-0","read":-1,"pending":[],"consumers":[]}]}}` + "\n"
	if got := times.ReplaceAllString(out, "T"); code != 0 || got != want || !json.Valid([]byte(out)) {
		t.Errorf("exit code %d, %s\nexpected %s, %s", code, got, want, complaints)
	}
}
