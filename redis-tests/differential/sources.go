package differential

import (
	"math"
	"strconv"
	"strings"
)

// sources make the variable parts of templates. Each has few values that are likely, so that
// commands meet on the same keys and members, and some that lie on the edges of what a server
// accepts or of how it stores things.
var sources map[string]func(g *Generator) []string

// The table refers to functions that refer to the table.
func init() {
	one := func(f func(g *Generator) string) func(g *Generator) []string {
		return func(g *Generator) []string { return []string{f(g)} }
	}
	sources = map[string]func(g *Generator) []string{
		"key": one(anyKey), "string": keyOf("string", 4), "counter": keyOf("counter", 2), "bits": keyOf("bits", 3), "hll": keyOf("hll", 3),
		"hash": keyOf("hash", 4), "list": keyOf("list", 4), "set": keyOf("set", 4), "zset": keyOf("zset", 4), "lex": keyOf("lex", 2),
		"geo": keyOf("geo", 3), "longitude": one(longitude), "latitude": one(latitude), "place": one(place), "unit": one(unit), "length": one(length),
		"geocenter": geoCenter, "geoshape": geoShape,
		"weight": keyOf("weight_", 6), "sortable": one(func(g *Generator) string { return keyOf(pick(g, "list", "set", "zset"), 4)(g)[0] }),
		"biglist": keyOf("biglist", 2), "bighash": keyOf("bighash", 2), "bigset": keyOf("bigset", 3), "bigzset": keyOf("bigzset", 2),
		"big":     one(func(g *Generator) string { return pick(g, largeKinds...) + strconv.Itoa(1+g.below(2)) }),
		"element": one(element), "bigindex": one(bigIndex), "bigcount": one(bigCount),
		"value": one(value), "member": one(member), "field": one(member), "number": one(number), "integer": one(integer), "float": one(float),
		"stream": keyOf("stream", 3), "streamid": one(streamID), "laterid": one(laterID), "recentid": one(recentID), "streamfrom": one(streamBound), "groupfrom": one(func(g *Generator) string { return pick(g, ">", ">", ">", "0", streamID(g)) }), "group": one(func(g *Generator) string { return pick(g, "g", "h") }),
		"consumer": one(func(g *Generator) string { return pick(g, "alice", "bob", "carol") }),
		"score":    one(score), "from": one(scoreBound), "lexfrom": one(lexBound), "index": one(index), "offset": one(offset), "count": one(count),
		"small": one(func(g *Generator) string { return strconv.Itoa(g.below(7) - 1) }), "bit": one(bit), "bitoffset": one(bitOffset), "bittype": one(bitType), "bitplace": one(bitPlace),
		"seconds": one(seconds), "milliseconds": one(milliseconds), "unix": one(unixSeconds), "unixms": one(unixMilliseconds),
		"database": one(database), "pattern": one(pattern), "type": one(typeName), "sortpattern": one(sortPattern),
		"sets":          func(g *Generator) []string { return g.numbered("set") },
		"lists":         func(g *Generator) []string { return g.numbered("list") },
		"zsets":         func(g *Generator) []string { return g.numbered("zset") },
		"setsandzsets":  func(g *Generator) []string { return g.numbered(pick(g, "set", "zset")) },
		"weightedzsets": weightedZSets,
		"command":       func(g *Generator) []string { return g.plainCommand() },
		"caller":        one(func(g *Generator) string { return pick(g, callers...) }),
		"program":       one(func(g *Generator) string { return pick(g, programs...) }),
		"library":       one(func(g *Generator) string { return pick(g, libraries...) }),
		"libraryname":   one(func(g *Generator) string { return pick(g, "call", "caught", "read", "types", "none") }),
		"function":      one(func(g *Generator) string { return pick(g, "call", "call", "caught", "read", "types", "CALL", "none") }),
		"badnumber":     one(func(g *Generator) string { return pick(g, badNumbers...) }),
		"badcursor":     one(func(g *Generator) string { return pick(g, "abc", "-x", "1.5", "18446744073709551616", "1a") }),
		"name":          one(name), "option": one(option),
	}
}

// callers are scripts that run the command that their arguments are.
var callers = []string{
	"return redis.call(unpack(ARGV))", "return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))",
	"redis.setresp(3) return redis.pcall(unpack(ARGV))", "return {redis.pcall(unpack(ARGV)), 1}", "return {redis.pcall(unpack(ARGV)), redis.pcall(unpack(ARGV))}",
	"local ok, reply = pcall(redis.call, unpack(ARGV)) return {tostring(ok), type(reply)}", "return cmsgpack.pack(redis.pcall(unpack(ARGV)))",
	"return cjson.encode({redis.pcall(unpack(ARGV))})", "#!lua flags=no-writes\nreturn redis.call(unpack(ARGV))", "#!lua\nreturn redis.call(unpack(ARGV))",
}

// programs are scripts on two keys and any arguments.
var programs = []string{
	`local n = redis.call("incr", KEYS[1]) if n % 3 == 0 then redis.call("append", KEYS[2], n) end return n`,
	`redis.call("set", KEYS[1], #ARGV) redis.call("lpush", KEYS[1], 1) return "never"`,
	`redis.call("set", KEYS[1], 5) redis.pcall("lpush", KEYS[1], 1) redis.call("incr", KEYS[1]) return redis.call("get", KEYS[1])`,
	`for i, v in ipairs(ARGV) do redis.call("set", "string" .. (i % 4 + 1), v) end return redis.call("mget", "string1", "string2", "string3", "string4")`,
	`local t = {} for i = 1, 20 do t[i] = redis.call("exists", "string" .. i) + redis.call("exists", "hash" .. i) end return t`,
	`if redis.call("type", KEYS[1]).ok == "string" then return redis.call("get", KEYS[1]) end return redis.call("del", KEYS[1], KEYS[2])`,
	`error("an error of " .. #KEYS .. " keys")`, `return {KEYS, ARGV}`,
}

// libraries are sources of libraries, of which some can't be loaded. Their functions run the
// command that their arguments are.
var libraries = []string{
	"#!lua name=call\nredis.register_function('call', function(keys, args) return redis.call(unpack(args)) end)",
	"#!lua name=call\nredis.register_function{function_name='call', callback=function(keys, args) return {redis.call(unpack(args)), #keys} end, description='another version'}",
	"#!lua name=caught\nlocal function run(args) return redis.pcall(unpack(args)) end\nredis.register_function('caught', function(keys, args) return run(args) end)",
	"#!LUA name=read\nredis.register_function{function_name='read', callback=function(keys, args) return redis.call(unpack(args)) end, flags={'no-writes', 'allow-stale'}}",
	"#!lua name=types\nlocal names = {'a', 'b'}\nredis.register_function('types', function(keys, args) redis.setresp(3) return {names[1], type(redis.pcall(unpack(args)))} end)",
	"#!lua name=other\nredis.register_function('Call', function() return 1 end)", "#!lua name=broken\nredis.call('get', 'x')", "#!lua name=empty\n", "#!lua name=wrong\n)", "return 1",
}

func pick[T any](g *Generator, values ...T) T { return values[g.below(len(values))] }

// keyOf makes keys that mostly hold one type; now and then one that holds another.
func keyOf(kind string, variety int) func(g *Generator) []string {
	return func(g *Generator) []string {
		if g.chance(0.04) {
			return []string{anyKey(g)}
		}
		return []string{kind + strconv.Itoa(1+g.below(variety))}
	}
}

var kinds = []string{"string", "counter", "bits", "hll", "hash", "list", "set", "zset", "lex", "geo", "stream"}

func anyKey(g *Generator) string {
	switch g.below(30) {
	case 0:
		return "missing"
	case 1:
		return pick(g, "", "\x00", "\x00\xff\r\n", "\xff\xff\xff", "string1\x00", "string1\x00\xff", "a key with spaces", strings.Repeat("k", 300), "weight_1", "{tag}", "*", "h[ai]sh1", "\\")
	case 2:
		return pick(g, largeKinds...) + "1"
	}
	return pick(g, kinds...) + strconv.Itoa(1+g.below(4))
}

var largeKinds = []string{"biglist", "bighash", "bigset", "bigzset"}

var words = []string{"a", "b", "c", "d", "e", "f", "g", "h", "apple", "banana", "Cherry", "10", "11", "12", "13", "14", "15", "-1", "-2", "0", "1", "2", "3", "100", "1000"}

// The lengths and numbers at which Redis changes how it stores something, and their neighbours.
var edgeIntegers = []string{"0", "-0", "00", "1", "-1", "+1", "01", " 1", "1 ", "127", "128", "-128", "-129", "255", "256", "4095", "4096", "8191", "-4096", "-4097", "32767", "32768", "-32768", "-32769",
	"65535", "8388607", "8388608", "-8388609", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296", "9999", "10000",
	"9223372036854775806", "9223372036854775807", "-9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
	"18446744073709551615", "18446744073709551616", "99999999999999999999999", "", "abc", "1.0", "1e3", "0x10", "--1", "1\x00"}

var edgeFloats = []string{"0", "-0", "0.0", "1.5", "-1.5", "0.1", "0.2", "0.3", "3.0", "3.14159265358979323846", "1e3", "1e17", "1e18", "1e19", "1e20", "1e21", "1e22", "1e100", "1e-5", "1e-7", "1e-10",
	"1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "1e400", "1e-400", "inf", "-inf", "+inf", "infinity", "nan", "-nan", "0x1p-2", "0x10", "1e", "e1", ".5", "5.", "+.5", "1_0",
	"123456789.123456789", "12345678901234567", "9007199254740993", "0.30000000000000004", "1.1", "2.675", "100.25", "1e15", "4503599627370497.5", "0.000001", "", " 1", "1 ", "abc"}

var lengths = []int{1, 2, 10, 20, 43, 44, 45, 62, 63, 64, 65, 66, 127, 128, 253, 254, 255, 256, 300, 1000}

func value(g *Generator) string {
	switch g.below(20) {
	case 0, 1, 2:
		return pick(g, edgeIntegers...)
	case 3:
		return pick(g, edgeFloats...)
	case 4:
		return ""
	case 5:
		return g.bytes(g.below(20))
	case 6, 7:
		return strings.Repeat(pick(g, "x", "ab", "\x00", "7"), pick(g, lengths...))
	case 8:
		return g.bytes(pick(g, lengths...))
	case 9:
		return g.large()
	}
	return member(g)
}

func member(g *Generator) string {
	switch g.below(40) {
	case 0:
		return pick(g, edgeIntegers...)
	case 1:
		return strings.Repeat("m", pick(g, lengths...))
	case 2:
		return g.bytes(g.below(6))
	case 3, 4, 5, 6, 7, 8, 9, 10:
		return strconv.Itoa(g.below(300))
	case 11, 12, 13:
		return "member" + strconv.Itoa(g.below(300))
	}
	return pick(g, words...)
}

// element makes what large collections hold.
func element(g *Generator) string {
	if g.chance(0.1) {
		return member(g)
	}
	return "element:" + strconv.Itoa(g.below(5000))
}

func bigIndex(g *Generator) string {
	if g.chance(0.9) {
		return strconv.Itoa(g.below(6000) - 3000)
	}
	return index(g)
}

func bigCount(g *Generator) string {
	if g.chance(0.9) {
		return strconv.Itoa(g.below(1500))
	}
	return count(g)
}

func number(g *Generator) string {
	if g.chance(0.7) {
		return strconv.Itoa(g.below(2000) - 1000)
	}
	return pick(g, pick(g, edgeIntegers...), pick(g, edgeFloats...))
}

func integer(g *Generator) string {
	if g.chance(0.7) {
		return strconv.Itoa(g.below(40) - 20)
	}
	return pick(g, edgeIntegers...)
}

func float(g *Generator) string {
	switch g.below(4) {
	case 0:
		return pick(g, edgeFloats...)
	case 1:
		return strconv.FormatFloat(float64(g.below(2000000)-1000000)/math.Pow(10, float64(g.below(8))), 'f', -1, 64)
	}
	return integer(g)
}

func score(g *Generator) string {
	switch g.below(10) {
	case 0:
		return pick(g, edgeFloats...)
	case 1:
		return strconv.FormatFloat(float64(g.below(2000000)-1000000)/math.Pow(10, float64(g.below(8))), 'f', -1, 64)
	case 2:
		return strconv.FormatFloat(g.anyFloat(), 'g', -1, 64)
	}
	return strconv.Itoa(g.below(20))
}

func scoreBound(g *Generator) string {
	bound := pick(g, score(g), score(g), "-inf", "+inf")
	if g.chance(0.3) {
		return "(" + bound
	}
	return bound
}

func lexBound(g *Generator) string {
	switch g.below(8) {
	case 0, 1:
		return "-"
	case 2, 3:
		return "+"
	case 4:
		return pick(g, "", "a", "(", "[", "++", "-a")
	}
	return pick(g, "[", "(") + member(g)
}

func index(g *Generator) string {
	if g.chance(0.9) {
		return strconv.Itoa(g.below(24) - 8)
	}
	return pick(g, "100", "-100", pick(g, edgeIntegers...))
}

func offset(g *Generator) string {
	if g.chance(0.9) {
		return strconv.Itoa(g.below(80))
	}
	return pick(g, "1000", "536870911", "536870912", "-1", pick(g, edgeIntegers...))
}

func count(g *Generator) string {
	if g.chance(0.9) {
		return strconv.Itoa(g.below(12))
	}
	return pick(g, "1000", "-3", pick(g, edgeIntegers...))
}

func bit(g *Generator) string { return pick(g, "0", "1", "1", "0", "1", "0", "2", "-1", "x") }

func bitOffset(g *Generator) string {
	if g.chance(0.9) {
		return strconv.Itoa(g.below(600))
	}
	return pick(g, "5000", "4294967296", "-1", pick(g, edgeIntegers...))
}

func bitType(g *Generator) string {
	if g.chance(0.95) {
		return pick(g, "u", "i", "u", "i", "U") + strconv.Itoa(1+g.below(63))
	}
	return pick(g, "u64", "i64", "i65", "u0", "i0", "u-1", "x8", "8", "u", "")
}

func bitPlace(g *Generator) string {
	return pick(g, "", "", "#") + pick(g, strconv.Itoa(g.below(20)), strconv.Itoa(g.below(300)))
}

func database(g *Generator) string {
	if g.chance(0.97) {
		return pick(g, "0", "0", "0", "1", "2")
	}
	return pick(g, "15", "16", "-1", "abc", "")
}

func pattern(g *Generator) string {
	return pick(g, "*", "*", "*1", "s*", "[a-h]*", "[^a-h]*", "?et?", "*e*", "a", "1*", "[", "\\*", "", "h[ai]sh[1-2]", "*\xff*", "member*")
}

func typeName(g *Generator) string {
	return pick(g, "string", "list", "set", "zset", "hash", "stream", "HASH", "nothing")
}

func sortPattern(g *Generator) string {
	return pick(g, "weight_*", "weight_*", "weight_*->a", "nosort", "*", "#", "weight_*->", "hash*->a", "string*", "missing_*", "")
}

// Times are far away or past, so that no key's time comes while a run goes on; short ones are
// @short's. Each relative one is drawn from so many that two are hardly ever equal: whether one is
// greater than another must not depend on the milliseconds between two servers.
func seconds(g *Generator) string {
	switch g.below(12) {
	case 0:
		return pick(g, "0", "-1", "-100000", "9223372036854775807", "9223372036854775", "-9223372036854775808", "99999999999999999999", "abc", "1.5", "")
	}
	return strconv.Itoa(200_000 + g.below(2_000_000))
}

func milliseconds(g *Generator) string {
	switch g.below(12) {
	case 0:
		return pick(g, "0", "-1", "-100000000", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "abc", "1.5", "")
	}
	return strconv.Itoa(200_000_000 + g.below(2_000_000_000))
}

func unixSeconds(g *Generator) string {
	switch g.below(8) {
	case 0:
		return pick(g, "0", "1", "-1", "1000000000", "9223372036854775807", "9223372036854775", "-9223372036854775808", "abc", "")
	}
	return strconv.Itoa(4_200_000_000 + g.below(8))
}

func unixMilliseconds(g *Generator) string {
	switch g.below(8) {
	case 0:
		return pick(g, "0", "1", "-1", "1000000000000", "9223372036854775807", "-9223372036854775808", "abc", "")
	}
	return strconv.Itoa(4_200_000_000_000 + g.below(8)*500)
}

func weightedZSets(g *Generator) []string {
	kind := pick(g, "zset", "zset", "set")
	line := g.numbered(kind)
	if g.chance(0.4) {
		line = append(line, "weights")
		for range len(line) - 2 {
			line = append(line, pick(g, score(g), strconv.Itoa(g.below(5))))
		}
	}
	return line
}

func longitude(g *Generator) string {
	if g.chance(0.3) {
		return pick(g, "0", "180", "-180", "179.99999", "-179.99999", "13.361389", "15.087269", "90", "-90", "180.0001", "inf", "abc")
	}
	return coordinate(g, 180)
}

func latitude(g *Generator) string {
	if g.chance(0.3) {
		return pick(g, "0", "85.05112878", "-85.05112878", "85.05", "-85.05", "38.115556", "37.502669", "66.1", "-80.1", "85.06", "-inf", "")
	}
	return coordinate(g, 85)
}

// coordinate is anywhere between -largest and largest.
func coordinate(g *Generator, largest int) string {
	return strconv.Itoa(g.below(2*largest)-largest) + "." + strconv.Itoa(g.below(1_000_000))
}

func place(g *Generator) string { return "place" + strconv.Itoa(g.below(80)) }

func unit(g *Generator) string {
	return pick(g, "m", "km", "km", "km", "mi", "ft", "KM", "x")
}

func length(g *Generator) string {
	if g.chance(0.1) {
		return pick(g, edgeFloats...)
	}
	return strconv.Itoa(g.below(pick(g, 10, 500, 5000, 30_000)))
}

func geoCenter(g *Generator) []string {
	if g.chance(0.5) {
		return []string{"frommember", place(g)}
	}
	return []string{"fromlonlat", longitude(g), latitude(g)}
}

func geoShape(g *Generator) []string {
	if g.chance(0.5) {
		return []string{"byradius", length(g), unit(g)}
	}
	return []string{"bybox", length(g), length(g), unit(g)}
}

func name(g *Generator) string {
	return pick(g, "get", "set", "foo", "FOO", "nothing", "hset", "object", "object|encoding", "client|id", "config|get", "zunion", "zadd", "", "\x00", "get set", strings.Repeat("n", 200))
}

func option(g *Generator) string { return pick(g, limitNames...) }

// streamID is an id of a stream's entry: few, which mostly grow.
func streamID(g *Generator) string {
	if g.chance(0.03) {
		return pick(g, "0-0", "abc", "1-", "18446744073709551615-18446744073709551615", "-", "+", "1-2-3", "", "01-1")
	}
	if g.chance(0.3) {
		return strconv.Itoa(g.below(40)) + "-*"
	}
	return strconv.Itoa(g.below(40)) + "-" + strconv.Itoa(g.below(5))
}

// laterID is behind nearly all that streamID makes: a stream that is full up to there goes on
// growing.
func laterID(g *Generator) string {
	g.entries++
	return recent(g, 0)
}

// recentID is one that laterID has made a short while ago.
func recentID(g *Generator) string { return recent(g, g.below(12)) }

func recent(g *Generator, before int) string { return "39-" + strconv.Itoa(5+max(0, g.entries-before)) }

func streamBound(g *Generator) string {
	bound := pick(g, strconv.Itoa(g.below(40)), strconv.Itoa(g.below(40))+"-"+strconv.Itoa(g.below(5)), "-", "+")
	if g.chance(0.2) {
		return "(" + bound
	}
	return bound
}
