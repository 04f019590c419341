package concurrency

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// stateLibraries keep a number each: in a variable, in a table, in one that a function in a table
// writes, beside more than is taken back, and in a coroutine, which can't be. Each call also writes
// a key that it doesn't declare and others want.
var stateLibraries = map[string]string{
	"variable":  "local n = 0 local function count() n = n + 1 return n end",
	"table":     "local t = {deep = {n = 0}} local function count() t.deep.n = t.deep.n + 1 t[#t + 1] = 1 assert(#t == t.deep.n) return #t end",
	"module":    "local m, n = {}, 0 function m.add() n = n + 1 return n end local function count() return m.add() end",
	"much":      "local t = {n = 0} for i = 1, 5000 do t[i] = i end local function count() t.n = t.n + 1 return t.n end",
	"coroutine": "local f = function() local n = 0 while true do n = n + 1 coroutine.yield(n) end end local t = {} local function count() t.next = t.next or coroutine.wrap(f) return t.next() end",
}

func stateLibrary(name, count string) string {
	return "#!lua name=" + name + "\n" + count + " redis.register_function('" + name + "', function(keys, args) local n = count()" +
		" redis.call('incr', 'counted:' .. args[1]) return n end)"
}

const tableLibrary = `#!lua name=tables
local names = {'one', 'two', 'three'}
redis.register_function('name', function(keys, args)
	redis.call('incr', 'counted:' .. args[1])
	return names[redis.call('incr', keys[1]) % 3 + 1]
end)`

// TestFunctionsThatKeepState counts in what libraries keep, from many connections: no call is lost,
// and none is counted twice, although others hold the keys that it wants.
func TestFunctionsThatKeepState(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	if _, err := do(c, []string{"FUNCTION", "LOAD", tableLibrary}); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(stateLibraries))
	for _, name := range names {
		if _, err := do(c, []string{"FUNCTION", "LOAD", stateLibrary(name, stateLibraries[name])}); err != nil {
			t.Fatal(err)
		}
	}
	var calls atomic.Int64
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for range 30 * *scale {
			key := strconv.Itoa(random.IntN(4))
			requests := [][]string{{"INCR", "counted:" + key}, {"FCALL", "name", "1", "names", key}}
			for _, name := range names {
				requests = append(requests, []string{"FCALL", name, "0", key})
			}
			if random.IntN(4) == 0 {
				requests = append(append([][]string{{"MULTI"}}, requests...), []string{"EXEC"})
			}
			if _, err := do(c, requests...); err != nil {
				return err
			}
			calls.Add(1)
		}
		return nil
	})
	for _, name := range names {
		replies, err := do(c, []string{"FCALL", name, "0", "last"})
		if err != nil {
			t.Fatal(err)
		}
		if got := integer(replies[0]); got != calls.Load()+1 {
			t.Errorf("%s has counted %d calls, of %d", name, got-1, calls.Load())
		}
	}
	replies, err := do(c, []string{"GET", "names"}, []string{"MGET", "counted:0", "counted:1", "counted:2", "counted:3"})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(replies[0].Text); got != strconv.FormatInt(calls.Load(), 10) {
		t.Errorf("%s names, of %d", got, calls.Load())
	}
	counted, each := int64(0), int64(len(names)+2) // by a client, by its names, and by each library
	for _, one := range replies[1].Elements {
		n, err := strconv.ParseInt(string(one.Text), 10, 64)
		if err != nil {
			t.Error(err)
		}
		counted += n
	}
	if counted != each*calls.Load() {
		t.Errorf("%d are counted, of %d", counted, each*calls.Load())
	}
}

// TestLibrariesThatChange loads versions of a library beside those who call it: nobody sees a
// function that is gone, or half of a version.
func TestLibrariesThatChange(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	version := func(n int) []string {
		return []string{"FUNCTION", "LOAD", "REPLACE", fmt.Sprintf("#!lua name=v\nredis.register_function('a', function() return %[1]d end)\n"+
			"redis.register_function('b', function(keys) return redis.call('get', keys[1]) - %[1]d end)", n)}
	}
	c := server.MustDial(t)
	if _, err := do(c, version(0), []string{"SET", "version", "0"}); err != nil {
		t.Fatal(err)
	}
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		for n := range 20 * *scale {
			requests := [][]string{{"FCALL", "b", "1", "version"}, {"MULTI"}, {"FCALL", "a", "0"}, {"GET", "version"}, {"EXEC"}}
			if number < 2 {
				v := number + 2*n
				requests = [][]string{{"MULTI"}, {"SET", "version", strconv.Itoa(v)}, version(v), {"FCALL", "b", "1", "version"}, {"EXEC"}}
			}
			replies, err := do(c, requests...)
			if err != nil {
				return err
			}
			last := replies[len(replies)-1].Elements
			if number < 2 && integer(last[2]) != 0 || number >= 2 && (integer(replies[0]) != 0 || string(last[0].Text) != string(last[1].Text)) {
				return fmt.Errorf("versions differ: %s", replies)
			}
		}
		return nil
	})
}

// TestLongFunction lets functions run for ever: SCRIPT KILL doesn't end them, FUNCTION KILL does,
// unless they have written.
func TestLongFunction(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--busy-reply-threshold", "300")
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
	await := func(want string, words ...string) {
		t.Helper()
		for began := time.Now(); ; {
			reply, err := c.Do(words...)
			if err != nil || time.Since(began) > patience {
				t.Fatalf("%s: %s, %v, want %s", resp.Line(words), reply, err, want)
			}
			if strings.HasPrefix(reply.String(), want) {
				return
			}
		}
	}
	begin := func(words ...string) <-chan string {
		connection := server.MustDial(t)
		connection.SetTimeout(patience)
		ended := make(chan string, 1)
		go func() {
			reply, err := connection.Do(words...)
			ended <- fmt.Sprint(reply, err)
		}()
		return ended
	}
	killed := func(ended <-chan string, name string, line int) {
		t.Helper()
		if got, want := <-ended, fmt.Sprintf("script: %s, on @user_function:%d.", name, line); !strings.Contains(got, "Script killed by user") || !strings.Contains(got, want) {
			t.Errorf("the function was answered %s, want %s", got, want)
		}
	}
	expect("\"long\"", "FUNCTION", "LOAD", `#!lua name=long
redis.register_function('endless', function(keys) redis.call('get', 'a')
while true do pcall(function() while true do end end) end end)
redis.register_function('writes', function() redis.call('set', 'a', 'unseen') while true do end end)`)
	expect("\"kept\"", "FUNCTION", "LOAD", "#!lua name=kept\nlocal calls = 0\nredis.register_function('keeps', function() calls = calls + 1 while true do end end)")
	expect("+OK", "MSET", "a", "seen", "b", "1")
	for _, name := range []string{"endless", "keeps"} {
		ended := begin("FCALL", name, "1", "a")
		await("-BUSY Redis is busy running a script. You can only call FUNCTION KILL", "GET", "a")
		expect("+PONG", "PING")
		expect("\"1\"", "GET", "b")
		expect("-BUSY Redis is busy running a script. You can only call FUNCTION KILL", "SCRIPT", "KILL")
		expect("-BUSY Redis is busy running a script. You can only call FUNCTION KILL", "FUNCTION", "FLUSH")
		stats, err := c.Do("FUNCTION", "STATS")
		if err != nil || !strings.Contains(stats.String(), `"name" "`+name+`"`) && !strings.Contains(stats.String(), `"`+name+`"`) {
			t.Errorf("FUNCTION STATS: %s %v", stats, err)
		}
		expect("+OK", "FUNCTION", "KILL")
		killed(ended, name, map[string]int{"endless": 3, "keeps": 3}[name])
		expect("\"seen\"", "GET", "a")
		expect("-NOTBUSY", "FUNCTION", "KILL")
	}

	ended := begin("EVAL", "loadstring('while true do end')()", "0")
	await("-BUSY Redis is busy running a script. You can only call SCRIPT KILL", "FUNCTION", "KILL")
	await("+OK", "SCRIPT", "KILL")
	if got := <-ended; !strings.Contains(got, ", on while true do end:1.") { // as Redis names what was loaded
		t.Errorf("the script was answered %s", got)
	}

	begin("FCALL", "writes", "0")
	for began := time.Now(); ; {
		reply, err := c.Do("FUNCTION", "KILL")
		if err != nil || time.Since(began) > patience {
			t.Fatalf("FUNCTION KILL: %s, %v", reply, err)
		}
		if strings.HasPrefix(reply.String(), "-UNKILLABLE") {
			break
		}
		if !reply.IsError() { // it had not written yet
			begin("FCALL", "writes", "0")
		}
	}
	expect("-UNKILLABLE", "SCRIPT", "KILL")
	expect("-BUSY", "FUNCTION", "DELETE", "long")
	server.Kill()
	restarted, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restarted.Kill)
	c = restarted.MustDial(t)
	expect("\"seen\"", "GET", "a")
	stats, err := c.Do("FUNCTION", "STATS")
	if err != nil || !strings.Contains(stats.String(), "functions_count") || !strings.Contains(stats.String(), ":3") {
		t.Errorf("after the restart: %s %v", stats, err)
	}
}
