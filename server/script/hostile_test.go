package script_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"kedis/server/script"
)

// endless are programs that don't end by themselves, whatever they have around themselves to catch
// errors.
var endless = []string{
	`while true do end`,
	`while true do pcall(function() while true do end end) end`,
	`while true do xpcall(function() while true do end end, function() while true do end end) end`,
	`while true do coroutine.resume(coroutine.create(function() while true do end end)) end`,
	`while true do pcall(coroutine.wrap(function() while true do end end)) end`,
	`local function f() return f() end f()`,
	`repeat until false`,
	`local function f(...) return f(1,...) end return f()`,
	`for i=1,math.huge do end`,
	`return string.find(string.rep("a",30), string.rep("a?",30)..string.rep("a",30))`,
	`return string.rep("a",100000):find(".-.-.-.-b")`,
	`return string.match(string.rep("x",200000), "(x*)*y")  or string.rep("a",100000):find(".-.-.-.-b")`,
	`return string.gsub(string.rep("a",30), string.rep("a?",30)..string.rep("a",30), "")`,
	`for w in string.gmatch(string.rep("a",200000), ".-.-.-b") do end`,
	`local t={} for i=1,200000 do t[i]=i end while true do table.sort(t, function(a,b) return a<b end) end`,
	`local t={} for i=1,100000 do t[i]=-i end while true do table.sort(t) end`,
	`local t={} for i=1,100000 do t[i]=i end while true do table.insert(t,1,1) table.remove(t,1) end`,
	`while true do loadstring("return 1")() end`,
	`while true do cjson.decode(cjson.encode({1,2,3})) end`,
	`while true do cmsgpack.unpack(cmsgpack.pack({1,2,3})) end`,
	`while true do error_ = nil end`,
	`local t=setmetatable({},{__index=function(t,k) while true do end end}) return t.x`,
	`while true do pcall(error) end`,
	`while true do pcall(string.rep) end`,
	`while true do redis.sha1hex("x") end`,
}

// costly are programs that take more and more memory.
var costly = []string{
	`local s="x" while true do s=s..s end`,
	`local t={} local i=0 while true do i=i+1 t[i]=i end`,
	`local t={} local i=0 while true do i=i+1 t["k"..i]=i end`,
	`return string.rep("x",1e9)`,
	`return string.rep("x",2^31-1)`,
	`local function f() return 1+f() end return f()`,
	`local t={} for i=1,1e9 do t[i]=coroutine.create(function() end) end`,
	`local t={} for i=1,60 do t={t,t} end return cjson.encode(t)`,
	`local t={} for i=1,60 do t={t,t} end return t`,
	`return string.rep("%s",100000):format(unpack({}))`,
	`local t={} for i=1,1e7 do t[i]="x" end return table.concat(t)`,
	`return cjson.decode(string.rep("[",1e6))`,
	`return cmsgpack.unpack(string.rep("\145",1e6))`,
	`return loadstring(string.rep("(",1e6))`,
	`return loadstring("return "..string.rep("{",1e5)) or error("x")`,
	`return string.find(string.rep("a",1e6), string.rep("a?",1e6)) or error("x")`,
	`return string.find(string.rep("(",1e5), string.rep("(",1e5))`,
	`return load(function() return "x" end)`,
	`local t={} t=setmetatable(t,{__index=t}) return t.x or error("x")`,
	`local a={} for i=1,200 do a={a} end return struct.unpack(string.rep("i",1e6), string.rep("x",4e6))`,
	`return unpack({},1,1e9)`,
	`return string.byte(string.rep("x",1e7),1,-1)`,
	`return ("x"):rep(1e7):gsub(".", string.rep("y",1e4))`,
}

// escapes are attempts to leave the sandbox. Each returns nothing but what it must not get.
var escapes = []string{
	`getmetatable("").__index.upper = function() return "stolen" end`,
	`getmetatable("").__index = {upper = function() return "stolen" end}`,
	`rawset(getmetatable("").__index, "upper", function() return "stolen" end)`,
	`setmetatable(string, {__index = function() return "stolen" end})`,
	`local m = getmetatable(setmetatable({}, string)) rawset(m, "upper", function() return "stolen" end)`,
	`for k, v in pairs(_G) do if type(v) == "table" then rawset(v, "upper", function() return "stolen" end) end end`,
	`_G.string = {upper = function() return "stolen" end}`,
	`rawset(_G, "string", {upper = function() return "stolen" end})`,
	`table.insert(string, "stolen")`,
	`table.sort(string, function() return true end) table.remove(string)`,
	`redis.call = function() return "stolen" end`,
	`cjson.new().encode = 1 rawset(cjson, "encode", function() return "stolen" end)`,
	`tostring = function() return "stolen" end`,
	`loadstring("tostring = function() return 'stolen' end")()`,
	`load(function() return nil end) rawset(coroutine, "wrap", 1)`,
	`coroutine.wrap(function() string.upper = function() return "stolen" end end)()`,
	`local f = loadstring("return _G") rawset(f(), "string", 1)`,
	`collectgarbage("stop")`,
	`collectgarbage("setpause", 1000000)`,
	`getmetatable(_G).__index = function() return "stolen" end`,
	`setmetatable(_G, {__index = function() return "stolen" end})`,
	`KEYS.x = "stolen"`,
	`math.randomseed(5) cjson.encode_max_depth(1) redis.setresp(3)`,
}

// honest is what every program finds, whatever ran before it.
const honest = `assert(("a"):upper() == "A" and string.upper("a") == "A" and KEYS.x == nil and tostring(5) == "5" and #redis.sha1hex("") == 40)
assert(cjson.encode({{1}}) == "[[1]]" and #string == 0 and #table == 0 and type(coroutine.wrap) == "function")
assert(not pcall(function() return os end) and not pcall(function() return io end) and not pcall(function() return ffi end))
assert(not pcall(function() return newproxy end) and not pcall(function() return debug end) and not pcall(function() return setfenv end))
assert(loadstring("\27Lua") == nil and load(function() return "\27LuaQ" end == nil and nil or (function() local n = 0 return function() n = n + 1 return n == 1 and "\27LuaQ" or nil end end)()) == nil)
return "honest"`

func open(t *testing.T) *script.State {
	t.Helper()
	state, err := script.Open(script.Options{Memory: 32 << 20, Version: "7.2.0", Number: 0x070200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Close)
	return state
}

func run(t *testing.T, state *script.State, program string, within time.Duration) script.Result {
	t.Helper()
	compiled, err := state.Compile(shaOf(program), []byte(program))
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return state.Run(noHost{}, &script.Run{Script: compiled, Protocol: 2, Within: within})
}

func checkHonest(t *testing.T, state *script.State, after string) {
	t.Helper()
	if result := run(t, state, honest, 0); result.End != script.Done || string(result.Output) != "$6\r\nhonest\r\n" {
		t.Fatalf("after %s: %v %q", after, result.End, result.Output)
	}
}

func TestEndlessProgramsEnd(t *testing.T) {
	state := open(t)
	for _, program := range endless {
		if result := run(t, state, program, 5*time.Millisecond); result.End != script.Late && result.End != script.Failed {
			t.Errorf("%s: end %v %q", program, result.End, result.Output)
		}
		checkHonest(t, state, program)
	}
}

// TestLongStepsInCEnd: what a script does in C ends when the time of the run is over, too.
func TestLongStepsInCEnd(t *testing.T) {
	for _, program := range []string{
		`local t = {} for i = 1, 24 do t = {t, t} end return t`,
		`return load(math.random)`,
		`return loadstring(string.rep("a=1 ", 5e6))`,
		`return #string.rep("x", 5e8)`,
		`return redis.call("lrange", "l", 0, -1)`,
		`return ("a"):rep(1e3):find("%f[" .. ("b"):rep(1e5) .. "]")`,
		`return ("a"):rep(1e3):find("[" .. ("b"):rep(1e5) .. "]")`,
		`for i = 1, 3000 do collectgarbage() end`,
		`for i = 1, 1500 do collectgarbage("step", 1e6) end`,
		`local t = {} for i = 1, 1000 do t[i] = "" end for i = 1, 1000 do table.concat(t) end`,
		`local t = {("x"):rep(4000):byte(1, -1)} for i = 1, 1000 do table.insert(t, 1, i) end`,
		`local t = {("x"):rep(4000):byte(1, -1)} for i = 1, 1000 do table.remove(t, 1) end`,
	} {
		state, err := script.Open(script.Options{Memory: 2 << 30})
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := state.Compile(shaOf(program), []byte(program))
		if err != nil {
			t.Fatal(err)
		}
		host := answering{append([]byte("*1000000\r\n"), bytes.Repeat([]byte("$1\r\nx\r\n"), 1000000)...)}
		if result := state.Run(host, &script.Run{Script: compiled, Protocol: 2, Within: time.Millisecond}); result.End != script.Late {
			t.Errorf("%s: end %v", program, result.End)
		}
		state.Close()
	}
}

// large are programs of few instructions that make, copy or hand over much.
var large = []string{
	`local s = ("x"):rep(1e6) for i = 1, 9 do local b = s .. i end`,
	`local t, s = {}, ("x"):rep(1e5) for i = 1, 50 do t[i] = s end return #table.concat(t)`,
	`local t, s = {}, ("x"):rep(1e5) for i = 1, 50 do t[i] = s end return t`,
	`local t, s = {}, ("x"):rep(1e5) for i = 1, 50 do t[i] = {verbatim_string = {string = s, format = "txt"}} end return t`,
	`local t, s = {}, ("x"):rep(1e5) for i = 1, 50 do t[i] = {ok = s} end return t`,
	`local s = ("x"):rep(1e5) for i = 1, 50 do redis.log(redis.LOG_WARNING, s) end`,
	`local s = ("x"):rep(1e5) for i = 1, 50 do redis.sha1hex(s) end`,
	`local s = ("x"):rep(1e5) for i = 1, 50 do redis.call("SET", "k", s) end`,
	`for i = 1, 50 do redis.call("GET", "k") end`,
	`local s = ("x"):rep(1e6) for i = 1, 9 do local b = s:sub(1, -1 - i) end`,
	`local s = ("xyz"):rep(1e6) for i = 1, 3 do local b = s:upper():reverse() end`,
	`local s = ("\0"):rep(1e6) return #string.format("%q", s)`,
	`local co = coroutine.wrap(function() local s = ("x"):rep(1e6) for i = 1, 9 do local b = s .. i end end) co()`,
	`local s = ("x"):rep(1e5) local p, q = s .. 1, s .. 2 for i = 1, 1000 do local b = p < q end`,
	`local s = ("x"):rep(1e6) for i = 1, 9 do pcall(function() return s .. i end) end`,
	fmt.Sprintf(`local p, q = "%[1]s1", "%[1]s2" for i = 1, 1000 do local b = p < q end`, strings.Repeat("x", 1e5)),
	`return ("a"):rep(1e5):find("$")`,
	`return ("a"):find(("%f[%w]"):rep(1e4))`,
	`return ("a"):rep(1900):find("^(a*)" .. ("%1"):rep(2000))`,
	`local s = ("a"):rep(1000) for i = 1, 100 do s:find("b.") end`,
	`local s = ("a"):rep(1000) for i = 1, 100 do for w in s:gmatch("b") do end end`,
	`local s = ("a"):rep(1000) for i = 1, 100 do s:gsub("b", "") end`,
}

// TestLargeStepsArePolled: a run of few instructions is looked at when it has moved much. The first
// look begins its time, which the second one finds over.
func TestLargeStepsArePolled(t *testing.T) {
	host := answering{append(append([]byte("$100000\r\n"), bytes.Repeat([]byte("x"), 100000)...), "\r\n"...)}
	for _, program := range large {
		state := open(t)
		compiled, err := state.Compile(shaOf(program), []byte(program))
		if err != nil {
			t.Fatal(err)
		}
		if result := state.Run(host, &script.Run{Script: compiled, Protocol: 3, Within: 1}); result.End != script.Late {
			t.Errorf("%.100s: end %v %.100q", program, result.End, result.Output)
		}
		checkHonest(t, state, program)
	}
}

// TestLongLiteralsOfLibrariesCount: also when something else has run in the state since it was
// loaded.
func TestLongLiteralsOfLibrariesCount(t *testing.T) {
	state, text := open(t), strings.Repeat("x", 1e5)
	source := fmt.Sprintf(`redis.register_function("f", function()
		local p, q = "%[1]s1", "%[1]s2" for i = 1, 1000 do local b = p < q end end)`, text)
	if _, err := state.Load(noHost{}, 1, []byte(source), 0); err != nil {
		t.Fatal(err)
	}
	checkHonest(t, state, "loading")
	if result := state.Run(noHost{}, &script.Run{Library: 1, Protocol: 2, Within: 1}); result.End != script.Late {
		t.Errorf("end %v %.100q", result.End, result.Output)
	}
}

// killing is a host that has the script killed while it answers.
type killing struct {
	noHost
	state *script.State
	calls *int
}

func (h killing) Call([][]byte, int) ([]byte, bool) {
	*h.calls++
	h.state.Kill()
	return []byte("+OK\r\n"), true
}

// TestCompiledScriptsLeaveRoom: scripts that were compiled and run no more don't take the memory of
// those that come, however little there is.
func TestCompiledScriptsLeaveRoom(t *testing.T) {
	pool := script.NewPool(script.Options{Memory: 4 << 20})
	defer pool.Close()
	for i := range 500 {
		state, err := pool.Get()
		if err != nil {
			t.Fatal(err)
		}
		program := fmt.Sprintf("return #('%d%s' .. ('x'):rep(1e5))", i, strings.Repeat("x", 20000))
		if result := run(t, state, program, 0); result.End != script.Done {
			t.Fatalf("after %d scripts: %v %q", i, result.End, result.Output)
		}
		pool.Put(state)
	}
}

// panicking is a host that panics.
type panicking struct{ noHost }

func (panicking) Call([][]byte, int) ([]byte, bool) { panic("call") }
func (panicking) May([][]byte) (may, known bool)    { panic("may") }
func (panicking) Log(int, string)                   { panic("log") }

// TestPanicPassesC: a panic of the host reaches the caller of Run or Load, whatever the script does
// to catch errors. The state can be used again.
func TestPanicPassesC(t *testing.T) {
	state := open(t)
	for want, program := range map[string]string{
		"call": `pcall(redis.call, "PING") while true do end`,
		"may":  `pcall(redis.acl_check_cmd, "PING") while true do end`,
		"log":  `pcall(redis.log, redis.LOG_WARNING, "x") while true do end`,
	} {
		compiled, err := state.Compile(shaOf(program), []byte(program))
		if err != nil {
			t.Fatal(err)
		}
		checkPanic(t, want, func() { state.Run(panicking{}, &script.Run{Script: compiled, Protocol: 2, Within: time.Second}) })
		checkHonest(t, state, program)
	}
	source := []byte(`redis.log(redis.LOG_WARNING, "x") while true do end`)
	checkPanic(t, "log", func() { state.Load(panicking{}, 1, source, time.Second) })
	checkHonest(t, state, string(source))
}

func checkPanic(t *testing.T, want string, run func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("it panics with %v, want %s", got, want)
		}
	}()
	run()
}

// TestKillEndsLargeSteps: and the line of the script is told, though nobody has caught an error.
func TestKillEndsLargeSteps(t *testing.T) {
	for _, program := range []string{
		"redis.call('PING')\nlocal s = ('x'):rep(2e6)",
		"redis.call('PING')\nlocal t = {('x'):rep(1000):byte(1, -1)} for i = 1, 2000 do t[i] = ('x'):rep(1000) end\nreturn 1",
		"local s = ('x'):rep(9e5) redis.call('PING')\ns = (s .. s):upper()",
	} {
		state := open(t)
		compiled, err := state.Compile(shaOf(program), []byte(program))
		if err != nil {
			t.Fatal(err)
		}
		result := state.Run(killing{state: state, calls: new(int)}, &script.Run{Script: compiled, Protocol: 2})
		if result.End != script.Killed || result.Line != 2 || result.Source != "@user_script" {
			t.Errorf("%s: end %v at %s:%d", program, result.End, result.Source, result.Line)
		}
		checkHonest(t, state, program)
	}
}

// TestKilledRunCallsNothingMore: a call may take long, and a loop of calls has few instructions.
func TestKilledRunCallsNothingMore(t *testing.T) {
	state, calls := open(t), 0
	compiled, err := state.Compile("calls", []byte("for i = 1, 100 do pcall(redis.call, 'PING') end"))
	if err != nil {
		t.Fatal(err)
	}
	result := state.Run(killing{state: state, calls: &calls}, &script.Run{Script: compiled, Protocol: 2})
	if result.End != script.Killed || calls != 1 {
		t.Errorf("end %v after %d calls", result.End, calls)
	}
}

// answering is a host with one reply to everything.
type answering struct{ reply []byte }

func (answering) Room(bytes, words int) ([]byte, [][]byte) {
	return make([]byte, bytes), make([][]byte, words)
}
func (a answering) Call([][]byte, int) ([]byte, bool) { return a.reply, true }
func (answering) May([][]byte) (may, known bool)      { return true, true }
func (answering) Log(int, string)                     {}

// TestStateWithoutMemoryIsClosed: the collector takes memory when it makes the table of strings
// smaller, though a reply has taken what there was.
func TestStateWithoutMemoryIsClosed(t *testing.T) {
	const memory = 64 << 20
	state, err := script.Open(script.Options{Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	run(t, state, `local t = {} for i = 1, 400000 do t[i] = i .. "" end t = nil collectgarbage()`, 0)
	const program = `return tostring(pcall(redis.call, "GET", "large"))`
	compiled, err := state.Compile(shaOf(program), []byte(program))
	if err != nil {
		t.Fatal(err)
	}
	length := memory - int(state.Used()) - 300<<10
	host := answering{fmt.Appendf(nil, "$%d\r\n%s\r\n", length, bytes.Repeat([]byte("x"), length))}
	if result := state.Run(host, &script.Run{Script: compiled, Protocol: 2}); string(result.Output) != "$5\r\nfalse\r\n" {
		t.Errorf("%v %q", result.End, result.Output)
	}
	state.Close()
}

// TestRunsWithoutMemorySaySo: of a fresh state, which has no room for a reply or a text yet, nor
// memory to make it.
func TestRunsWithoutMemorySaySo(t *testing.T) {
	for _, program := range []string{
		`local t while true do t = {t} end`,
		`local t local function f() while true do t = {t} end end for i = 1, 5 do pcall(f) end error({err = "MY x"})`,
		`local call = redis.call pcall(cjson.encode, 1) local t local function f() while true do t = {t} end end
			for i = 1, 5 do pcall(f) end return call("PING")`,
	} {
		state, err := script.Open(script.Options{Memory: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if result := run(t, state, program, 0); result.End != script.Failed || string(result.Output) != "ERR not enough memory" {
			t.Errorf("%s: end %v %q", program, result.End, result.Output)
		}
		checkHonest(t, state, program)
		state.Close()
	}
}

// TestLibraryWithoutMemoryIsForgotten: giving back the reference of a library's text takes memory
// the first time, though its text has taken all that there was.
func TestLibraryWithoutMemoryIsForgotten(t *testing.T) {
	for more := range int64(40) {
		state, err := script.Open(script.Options{Memory: 2<<20 + 16*more})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := state.Load(noHost{}, 1, []byte("local t while true do t = {t} end"), 0); err == nil {
			t.Error("the library was loaded")
		}
		state.Close()
	}
}

// TestRandomNumbersDiffer: from run to run, whatever an earlier one has set.
func TestRandomNumbersDiffer(t *testing.T) {
	state := open(t)
	const numbers = `return math.random(2147483646) .. " " .. math.random(2147483646)`
	seen := map[string]bool{}
	for range 10 {
		seen[string(run(t, state, numbers, 0).Output)] = true
		seen[string(run(t, state, "math.randomseed(5) "+numbers, 0).Output)] = true
	}
	if len(seen) != 11 {
		t.Errorf("%d of 11 are different: %v", len(seen), seen)
	}
}

func TestKill(t *testing.T) {
	state := open(t)
	for _, program := range endless[:6] {
		ended := make(chan script.Result)
		go func() { ended <- run(t, state, program, 0) }()
		for running := true; running; {
			select {
			case result := <-ended:
				if running = false; result.End != script.Killed {
					t.Errorf("%s: end %v %q", program, result.End, result.Output)
				}
			case <-time.After(time.Millisecond):
				state.Kill()
			}
		}
		run(t, state, "return 1", 0) // a kill that came too late is the next one's
		checkHonest(t, state, program)
	}
}

func TestCostlyProgramsFail(t *testing.T) {
	state := open(t)
	for _, program := range costly {
		result := run(t, state, program, 10*time.Second)
		if result.End == script.Late || result.End == script.Killed {
			t.Errorf("%s: end %v", program, result.End)
		}
		if result.End == script.Done && len(result.Output) > 1<<20 && !strings.Contains(program, "concat") {
			t.Errorf("%s: %d bytes", program, len(result.Output))
		}
		checkHonest(t, state, program)
	}
}

func TestEscapes(t *testing.T) {
	state := open(t)
	for _, program := range escapes {
		run(t, state, program, time.Second)
		checkHonest(t, state, program)
	}
}

func TestMemoryIsGivenBack(t *testing.T) {
	state := open(t)
	run(t, state, "return 1", 0)
	before := state.Used()
	for range 200 {
		run(t, state, `local t={} for i=1,10000 do t[i]="k"..i end return #t`, 0)
	}
	if used := state.Used(); used > before+8<<20 {
		t.Errorf("%d bytes, before %d", used, before)
	}
}
