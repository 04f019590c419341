package script_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kedis/server/script"
)

func openState(t *testing.T) *script.State {
	t.Helper()
	state, err := script.Open(script.Options{Memory: 8 << 20, Version: "7.0.15", Number: 0x07000f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Close)
	return state
}

// TestKeeps tells functions that keep something from one run to the next from those that don't.
func TestKeeps(t *testing.T) {
	const register = "\nredis.register_function('f', f)"
	for _, c := range []struct {
		source string
		want   bool
	}{
		{"local function f() return 1 end" + register, false},
		{"local limit, text = 10, 'x' local function f() return limit .. text end" + register, false},
		{"local function f(n) return n == 0 and 1 or f(n - 1) end" + register, false},
		{"local log = redis.log local function f() log(1, 'x') end" + register, false},
		{"local r = redis local function f() return r end" + register, false},
		{"local function f() local n = 0 local function g() n = n + 1 end g() return n end" + register, false},
		{"local function f() local t = {} for i = 1, 3 do t[i] = function() t[i] = i end end return t end" + register, false},
		{"local function f() local n = 0 return function() return function() n = n + 1 return n end end end" + register, false},
		{"local function f(...) return {1, 2, ...} end" + register, false},
		{"local t = {} local function f() return t end" + register, true},
		{"local t = {} local function g() return t end local function f() return g() end" + register, true},
		{"local n = 0 local function f() n = n + 1 return n end" + register, true},
		{"local n = 0 local function g() n = n + 1 end local function f() g() return n end" + register, true},
		{"local n = 0 local function f() local function g() n = n + 1 end g() return n end" + register, true},
		{"local n = 0 local function f() return function() return function() n = 1 end end end" + register, true},
		{"local function counter() local n = 0 return function() n = n + 1 return n end end local f = counter()" + register, true},
		{"local a, b, c = 1, 2, 3 local function f() local t = {[1]=a, [2]=b} c = t[1] return c end" + register, true},
		{"local it = ('abc'):gmatch('.') local function f() return it() end" + register, true},
		{"local n local function f() local t = {" + strings.Repeat("0,", 30000) + "} n = #t return n end" + register, true},
	} {
		functions, err := openState(t).Load(noHost{}, 1, []byte(c.source), 0)
		if err != nil || len(functions) != 1 {
			t.Errorf("%.200s: %v, %v", c.source, functions, err)
			continue
		}
		if functions[0].Keeps != c.want {
			t.Errorf("%.200s: keeps: %v, want %v", c.source, functions[0].Keeps, c.want)
		}
	}
}

// TestRestore takes back what a run has done to what its library keeps, in whatever way it has done
// that.
func TestRestore(t *testing.T) {
	for _, c := range []struct {
		keeps, prepare, change, show string
		whole                        bool
	}{
		{"local n = 1", "", "n = n + 1", "n", true},
		{"local t = {1, 2, a = 'x'}", "", "t[1], t[2], t.a, t.b = nil, 'new', nil, {}", "t[1] .. t[2] .. t.a .. tostring(t.b) .. #t", true},
		{"local t = {a = {b = {n = 1}}} t.a.up = t", "", "t.a.b.n = 2 t.a.up = 1 t.a = nil", "t.a.up.a.b.n", true},
		{"local t = {} local d = {n = 1}", "setmetatable(t, {__index = d})", "d.n = 2 getmetatable(t).__index = nil setmetatable(t, nil)", "t.n", true},
		{"local m, n = {}, 1 function m.add() n = n + 1 return n end", "", "m.add() m.add = nil", "type(m.add) .. n", true},
		{"local k = {1} local t = {[k] = 'x'}", "", "k[1] = 2 t[k] = nil t = {}", "t[k] .. k[1]", true},
		{"local r = redis local t = {r}", "", "t[1] = 1", "tostring(t[1] == redis)", true},
		{"local t = {n = 1}", "", "t.n = 2 for i = 1, 3000 do t[i] = i end", "t.n .. #t", true},
		{"local t = {n = 1} for i = 1, 3000 do t[i] = i end", "", "t.n = 2", "t.n", false},
		{"local t = {}", "", "t.c = coroutine.create(function() end)", "tostring(t.c)", true},
		{"local t = {}", "t.c = coroutine.create(function() end)", "t.c = nil", "type(t.c)", false},
		{"local t = {}", "t.next = coroutine.wrap(function() end)", "t.c = nil", "type(t.next)", false},
	} {
		state := openState(t)
		source := c.keeps + "\nredis.register_function('prepare', function() " + c.prepare + " end)\n" +
			"redis.register_function('change', function() " + c.change + " end)\nredis.register_function('show', function() return tostring(" + c.show + ") end)"
		if _, err := state.Load(noHost{}, 1, []byte(source), 0); err != nil {
			t.Fatal(source, err)
		}
		run := func(function int) string {
			result := state.Run(noHost{}, &script.Run{Library: 1, Function: function, Protocol: 2})
			return string(result.Output)
		}
		run(0)
		before := run(2)
		for range 2 {
			if whole := state.Snapshot(1, 1); whole != c.whole {
				t.Errorf("%s: a whole snapshot: %v", source, whole)
			}
			if !c.whole {
				break
			}
			if changed := run(1); changed != "$-1\r\n" {
				t.Errorf("%s: %q", source, changed)
			}
			if !state.Restore() {
				t.Errorf("%s: can't be restored", source)
			}
			if after := run(2); after != before || strings.HasPrefix(after, "-") {
				t.Errorf("%s: before %q, after %q", source, before, after)
			}
		}
	}
}

// TestLoad loads libraries one after the other, of which many fail, in one state: nothing is left
// of those, and each runs as it was loaded.
func TestLoad(t *testing.T) {
	state := openState(t)
	load := func(number uint64, source string) ([]script.Function, error) {
		return state.Load(noHost{}, number, []byte(source), 50*time.Millisecond)
	}
	run := func(number uint64) string {
		result := state.Run(noHost{}, &script.Run{Library: number, Protocol: 2, Within: time.Second})
		return string(result.Output)
	}
	if _, err := load(1, "redis.register_function{function_name='one', callback=function() return 'one' end, flags={'no-writes'}, description='d'}"); err != nil {
		t.Fatal(err)
	}
	for _, source := range append(hostileSources, hostileSources...) {
		var compile script.CompileError
		var register script.RegisterError
		if functions, err := load(2, source); !errors.As(err, &compile) && !errors.As(err, &register) {
			t.Errorf("%.100s: %v, %v", source, functions, err)
		}
		if state.Loaded(2) {
			t.Errorf("%.100s: is loaded", source)
		}
		if got := run(1); got != "$3\r\none\r\n" {
			t.Fatalf("%.100s: then the first library answers %q", source, got)
		}
	}
	functions, err := load(3, "local s = ('ab'):rep(2) redis.register_function('three', function() return s .. type(KEYS) end)")
	if err != nil || len(functions) != 1 {
		t.Fatal(functions, err)
	}
	if got := run(3); !strings.Contains(got, "nonexistent global variable 'KEYS'") {
		t.Errorf("a function sees a script's words: %q", got)
	}
	if got := evaluate(t, state, "return type(redis.register_function)"); got != `"nil"` {
		t.Errorf("a script sees %s", got)
	}
	state.Unload(1)
	if state.Loaded(1) || !state.Loaded(3) {
		t.Error("the wrong library was unloaded")
	}
}

// hostileSources are libraries that can't be loaded.
var hostileSources = []string{
	"while true do end", "local function f() return f() end f()", "local function f() return 1 + f() end f()", "local s = 'x' while true do s = s .. s end",
	"local t = {} local i = 0 while true do i = i + 1 t[i] = {} end", "for i = 1, 1e9 do redis.register_function('f' .. i, function() end) end",
	"redis.register_function('f', function() end) redis.call('get')", "redis.register_function('f', function() end) error()", ")", "\x1bLua", "return KEYS",
	"redis = 1", "redis.register_function = 1", "local t = redis t.log = 1", "getmetatable('').__index = 1", "setmetatable(redis, {})", "_G.x = 1",
	"('x'):rep(1e9)", "return ('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(30))", "local x = string.format('%d', 1)", "loadstring('return 1')()",
	"coroutine.wrap(function() end)()", "redis.register_function(('x'):rep(1e8), function() end)", "redis.log(redis.LOG_WARNING)",
	"redis.register_function{function_name='f', callback=function() end, flags={('x'):rep(1000)}}",
}

// TestLargeLibrariesAreCollectedSeldom: what the runs of a library leave that keeps much is
// collected when it is a quarter of what else there is, and not for each of them.
func TestLargeLibrariesAreCollectedSeldom(t *testing.T) {
	const garbage, runs = 50000, 100
	state := openState(t)
	source := `local kept = {} for i = 1, 60000 do kept[i] = "k" .. i end
		redis.register_function("f", function() return #(string.rep("x", 50000) .. #kept) end)`
	if _, err := state.Load(noHost{}, 1, []byte(source), 0); err != nil {
		t.Fatal(err)
	}
	last, most, collected := int64(0), int64(0), 0
	for range runs {
		if result := state.Run(noHost{}, &script.Run{Library: 1, Protocol: 2}); result.End != script.Done {
			t.Fatalf("end %v %q", result.End, result.Output)
		}
		if used := state.Used(); used < last+garbage {
			collected++
		}
		last = state.Used()
		most = max(most, last)
	}
	if collected < 2 || collected > runs/5 {
		t.Errorf("collected %d times in %d runs", collected, runs)
	}
	if most > 6<<20 {
		t.Errorf("%d bytes are used", most)
	}
}
