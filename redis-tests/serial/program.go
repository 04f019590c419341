// Package serial has many connections run random Lua programs, as scripts and as functions, and
// transactions at the same time, on a few keys that hardly any of them declares. Each takes a
// number from one counter, somewhere in its midst. Carried out one after the other, in the order of
// these numbers, redis-server has to come to the same replies, the same data and the same
// libraries: whatever ran at the same time is as if it had run in that order.
//
//	go test ./redis-tests/serial -args -programs=20000 -seed=7
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package serial

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// program writes a random program. It works with the tables keys and args, and puts what it has
// seen into the table out.
type program struct {
	strings.Builder
	random *rand.Rand
	depth  int
	names  int
}

// newProgram returns the body of a function that returns its number, whether it has failed and how,
// and what it has seen.
func newProgram(random *rand.Rand) string {
	p := &program{random: random}
	turn := "local turn = redis.call('incr', 'turn')\n"
	p.WriteString("local out = {}\nlocal function show(v) return type(v) == 'table' and 'a table of ' .. #v or tostring(v) end\n")
	early := p.random.IntN(2) == 0
	if early {
		p.WriteString(turn)
	}
	p.WriteString("local ok, problem = pcall(function()\n")
	p.statements(2 + p.random.IntN(6))
	p.WriteString("end)\n")
	if !early {
		p.WriteString(turn)
	}
	p.WriteString("return {turn, tostring(ok), tostring(problem), out}\n")
	return p.String()
}

func (p *program) pick(choices ...string) string { return choices[p.random.IntN(len(choices))] }

func (p *program) line(format string, values ...any) {
	p.WriteString(strings.Repeat("  ", p.depth))
	fmt.Fprintf(p, format+"\n", values...)
}

func (p *program) statements(count int) {
	p.depth++
	for range count {
		p.statement()
	}
	p.depth--
}

func (p *program) statement() {
	switch p.random.IntN(12) {
	case 0:
		if p.depth < 4 {
			p.line("if %s then", p.condition())
			p.statements(1 + p.random.IntN(2))
			p.line("else")
			p.statements(1)
			p.line("end")
		}
	case 1:
		if p.depth < 3 {
			p.line("for i = 1, %d do", 1+p.random.IntN(5))
			p.statements(1 + p.random.IntN(2))
			p.line("end")
		}
	case 2:
		p.names++
		p.line("local v%d = %s", p.names, p.read())
		p.line("out[#out + 1] = type(v%d) == 'table' and #v%d or v%d", p.names, p.names, p.names)
	case 3:
		p.line("out[#out + 1] = %s", p.library())
	case 4, 5, 6:
		p.line("out[#out + 1] = %s", p.read())
	case 7:
		p.line("out[#out + 1] = redis.pcall(%s)", p.pick(p.writeWords(), p.readWords(), "'nosuch', "+p.value(), "'get'", "'lpush', "+p.key("string")+", 1"))
	case 8:
		p.line("if #out > 20 then error('it has seen ' .. #out) end")
	default:
		p.line("redis.call(%s)", p.writeWords())
	}
}

func (p *program) condition() string {
	return p.pick("#out % 2 == 0", "redis.call('exists', "+p.key("string")+") == 1", "(tonumber(redis.call('get', "+p.key("counter")+") or 0)) > 10",
		"args[1] == 'a'", "redis.call('type', "+p.key("list")+").ok == 'list'")
}

// key is a key of a kind, and now and then one of another kind or one that was declared.
func (p *program) key(kind string) string {
	switch p.random.IntN(16) {
	case 0:
		kind = p.pick("string", "counter", "hash", "list", "set", "zset")
	case 1:
		return "keys[1] or 'string1'"
	case 2:
		return fmt.Sprintf("'%s' .. #args", kind)
	}
	return fmt.Sprintf("'%s%d'", kind, 1+p.random.IntN(4))
}

func (p *program) value() string {
	return p.pick("'a'", "'b'", "'word'", strconv.Itoa(p.random.IntN(1000)), "-1.5", "args[1] or 'none'", "#out", "show(out[#out])", "('x'):rep(70)", "3.25", "'1'")
}

func (p *program) writeWords() string {
	switch p.random.IntN(16) {
	case 0, 1:
		return "'set', " + p.key("string") + ", " + p.value()
	case 2:
		return "'append', " + p.key("string") + ", " + p.value()
	case 3, 4:
		return "'incrby', " + p.key("counter") + ", " + strconv.Itoa(p.random.IntN(9)-2)
	case 5, 6:
		return "'hset', " + p.key("hash") + ", " + p.value() + ", " + p.value()
	case 7:
		return "'hincrby', " + p.key("hash") + ", 'n', 1"
	case 8:
		return p.pick("'rpush', ", "'lpush', ") + p.key("list") + ", " + p.value()
	case 9:
		return p.pick("'lpop', ", "'rpop', ") + p.key("list")
	case 10:
		return "'sadd', " + p.key("set") + ", " + p.value()
	case 11:
		return "'srem', " + p.key("set") + ", " + p.value()
	case 12:
		return "'zadd', " + p.key("zset") + ", " + strconv.Itoa(p.random.IntN(20)) + ", " + p.value()
	case 13:
		return "'del', " + p.key(p.pick("string", "counter", "hash", "list", "set", "zset"))
	case 14:
		return "'copy', " + p.key("string") + ", " + p.key("string") + ", 'replace'"
	}
	return "'lmove', " + p.key("list") + ", " + p.key("list") + ", 'left', 'right'"
}

func (p *program) readWords() string {
	switch p.random.IntN(10) {
	case 0, 1:
		return "'get', " + p.key("string")
	case 2:
		return "'get', " + p.key("counter")
	case 3:
		return "'hget', " + p.key("hash") + ", " + p.value()
	case 4:
		return "'lrange', " + p.key("list") + ", 0, " + p.pick("-1", "2")
	case 5:
		return "'scard', " + p.key("set")
	case 6:
		return "'sismember', " + p.key("set") + ", " + p.value()
	case 7:
		return "'zrange', " + p.key("zset") + ", 0, -1, 'withscores'"
	case 8:
		return "'mget', 'string1', 'string2', 'string3'"
	}
	return "'hlen', " + p.key("hash")
}

func (p *program) read() string { return "redis.call(" + p.readWords() + ")" }

// library is something that the libraries make of what was read.
func (p *program) library() string {
	read := "redis.pcall(" + p.readWords() + ")"
	return p.pick("cjson.encode({"+read+", #out, "+p.value()+"})", "#cmsgpack.pack("+read+", "+p.value()+")", "redis.sha1hex(tostring("+p.value()+"))",
		"string.format('%s %5.2f', "+p.value()+", #out / 3)", "tostring("+p.value()+"):upper():reverse()", "bit.bxor(#out, 21)", "type("+read+")",
		"struct.unpack('>I4', struct.pack('>I4', #out + 7))", "#table.concat({"+p.value()+", "+p.value()+"}, '-')", "cmsgpack.unpack(cmsgpack.pack({"+p.value()+", #out}))",
		"math.floor(#out * 1.5) % 3", "tonumber("+p.value()+") or 'no number'")
}
