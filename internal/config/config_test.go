package config

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write kedis.conf and docs/configuration.md anew")

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kedis.conf")
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func set(t *testing.T, c *Config, name, value string) {
	t.Helper()
	if err := c.SetProtected([][2]string{{name, value}}); err != nil {
		t.Fatal(err)
	}
}

// golden holds a generated text against the file that is checked in.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if content := readFile(t, path); content != text {
		t.Errorf("%s isn't what the table says: go test ./internal/config -rewrite", path)
	}
}

func TestShippedFile(t *testing.T) { golden(t, "../../kedis.conf", New().Sample()) }

func TestDocument(t *testing.T) { golden(t, "../../docs/configuration.md", New().Markdown()) }

// TestShippedFileIsComplete reads the shipped file as a server does: it must set every option that
// has an effect, to its default, below its documentation and unit.
func TestShippedFileIsComplete(t *testing.T) {
	const path = "../../kedis.conf"
	if err := New().Load(path); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(readFile(t, path), "\n")
	text := strings.Join(strings.Fields(strings.ReplaceAll(strings.Join(lines, "\n"), "\n#", " ")), " ")
	for o := range New().options() {
		if o.inert {
			continue // they are for the files of others
		}
		var got []string
		for _, place := range o.setAt(lines) {
			got = append(got, lines[place])
		}
		if !slices.Equal(got, o.fileLines()) {
			t.Errorf("%s: lines %q, want %q", o.name, got, o.fileLines())
		}
		documentation := o.doc + " Expects " + o.expects() + ". Default: " + quoteEmpty(o.initial) + "."
		if !strings.Contains(text, documentation) {
			t.Errorf("%s: not documented as %q", o.name, documentation)
		}
	}
}

// TestEveryFieldIsAnOption finds fields that were forgotten in the table: their Get would panic.
func TestEveryFieldIsAnOption(t *testing.T) {
	c := New()
	value := reflect.ValueOf(c).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		get := value.Field(i).Addr().MethodByName("Get")
		func() {
			defer func() {
				if recover() != nil {
					t.Errorf("%s is not in the table", field.Name)
				}
			}()
			get.Call(nil)
		}()
	}
}

func TestTypedValues(t *testing.T) {
	c := newConfig(1000 << 20)
	path := writeFile(t, `
port 7000
bind 127.0.0.1 -::1
appendfsync ALWAYS
loglevel warning
log-format json
timeout 30
requirepass "a b"
protected-mode no
proto-max-bulk-len 2mb
memory-tier 25%
rocksdb-block-cache 3kb
clean-cache-share 70
binlog-retention-age 36h
rocksdb-compression ZSTD
latency-tracking-info-percentiles 50 99.99
client-output-buffer-limit pubsub 1 2 3
client-output-buffer-limit normal 4kb 5 6
`)
	if err := c.Load(path); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ got, want any }{
		{c.Port.Get(), int64(7000)},
		{c.Bind.Get(), []string{"127.0.0.1", "-::1"}},
		{c.AppendFsync.Get(), FsyncAlways},
		{c.LogLevel.Get(), LogWarning},
		{c.LogFormat.Get(), LogJSON},
		{c.Timeout.Get(), int64(30)},
		{c.RequirePass.Get(), "a b"},
		{c.ProtectedMode.Get(), false},
		{c.ProtoMaxBulkLen.Get(), int64(2 << 20)},
		{c.MemoryTier.Get(), Share{Percent: 25, Bytes: 250 << 20}},
		{c.RocksDBBlockCache.Get(), Share{Bytes: 3 << 10}},
		{c.CleanCacheShare.Get(), int64(70)},
		{c.BinlogRetentionAge.Get(), 36 * time.Hour},
		{c.RocksDBCompression.Get(), "zstd"},
		{c.LatencyPercentiles.Get(), []float64{50, 99.99}},
		{c.OutputLimits.Get().PubSub, OutputLimit{1, 2, 3}},
		{c.OutputLimits.Get().Normal, OutputLimit{4 << 10, 5, 6}},
		{c.OutputLimits.Get().Replica, OutputLimit{256 << 20, 64 << 20, 60}},
		{c.Databases.Get(), int64(16)},
		{c.File(), path},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%#v, want %#v", test.got, test.want)
		}
	}
}

// TestPrimary takes what redis-server 7.0 takes for a primary in its file.
func TestPrimary(t *testing.T) {
	for line, want := range map[string]string{
		"replicaof localhost 0": "localhost 0", "slaveof localhost 65535": "localhost 65535", "replicaof localhost 065": "localhost 065",
		"replicaof localhost +5": "localhost +5", "replicaof No oNe": "", `replicaof ""`: "",
	} {
		c := newConfig(1 << 30)
		if err := c.Load(writeFile(t, line+"\n")); err != nil || c.ReplicaOf.String() != want {
			t.Errorf("%s: %q, %v", line, c.ReplicaOf.String(), err)
		}
	}
	for _, line := range []string{"replicaof localhost -1", "replicaof localhost 65536", "replicaof localhost abc", "replicaof localhost 1x",
		"replicaof localhost 99999999999999999999", "replicaof localhost", "replicaof a b c"} {
		if err := newConfig(1 << 30).Load(writeFile(t, line+"\n")); err == nil {
			t.Errorf("%s is taken", line)
		}
	}
}

func TestMistakesInTheFile(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`maxclients abc`, `maxclients: expected a number of clients from 1 to 4294967295, got "abc"`},
		{`Port 70000`, `Port: expected a number from 0 to 65535, got "70000"`},
		{`port`, `port: expected a number from 0 to 65535, got nothing`},
		{`dir a b`, `dir: expected one value, got 2 words: quote a value that holds spaces`},
		{`maxclient 5`, `unknown option "maxclient": did you mean maxclients?`},
		{`hash-max-zipList-entry 5`, `unknown option "hash-max-zipList-entry": did you mean hash-max-ziplist-entries?`},
		{`dbfilename /a/b`, `dbfilename: expected a file name without a path, got "/a/b"`},
		{`appendfilename ""`, `appendfilename: expected a file name without a path, got ""`},
		{`rdbcompression maybe`, `rdbcompression: expected yes or no, got "maybe"`},
		{`TLS-port 70000`, `TLS-port: expected a number from 0 to 65535, got "70000"`},
		{`tls-auth-clients perhaps`, `tls-auth-clients: expected no, yes or optional, got "perhaps"`},
		{`tls-cluster yes`, `tls-cluster: expected "no" (there is no cluster, and no bus between its nodes that TLS could protect), got "yes"`},
		{`rename-command FLUSHALL`, `rename-command: expected a command and its name, or "" for none, got 1 words`},
		{`user`, `user: expected a user's name and rules, got nothing`},
		{`loadmodule a.so`, `Kedis is without Redis's option "loadmodule": there are no modules`},
		{`cluster-enabled yes`, `cluster-enabled: expected "no" (there is no cluster), got "yes"`},
		{`notify-keyspace-events KEq`, `notify-keyspace-events: expected letters of Ag$lshzxeKEtmdn, or nothing, got "KEq"`},
		{`replica-read-only no`, `replica-read-only: expected "yes" (a replica's log is its primary's, to the byte, so it can't take writes of its own), got "no"`},
		{`maxmemory 1gb`, `maxmemory: expected "0" (the data is on disk; see memory-tier and rocksdb-block-cache for what memory is used), got "1gb"`},
		{`slavish 5`, `unknown option "slavish"`},
		{`dir "abc`, `unbalanced quotes, or text right behind a closing quote`},
		{`dir "abc"d`, `unbalanced quotes, or text right behind a closing quote`},
		{`daemonize always`, `daemonize: expected yes or no, got "always"`},
		{`save 3600`, `save: expected pairs of seconds and a number of changes, or nothing, got "3600"`},
		{`loglevel loud`, `loglevel: expected debug, verbose, notice or warning, got "loud"`},
		{`binlog-retention-age 5`, `binlog-retention-age: expected a duration such as 500ms, 90s, 15m, 12h or 7d, from 0 to 3650d, got "5"`},
		{`generation-bytes 2gb`, `generation-bytes: expected a size such as 512kb or 64mb, from 1kb to 1gb, got "2gb"`},
		{`memory-tier 101%`, `memory-tier: expected a size such as 512mb, or a percentage of the machine's memory such as 10%, got "101%"`},
		{`include a b`, `include: expected a file name or pattern, got 2 words`},
		{`include [`, `include: syntax error in pattern`},
		{`include /none/such.conf`, `include: open /none/such.conf: no such file or directory`},
	} {
		path := writeFile(t, "# first\n\n"+test.line+"\n")
		want := path + ":3: " + test.want
		if err := New().Load(path); err == nil || err.Error() != want {
			t.Errorf("%s:\n%v\n%s", test.line, err, want)
		}
	}
}

func TestAllMistakesAreReported(t *testing.T) {
	path := writeFile(t, "port a\nhz 20\ntimeout b\n")
	c := New()
	err := c.Load(path)
	if err == nil || !strings.Contains(err.Error(), path+":1: port") || !strings.Contains(err.Error(), path+":3: timeout") {
		t.Errorf("%v", err)
	}
	if c.HZ.Get() != 20 {
		t.Errorf("hz is %d", c.HZ.Get())
	}
}

func TestMissingFile(t *testing.T) {
	if err := New().Load(filepath.Join(t.TempDir(), "none.conf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestInclude(t *testing.T) {
	path := writeFile(t, "hz 20\ninclude conf.d/*.conf\ninclude conf.d/.[a-z]*.conf\ntimeout 3\ninclude none-*.conf\n")
	dir := filepath.Dir(path)
	if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"conf.d/1.conf": "hz 30\ntimeout 9\ninclude ../more.conf", "conf.d/2.conf": "hz 40", "more.conf": "port 1",
		"conf.d/.#2.conf": "rubbish", "conf.d/.hidden.conf": "databases 3",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := New()
	if err := c.Load(path); err != nil {
		t.Fatal(err)
	}
	if c.HZ.Get() != 40 || c.Timeout.Get() != 3 || c.Port.Get() != 1 || c.Databases.Get() != 3 {
		t.Errorf("hz %d, timeout %d, port %d, databases %d", c.HZ.Get(), c.Timeout.Get(), c.Port.Get(), c.Databases.Get())
	}
}

// TestIncludeFromAnyDirectory: what stands in an include line is a pattern, and the name of the
// directory isn't. As in Redis, a file whose name is a pattern that doesn't match it isn't found.
func TestIncludeFromAnyDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a[1] \*?`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"main.conf": "include b[1].conf\ninclude c*.conf\ninclude d.conf\ninclude e[[]1].conf\n", "b[1].conf": "hz 30", "c1.conf": "timeout 4",
		"d.conf": "port 1", "e[1].conf": "databases 3",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := New()
	if err := c.Load(filepath.Join(dir, "main.conf")); err != nil {
		t.Fatal(err)
	}
	if c.HZ.Get() != New().HZ.Get() || c.Timeout.Get() != 4 || c.Port.Get() != 1 || c.Databases.Get() != 3 {
		t.Errorf("hz %d, timeout %d, port %d, databases %d", c.HZ.Get(), c.Timeout.Get(), c.Port.Get(), c.Databases.Get())
	}
}

func TestFilesThatIncludeEachOther(t *testing.T) {
	path := writeFile(t, "include *.conf\ninclude *.conf\n")
	if err := New().Load(path); err == nil || !strings.Contains(err.Error(), "do they include each other?") {
		t.Errorf("%v", err)
	}
}

func TestSetIsAllOrNothing(t *testing.T) {
	c := applied()
	calls := 0
	c.OnChange("timeout", func() error { calls++; return nil })
	if err := c.Set([][2]string{{"timeout", "5"}, {"hz", "abc"}}); err == nil {
		t.Fatal("no error")
	}
	if c.Timeout.Get() != 0 || calls != 0 {
		t.Errorf("timeout %d, %d calls", c.Timeout.Get(), calls)
	}
}

func TestFailingHookRollsBack(t *testing.T) {
	c := applied()
	var seen []int64
	c.OnChange("timeout", func() error { seen = append(seen, c.Timeout.Get()); return nil })
	c.OnChange("maxclients", func() error {
		if c.MaxClients.Get() == 7 {
			return errors.New("not that many")
		}
		return nil
	})
	err := c.Set([][2]string{{"timeout", "5"}, {"maxclients", "7"}, {"hash-max-ziplist-entries", "1"}, {"hash-max-listpack-entries", "2"}})
	const want = "CONFIG SET failed (possibly related to argument 'maxclients') - not that many"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if !errors.As(err, new(Refusal)) {
		t.Errorf("%T is no Refusal", err)
	}
	if c.Timeout.Get() != 0 || c.MaxClients.Get() != 10000 || c.HashMaxListpackEntries.Get() != 512 {
		t.Errorf("timeout %d, maxclients %d, hash-max-listpack-entries %d", c.Timeout.Get(), c.MaxClients.Get(), c.HashMaxListpackEntries.Get())
	}
	if !slices.Equal(seen, []int64{5, 0}) {
		t.Errorf("the hook saw %v", seen)
	}
}

func TestFailingRollBackIsTold(t *testing.T) {
	c := applied()
	c.OnChange("timeout", func() error { return errors.New("broken") })
	err := c.Set([][2]string{{"timeout", "5"}})
	if err == nil || !strings.HasSuffix(err.Error(), "- broken; going back to the old value failed too: broken") {
		t.Errorf("%v", err)
	}
}

func TestHooksRunOnChangeOnly(t *testing.T) {
	c := applied()
	calls := 0
	c.OnChange("TIMEOUT", func() error { calls++; return nil })
	for _, value := range []string{"5", "5", "0"} {
		set(t, c, "timeout", value)
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// TestImmutableAsRedis: an option that Redis can't change is refused as such, whatever the value,
// and before the options behind it are looked at.
func TestImmutableAsRedis(t *testing.T) {
	c := New()
	for _, name := range []string{"daemonize", "databases", "pidfile", "unixsocket"} {
		want := "CONFIG SET failed (possibly related to argument '" + name + "') - can't set immutable config"
		for _, pairs := range [][][2]string{{{name, "no"}}, {{name, "x"}}, {{name, "1"}, {name, "1"}}, {{name, "1"}, {"nosuch", "1"}}} {
			if err := c.Set(pairs); err == nil || err.Error() != want {
				t.Errorf("%v: %v", pairs, err)
			}
		}
	}
}

func TestOptionWithoutItsHookIsImmutable(t *testing.T) {
	c := New()
	if !slices.Contains(c.Unhooked(), "loglevel") {
		t.Fatalf("unhooked: %v", c.Unhooked())
	}
	const want = "CONFIG SET failed (possibly related to argument 'loglevel') - can't set immutable config"
	if err := c.Set([][2]string{{"loglevel", "debug"}}); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	c.OnChange("loglevel", func() error { return nil })
	set(t, c, "loglevel", "debug")
	if slices.Contains(c.Unhooked(), "loglevel") {
		t.Errorf("unhooked: %v", c.Unhooked())
	}
}

func TestOptionsThatHaveOneValue(t *testing.T) {
	c := New()
	for _, pair := range [][2]string{{"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}, {"save", ""}, {"appendonly", "yes"}} {
		set(t, c, pair[0], pair[1])
		if got := c.Match([]byte(pair[0])); len(got) != 1 || got[0].Value != pair[1] {
			t.Errorf("%v", got)
		}
	}
	err := c.Set([][2]string{{"maxmemory", "100mb"}})
	const want = `CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be "0": ` +
		`the data is on disk; see memory-tier and rocksdb-block-cache for what memory is used`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestOwnKinds(t *testing.T) {
	c := applied()
	for _, test := range []struct{ name, text, want, line string }{
		{"memory-tier", "20%", "20%", "20%"},
		{"memory-tier", "512mb", "536870912", "512mb"},
		{"memory-tier", "0%", "0", "0"},
		{"clean-cache-share", "30", "30%", "30%"},
		{"clean-cache-share", "100%", "100%", "100%"},
		{"binlog-retention-age", "90M", "90m", "90m"},
		{"binlog-retention-age", "120m", "2h", "2h"},
		{"binlog-retention-age", "48h", "2d", "2d"},
		{"binlog-retention-age", "1500ms", "1500ms", "1500ms"},
		{"binlog-retention-age", "0", "0", "0"},
		{"rocksdb-compression", "SNAPPY", "snappy", "snappy"},
		{"checkpoint-dir", "/a b", "/a b", `"/a b"`},
		{"rocksdb-max-open-files", "20", "20", "20"},
		{"rocksdb-max-open-files", "-1", "-1", "-1"},
	} {
		set(t, c, test.name, test.text)
		o := c.lookup(test.name)
		if o.String() != test.want || !slices.Equal(o.lines(), []string{test.line}) {
			t.Errorf("%s %s: %q, %q", test.name, test.text, o.String(), o.lines())
		}
	}
	for _, test := range [][2]string{
		{"memory-tier", "-1%"}, {"hash-max-listpack-value", "17179869185gb"}, {"memory-tier", "9223372036854775808"}, {"clean-cache-share", "101"}, {"clean-cache-share", "-1%"}, {"clean-cache-share", "%"},
		{"binlog-retention-age", "h"}, {"binlog-retention-age", "-1h"}, {"binlog-retention-age", "1.5h"}, {"binlog-retention-age", "9223372036854775807d"},
		{"binlog-retention-age", "3651d"}, {"rocksdb-compression", "gzip"},
		{"rocksdb-max-open-files", "-2"}, {"rocksdb-max-open-files", "0"}, {"rocksdb-max-open-files", "19"}, {"rocksdb-max-open-files", "2147483648"},
	} {
		if err := c.Set([][2]string{test}); err == nil {
			t.Errorf("%s was accepted", test)
		}
	}
}

func TestFlags(t *testing.T) {
	c := New()
	flags := c.Flags()
	i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == "hash-max-listpack-entries" })
	want := Flag{"hash-max-listpack-entries", []string{"hash-max-ziplist-entries"},
		"A hash with more fields is spread over a record for each field (a number of entries, 0 or more)", "512"}
	if i < 0 || !reflect.DeepEqual(flags[i], want) {
		t.Errorf("flag %d of %d", i, len(flags))
	}
	for _, flag := range flags {
		if err := c.SetFlag(flag.Name, flag.Default); err != nil {
			t.Errorf("the default of --%s: %v", flag.Name, err)
		}
	}
	if err := c.SetFlag("port", "7001"); err != nil || c.Port.Get() != 7001 {
		t.Errorf("%v, port %d", err, c.Port.Get())
	}
	for _, test := range []struct{ name, value, want string }{
		{"port", "x", `--port: expected a number from 0 to 65535, got "x"`},
		{"ports", "1", `--ports: unknown option "ports": did you mean port?`},
	} {
		if err := c.SetFlag(test.name, test.value); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

func TestSensitive(t *testing.T) {
	c := New()
	if !c.Sensitive("RequirePass") || c.Sensitive("port") || c.Sensitive("nosuch") {
		t.Error("the password must be sensitive, and nothing else")
	}
}

// TestReadWhileSetting is for the race detector.
func TestReadWhileSetting(t *testing.T) {
	c := applied()
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() {
			for i := range 300 {
				value := []string{"1", "2"}[i%2]
				if err := c.Set([][2]string{{"timeout", value}, {"requirepass", value}, {"client-output-buffer-limit", "normal 0 0 " + value}}); err != nil {
					t.Error(err)
				}
				c.Match([]byte("*"))
			}
		})
	}
	for range 1000 {
		if n := c.Timeout.Get() + c.OutputLimits.Get().Normal.Seconds + int64(len(c.RequirePass.Get())); n < 0 {
			t.Errorf("%d", n)
		}
	}
	done.Wait()
}

func TestGetAllocatesNothing(t *testing.T) {
	c := New()
	if n := testing.AllocsPerRun(100, func() { _, _, _ = c.Port.Get(), c.OutputLimits.Get(), c.RequirePass.Get() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMachineMemory(t *testing.T) {
	meminfo := &fstest.MapFile{Data: []byte("MemTotal:        4096 kB\nMemFree: 1 kB\n")}
	limit := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"no limit":        {fstest.MapFS{"proc/meminfo": meminfo}, 4 << 20},
		"nothing":         {fstest.MapFS{}, 1 << 30},
		"unlimited group": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": limit("0::/"), "sys/fs/cgroup/memory.max": limit("max")}, 4 << 20},
		"own group":       {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": limit("0::/a/b"), "sys/fs/cgroup/a/b/memory.max": limit("1000")}, 1000},
		"group around":    {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": limit("0::/a/b"), "sys/fs/cgroup/a/memory.max": limit("2000")}, 2000},
		"version 1":       {fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": limit("3000")}, 3000},
		"version 1 max":   {fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": limit("9223372036854771712")}, 4 << 20},
	} {
		if got := machineMemory(test.files); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	if got := MachineMemory(); got < 1<<20 || got == math.MaxInt64 {
		t.Errorf("this machine has %d bytes", got)
	}
}
