package concurrency

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// transferScript moves an amount between two accounts, which it finds by names that nobody
// declares.
const transferScript = `local from, to = "account:" .. ARGV[1], "account:" .. ARGV[2]
local amount = tonumber(ARGV[3])
if tonumber(redis.call("get", from)) < amount then return 0 end
redis.call("decrby", from, amount)
redis.call("incrby", to, amount)
return 1`

// sumScript adds up all accounts. They are declared, or not.
const sumScript = `local sum = 0
for i = 0, tonumber(ARGV[1]) - 1 do sum = sum + redis.call("get", "account:" .. i) end
return sum`

// TestScriptsWithUndeclaredKeys lets scripts move amounts between a few accounts, in orders that
// would deadlock, beside transactions and plain commands: no sum ever shows half of a transfer.
func TestScriptsWithUndeclaredKeys(t *testing.T) {
	const accounts, initial = 8, 1000
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	for i := range accounts {
		if _, err := do(c, []string{"SET", scriptAccount(i), strconv.Itoa(initial)}); err != nil {
			t.Fatal(err)
		}
	}
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range 200 * *scale {
			if err := workOnAccounts(c, random, accounts, initial); err != nil {
				return err
			}
		}
		return nil
	})
}

func scriptAccount(i int) string { return "account:" + strconv.Itoa(i) }

// integer is the number that a reply is; -1 if it is none.
func integer(reply resp.Reply) int64 {
	if n, ok := reply.Integer(); ok {
		return n
	}
	return -1
}

func workOnAccounts(c *resp.Connection, random *rand.Rand, accounts, initial int) error {
	from, to, amount := random.IntN(accounts), random.IntN(accounts), strconv.Itoa(random.IntN(20))
	total := strconv.Itoa(accounts)
	sum := []string{"EVAL", sumScript, "0", total}
	sums := 0
	var requests [][]string
	switch random.IntN(6) {
	case 0, 1:
		requests = [][]string{{"EVAL", transferScript, "0", strconv.Itoa(from), strconv.Itoa(to), amount}, sum}
		sums = 1
	case 2:
		requests = [][]string{{"EVAL", transferScript, "1", scriptAccount(to), strconv.Itoa(from), strconv.Itoa(to), amount}}
	case 3:
		requests = [][]string{{"EVAL_RO", sumScript, "0", total}}
		sums = 1
	case 4:
		requests = [][]string{{"MULTI"}, {"DECRBY", scriptAccount(from), amount}, {"INCRBY", scriptAccount(to), amount}, {"EXEC"}, sum}
		sums = 1
	case 5:
		requests = [][]string{{"MULTI"}, {"EVAL", transferScript, "0", strconv.Itoa(from), strconv.Itoa(to), amount}, {"INCRBY", "other", "1"}, {"EXEC"}, sum}
		sums = 1
	}
	replies, err := do(c, requests...)
	if err != nil {
		return err
	}
	if sums == 1 && integer(replies[len(replies)-1]) != int64(accounts*initial) {
		return fmt.Errorf("the sum is %s", replies[len(replies)-1])
	}
	return nil
}

// gets is how many GETs the server has counted.
func gets(t *testing.T, c *resp.Connection) string {
	t.Helper()
	reply, err := c.Must("INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	_, calls, _ := strings.Cut(string(reply.Text), "cmdstat_get:calls=")
	calls, _, _ = strings.Cut(calls, ",")
	return calls
}

// TestLongScript lets a script run for ever: it holds up who wants its keys, until
// busy-reply-threshold, and nobody else.
func TestLongScript(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--busy-reply-threshold", "500")
	c := server.MustDial(t)
	c.SetTimeout(patience)
	expect := func(want string, words ...string) {
		t.Helper()
		reply, err := c.Do(words...)
		if err != nil {
			t.Fatal(err)
		}
		if got := reply.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", resp.Line(words), got, want)
		}
	}
	begin := func(script string, keys ...string) <-chan string {
		connection := server.MustDial(t)
		connection.SetTimeout(patience)
		ended := make(chan string, 1)
		go func() {
			reply, err := connection.Do(append([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys...)...)
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- reply.String()
		}()
		return ended
	}
	kill := func(ended <-chan string) {
		t.Helper()
		for {
			select {
			case got := <-ended:
				if !strings.Contains(got, "Script killed by user") {
					t.Errorf("the script was answered %s", got)
				}
				return
			case <-time.After(10 * time.Millisecond):
				if _, err := c.Do("SCRIPT", "KILL"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	awaitBusy := func(key string) {
		t.Helper()
		for {
			reply, err := c.Do("GET", key)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(reply.String(), "-BUSY") {
				return
			}
		}
	}
	expect("-NOTBUSY", "SCRIPT", "KILL")
	expect("+OK", "MSET", "a", "1", "b", "1")

	const endless = "while true do pcall(function() while true do end end) end"
	ended := begin(endless, "a")
	awaitBusy("a")
	for range 3 {
		expect("\"1\"", "GET", "b")
		expect("-BUSY", "GET", "a")
		expect("-BUSY", "EVAL", "return redis.call('get', 'a')", "0")
		expect("-BUSY", "EVAL", endless, "1", "a") // a worker's, as is known of it
		expect("-BUSY", "FLUSHALL")
		expect("+PONG", "PING")
		expect(":1", "EVAL", "return 1", "1", "b")
	}
	kill(ended)
	expect("\"1\"", "GET", "a")

	// One that has all databases to itself.
	ended = begin("redis.call('keys', 'x*') while true do end")
	awaitBusy("b")
	expect("+PONG", "PING")
	expect("-BUSY", "FLUSHALL")
	kill(ended)
	expect("\"1\"", "GET", "b")

	// One that only reads holds up nobody.
	before := gets(t, c)
	connection := server.MustDial(t)
	connection.Queue("EVAL_RO", "while redis.call('get', KEYS[1]) do end", "1", "a")
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); gets(t, c) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the script doesn't read")
		}
	}
	expect("+OK", "SET", "a", "2")
	expect("+OK", "SCRIPT", "KILL")
	expect("+OK", "FLUSHALL")

	// One that has written isn't ended, and ends with the server.
	expect("+OK", "SET", "a", "seen")
	last := begin("redis.call('set', KEYS[1], 'unseen') while true do end", "a")
	for {
		reply, err := c.Do("SCRIPT", "KILL")
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(reply.String(), "-UNKILLABLE") {
			break
		}
		if !reply.IsError() { // it had not written yet
			last = begin("redis.call('set', KEYS[1], 'unseen') while true do end", "a")
		}
	}
	expect("-UNKILLABLE", "FUNCTION", "KILL")
	server.Kill()
	select {
	case got := <-last:
		t.Logf("the script was answered %s", got)
	default:
	}
	restarted, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restarted.Kill)
	c = restarted.MustDial(t)
	expect("\"seen\"", "GET", "a")
}

// TestScriptsOnWholeDatabases lets scripts that look at whole databases run beside those that
// write.
func TestScriptsOnWholeDatabases(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range 30 * *scale {
			name := fmt.Sprintf("pair:%d", random.IntN(20))
			replies, err := do(c,
				[]string{"EVAL", `redis.call("set", ARGV[1] .. ":a", 1) redis.call("set", ARGV[1] .. ":b", 1) return 1`, "0", name},
				[]string{"EVAL", `local n = #redis.call("keys", "pair:*") redis.call("set", "odd", n % 2) return n % 2`, "0"},
				[]string{"EVAL_RO", `return #redis.call("keys", "pair:*") % 2`, "0"},
				[]string{"EVAL", `redis.call("del", ARGV[1] .. ":a") for i = 1, 100000 do end redis.call("del", ARGV[1] .. ":b") return 1`, "0", name})
			if err != nil {
				return err
			}
			if integer(replies[1]) != 0 || integer(replies[2]) != 0 {
				return fmt.Errorf("half of a pair was seen: %s %s", replies[1], replies[2])
			}
		}
		return nil
	})
}
