package clients

import (
	"bufio"
	"bytes"
	"fmt"
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

// redisCLI runs redis-cli against a server and returns what it prints, and whether it says that it
// succeeded.
func redisCLI(t *testing.T, server *launch.Server, input []byte, arguments ...string) (output string, succeeded bool) {
	t.Helper()
	command := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(server.Port)}, arguments...)...)
	command.Stdin = bytes.NewReader(input)
	all, err := command.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return string(all), err == nil
}

// requests are what --pipe sends: strings, one large key of each other type, and one that expires.
func requests() []byte {
	var b []byte
	for i := range 3000 {
		b = resp.AppendRequest(b, "SET", fmt.Sprint("key:", i), strings.Repeat("v", i%100))
		b = resp.AppendRequest(b, "HSET", "hash", fmt.Sprint(i), strings.Repeat("f", 20))
		b = resp.AppendRequest(b, "RPUSH", "list", fmt.Sprint(i))
		b = resp.AppendRequest(b, "SADD", "set", fmt.Sprint("member", i))
		b = resp.AppendRequest(b, "ZADD", "zset", fmt.Sprint(i), fmt.Sprint("member", i))
	}
	b = resp.AppendRequest(b, "SET", "expires", "x", "EX", "100000")
	b = resp.AppendRequest(b, "SELECT", "3")
	return resp.AppendRequest(b, "SET", "other", "database")
}

// TestRedisCLI runs the special modes of redis-cli that end by themselves, on Kedis and on Redis.
func TestRedisCLI(t *testing.T) {
	redis, kedis := launch.Pair(t)
	for _, server := range []*launch.Server{redis, kedis} {
		if output, ok := redisCLI(t, server, requests(), "--pipe"); !ok || !strings.Contains(output, "errors: 0, replies: 15003") {
			t.Fatalf("--pipe: %s", output)
		}
	}
	t.Run("same", func(t *testing.T) { sameOnBoth(t, redis, kedis) })
	t.Run("rdb", func(t *testing.T) { loadsWhatIsFetched(t, kedis) })
	t.Run("replica", func(t *testing.T) { printsTheStream(t, kedis) })
	t.Run("hot keys", func(t *testing.T) { findsHotKeys(t, kedis) })
	t.Run("latency", func(t *testing.T) {
		output, ok := redisCLI(t, kedis, nil, "-i", "0.2", "--latency")
		if !ok || !regexp.MustCompile(`^\d+ \d+ \d+\.\d+ \d+\n$`).MatchString(output) {
			t.Errorf("%q", output)
		}
	})
}

// sameOnBoth compares modes whose output tells of the data alone. Keys come in another order, and
// their progress with them.
func sameOnBoth(t *testing.T, redis, kedis *launch.Server) {
	for _, arguments := range [][]string{{"--bigkeys"}, {"--hotkeys"}, {"--scan", "--pattern", "key:12*"}, {"--scan", "--quoted-pattern", `"k\x65y:1*"`}} {
		want, wantOK := redisCLI(t, redis, nil, arguments...)
		have, haveOK := redisCLI(t, kedis, nil, arguments...)
		if haveOK != wantOK || !slices.Equal(summary(want), summary(have)) {
			t.Errorf("%q\nRedis (%v): %s\nKedis (%v): %s", arguments, wantOK, want, haveOK, have)
		}
	}
	// Sizes in memory differ, and what is the largest of each type does not.
	have, ok := redisCLI(t, kedis, nil, "--memkeys")
	for _, line := range []string{`list found '"list"'`, `hash found '"hash"'`, `set found '"set"'`, `zset found '"zset"'`, "Sampled 3005 keys"} {
		if !ok || !strings.Contains(have, line) {
			t.Errorf("--memkeys doesn't say %s: %s", line, have)
		}
	}
}

// findsHotKeys: --hotkeys lists the keys that are accessed most often, in their order, when
// maxmemory-policy has accesses counted.
func findsHotKeys(t *testing.T, kedis *launch.Server) {
	if output, ok := redisCLI(t, kedis, nil, "config", "set", "maxmemory-policy", "allkeys-lfu"); !ok {
		t.Fatal(output)
	}
	warm := bytes.Repeat(resp.AppendRequest(nil, "GET", "key:7"), 100)
	hot := bytes.Repeat(resp.AppendRequest(nil, "HGET", "hash", "11"), 10000)
	if output, ok := redisCLI(t, kedis, slices.Concat(warm, hot), "--pipe"); !ok {
		t.Fatal(output)
	}
	output, ok := redisCLI(t, kedis, nil, "--hotkeys")
	if !ok || !regexp.MustCompile(`summary[^\"]*keys in the keyspace!\nhot key found with counter: \d+\tkeyname: "hash"\nhot key .*"key:7"\n`).MatchString(output) {
		t.Error(output)
	}
	if output, ok := redisCLI(t, kedis, nil, "config", "set", "maxmemory-policy", "noeviction"); !ok {
		t.Fatal(output)
	}
}

// summary is what the output says in the end, in order of the lines. The largest of several strings
// of the same size is any of them.
func summary(output string) []string {
	if _, end, ok := strings.Cut(output, "-------- summary -------"); ok {
		output = regexp.MustCompile(`"key:\d+"`).ReplaceAllString(end, `"key:"`)
	}
	lines := strings.Split(output, "\n")
	slices.Sort(lines)
	return lines
}

// loadsWhatIsFetched lets a redis-server start with the file that --rdb brings.
func loadsWhatIsFetched(t *testing.T, kedis *launch.Server) {
	directory := t.TempDir()
	if output, ok := redisCLI(t, kedis, nil, "--rdb", filepath.Join(directory, "dump.rdb")); !ok {
		t.Fatal(output)
	}
	loaded, err := launch.MustOracle(t).Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, loaded)
	want, _ := redisCLI(t, kedis, nil, "debug", "digest")
	if have, _ := redisCLI(t, loaded, nil, "debug", "digest"); have != want {
		t.Errorf("the digest is %s, and was %s", have, want)
	}
	if output, ok := redisCLI(t, kedis, nil, "--functions-rdb", filepath.Join(directory, "functions.rdb")); !ok {
		t.Error(output)
	}
	if info, err := os.Stat(filepath.Join(directory, "functions.rdb")); err != nil || info.Size() == 0 {
		t.Errorf("--functions-rdb: %v", err)
	}
}

// printsTheStream has redis-cli follow the server, until it has printed what is written meanwhile.
func printsTheStream(t *testing.T, kedis *launch.Server) {
	command := exec.CommandContext(t.Context(), "redis-cli", "-p", strconv.Itoa(kedis.Port), "--replica")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
	}()
	c := kedis.MustDial(t)
	for { // until it is attached
		reply, err := c.Must("INFO", "replication")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(reply.Text, []byte("state=online")) {
			break
		}
	}
	for _, line := range [][]string{{"SELECT", "5"}, {"SET", "a key", "\x00"}, {"SPOP", "nothing"}, {"INCR", "n"}} {
		if _, err := c.Must(line...); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(stdout)
	for _, want := range []string{`"SELECT","5"`, `"SET","a key","\x00"`, `"INCR","n"`} {
		for {
			if !lines.Scan() {
				t.Fatalf("%s never came", want)
			}
			if lines.Text() != `"ping"` && lines.Text() != `"PING"` {
				break
			}
		}
		if lines.Text() != want {
			t.Fatalf("%s, and not %s", lines.Text(), want)
		}
	}
}
