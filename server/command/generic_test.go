package command

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/internal/oracle"
	"kedis/internal/resp"
	"kedis/redis-tests/seed"
	"kedis/server/enginetest"
	"kedis/storage"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// TestGenericEffects: what goes to the log must be the same whenever and wherever it is repeated.
func TestGenericEffects(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	for _, c := range []struct{ before, command, effects string }{
		{"SET k v", "DEL k l", "DEL k l"},
		{"SET k v", "UNLINK k", "UNLINK k"},
		{"", "DEL k", ""},
		{"SET k v", "EXISTS k", ""},
		{"SET k v", "TOUCH k", ""},
		{"SET k v", "RENAME k l", "RENAME k l"},
		{"SET k v", "RENAME k k", ""},
		{"", "RENAME k l", ""},
		{"MSET k v l w", "RENAMENX k l", ""},
		{"SET k v", "RENAMENX k l", "RENAMENX k l"},
		{"SET k v", "COPY k l", "COPY k l"},
		{"SET k v", "COPY k l DB 3 REPLACE", "COPY k l DB 3 REPLACE"},
		{"MSET k v l w", "COPY k l", ""},
		{"", "COPY k l", ""},
		{"SET m v", "MOVE m 5", "MOVE m 5"},
		{"", "MOVE m 5", ""},
		{"SET k v", "EXPIRE k 100", "PEXPIREAT k *"},
		{"SET k v", "PEXPIRE k 100000 NX", "PEXPIREAT k *"},
		{"SET k v", "EXPIREAT k 4102444800", "PEXPIREAT k 4102444800000"},
		{"SET k v", "PEXPIREAT k 4102444800001 LT", "PEXPIREAT k 4102444800001"},
		{"SET k v", "EXPIRE k 100 XX", ""},
		{"SET k v", "EXPIRE k 100 GT", ""},
		{"SET k v", "EXPIRE k 0", "DEL k"},
		{"SET k v", "PEXPIREAT k -1", "DEL k"},
		{"", "EXPIRE k 100", ""},
		{"SET k v", "PERSIST k", ""},
		{"SETEX k 100 v", "PERSIST k", "PERSIST k"},
		{"RPUSH k 3 1 2", "SORT k", ""},
		{"RPUSH k 3 1 2", "SORT k BY nosort GET w_*", ""},
		{"RPUSH k 3 1 2", "SORT k STORE l", "RPUSH l 1 2 3"},
		{"RPUSH k 3 1 2", "SORT k STORE k", "MULTI; DEL k; RPUSH k 1 2 3; EXEC"},
		{"RPUSH k 3 1 2", "SORT k BY w_* GET # GET w_* STORE l", "RPUSH l 1  2  3 "},
		{"SET l v", "SORT k STORE l", "DEL l"},
		{"", "SORT k STORE l", ""},
		{"SET k v", "FLUSHDB", "FLUSHDB"},
		{"", "FLUSHDB ASYNC", "FLUSHDB ASYNC"},
		{"SET k v", "FLUSHALL", "FLUSHALL"},
		{"SET k v", "SWAPDB 0 7", "SWAPDB 0 7"},
		{"", "SWAPDB 7 0", "SWAPDB 7 0"},
		{"SET k v", "SWAPDB 0 0", ""},
		{"SET k v", "SCAN 0", ""},
		{"SET k v", "DUMP k", ""},
		{"SET k v", "OBJECT ENCODING k", ""},
	} {
		client.Flush()
		if c.before != "" {
			client.Do(strings.Split(c.before, " ")...)
		}
		log.Content = nil
		client.Do(strings.Split(c.command, " ")...)
		got := aTime.ReplaceAllString(strings.Join(enginetest.Requests(t, log.Content), "; "), "*")
		if got != c.effects {
			t.Errorf("%q after %q: effect %q, want %q", c.command, c.before, got, c.effects)
		}
	}
}

// TestRestoreEffects: RESTORE is repeated with the time at which the key expires, or as a removal.
func TestRestoreEffects(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	client.Do("SET", "k", "v")
	payload := strings.TrimSuffix(client.Do("DUMP", "k")[len("$12\r\n"):], "\r\n")
	for _, c := range []struct{ command, effects string }{
		{"RESTORE k 0 P", ""},
		{"RESTORE l 0 P", "RESTORE l 0 P REPLACE ABSTTL"},
		{"RESTORE l 100000 P REPLACE IDLETIME 5", "RESTORE l * P REPLACE ABSTTL"},
		{"RESTORE l 4102444800001 P ABSTTL REPLACE FREQ 5", "RESTORE l 4102444800001 P REPLACE ABSTTL"},
		{"RESTORE l 1 P ABSTTL REPLACE", "DEL l"},
		{"RESTORE l 1 P ABSTTL", ""},
		{"RESTORE l 0 garbage", ""},
	} {
		log.Content = nil
		args := strings.Split(c.command, " ")
		if i := slices.Index(args, "P"); i >= 0 {
			args[i] = payload
		}
		client.Do(args...)
		got := strings.ReplaceAll(strings.Join(enginetest.Requests(t, log.Content), "; "), payload, "P")
		if got = aTime.ReplaceAllString(got, "*"); got != c.effects {
			t.Errorf("%q: effect %q, want %q", c.command, got, c.effects)
		}
	}
}

// TestGenericReplay applies the log of random commands to a second engine, whose databases must
// then hold the same, to the byte.
func TestGenericReplay(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 8))
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	for range 4000 {
		client.Do(randomGenericCommand(random)...)
	}
	replica, _ := newTestEngine(t)
	if err := replica.NewLogApplier().Replay(0, log.Content, log.Position(), time.Now()); err != nil {
		t.Fatal(err)
	}
	for database := range 3 {
		got, want := contentOf(t, replica, database), contentOf(t, engine, database)
		if !maps.Equal(got, want) {
			t.Errorf("database %d of the replica has\n%q, want\n%q", database, got, want)
		}
		if got, want := replica.Store.NewTxn().DB(database).Size(), int64(len(want)); got != want {
			t.Errorf("database %d of the replica has %d keys, want %d", database, got, want)
		}
	}
}

func randomGenericCommand(random *rand.Rand) []string {
	key := func() string { return string(rune('a' + random.IntN(6))) }
	n := func() string { return strconv.Itoa(random.IntN(30)) }
	number := func() string { return strconv.Itoa(random.IntN(3)) }
	pattern := func() string { return []string{"w_*", "*", "#", "nosort", "h_*->f"}[random.IntN(5)] }
	commands := [][]string{
		{"SET", key(), n()}, {"RPUSH", key(), n(), n(), n()}, {"ZADD", key(), n(), n(), n(), n()}, {"SET", "w_" + n(), n()},
		{"SADD", key(), n(), n(), n()}, {"SADD", key(), n(), "x" + n()}, {"HSET", key(), n(), n()}, {"HSET", "h_" + n(), "f", n()},
		{"DEL", key(), key()}, {"RENAME", key(), key()}, {"RENAMENX", key(), key()}, {"COPY", key(), key()},
		{"COPY", key(), key(), "REPLACE", "DB", number()}, {"MOVE", key(), number()}, {"SWAPDB", number(), number()},
		{"EXPIRE", key(), "1000"}, {"PEXPIREAT", key(), "41024448000" + n(), "GT"}, {"EXPIRE", key(), "0", "XX"}, {"PERSIST", key()},
		{"SORT", key(), "BY", pattern(), "GET", pattern(), "STORE", key()}, {"SORT", key(), "ALPHA", "DESC", "STORE", key()},
		{"SORT", key(), "ALPHA", "BY", pattern(), "LIMIT", "1", "3", "STORE", key()}, {"SELECT", number()},
	}
	if random.IntN(200) == 0 {
		return []string{[]string{"FLUSHDB", "FLUSHALL"}[random.IntN(2)]}
	}
	return commands[random.IntN(len(commands))]
}

// contentOf are a database's keys: expiry and value of each.
func contentOf(t *testing.T, e *Engine, database int) map[string]string {
	t.Helper()
	found := map[string]string{}
	txn := e.Store.NewTxn()
	txn.Begin(storage.Mode{Applying: true}, 0, 0)
	db, w := txn.DB(database), rdb.NewPayloadWriter()
	err := db.Keys(nil, func(key []byte, m *layout.Metadata) bool {
		payload, err := db.Dump(nil, storage.Key{Metadata: *m, Exists: true}, w)
		if err != nil {
			t.Fatal(err)
		}
		found[string(key)] = fmt.Sprintf("%d %s %q", m.ExpireMs, storage.Encoding(m), payload)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestGenericAgainstRedis runs random commands on Redis too, whose replies are the expected ones.
func TestGenericAgainstRedis(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 9))
	redis := oracle.Start(t)
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	for range 4000 {
		command := randomReading(random)
		want := redis.Do(toAny(command)...)
		reply, err := resp.NewReader(strings.NewReader(client.Do(command...)), 1<<20).ReadReply()
		if err != nil {
			t.Fatal(err)
		}
		if got := plain(reply); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q: %v, want %v", command, got, want)
		}
	}
}

// randomReading is a command whose reply chance and time have no part in, or one that prepares such
// commands. Sets are left out of sorting by texts: those that weigh the same come in any order.
func randomReading(random *rand.Rand) []string {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	key := func() string { return string(rune('a' + random.IntN(6))) }
	when := func() string {
		return pick("4102444800000", "4102444800001", "4102444800002", "4102444800999", "0", "-1", "x", "")
	}
	condition := func() string { return pick("NX", "XX", "GT", "LT", "nx", "foo") }
	number := func() string { return pick("0", "1", "2", "16", "-1", "x", "4294967296", "99999999999999999999") }
	place := func() string { return pick("0", "1", "-1", "2", "5", "x") }
	payload := pick("", "garbage", "\x00\xc0\x05\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	commands := [][]string{
		{"SET", key(), pick("1", "2", "abc", "1.5")}, {"RPUSH", key(), place(), place(), place()}, {"ZADD", key(), pick("1", "2"), place()},
		{"SET", "w_" + place(), place()}, {"DEL", key(), key()}, {"EXISTS", key(), key(), key()}, {"TYPE", key()}, {"TOUCH", key(), key()},
		{"RENAME", key(), key()}, {"RENAMENX", key(), key()}, {"COPY", key(), key(), pick("REPLACE", "replace", "foo")}, {"COPY", key(), key()},
		{"COPY", key(), key(), "DB", number()}, {"COPY", key(), key(), "DB"}, {"MOVE", key(), number()}, {"SWAPDB", number(), number()},
		{"PEXPIREAT", key(), when()}, {"PEXPIREAT", key(), when(), condition()}, {"PEXPIREAT", key(), when(), condition(), condition()},
		{"PEXPIRETIME", key()}, {"EXPIRETIME", key()}, {"PERSIST", key()}, {"EXPIRE", key(), pick("9223372036854775807", "-9223372036854775808", "x")},
		{"SORT", key(), "LIMIT", place(), place()}, {"SORT", key(), "ALPHA", pick("DESC", "ASC", "foo")}, {"SORT_RO", key(), "STORE", key()},
		{"SORT", key(), "BY", "w_*", "GET", "#", "GET", "w_*", pick("DESC", "ASC")}, {"SORT", key(), "BY", "nosort", pick("DESC", "ASC"), "LIMIT", place(), place()},
		{"SORT", key(), "STORE", key()}, {"SORT", key(), "BY", "w_*", "STORE", key()}, {"DBSIZE"}, {"OBJECT", pick("ENCODING", "FREQ"), "missing"},
		{"OBJECT", pick("foo", "HELP"), "x"}, {"SCAN", pick("x", "0 ", "1e3")}, {"SCAN", "0", pick("COUNT", "MATCH", "TYPE", "foo")},
		{"SCAN", "0", "COUNT", pick("0", "-1", "x")}, {"HSCAN", key(), pick("x", "0"), "COUNT", "x"}, {"ZSCAN", key(), "0", "MATCH", pick("1", "x")},
		{"RESTORE", key(), pick("0", "-1", "x"), payload}, {"RESTORE", key(), "0", payload, pick("IDLETIME", "FREQ"), pick("-1", "x", "256")},
		{"DUMP", "missing"}, {pick("FLUSHDB", "FLUSHALL"), "foo"}, {"SELECT", pick("0", "1")}, {"KEYS", pick("nothing*", "[")},
	}
	return commands[random.IntN(len(commands))]
}

// TestWatchingWholeDatabases: FLUSHDB and SWAPDB change the keys that they take away or bring.
func TestWatchingWholeDatabases(t *testing.T) {
	engine, _ := newTestEngine(t)
	client, other := newTestClient(t, engine), newTestClient(t, engine)
	for _, c := range []struct {
		command string
		aborts  bool
	}{
		{"FLUSHDB", true}, {"FLUSHALL", true}, {"SWAPDB 0 1", true}, {"SWAPDB 1 0", true}, {"SWAPDB 1 2", false}, {"SWAPDB 0 0", false},
	} {
		for key, there := range map[string]bool{"k": true, "missing": false} {
			other.Do("FLUSHALL")
			other.Do("SET", "k", "v")
			client.Do("WATCH", key)
			client.Do("MULTI")
			other.Do(strings.Split(c.command, " ")...)
			want := "*0\r\n"
			if c.aborts && there {
				want = "*-1\r\n"
			}
			if got := client.Do("EXEC"); got != want {
				t.Errorf("EXEC of a watcher of %s after %q: %q, want %q", key, c.command, got, want)
			}
		}
	}
}

// TestTransactionsSeeEmptiedDatabases: FLUSHDB and SWAPDB in a transaction work at once.
func TestTransactionsSeeEmptiedDatabases(t *testing.T) {
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	client.Do("SET", "a", "1")
	client.Do("MULTI")
	for _, command := range []string{"FLUSHDB", "DBSIZE", "SET b 2", "DBSIZE", "SWAPDB 0 1", "DBSIZE", "SELECT 1", "KEYS *"} {
		client.Do(strings.Split(command, " ")...)
	}
	want := "*8\r\n+OK\r\n:0\r\n+OK\r\n:1\r\n+OK\r\n:0\r\n+OK\r\n*1\r\n$1\r\nb\r\n"
	if got := client.Do("EXEC"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := client.Do("DBSIZE"); got != ":1\r\n" {
		t.Errorf("DBSIZE afterwards: %q", got)
	}
}

// TestLongElementsLeaveTheReactor: what reads many megabytes runs on a worker, however few the keys
// or fields are. A megabyte is read on the reactor. (TestLongElementsCost has the walks.)
func TestLongElementsLeaveTheReactor(t *testing.T) {
	engine, log := newTestEngine(t)
	log.Discard = true
	client := newTestClient(t, engine)
	const elements = 1200 // a reactor may touch more
	mget, hmget := []string{"MGET"}, []string{"HMGET", "h"}
	for i := range elements {
		name := strconv.Itoa(i)
		client.Do("HSET", "h", name, name+strings.Repeat("x", 10<<10))
		hmget = append(hmget, name)
	}
	client.Do("SET", "k", strings.Repeat("x", 100<<10))
	for range 120 {
		mget = append(mget, "k")
	}
	for _, request := range [][]string{mget, hmget} {
		if few := request[:min(len(request), 12)]; leavesReactor(client, few) {
			t.Errorf("%s of ten left the reactor", few[0])
		}
		if !leavesReactor(client, request) {
			t.Errorf("%s ran on the reactor", request[0])
		}
	}
}

// TestLongTransactionsLeaveTheReactor: none of the queued requests is long by itself.
func TestLongTransactionsLeaveTheReactor(t *testing.T) {
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	client.Do("SET", "large", strings.Repeat("x", 1<<20))
	for name, queued := range map[string]struct {
		request string
		times   int
	}{
		"many":   {"PING", 10_000},
		"length": {"GET large", 200}, // of a megabyte each, and 10 are read on the reactor
	} {
		client.Do("MULTI")
		for range queued.times {
			client.Do(strings.Fields(queued.request)...)
		}
		if !leavesReactor(client, []string{"EXEC"}) {
			t.Errorf("%s: %d times %s ran on the reactor", name, queued.times, queued.request)
		}
	}
}

// TestWhatSortRepeatsLeavesTheReactor: GET # may be given many times for one long element.
func TestWhatSortRepeatsLeavesTheReactor(t *testing.T) {
	engine, log := newTestEngine(t)
	log.Discard = true
	client := newTestClient(t, engine)
	client.Do("RPUSH", "l", strings.Repeat("x", 200<<10))
	if !leavesReactor(client, strings.Fields("SORT l BY nosort"+strings.Repeat(" GET #", 100))) {
		t.Error("GET # ran on the reactor")
	}
}

// leavesReactor reports whether a request is run by a worker.
func leavesReactor(c *testClient, request []string) bool {
	before := c.Engine.Statistics.Offloads.Load()
	c.Do(request...)
	return c.Engine.Statistics.Offloads.Load() != before
}
