package concurrency

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// hostile are scripts that don't end, take all memory that they get, or try to change what other
// scripts find.
var hostile = []string{
	`while true do end`,
	`while true do pcall(function() while true do end end) end`,
	`while true do xpcall(function() while true do end end, function() while true do end end) end`,
	`while true do coroutine.resume(coroutine.create(function() while true do end end)) end`,
	`while true do redis.pcall("get", "key" .. math.random(10)) end`,
	`while true do redis.pcall("nosuch") end`,
	`while true do pcall(redis.call, "nosuch") end`,
	`local t = {} for i = 1, 100000 do t[i] = -i end while true do table.sort(t) end`,
	`return string.find(string.rep("a", 30), string.rep("a?", 30) .. string.rep("a", 30))`,
	`return string.rep("a", 100000):find(".-.-.-.-b")`,
	`local s = "x" while true do s = s .. s end`,
	`local t, i = {}, 0 while true do i = i + 1 t[i] = i end`,
	`local function f() return 1 + f() end return f()`,
	`return string.rep("x", 2^31 - 1)`,
	`local t = {} for i = 1, 60 do t = {t, t} end return t`,
	`local t = {} for i = 1, 60 do t = {t, t} end return cjson.encode(t)`,
	`return cjson.decode(string.rep("[", 100000))`,
	`return cmsgpack.unpack(string.rep("\145", 100000))`,
	`return loadstring(string.rep("(", 100000))`,
	`return unpack({}, 1, 1e9)`,
	`for i = 1, 1e9 do redis.call("set", "key" .. i, string.rep("v", 100)) end`,
	`redis.call("set", "big", string.rep("v", 1e6)) for i = 1, 1e9 do redis.call("append", "big", redis.call("get", "big")) end`,
	`getmetatable("").__index.upper = function() return "stolen" end`,
	`rawset(_G, "tostring", function() return "stolen" end)`,
	`setmetatable(_G, {__index = function() return "stolen" end})`,
	`for _, t in pairs(_G) do if type(t) == "table" then rawset(t, "upper", 1) end end`,
	`redis.call = function() return "stolen" end`,
	`return loadstring("\27Lua")()`,
	`collectgarbage("stop") local t = {} for i = 1, 1e5 do t[i] = {} end`,
}

// innocent is answered with 1 as long as nothing has got out of a hostile script.
const innocent = `if ("a"):upper() == "A" and tostring(5) == "5" and not pcall(function() return os end) and redis.call("ping").ok == "PONG" then return 1 end return 0`

// TestHostileScripts lets clients run hostile scripts while others are served, and somebody ends
// those that don't end: -scale 5 runs 1,000.
func TestHostileScripts(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--script-memory", "16mb", "--busy-reply-threshold", "50", "--script-write-limit", "1000")
	done := make(chan struct{})
	killed := make(chan error, 1)
	killer := server.MustDial(t)
	go func() { killed <- killLong(killer, done) }()
	var attacking atomic.Int64
	attacking.Store(clients / 2)
	together(t, server, func(c *resp.Connection, number int, random *rand.Rand) error {
		if number < clients/2 {
			defer attacking.Add(-1)
			return attack(c, random)
		}
		for attacking.Load() > 0 {
			if err := innocently(c, []string{"SET", fmt.Sprintf("own:%d", number), "1"}); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
	close(done)
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if err := innocently(server.MustDial(t), []string{"FLUSHALL"}); err != nil {
		t.Error(err)
	}
}

// attack runs some of the hostile scripts.
func attack(c *resp.Connection, random *rand.Rand) error {
	for range 26 * *scale {
		reply, err := c.Do("EVAL", hostile[random.IntN(len(hostile))], "0")
		if err != nil {
			return err
		}
		if strings.Contains(reply.String(), "stolen") {
			return fmt.Errorf("a hostile script was answered %s", reply)
		}
	}
	return nil
}

// innocently sends a request, and a script that must find all as it was.
func innocently(c *resp.Connection, request []string) error {
	replies, err := do(c, request, []string{"EVAL", innocent, "0"})
	if err != nil || integer(replies[1]) != 1 {
		return fmt.Errorf("an innocent script was answered %v, %v", replies, err)
	}
	return nil
}

// killLong ends scripts that don't end by themselves, until it is done.
func killLong(c *resp.Connection, done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := c.Do("SCRIPT", "KILL"); err != nil {
			return err
		}
	}
}
