package differential

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

func steps(lines ...string) []Step {
	var all []Step
	for _, line := range lines {
		text, joined := strings.CutPrefix(line, "+ ")
		all = append(all, Step{Line: strings.Fields(text), Joined: joined})
	}
	return all
}

// twins returns a driver of two redis-servers and a connection to the second, by which a test can
// make it differ.
func twins(t *testing.T) (*Driver, *resp.Connection) {
	t.Helper()
	program := launch.MustOracle(t)
	oracle, other := launch.ForTest(t, program), launch.ForTest(t, program)
	driver := NewDriver(oracle, other)
	t.Cleanup(driver.Close)
	if err := driver.Begin(0); err != nil {
		t.Fatal(err)
	}
	driver.patience = 300 * time.Millisecond
	return driver, other.MustDial(t)
}

func run(driver *Driver, all []Step) *Difference {
	for _, batch := range Batches(all) {
		if difference := driver.Do(batch); difference != nil {
			return difference
		}
	}
	return nil
}

// TestDifferencesAreSeen makes one server differ behind the driver's back, in each way in which one
// can.
func TestDifferencesAreSeen(t *testing.T) {
	for name, example := range map[string]struct{ before, behind, after string }{
		"value":          {"set k v", "set k w", "get k"},
		"in a pipeline":  {"set k v", "set k w", "get other\n+ get k\n+ ping"},
		"type":           {"set k v", "hset k2 f v", "type k2"},
		"in EXEC":        {"set k v", "set k w", "multi\nget k\nexec"},
		"number in EXEC": {"set k v", "set k w", "multi\nstrlen other\nget k\nexec"},
		"digest":         {"set k v", "set other v", "multi\n@digest"},
		"members":        {"sadd s a b c", "sadd s d", "smembers s"},
		"random pick":    {"sadd s a b c", "srem s a\nsadd s x", "srandmember s 3"},
		"random number":  {"sadd s a b c", "srem s a", "srandmember s -5\nsrandmember s 3"},
		"picked pair":    {"hset h a 1 b 2", "hset h a 2 b 1", "hrandfield h 2 withvalues"},
		"picked field":   {"hset h a b", "del h\nhset h b a", "hrandfield h 1"},
		"picked score":   {"zadd z 1 a 2 b", "zadd z 2 a 1 b", "zrandmember z -2 withscores"},
		"SPOP":           {"sadd s a b c d", "srem s a\nsadd s x", "spop s 2"},
		"pairs":          {"hset h a 1 b 2", "hset h a 2 b 1", "hgetall h"},
		"keys":           {"set k v", "set other v", "keys *"},
		"SCAN":           {"set k v", "set other v", "@scan"},
		"HSCAN":          {"hset h a 1", "hset h a 2", "@hscan h"},
		"dump":           {"set k 1", "set k 2", "@exchange k"},
		"dump of a type": {"set k 1", "del k", "@exchange k"},
		"DBSIZE":         {"set k v", "set other v", "dbsize"},
		"expiry":         {"set k v", "pexpireat k 4200000000001", "pexpiretime k"},
		"absolute":       {"set k v px 200000000\npexpireat k 4200000000000", "pexpireat k 4200000000001", "pexpiretime k"},
		"TTL":            {"set k v ex 200000", "expire k 300000", "ttl k"},
		"a minute":       {"set k v ex 200000", "expire k 200060", "pexpiretime k"},
		"score":          {"zadd z 0.1 a", "zadd z 0.10000000000000002 a", "zscore z a"},
		"encoding":       {"hset h f v", "hset h f " + strings.Repeat("x", 100), "object encoding h"},
		"pending":        {"xadd x 1-1 a b\nxgroup create x g 0\nxreadgroup group g c streams x >", "xreadgroup group g c streams x 0", "xpending x g - + 9"},
		"owner":          {"xadd x 1-1 a b\nxgroup create x g 0\nxreadgroup group g c streams x >", "xclaim x g d 0 1-1 retrycount 1", "xpending x g"},
		"SORT of a list": {"rpush l b a", "del l\nrpush l a b", "sort l by nosort"},
		"SORT with gets": {"rpush l b a", "del l\nrpush l a b", "sort l by nosort get # get x_* alpha"},
		"LIMIT":          {"sadd s a b c", "srem s a\nsadd s x", "sort s by nosort limit 0 3"},
		"LIMIT of GETs":  {"sadd s a b\nmset w_a 1 w_b 1", "set w_a 2", "sort s by nosort get # get w_* limit 0 1\nsort s by nosort get w_* get # limit 1 1"},
		"by name":        {"zadd z 1 a 2 b 3 c", "zrem z b\nzadd z 2 x", "zrangebylex z - +"},
		"count by name":  {"zadd z 1 a 2 b 3 c", "set z v", "zlexcount z - +"},
		"error":          {"set k v", "del k\nlpush k x", "get k"},
	} {
		t.Run(name, func(t *testing.T) {
			driver, behind := twins(t)
			if difference := run(driver, steps(strings.Split(example.before, "\n")...)); difference != nil {
				t.Fatalf("too early: %s", difference)
			}
			for line := range strings.SplitSeq(example.behind, "\n") {
				if _, err := behind.Must(strings.Fields(line)...); err != nil {
					t.Fatal(err)
				}
			}
			if difference := run(driver, steps(strings.Split(example.after, "\n")...)); difference == nil {
				t.Errorf("%s made no difference after %s", example.after, example.behind)
			}
		})
	}
}

func TestWhatMayDifferPasses(t *testing.T) {
	driver, _ := twins(t)
	all := steps("sadd s a b c d e f g h", "spop s 3", "smembers s", "@digest", "srandmember s 2", "spop s", "multi", "spop s", "smembers s", "exec", "spop s 100",
		"hset h a 1 b 2 c 3 d 4 e 5", "hrandfield h 2 withvalues", "hgetall h", "@hscan h count 1", "set k v", "@short k", "@pause", "get k", "@digest", "randomkey", "@exchange h",
		"zadd z 0.1 a", "@exchange z", "zrandmember z -3 withscores", "hello 3", "zrandmember z 1 withscores", "reset", "time", "client id", "hello 3", "hgetall h", "reset", "config get *-max-*",
		"sort s by nosort limit 0 2", "sort s by nosort get # get x_* limit 1 2", "xadd x 1-1 a b", "xgroup create x g 0", "xreadgroup group g c streams x >", "xpending x g - + 9")
	if difference := run(driver, all); difference != nil {
		t.Error(difference)
	}
}

func TestAServerThatEndsIsADifference(t *testing.T) {
	driver, _ := twins(t)
	driver.underTest.server.Kill()
	if difference := run(driver, steps("ping")); difference == nil || !strings.Contains(difference.Reason, "didn't answer") {
		t.Errorf("got %v", difference)
	}
}

func TestScoresThatAreEqual(t *testing.T) {
	read := func(wire string) resp.Reply {
		t.Helper()
		reply, err := resp.ReadReply(bufio.NewReader(strings.NewReader(wire)))
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	for _, example := range []struct {
		want, got string
		equal     bool
	}{
		{"$19\r\n0.10000000000000001\r\n", "$3\r\n0.1\r\n", true},
		{",0.10000000000000001\r\n", ",0.1\r\n", true},
		{"$19\r\n0.10000000000000001\r\n", ",0.1\r\n", false},
		{"$2\r\n-0\r\n", "$1\r\n0\r\n", false},
		{"*2\r\n$1\r\na\r\n$5\r\n1e+20\r\n", "*2\r\n$1\r\na\r\n$21\r\n100000000000000000000\r\n", true},
		{"*2\r\n$1\r\na\r\n$1\r\n1\r\n", "*2\r\n$1\r\nb\r\n$1\r\n1\r\n", false},
		{"$1\r\n1\r\n", "$-1\r\n", false},
	} {
		if got := scoresEqual(read(example.want), read(example.got)); got != example.equal {
			t.Errorf("%q and %q: %v", example.want, example.got, got)
		}
	}
}

// TestShrink looks for a history that fails as soon as a, b and c have come in this order.
func TestShrink(t *testing.T) {
	var all []Step
	for range 500 {
		all = append(all, Step{Line: []string{"x", "1", "2"}})
	}
	all[17].Line, all[230].Line, all[444].Line = []string{"a", "needed", "not"}, []string{"b"}, []string{"c"}
	short := Shrink(all, func(steps []Step) int {
		found := 0
		for i, step := range steps {
			if step.Line[0] == "abc"[found:found+1] && (found > 0 || len(step.Line) > 1 && step.Line[1] == "needed") {
				if found++; found == 3 {
					return i + 1
				}
			}
		}
		return 0
	})
	if got := history(short); got != "    [1] a needed\n    [1] b\n    [1] c\n" {
		t.Errorf("reduced to\n%s", got)
	}
}
