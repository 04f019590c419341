package migrate

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// movers are who sends keys to whom by MIGRATE.
var movers = []struct {
	name     string
	from, to func(testing.TB) launch.Program
}{
	{"KedisToRedis", launch.MustUnderTest, launch.MustOracle},
	{"RedisToKedis", launch.MustOracle, launch.MustUnderTest},
	{"KedisToKedis", launch.MustUnderTest, launch.MustUnderTest},
}

// call sends a request and returns the reply as text, errors too.
func call(t *testing.T, c *resp.Connection, words ...string) string {
	t.Helper()
	reply, err := c.Do(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return reply.String()
}

// fill makes keys of all types, small and large, and returns their names.
func fill(t *testing.T, c *resp.Connection) []string {
	t.Helper()
	fields, members, scores := []string{"HSET", "hash:large"}, []string{"SADD", "set:large"}, []string{"ZADD", "zset:large"}
	elements := []string{"RPUSH", "list:large"}
	for i := range 2000 {
		n := strconv.Itoa(i)
		fields = append(fields, "field"+n, "value"+n)
		members = append(members, "member"+n)
		scores = append(scores, n+".5", "member"+n)
		elements = append(elements, "element"+n)
	}
	for _, request := range [][]string{fields, members, scores, elements,
		{"SET", "string", "a\x00b\r\nc"}, {"SET", "number", "12345"}, {"SET", "string:large", strings.Repeat("0123456789", 50_000)},
		{"HSET", "hash", "a", "1"}, {"SADD", "intset", "1", "2", "3"}, {"SADD", "set", "a", "b"}, {"ZADD", "zset", "1", "a", "-inf", "b"},
		{"RPUSH", "list", "a", "1"}, {"SET", "expires", "x", "EX", "1000"}, {"PEXPIRE", "hash:large", "1000000"}} {
		call(t, c, request...)
	}
	reply, err := c.Must("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(reply.Strings()))
}

func digests(t *testing.T, c *resp.Connection, keys []string) []string {
	t.Helper()
	reply, err := c.Must(append([]string{"DEBUG", "DIGEST-VALUE"}, keys...)...)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Strings()
}

// TestMigrate moves keys of all types to another database of a server with a password: one by one,
// several at once, and as copies.
func TestMigrate(t *testing.T) {
	for _, mover := range movers {
		t.Run(mover.name, func(t *testing.T) {
			from := launch.ForTest(t, mover.from(t))
			to := launch.ForTest(t, mover.to(t), "--requirepass", "secret")
			c, target := from.MustDial(t), to.MustDial(t)
			call(t, target, "AUTH", "secret")
			call(t, target, "SELECT", "3")
			keys := fill(t, c)
			want := digests(t, c, keys)
			move := func(want string, words ...string) {
				t.Helper()
				if got := call(t, c, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port)}, words...)...); got != want {
					t.Fatalf("MIGRATE %.200q: %s, expected %s", words, got, want)
				}
			}
			for _, key := range keys {
				move("+OK", key, "3", "60000", "COPY", "AUTH", "secret")
			}
			if got := digests(t, target, keys); !slices.Equal(got, want) || !slices.Equal(digests(t, c, keys), want) {
				t.Fatalf("copied: %q, expected %q", got, want)
			}
			call(t, target, "FLUSHALL")
			move("+OK", "hash:large", "3", "60000", "AUTH2", "default", "secret")
			move("+OK", append([]string{"", "3", "60000", "REPLACE", "AUTH", "secret", "KEYS", "none"}, keys...)...)
			if got := digests(t, target, keys); !slices.Equal(got, want) {
				t.Fatalf("moved: %q, expected %q", got, want)
			}
			for _, key := range []string{"expires", "hash:large"} {
				reply, err := target.Must("PTTL", key)
				if ttl, ok := reply.Integer(); err != nil || !ok || ttl < 900_000 || ttl > 1_000_000 {
					t.Fatalf("%s lives for another %s ms (%v)", key, reply, err)
				}
			}
			if left := call(t, c, "DBSIZE"); left != ":0" {
				t.Fatalf("keys are left: %s", left)
			}
			move("+NOKEY", append([]string{"", "3", "60000", "AUTH", "secret", "KEYS"}, keys...)...)
			call(t, target, "CONFIG", "SET", "requirepass", "changed")
			call(t, c, "SET", "late", "1")
			move("-ERR Target instance replied with error: WRONGPASS invalid username-password pair or user is disabled.",
				"late", "3", "60000", "AUTH", "secret")
		})
	}
}

// TestMigrateReplies compares what Kedis and Redis answer.
func TestMigrateReplies(t *testing.T) {
	target := launch.ForTest(t, launch.MustOracle(t), "--requirepass", "secret")
	connect := target.MustDial(t)
	call(t, connect, "AUTH", "secret")
	call(t, connect, "ACL", "SETUSER", "anybody", "on", "nopass", "~mine", "+@all")
	port := strconv.Itoa(target.Port)
	requests := [][]string{
		{"MIGRATE"}, {"MIGRATE", "127.0.0.1", port, "a", "0"},
		{"MIGRATE", "127.0.0.1", port, "none", "0", "60000"},
		{"MIGRATE", "127.0.0.1", port, "none", "99", "60000"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "x"}, {"MIGRATE", "127.0.0.1", port, "a", "x", "60000"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "FOO"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "AUTH"}, {"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "AUTH2", "user"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "KEYS", "a"}, {"MIGRATE", "127.0.0.1", port, "", "0", "60000", "KEYS"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "60000"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "AUTH", "wrong"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "AUTH2", "nobody", "secret"},
		{"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "AUTH", ""}, {"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "AUTH2", "", "secret"},
		{"MIGRATE", "127.0.0.1", port, "mine", "0", "60000", "AUTH2", "anybody", ""}, {"EXISTS", "mine"},
		{"MIGRATE", "127.0.0.1", port, "a", "99", "60000", "AUTH", "secret"},
		{"MIGRATE", "127.0.0.1", port, "taken", "0", "60000", "AUTH", "secret"},
		{"MIGRATE", "127.0.0.1", port, "", "0", "60000", "AUTH", "secret", "KEYS", "taken", "b"},
		{"EXISTS", "a"}, {"EXISTS", "taken"}, {"EXISTS", "b"},
		{"MIGRATE", "127.0.0.1", "1", "a", "0", "60000"}, {"MIGRATE", "127.0.0.1", "word", "a", "0", "60000"},
		{"MIGRATE", "", port, "a", "0", "60000"},
		{"MULTI"}, {"SET", "a", "2"}, {"MIGRATE", "127.0.0.1", port, "a", "0", "60000", "REPLACE", "AUTH", "secret"}, {"GET", "a"},
		{"MIGRATE", "127.0.0.1", port, "taken", "0", "60000", "AUTH", "secret"}, {"EXEC"}, {"EXISTS", "a", "taken"},
		{"COMMAND", "GETKEYS", "MIGRATE", "h", "1", "k", "0", "1"}, {"COMMAND", "GETKEYS", "MIGRATE", "h", "1", "", "0", "1", "COPY", "AUTH", "KEYS", "KEYS", "a", "b"},
		{"COMMAND", "GETKEYS", "MIGRATE", "h", "1", "k", "0", "1", "KEYS", "a"}, {"COMMAND", "INFO", "MIGRATE"},
	}
	var replies [2][]string
	for i, program := range []launch.Program{launch.MustOracle(t), launch.MustUnderTest(t)} {
		call(t, connect, "FLUSHALL")
		call(t, connect, "SET", "taken", "before")
		c := launch.ForTest(t, program).MustDial(t)
		call(t, c, "MSET", "a", "1", "b", "1", "taken", "1", "mine", "1")
		for _, request := range requests {
			replies[i] = append(replies[i], call(t, c, request...))
		}
		replies[i] = append(replies[i], call(t, connect, "MGET", "a", "b", "taken", "mine"))
	}
	requests = append(requests, []string{"the target"})
	for i, request := range requests {
		if replies[0][i] != replies[1][i] {
			t.Errorf("%q\nRedis: %s\nKedis: %s", request, replies[0][i], replies[1][i])
		}
	}
}

// TestMigrateLosesNoWrite moves keys that clients write to all the time: what was answered is at
// the target, or still here.
func TestMigrateLosesNoWrite(t *testing.T) {
	for _, form := range []string{"Single", "Keys", "Prefix"} {
		t.Run("KedisToRedis"+form, func(t *testing.T) { migrateBesideWriters(t, launch.MustOracle(t), form) })
		t.Run("KedisToKedis"+form, func(t *testing.T) { migrateBesideWriters(t, launch.MustUnderTest(t), form) })
	}
}

func migrateBesideWriters(t *testing.T, program launch.Program, form string) {
	from, to := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, program)
	c, target := from.MustDial(t), to.MustDial(t)
	const keys, writers = 12, 3
	var written [writers][keys]int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for w := range writers {
		own := from.MustDial(t)
		running.Add(1)
		go func() {
			defer running.Done()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				k := n % keys
				request := []string{"INCR", "counter" + strconv.Itoa(k)}
				if k%2 == 1 {
					request = []string{"RPUSH", "list" + strconv.Itoa(k), strings.Repeat("x", n%3000)}
				}
				if _, err := own.Must(request...); err != nil {
					t.Error(err)
					return
				}
				written[w][k]++
			}
		}()
	}
	name := func(k int) string { return []string{"counter", "list"}[k%2] + strconv.Itoa(k) }
	var all []string
	for k := range keys {
		all = append(all, name(k))
		for call(t, c, "EXISTS", name(k)) == ":0" {
			time.Sleep(time.Millisecond)
		}
	}
	move := func(words ...string) {
		if reply := call(t, c, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port)}, words...)...); reply != "+OK" {
			t.Errorf("MIGRATE %q: %s", words, reply)
		}
	}
	switch form {
	case "Single":
		for _, key := range all {
			move(key, "0", "10000")
		}
	case "Keys":
		move(append([]string{"", "0", "10000", "KEYS"}, all...)...)
	case "Prefix":
		move("counter", "0", "10000", "USE_PREFIX")
		move("list", "0", "10000", "USE_PREFIX")
	}
	close(stop)
	running.Wait()
	count := func(c *resp.Connection, k int) (n int64) {
		command := []string{"GET", "LLEN"}[k%2]
		reply, err := c.Must(command, name(k))
		if err != nil {
			t.Fatal(err)
		}
		n, _ = strconv.ParseInt(string(reply.Text), 10, 64)
		return n
	}
	for k := range keys {
		var want int64
		for w := range writers {
			want += written[w][k]
		}
		there := count(target, k)
		if got := count(c, k) + there; got != want || there == 0 {
			t.Errorf("%s: %d writes are left, %d of them at the target; %d were answered", name(k), got, there, want)
		}
	}
}

// pretender is a server that hands out the requests that come, and answers what it is told.
type pretender struct {
	port     string
	requests chan string
	answers  chan string // "": the connection is closed
}

func pretend(t *testing.T) *pretender {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p := &pretender{port: strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), requests: make(chan string), answers: make(chan string)}
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(connection, done)
		}
	}()
	return p
}

func (p *pretender) serve(connection net.Conn, done <-chan struct{}) {
	defer connection.Close()
	for reader := bufio.NewReader(connection); ; {
		request, err := resp.ReadReply(reader)
		if err != nil {
			return
		}
		words := request.Strings()
		answer := "+OK"
		if words[0] != "SELECT" {
			select {
			case p.requests <- strings.Join(slices.Delete(words, min(3, len(words)), min(4, len(words))), " "): // without the payload
			case <-done:
				return
			}
			select {
			case answer = <-p.answers:
			case <-done:
				return
			}
		}
		if answer == "" {
			return
		}
		if _, err := connection.Write([]byte(answer + "\r\n")); err != nil {
			return
		}
	}
}

// expect waits for a request, does something, and answers.
func (p *pretender) expect(t *testing.T, want string, meanwhile func(), answer string) {
	t.Helper()
	select {
	case got := <-p.requests:
		if got != want {
			t.Errorf("the target gets %q, expected %q", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%q doesn't come", want)
	}
	if meanwhile != nil {
		meanwhile()
	}
	p.answers <- answer
}

// moving begins a MIGRATE to a pretender, and returns what waits for its reply.
func (p *pretender) moving(t *testing.T, server *launch.Server, words ...string) func(want string) {
	t.Helper()
	c := server.MustDial(t)
	c.Queue(append([]string{"MIGRATE", "127.0.0.1", p.port}, words...)...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return func(want string) {
		t.Helper()
		reply, err := c.Read()
		if err != nil || reply.String() != want {
			t.Errorf("MIGRATE answers %s (%v), expected %s", reply, err, want)
		}
	}
}

// TestMigrateBesideWrites changes a key while it is on its way.
func TestMigrateBesideWrites(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c, p := server.MustDial(t), pretend(t)
	do := func(words ...string) func() { return func() { call(t, c, words...) } }
	exists := func(want string) {
		t.Helper()
		if got := call(t, c, "EXISTS", "k"); got != ":"+want {
			t.Errorf("EXISTS k: %s", got)
		}
	}

	// What was written meanwhile is sent again, over what was sent before.
	call(t, c, "SET", "k", "1")
	reply := p.moving(t, server, "k", "0", "10000")
	p.expect(t, "RESTORE k 0", do("APPEND", "k", "2"), "+OK")
	p.expect(t, "RESTORE k 0 REPLACE", nil, "+OK")
	reply("+OK")
	exists("0")

	// A key that goes, goes there too.
	call(t, c, "HSET", "k", "f", "1")
	reply = p.moving(t, server, "k", "0", "10000")
	p.expect(t, "RESTORE k 0", do("DEL", "k"), "+OK")
	p.expect(t, "DEL k", nil, ":1")
	reply("+OK")

	for _, whole := range [][]string{{"FLUSHALL"}, {"FLUSHDB"}, {"SWAPDB", "0", "5"}} {
		call(t, c, "SET", "k", "1")
		reply = p.moving(t, server, "k", "0", "10000")
		p.expect(t, "RESTORE k 0", do(whole...), "+OK")
		p.expect(t, "DEL k", nil, ":1")
		reply("+OK")
	}

	// One that is refused stays.
	call(t, c, "SET", "k", "1")
	reply = p.moving(t, server, "k", "0", "10000")
	p.expect(t, "RESTORE k 0", do("APPEND", "k", "2"), "-BUSYKEY Target key name already exists.")
	reply("-ERR Target instance replied with error: BUSYKEY Target key name already exists.")
	exists("1")

	// One that changes all the time is sent under its lock at last.
	reply = p.moving(t, server, "k", "0", "10000", "REPLACE")
	for range 3 {
		p.expect(t, "RESTORE k 0 REPLACE", do("APPEND", "k", "3"), "+OK")
	}
	locked := server.MustDial(t)
	p.expect(t, "RESTORE k 0 REPLACE", func() {
		locked.Queue("APPEND", "k", "late")
		if err := locked.Flush(); err != nil {
			t.Fatal(err)
		}
		do("SET", "another", "1")()
	}, "+OK")
	reply("+OK")
	if length, err := locked.Read(); err != nil || length.String() != ":4" {
		t.Errorf("a write that waited for the lock answers %s (%v)", length, err)
	}
	exists("1")

	// A pause lets it wait with the key in place.
	reply = p.moving(t, server, "k", "0", "10000", "REPLACE")
	p.expect(t, "RESTORE k 0 REPLACE", do("CLIENT", "PAUSE", "10000", "WRITE"), "+OK")
	exists("1")
	call(t, c, "CLIENT", "UNPAUSE")
	reply("+OK")
	exists("0")
	call(t, c, "SET", "k", "1")

	// A copy is as it was.
	reply = p.moving(t, server, "k", "0", "10000", "COPY")
	p.expect(t, "RESTORE k 0", do("APPEND", "k", "5"), "+OK")
	reply("+OK")
	exists("1")
}

// TestMigrateTrouble has the target fall silent, close its connection, and refuse.
func TestMigrateTrouble(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c, p := server.MustDial(t), pretend(t)
	call(t, c, "MSET", "a", "1", "b", "2", "c", "3")
	reply := p.moving(t, server, "a", "0", "1000")
	p.expect(t, "RESTORE a 0", func() { reply("-IOERR error or timeout reading to target instance") }, "")

	// Closed before anything was answered: once more.
	reply = p.moving(t, server, "a", "0", "10000")
	p.expect(t, "RESTORE a 0", nil, "")
	p.expect(t, "RESTORE a 0", nil, "+OK")
	reply("+OK")

	// Closed in the middle: what was taken is gone.
	reply = p.moving(t, server, "", "0", "10000", "KEYS", "b", "c")
	p.expect(t, "RESTORE b 0", nil, "+OK")
	p.expect(t, "RESTORE c 0", nil, "")
	reply("-IOERR error or timeout reading to target instance")
	if left := call(t, c, "EXISTS", "a", "b", "c"); left != ":1" {
		t.Errorf("%s keys are left", left)
	}

	// A replica removes nothing, whatever it was when MIGRATE began.
	reply = p.moving(t, server, "c", "0", "10000")
	p.expect(t, "RESTORE c 0", func() { call(t, c, "REPLICAOF", "127.0.0.1", "1") }, "+OK")
	reply("-READONLY You can't write against a read only replica.")
	call(t, c, "REPLICAOF", "NO", "ONE")
	if left := call(t, c, "EXISTS", "c"); left != ":1" {
		t.Errorf("%s keys are left", left)
	}

	// What no server with our limits takes is not sent.
	var random [1 << 20]byte
	for i := range random {
		random[i] = byte(rand.Uint32()) // so that it can't be compressed
	}
	call(t, c, "SET", "large", string(random[:]))
	call(t, c, "CONFIG", "SET", "proto-max-bulk-len", "1mb")
	p.moving(t, server, "large", "0", "10000")("-ERR the value of 'large' takes 1048592 bytes, and proto-max-bulk-len is 1048576")
}

// TestMigrateAtTheEnd stops a server while keys are on their way.
func TestMigrateAtTheEnd(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c, p := server.MustDial(t), pretend(t)
	call(t, c, "SET", "k", "1")
	p.moving(t, server, "k", "0", "100000")
	p.expect(t, "RESTORE k 0", func() {
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
	}, "+OK")
	again, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, again)
	if got := call(t, again.MustDial(t), "EXISTS", "k"); got != ":1" || !strings.Contains(again.Output(), "clean=true") {
		t.Errorf("EXISTS k: %s\n%s", got, again.Output())
	}
}

// TestStopBehindScript stops a server whose workers all wait for a key that a script without end
// holds, so that the removal of expired keys waits for a worker.
func TestStopBehindScript(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--busy-reply-threshold", "100")
	c := server.MustDial(t)
	send := func(words ...string) {
		t.Helper()
		c := server.MustDial(t)
		c.Queue(words...)
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	send("EVAL", "while true do end", "1", "k")
	eventually("the script runs", func() bool { return strings.HasPrefix(call(t, c, "GET", "k"), "-BUSY") })
	call(t, c, "CONFIG", "SET", "busy-reply-threshold", "0") // who waits from here on isn't sent away
	workers := max(4, 2*runtime.NumCPU())
	for range 2 * workers {
		send("MIGRATE", "127.0.0.1", "1", "k", "0", "1000")
	}
	eventually("all workers are busy", func() bool {
		clients, err := c.Must("CLIENT", "LIST")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(clients.Text), "cmd=migrate") == 2*workers
	})
	for i := range 100 {
		call(t, c, "SET", "expires"+strconv.Itoa(i), "1", "PX", "1")
	}
	if err := server.Shutdown(); err != nil {
		t.Error(err)
	}
}

// TestMigrateBehindScript: who waits for a key that a script without end holds is answered BUSY,
// and its worker is free again; so is who finds that only when the target has the key.
func TestMigrateBehindScript(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--busy-reply-threshold", "100")
	c, p := server.MustDial(t), pretend(t)
	const busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	runs := func() {
		script := server.MustDial(t)
		script.Queue("EVAL", "while true do end", "1", "k")
		if err := script.Flush(); err != nil {
			t.Fatal(err)
		}
		until(t, "the script has run for too long", func() bool { return call(t, c, "GET", "k") == busy })
	}
	killed := func() {
		t.Helper()
		call(t, c, "SCRIPT", "KILL")
		until(t, "the script is killed", func() bool { return call(t, c, "GET", "k") == `"1"` })
	}
	call(t, c, "SET", "k", "1")

	runs()
	var replies []func(want string)
	for range 2 * max(4, 2*runtime.NumCPU()) { // twice as many as there are workers
		replies = append(replies, p.moving(t, server, "k", "0", "10000"))
	}
	for _, reply := range replies {
		if reply(busy); t.Failed() {
			t.FailNow()
		}
	}
	if got := call(t, c, "KEYS", "*"); got != `["k"]` {
		t.Errorf("what needs a worker is answered %s", got)
	}
	killed()

	reply := p.moving(t, server, "k", "0", "10000")
	p.expect(t, "RESTORE k 0", runs, "+OK")
	reply(busy)
	killed()
}

// TestMigratePrefix drains a server by the beginnings of its keys.
func TestMigratePrefix(t *testing.T) {
	from, to := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))
	c, target := from.MustDial(t), to.MustDial(t)
	for i := range 200 {
		call(t, c, "SET", fmt.Sprintf("user:%d", i), "x")
	}
	call(t, c, "SET", "other", "x")
	call(t, c, "SET", "user", "x")
	move := func(want string, words ...string) {
		t.Helper()
		if got := call(t, c, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port)}, words...)...); got != want {
			t.Errorf("MIGRATE %q: %s, expected %s", words, got, want)
		}
	}
	size := func(c *resp.Connection, want string) {
		t.Helper()
		if got := call(t, c, "DBSIZE"); got != ":"+want {
			t.Errorf("DBSIZE: %s, expected %s", got, want)
		}
	}
	move("+OK", "user:", "0", "60000", "use_prefix", "COPY")
	size(c, "202")
	move("-ERR Target instance replied with error: BUSYKEY Target key name already exists.", "user:", "0", "60000", "use_prefix")
	size(c, "202")
	move("+OK", "user:", "0", "60000", "REPLACE", "use_prefix")
	move("+NOKEY", "user:", "0", "60000", "use_prefix")
	size(c, "2")
	size(target, "200")
	move("+OK", "", "0", "60000", "use_prefix")
	size(c, "0")
	size(target, "202")
}

// TestMigrateKeepsConnections uses one connection for many keys, and tells of it.
func TestMigrateKeepsConnections(t *testing.T) {
	from, to := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))
	c, target := from.MustDial(t), to.MustDial(t)
	for i := range 10 {
		call(t, c, "SET", "k", "x")
		if reply := call(t, c, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), "k", strconv.Itoa(i/5), "60000", "REPLACE"); reply != "+OK" {
			t.Fatal(reply)
		}
	}
	info := func(c *resp.Connection, section string) string {
		reply, err := c.Must("INFO", section)
		if err != nil {
			t.Fatal(err)
		}
		return string(reply.Text)
	}
	if stats := info(target, "commandstats"); !strings.Contains(stats, "cmdstat_select:calls=2,") || !strings.Contains(stats, "cmdstat_restore:calls=10,") {
		t.Error(stats)
	}
	if stats := info(target, "stats"); !strings.Contains(stats, "total_connections_received:3") { // to ask for a sign of life, ours, and MIGRATE's
		t.Error(stats)
	}
	if stats := info(c, "stats"); !strings.Contains(stats, "migrate_cached_sockets:1") {
		t.Error(stats)
	}
}

// TestMigrateEndsWaits: who waits for a stream's group is told that the stream has gone, as when it
// is deleted.
func TestMigrateEndsWaits(t *testing.T) {
	for _, mover := range movers {
		t.Run(mover.name, func(t *testing.T) {
			t.Parallel()
			from, to := launch.ForTest(t, mover.from(t)), launch.ForTest(t, mover.to(t))
			c := from.MustDial(t)
			told := func(words ...string) string {
				waiter := from.MustDial(t)
				call(t, c, "XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM")
				waiter.Queue("XREADGROUP", "GROUP", "group", "one", "BLOCK", "0", "STREAMS", "stream", ">")
				if err := waiter.Flush(); err != nil {
					t.Fatal(err)
				}
				until(t, "somebody waits", func() bool { return strings.Contains(call(t, c, "INFO", "clients"), "blocked_clients:1") })
				if reply := call(t, c, words...); strings.HasPrefix(reply, "-") {
					t.Fatal(reply)
				}
				reply, err := waiter.Read()
				if err != nil {
					t.Fatal(err)
				}
				return reply.String()
			}
			want := told("DEL", "stream")
			if got := told("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), "stream", "0", "10000"); got != want {
				t.Errorf("who waits is told %s, and %s when the stream is deleted", got, want)
			}
		})
	}
}

// until waits for something, and fails when it doesn't come.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 seconds", what)
		}
	}
}
