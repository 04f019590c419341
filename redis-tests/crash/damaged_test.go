package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// TestDamagedTables changes bytes all over RocksDB's table files. Whatever is asked then, the reply
// is what it was before or an error: what can't be read is never taken for something that isn't
// there.
func TestDamagedTables(t *testing.T) {
	// Without compression many small blocks are damaged and others not; without copies in memory
	// all is read from files.
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), "--rocksdb-compression", "none", "--clean-cache-share", "0",
		"--rocksdb-block-cache", "1mb", "--persist-interval", "1h")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	const keys = 10_000
	connection := server.MustDial(t)
	for i := range keys {
		connection.Queue("set", fmt.Sprint("key", i), fmt.Sprint("a value of some length, which is ", i))
	}
	for i := range 3000 {
		connection.Queue("hset", "hash", fmt.Sprint("field", i), fmt.Sprint("value", i))
		connection.Queue("sadd", "set", fmt.Sprint("member", i))
		connection.Queue("zadd", "zset", fmt.Sprint(i), fmt.Sprint("member", i))
		connection.Queue("rpush", "list", fmt.Sprint("element", i))
	}
	replies(t, connection, keys+4*3000)
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	damageTables(t, filepath.Join(server.Directory, "db"))
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	connection = server.MustDial(t)

	requests := map[string]func(i int) (request []string, want string){
		"get":    func(i int) ([]string, string) { return one(i, "get"), strconv.Quote(value(i)) },
		"exists": func(i int) ([]string, string) { return one(i, "exists"), ":1" },
		"strlen": func(i int) ([]string, string) { return one(i, "strlen"), fmt.Sprintf(":%d", len(value(i))) },
		"setnx":  func(i int) ([]string, string) { return append(one(i, "setnx"), "new"), ":0" },
		"hget": func(i int) ([]string, string) {
			return []string{"hget", "hash", fmt.Sprint("field", i%3000)}, fmt.Sprintf("%q", fmt.Sprint("value", i%3000))
		},
		"sismember": func(i int) ([]string, string) {
			return []string{"sismember", "set", fmt.Sprint("member", i%3000)}, ":1"
		},
		"lindex": func(i int) ([]string, string) {
			return []string{"lindex", "list", fmt.Sprint(i % 3000)}, fmt.Sprintf("%q", fmt.Sprint("element", i%3000))
		},
		"zscore": func(i int) ([]string, string) {
			return []string{"zscore", "zset", fmt.Sprint("member", i%3000)}, fmt.Sprintf("%q", fmt.Sprint(i%3000))
		},
		"del": func(i int) ([]string, string) { return one(i, "del"), ":1" },
	}
	failed, right := 0, 0
	for _, name := range []string{"get", "exists", "strlen", "setnx", "hget", "sismember", "lindex", "zscore", "del"} {
		for i := 0; i < keys; i += 7 {
			request, _ := requests[name](i)
			connection.Queue(request...)
		}
		for i, reply := range replies(t, connection, (keys+6)/7) {
			request, want := requests[name](7 * i)
			switch {
			case isDamage(reply):
				failed++
			case reply.String() == want:
				right++
			default:
				t.Fatalf("%s: %s, want %s or an error", resp.Line(request), reply, want)
			}
		}
	}
	if failed == 0 || right == 0 {
		t.Errorf("%d requests failed, %d did not: nothing was tried", failed, right)
	}
	for _, request := range []string{"keys *", "scan 0 count 1000000", "hgetall hash", "smembers set", "zrange zset 0 -1", "lrange list 0 -1",
		"hkeys hash", "sort set alpha", "sinterstore into set set", "copy hash other", "debug digest", "dump hash", "randomkey"} {
		reply, err := connection.Do(strings.Fields(request)...)
		if err != nil || !isDamage(reply) && request != "randomkey" {
			t.Errorf("%s: %.200s (%v), want an error", request, reply, err)
		}
	}
	if reply, err := connection.Do("set", "another", "v"); err != nil || !reply.Is("OK") {
		t.Errorf("SET of a new key: %s (%v)", reply, err)
	}
	if lines := strings.Count(server.Output(), "a command failed"); lines == 0 || lines > failed/10 {
		t.Errorf("%d lines in the log, of %d failures", lines, failed)
	}
}

func one(i int, command string) []string { return []string{command, fmt.Sprint("key", i)} }
func value(i int) string                 { return fmt.Sprint("a value of some length, which is ", i) }

func isDamage(r resp.Reply) bool {
	return r.IsError() && strings.Contains(string(r.Text), "Corruption")
}

func replies(t *testing.T, connection *resp.Connection, count int) []resp.Reply {
	t.Helper()
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}
	read := make([]resp.Reply, count)
	for i := range read {
		var err error
		if read[i], err = connection.Read(); err != nil {
			t.Fatal(err)
		}
	}
	return read
}

// damageTables changes a byte of every 16 KB of the files that hold more than a few blocks, but for
// their ends, where what is needed to open them stands.
func damageTables(t *testing.T, directory string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(directory, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, table := range tables {
		content, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for at := 100; at < len(content)*8/10 && len(content) > 64<<10; at += 16 << 10 {
			content[at] ^= 0x55
			damaged++
		}
		if err := os.WriteFile(table, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if damaged == 0 {
		t.Fatalf("no table is large enough: %q", tables)
	}
}
