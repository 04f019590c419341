package config

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"kedis/internal/oracle"
)

// shared starts an oracle and returns the options that it has too, each with the value that it
// gave.
func shared(t *testing.T, c *Config) (*oracle.Server, map[string]string) {
	t.Helper()
	server := oracle.Start(t)
	values := make(map[string]string)
	for _, pair := range c.Match([]byte("*")) {
		reply := server.Do("CONFIG", "GET", pair.Name).([]any)
		if len(reply) == 2 {
			values[pair.Name] = reply[1].(string)
		}
	}
	return server, values
}

// applied makes a Config of which every live option can be set.
func applied() *Config {
	c := New()
	for _, name := range c.Unhooked() {
		c.OnChange(name, func() error { return nil })
	}
	return c
}

func TestDefaultsAreThoseOfRedis(t *testing.T) {
	c := New()
	_, theirs := shared(t, c)
	// What the oracle's start decides, and what the storage does.
	different := []string{"dir", "port", "unixsocket", "appendonly"}
	if len(theirs) < 35 {
		t.Fatalf("only %d options are shared", len(theirs))
	}
	for _, pair := range c.Match([]byte("*")) {
		value, ok := theirs[pair.Name]
		if ok && value != pair.Value && !slices.Contains(different, pair.Name) {
			t.Errorf("%s is %q, Redis's is %q", pair.Name, pair.Value, value)
		}
	}
}

var texts = []string{
	"", " ", "0", "1", "5", "10", "11", "100", "501", "1048576", "-1", "-2", "-5", "-6", "+1", "01", "-0", "1.0", "1e3", " 1", "1 ", "0x10",
	"2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
	"18446744073709551615", "18446744073709551616", "8796093022208mb",
	"k", "kb", "1k", "1kb", "2Mb", "3m", "4G", "5b", "5000000B", "1tb", "1.5gb", "2mbx", "10%", "%", "101%", "-5%",
	"yes", "NO", "true", "maybe", "always", "EverySec", "no", "everysec ", "notice", "DEBUG", "verbose warning",
	"50 99", "50  99", "99.90", "33.333333333333", "99.99999999", "nan", "inf", "-inf", "100.1", "1e1", "50,99", "'50'", "0 100 50",
	"normal 1 2 3", "normal 1 2", "foo 1 2 3", "NORMAL 1mb 2mb 3", "slave 1 1 1", "replica 2gb 1gb 9", "pubsub 1 1 1 normal 5 5 5",
	"normal 1 1 1 normal 2 2 2", "normal -1 1 1", "normal 1 2 +3", "normal 1 2 ", "normal  2 3", "normal 1 2 2147483648", "normal 1 2 -1",
	"900 1", "900 1 300", "0 1", "900 -1", "900 1 300 10", "0 0 0", "1 2 2001", "{title}", "{{{port}", "{tile}", "{title", "swapdb", "IP", "panic",
	"normal 1 2 3 foo 1 2 3", "normal x 2 3 foo 1 2 3", "master 1 1 1", "normal 18446744073709551615 k 0", "normal 1 2 0x1", "pass word\"\\\x00\xff\n",
}

// randomText mixes pieces of the texts above.
func randomText(random *rand.Rand) string {
	pieces := []string{"normal", "pubsub", "slave", " ", " ", " ", "1", "0", "9", "99", "50", ".", "-", "mb", "kb", "k", "g", "b", "%", "e", "3000000"}
	for {
		var text strings.Builder
		for range 1 + random.IntN(9) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		// Redis lets a size past 64 bits wrap around, as 17179869185gb to 1gb; it is refused here.
		numbers := strings.FieldsFunc(text.String(), func(r rune) bool { return !unicode.IsDigit(r) })
		if !slices.ContainsFunc(numbers, func(digits string) bool { return len(digits) > 9 }) {
			return text.String()
		}
	}
}

// TestSetAsRedis sets every option that both have to many texts, and holds reply and resulting
// value against the oracle's.
func TestSetAsRedis(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	c := applied()
	server, theirs := shared(t, c)
	set(t, c, "appendonly", "no") // as the oracle was started
	for _, entry := range c.names {
		name := entry.name
		if _, ok := theirs[name]; !ok || entry.when == atStart || strings.HasPrefix(entry.expects(), `"`) {
			continue // the latter have one value here
		}
		switch name {
		case "tls-replication":
			continue // needs certificates
		}
		tries := slices.Clone(texts)
		for range 60 {
			tries = append(tries, randomText(random))
		}
		for _, text := range tries {
			if name == "maxclients" && len(text) > 4 && strings.Trim(text, "0123456789") == "" {
				continue // the oracle's limit of open files may stand against it
			}
			compare(t, c, server, name, text)
		}
	}
}

func compare(t *testing.T, c *Config, server *oracle.Server, name, text string) {
	t.Helper()
	theirs := fmt.Sprint(server.Do("CONFIG", "SET", name, text))
	ours := "OK"
	if err := c.Set([][2]string{{name, text}}); err != nil {
		ours = "ERR " + err.Error()
	}
	if ours != theirs {
		t.Fatalf("CONFIG SET %s %q: %q, Redis says %q", name, text, ours, theirs)
	}
	value := server.Do("CONFIG", "GET", name).([]any)[1]
	if pairs := c.Match([]byte(name)); pairs[0].Value != value {
		t.Fatalf("%s after CONFIG SET %q: %q, Redis has %q", name, text, pairs[0].Value, value)
	}
}

// TestKnowsWhatRedisHas finds options of Redis that somebody's redis.conf may have, and of which
// nothing would be said but that they are unknown.
func TestKnowsWhatRedisHas(t *testing.T) {
	c := applied()
	names := oracle.Start(t).Do("CONFIG", "GET", "*").([]any)
	for i := 0; i < len(names); i += 2 {
		name := names[i].(string)
		if c.lookup(name) == nil && whyWithout(name) == "" {
			t.Errorf("nothing is said of %s", name)
		}
	}
}

func TestRefusalsOfSeveralPairs(t *testing.T) {
	server := oracle.Start(t)
	c := applied()
	for _, words := range []string{
		"nosuch 1",
		"nosuch 1 nosuch2 2",
		"hz 1 NoSuch 1",
		"databases 3",
		"DataBases 3 nosuch 2",
		"nosuch 2 databases 3",
		"hz 1 hz 2",
		"HZ 1 hz 2",
		"hz 1 Hz 2 databases 3",
		"databases 3 hz 1 hz 2",
		"hz abc timeout abc",
		"timeout 5 hz abc",
		"HZ abc",
		"hz abc databases 3",
		"hz 33 timeout abc",
		"hash-max-ziplist-entries 10 hash-max-listpack-entries 11",
		"HASH-MAX-ZIPLIST-ENTRIES abc",
		"hz 44 timeout 3",
	} {
		fields := strings.Fields(words)
		command := []any{"CONFIG", "SET"}
		var pairs [][2]string
		for i := 0; i < len(fields); i += 2 {
			command = append(command, fields[i], fields[i+1])
			pairs = append(pairs, [2]string{fields[i], fields[i+1]})
		}
		ours := "OK"
		if err := c.Set(pairs); err != nil {
			ours = "ERR " + err.Error()
		}
		if theirs := fmt.Sprint(server.Do(command...)); ours != theirs {
			t.Errorf("CONFIG SET %s: %q, Redis says %q", words, ours, theirs)
		}
		for _, name := range []string{"hz", "timeout", "hash-max-listpack-entries"} {
			theirs := server.Do("CONFIG", "GET", name).([]any)[1]
			if ours := c.Match([]byte(name))[0].Value; ours != theirs {
				t.Errorf("after CONFIG SET %s %s is %q, Redis's is %q", words, name, ours, theirs)
			}
		}
	}
}

func TestMatchAsRedis(t *testing.T) {
	server := oracle.Start(t)
	c := New()
	for _, patterns := range [][]string{
		{"hz"}, {"HZ"}, {"HZ", "hz"}, {"nosuch"}, {"h?"}, {"HZ", "h?"}, {"h?", "HZ"}, {"hash-max-*"},
		{"[t]cp-*", "maxclients"}, {"SlowLog*"}, {"hash-max-ziplist-value", "hash-max-*-value"}, {"tcp-keepalive?"}, {"\\hz"},
	} {
		command := []any{"CONFIG", "GET"}
		var ours [][]byte
		for _, pattern := range patterns {
			command = append(command, pattern)
			ours = append(ours, []byte(pattern))
		}
		var want []string
		for reply := server.Do(command...).([]any); len(reply) > 0; reply = reply[2:] {
			want = append(want, fmt.Sprint(reply[0], "=", reply[1]))
		}
		var got []string
		for _, pair := range c.Match(ours...) {
			got = append(got, pair.Name+"="+pair.Value)
		}
		slices.Sort(want) // Redis's order is that of a hash table
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("CONFIG GET %v: %q, Redis says %q", patterns, got, want)
		}
	}
}

// withFile runs redis-server on a configuration file, sends it commands by redis-cli, and returns
// their output.
func withFile(t *testing.T, path, content string, commands ...[]string) []string {
	t.Helper()
	socket := filepath.Join(filepath.Dir(path), "s")
	content = fmt.Sprintf("port 0\nunixsocket %s\n%s", socket, content)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := exec.Command(oracle.Program(), path)
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	defer redis.Wait()
	defer redis.Process.Kill()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if connection, err := net.Dial("unix", socket); err == nil { // it is there before Redis listens on it
			connection.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("redis-server doesn't start")
		}
	}
	var replies []string
	for _, command := range commands {
		output, err := exec.Command("redis-cli", append([]string{"-s", socket}, command...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, strings.TrimSuffix(string(output), "\n"))
	}
	return replies
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestRewriteAsRedis holds what Rewrite makes of a file against what Redis makes of it, but for
// comments, blank lines, and lines about what Kedis hasn't. (Where the file has a line for one
// class of clients only, Rewrite writes all three.)
func TestRewriteAsRedis(t *testing.T) {
	dir := shortDir(t)
	const content = `
# a comment
  HZ    20
hz 30
hash-max-ziplist-entries 5
timeout 0

client-output-buffer-limit normal 0 0 0
client-output-buffer-limit slave 1mb 1mb 1
client-output-buffer-limit pubsub 32mb 8mb 60
loglevel "verbose"
latency-tracking-info-percentiles 50 99
latency-tracking-info-percentiles 10
hash-max-listpack-value 64
bind 127.0.0.1 ::1
bind 127.0.0.1
tcp-keepalive 200
proto-max-bulk-len 5000000
`
	settings := []string{
		"maxclients", "55", "hll-sparse-max-bytes", "4000", "latency-tracking-info-percentiles", "", "tcp-keepalive", "300",
		"client-query-buffer-limit", "2mb", "slowlog-max-len", "9", "protected-mode", "no", "appendfsync", "always",
	}
	theirFile := filepath.Join(dir, "theirs.conf")
	withFile(t, theirFile, content, append([]string{"config", "set"}, settings...), []string{"config", "rewrite"})

	c := applied()
	ourFile := writeFile(t, content)
	if err := c.Load(ourFile); err != nil {
		t.Fatal(err)
	}
	var pairs [][2]string
	for ; len(settings) > 0; settings = settings[2:] {
		pairs = append(pairs, [2]string{settings[0], settings[1]})
	}
	if err := c.Set(pairs); err != nil {
		t.Fatal(err)
	}
	if err := c.Rewrite(); err != nil {
		t.Fatal(err)
	}
	theirs, ours := significant(t, theirFile), significant(t, ourFile)
	if !slices.Equal(theirs, ours) {
		t.Errorf("rewritten:\n%s\n\nRedis has:\n%s", strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
	}
}

// significant returns a rewritten file's lines: those that it had before in their order, then those
// that were appended, sorted.
func significant(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(content), marker)
	if !found {
		t.Fatalf("%s has no marker:\n%s", path, content)
	}
	pick := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			if len(words) > 0 && words[0] != "#" && !slices.Contains([]string{"port", "unixsocket", "dir", "user", "save"}, words[0]) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	appended := pick(after)
	slices.Sort(appended)
	return append(pick(before), appended...)
}

// TestQuotesAsRedis gives Redis words in all sorts of quotes, as values of options that have no
// effect.
func TestQuotesAsRedis(t *testing.T) {
	values := map[string]string{
		"masterauth":          `a\nb`,
		"masteruser":          `"a b"`,
		"replica-announce-ip": `'a "b" \' \n'`,
		"cluster-announce-ip": `"a\nb\r\t\b\a\\\"\q\x41\x4g\xff"`,
		"syslog-ident":        `pre"post"`,
		"bgsave_cpulist":      `pre'post'`,
		"bio_cpulist":         `""`,
		"aof_rewrite_cpulist": `'\x41'`,
		"dbfilename":          `plain`,
		"appendfilename":      "a\u00e4b",
		"bind-source-addr":    `"it's"	`,
	}
	var content strings.Builder
	var names []string
	var commands [][]string
	for name, value := range values {
		fmt.Fprintf(&content, "%s %s\n", name, value)
		names = append(names, name)
		commands = append(commands, []string{"config", "get", name})
	}
	for i, reply := range withFile(t, filepath.Join(shortDir(t), "quotes.conf"), content.String(), commands...) {
		words, err := splitWords(values[names[i]])
		if err != nil || len(words) != 1 || names[i]+"\n"+words[0] != reply {
			t.Errorf("%s: %q, %v; Redis has %q", values[names[i]], words, err, reply)
		}
	}
}
