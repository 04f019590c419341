package access

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// expect sends lines and compares the replies, or how they begin where the expectation ends with …
func expect(t *testing.T, c *resp.Connection, lines ...string) {
	t.Helper()
	for i := 0; i < len(lines); i += 2 {
		words, err := resp.SplitLine(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		got, want := do(t, c, words...).String(), lines[i+1]
		if prefix, some := strings.CutSuffix(want, "…"); got != want && !(some && strings.HasPrefix(got, prefix)) {
			t.Errorf("%s: %s, want %s", lines[i], got, want)
		}
	}
}

const fullOfKeys = "-QUOTA database 3 may have 3 keys"

// TestQuotaOfKeys fills a database up to its quota, in all ways in which keys come to be.
func TestQuotaOfKeys(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	expect(t, c,
		"config set database-limit '3 keys 3'", "+OK",
		"config get database-limit", `["database-limit" "3 keys 3"]`,
		"mset a 1 b 2 c 3 d 4", "+OK", // another database
		"copy a x DB 3", ":1",
		"move b 3", ":1",
		"select 3", "+OK",
		"set k 1", "+OK",
		"set l 1", fullOfKeys,
		"get l", "nil",
		"set k 2", "+OK", // it is there
		"append k 3", ":2",
		"lpush l a", fullOfKeys,
		"hset h f v", fullOfKeys,
		"mset k 1 m 2", fullOfKeys,
		"get k", `"23"`,
		"rename k l", "+OK",
		"copy l m", fullOfKeys,
		"sort nothing store m", ":0",
		"eval \"redis.call('set', 'l', '5') return redis.call('set', 'm', '5')\" 2 l m", "-QUOTA database 3 may have 3 keys…",
		"multi", "+OK",
		"set l 6", "+QUEUED",
		"set m 6", "+QUEUED",
		"exec", "[+OK "+fullOfKeys+"]",
		"blmove nothing m left right 0.001", "nil-array",
		"del x", ":1",
		"set m 1", "+OK",
		"select 0", "+OK",
		"move c 3", fullOfKeys,
		"copy c y DB 3", fullOfKeys,
		"exists c", ":1",
		"swapdb 0 3", "+OK",
		"dbsize", ":3",
		"swapdb 0 3", "+OK",
		"config set database-limit '3 keys 0'", "+OK",
		"config get database-limit", `["database-limit" ""]`,
		"copy c y DB 3", ":1",
		"config set database-limit '99 keys 5'", "-ERR CONFIG SET failed (possibly related to argument 'database-limit') - database-limit: there is no database 99, only 16 databases",
		"config set database-limit '3 key 5'", "-ERR CONFIG SET failed…",
	)
}

// TestQuotaOfBytes fills a database until it may take no more on disk; others, and what makes it
// smaller, go on.
func TestQuotaOfBytes(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--database-limit", "3 bytes 1mb")
	c := server.MustDial(t)
	must(t, c, "select", "3")
	value := strings.Repeat("x", 10_000)
	taken := 0
	for ; taken < 1000; taken++ {
		if reply := do(t, c, "set", fmt.Sprint("k", taken), value); reply.IsError() {
			if want := "-QUOTA database 3 may take 1048576 bytes on disk"; reply.String() != want {
				t.Errorf("%s, want %s", reply, want)
			}
			break
		}
	}
	if taken < 80 || taken > 110 {
		t.Errorf("%d values of 10,000 bytes were taken", taken)
	}
	expect(t, c, "strlen k0", ":10000", "del k0 k1 k2", ":3", "expire k3 100", ":1", "select 0", "+OK", "set k v", "+OK", "select 3", "+OK")
	must(t, c, "flushdb")
	eventually(t, "an emptied database takes writes", func() bool { return !do(t, c, "set", "other", value).IsError() })
	info := string(must(t, c, "info", "limits").Text)
	if !strings.Contains(info, "limit_db3:keys=1,max_keys=0,bytes=") || !strings.Contains(info, ",max_bytes=1048576,") {
		t.Errorf("INFO says %s", info)
	}
}

// TestQuotaOfStagedBytes: what a worker writes ahead of the commit counts as all else does.
func TestQuotaOfStagedBytes(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--database-limit", "3 bytes 30mb")
	c := server.MustDial(t)
	must(t, c, "select", "3")
	const full = "-QUOTA database 3 may take 31457280 bytes on disk"
	must(t, c, "set", "k", strings.Repeat("x", 20<<20))
	if used := bytesUsed(t, c, 3); used < 20<<20 || used > 21<<20 {
		t.Errorf("a value of 20 MB is counted as %d bytes", used)
	}
	for _, request := range [][]string{{"set", "l", strings.Repeat("x", 20<<20)}, {"copy", "k", "l"}} {
		if reply := do(t, c, request...); reply.String() != full {
			t.Errorf("%s: %.100s, want %s", request[0], reply, full)
		}
	}
	expect(t, c, "exists l", ":0", "set small x", "+OK")
}

// TestQuotaOfWhatIsTakenBack: a script that is taken back on its reactor, to run on a worker, is
// counted once, and what is refused not at all.
func TestQuotaOfWhatIsTakenBack(t *testing.T) {
	const keys = 20_000
	server := launch.ForTest(t, launch.MustUnderTest(t), "--database-limit", "3 bytes 1gb 4 bytes 1gb 5 bytes 1mb")
	c := server.MustDial(t)
	must(t, c, "select", "3")
	must(t, c, "eval", fmt.Sprintf("for i=1,%d do redis.call('set', 'k'..i, 'value') end", keys), "0")
	must(t, c, "select", "4")
	for i := 1; i <= keys; i++ {
		c.Queue("set", fmt.Sprint("k", i), "value")
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range keys {
		if reply, err := c.Read(); err != nil || reply.IsError() {
			t.Fatal(reply, err)
		}
	}
	if script, single := bytesUsed(t, c, 3), bytesUsed(t, c, 4); script != single {
		t.Errorf("a script that writes what takes %d bytes is counted as %d", single, script)
	}
	must(t, c, "select", "5")
	value := strings.Repeat("x", 600_000)
	expect(t, c, "set k "+value, "+OK", "mset l "+value+" m "+value, "-QUOTA database 5…")
	if used := bytesUsed(t, c, 5); used > 610_000 {
		t.Errorf("what was refused is counted: %d bytes", used)
	}
}

// bytesUsed returns how many bytes a database takes, as INFO counts them for its limit.
func bytesUsed(t *testing.T, c *resp.Connection, database int) (bytes int) {
	t.Helper()
	_, line, found := strings.Cut(string(must(t, c, "info", "limits").Text), fmt.Sprintf("limit_db%d:", database))
	_, field, has := strings.Cut(line, ",bytes=")
	if _, err := fmt.Sscanf(field, "%d,", &bytes); err != nil || !found || !has {
		t.Fatalf("INFO tells of no bytes: %q, %v", line, err)
	}
	return bytes
}

// TestRates has users and databases asked for more than they may be, while others are served.
func TestRates(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--database-limit", "4 requests 1", "--database-limit", "5 traffic 1000")
	c := server.MustDial(t)
	expect(t, c,
		"acl setuser alice on nopass ~* +@all requests=1 traffic=1kb", "+OK",
		"acl setuser bob on nopass ~* +@all requests=x", "-ERR Error in ACL SETUSER modifier 'requests=x': A rate must be a number, with a unit if need be, and 0 for none",
		"acl setuser bob on nopass ~* +@all traffic=1kb", "+OK",
		"acl setuser carol on nopass ~* +@all requests=5 traffic=6 resetrates", "+OK",
	)
	list := strings.Join(must(t, c, "acl", "list").Strings(), "\n")
	for _, line := range []string{"user alice on nopass requests=1 traffic=1024 ~*", "user bob on nopass traffic=1024 ~*", "user carol on nopass ~*"} {
		if !strings.Contains(list, line) {
			t.Errorf("ACL LIST has no %q:\n%s", line, list)
		}
	}
	if got := string(must(t, c, "acl", "getuser", "alice").Raw); !strings.Contains(got, "requests\r\n:1\r\n$7\r\ntraffic\r\n:1024\r\n") {
		t.Errorf("ACL GETUSER: %q", got)
	}
	alice := as(t, server, "alice")
	second := as(t, server, "alice")
	if n := refusals(t, alice, "-LIMIT user alice may make 1 requests a second", "ping") + refusals(t, second, "-LIMIT user alice", "ping"); n == 0 {
		t.Error("alice is never refused")
	}
	bob := as(t, server, "bob")
	must(t, c, "set", "large", strings.Repeat("x", 100_000))
	do(t, bob, "get", "large")
	if n := refusals(t, bob, "-LIMIT user bob may send and receive 1024 bytes a second", "get", "nothing"); n == 0 {
		t.Error("bob is never refused")
	}
	expect(t, c, "select 4", "+OK")
	if n := refusals(t, c, "-LIMIT database 4 takes 1 requests a second", "get", "k"); n == 0 {
		t.Error("database 4 is never refused")
	}
	expect(t, c, "select 5", "+OK", "set k "+strings.Repeat("x", 5000), "+OK", "get k", "-LIMIT database 5 takes and gives 1000 bytes a second",
		"ping", "+PONG", "select 0", "+OK", "get nothing", "nil")
	carol := as(t, server, "carol")
	for range 50 {
		must(t, carol, "get", "nothing")
	}
	info := string(must(t, c, "info", "limits").Text)
	for _, field := range []string{"limit_db4:", "limit_db5:", "limit_user_alice:max_requests=1,max_traffic=1024,refused=", "limit_user_bob:"} {
		if !strings.Contains(info, field) {
			t.Errorf("INFO has no %s:\n%s", field, info)
		}
	}
}

// TestRatesOfPipelines sends more than a database takes at once: what comes behind other requests
// is refused, too, and is counted once as its user's.
func TestRatesOfPipelines(t *testing.T) {
	const requests = 30
	server := launch.ForTest(t, launch.MustUnderTest(t), "--database-limit", "0 requests 1")
	c := server.MustDial(t)
	must(t, c, "acl", "setuser", "alice", "on", "nopass", "~*", "+@all", fmt.Sprint("requests=", requests))
	alice := as(t, server, "alice")
	for range requests {
		alice.Queue("get", "k")
	}
	if err := alice.Flush(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range requests {
		switch reply, err := alice.Read(); {
		case err != nil:
			t.Fatal(err)
		case reply.String() == "-LIMIT database 0 takes 1 requests a second":
			refused++
		case reply.IsError():
			t.Errorf("a request is answered %s", reply)
		}
	}
	if refused == 0 {
		t.Error("none is refused")
	}
}

// refusals is how many of some requests, one behind the other, are refused.
func refusals(t *testing.T, c *resp.Connection, says string, words ...string) (n int) {
	t.Helper()
	for range 20 {
		if reply := do(t, c, words...); strings.HasPrefix(reply.String(), says) {
			n++
		} else if reply.IsError() {
			t.Errorf("%s: %s, want %s", resp.Line(words), reply, says)
		}
	}
	return n
}

// TestLimitsStay keeps limits and rates through CONFIG REWRITE, ACL SAVE, ACL LOAD and restarts.
func TestLimitsStay(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "kedis.conf")
	if err := os.WriteFile(path, []byte("# limits\ndatabase-limit 3 keys 5\naclfile users.acl\ndatabase-limit 2 bytes 10gb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "users.acl"), []byte("user alice on nopass ~* +@all requests=7 traffic=1mb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := launch.MustUnderTest(t)
	program.Line = append(append([]string(nil), program.Line...), path)
	server, err := program.Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	c := server.MustDial(t)
	expect(t, c,
		"config get database-limit", `["database-limit" "2 bytes 10737418240 3 keys 5"]`,
		"config set database-limit '2 bytes 0 3 requests 100'", "+OK",
		"config rewrite", "+OK",
		"acl setuser alice requests=8", "+OK",
		"acl setuser bob traffic=2kb", "+OK",
		"acl save", "+OK",
		"acl setuser alice requests=9", "+OK",
		"acl load", "+OK",
	)
	check := func() {
		t.Helper()
		list := strings.Join(must(t, c, "acl", "list").Strings(), "\n")
		for _, line := range []string{"user alice on nopass requests=8 traffic=1048576 ", "user bob off traffic=2048 "} {
			if !strings.Contains(list, line) {
				t.Errorf("ACL LIST has no %q:\n%s", line, list)
			}
		}
		expect(t, c, "config get database-limit", `["database-limit" "3 keys 5 3 requests 100"]`)
	}
	check()
	server.Kill()
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	c = server.MustDial(t)
	check()
	content, err := os.ReadFile(path)
	if want := "# limits\ndatabase-limit 3 keys 5\naclfile \"users.acl\"\ndatabase-limit 3 requests 100\n"; err != nil || !strings.HasPrefix(string(content), want) {
		t.Errorf("the file is\n%s (%v)", content, err)
	}
}
