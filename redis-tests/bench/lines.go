package main

import (
	"fmt"
	"slices"
	"strings"

	"kedis/redis-tests/launch"
)

// target is the ratio of Redis's requests/s that is wanted, at depths 1, 16 and 64.
type target [3]float64

var (
	hotReads  = target{1.2, 1.4, 1.5}
	plainSets = target{1.0, 1.2, 1.4}
	points    = target{1.0, 1.0, 1.0} // what looks up records
	ordered   = target{0.9, 0.9, 0.9} // what needs an order, or answers much
	walks     = target{0.7, 0.7, 0.7}
	chances   = target{0.1, 0.1, 0.1}
)

func (t target) at(depth int) float64 {
	switch {
	case depth >= 64:
		return t[2]
	case depth >= 16:
		return t[1]
	}
	return t[0]
}

// row is a line of the table.
type row struct {
	name     string
	request  string
	target   target
	requests float64
}

// data is what the lines of a table begin with. Each prepares it, so that any can run alone.
type data struct {
	prepare func(*plan, *launch.Server) error
	keys    int
	anew    bool
	each    bool
	takes   int
	size    int
}

func (d data) lines(rows ...row) (lines []workload) {
	for _, r := range rows {
		lines = append(lines, workload{name: r.name, request: strings.Fields(r.request), target: r.target, requests: r.requests,
			prepare: d.prepare, keys: d.keys, anew: d.anew, each: d.each, takes: d.takes, size: d.size})
	}
	return lines
}

// allLines are in the order in which they run. README names them.
func allLines() []workload {
	return slices.Concat(tests, singles(), sizes(), strangers(), programWorkloads(), large(), small(), combinations(), partsOfStrings(), expiries(), walkers(),
		payloads(), streamWorkloads)
}

// tests are redis-benchmark's own.
var tests = []workload{
	{name: "SET", test: "set", target: plainSets, requests: 1, reply: status},
	{name: "GET", test: "get", target: hotReads, requests: 1, prepare: fillStrings, reply: value},
	{name: "INCR", test: "incr", target: points, requests: 1, reply: count},
	{name: "MSET", test: "mset", target: points, requests: 0.2, reply: status},
	{name: "HSET", test: "hset", target: points, requests: 1, reply: count},
	{name: "SADD", test: "sadd", target: points, requests: 1, reply: count},
	{name: "ZADD", test: "zadd", target: points, requests: 1, reply: count},
	{name: "LPUSH", test: "lpush", target: points, requests: 1, prepare: flush, reply: count},
	{name: "LPOP", test: "lpop", target: points, requests: 1, prepare: fillList, anew: true, reply: value},
	{name: "LRANGE_100", test: "lrange_100", target: ordered, requests: 0.1, prepare: flush, reply: values},
}

// singles read a hundred elements of one collection, again and again.
func singles() []workload {
	return slices.Concat(
		data{prepare: fillHash(wholeText)}.lines(row{"HGETALL_100", "hgetall hash100", ordered, 0.1}),
		data{prepare: fillHash(shortText)}.lines(row{"HGETALL_100_SHORT", "hgetall hash100", ordered, 0.1}),
		data{prepare: fillSortedSet}.lines(row{"ZRANGE_100", "zrange zset100 0 99", ordered, 0.1}),
		data{prepare: requested(0, 1, "zadd myzset __rand_int__ element:__rand_int__")}.lines(row{"ZREVRANGE_100_OF_MANY", "zrevrange myzset 0 99", ordered, 0.1}),
		data{prepare: fillStrings}.lines(row{"RANDOMKEY", "randomkey", chances, 0.1}),
	)
}

// sizes have values of other sizes than the plan's, 200 MB of them at most.
func sizes() (lines []workload) {
	for _, s := range []struct {
		name       string
		size, keys int
		requests   float64
	}{{"128", 128, 1_000_000, 1}, {"1K", 1 << 10, 200_000, 0.3}, {"10K", 10 << 10, 20_000, 0.05}} {
		d := data{keys: s.keys, size: s.size}
		for _, r := range []row{{"SET", "set key:__rand_int__ __data__", points, s.requests}, {"HSET", "hset hash element:__rand_int__ __data__", points, s.requests}} {
			d.prepare = flush
			r.name += "_" + s.name
			lines = append(lines, d.lines(r)...)
		}
		d.prepare = requestedOfSize(s.size, s.keys, 4, "set key:__rand_int__ __data__")
		lines = append(lines, d.lines(row{"GET_" + s.name, "get key:__rand_int__", points, s.requests})...)
	}
	return lines
}

// unheardOf is of how many keys one is asked for that nobody has asked for before, nearly always.
const unheardOf = 2_000_000_000

// strangers ask for what isn't there.
func strangers() []workload {
	return slices.Concat(
		data{prepare: fillOthers, keys: unheardOf}.lines(
			row{"GET_ABSENT", "get absent:__rand_int__", points, 1},
			row{"EXISTS_ABSENT", "exists absent:__rand_int__", points, 1},
			row{"HGET_ABSENT", "hget hash absent:__rand_int__", points, 1}),
		data{prepare: flush, keys: unheardOf, anew: true}.lines(
			row{"SET_NEW", "set key:__rand_int__ value", points, 2},
			row{"INCR_NEW", "incr counter:__rand_int__", points, 2},
			row{"HSET_NEW", "hset hash:__rand_int__ field value", points, 2},
			row{"SADD_NEW", "sadd set:__rand_int__ member", points, 2},
			row{"ZADD_NEW", "zadd zset:__rand_int__ 1 member", points, 2},
			row{"LPUSH_NEW", "lpush list:__rand_int__ element", points, 2}),
	)
}

// half is how often a request is sent, for each key, so that about half of all that its place
// holders can name is there.
const half = 0.7

var (
	fillBoard  = requested(0, half, "zadd board __rand_int__ m:__rand_int__")
	fillNames  = requested(0, half, "zadd names 0 m:__rand_int__")
	fillSet    = requested(0, half, "sadd set m:__rand_int__")
	fillFields = requested(0, half, "hset hash m:__rand_int__ 1")
)

// large are what people pick a sorted set, a set, a hash or a list for. Collections have half as
// many elements as the plan has keys.
func large() []workload {
	return slices.Concat(
		data{prepare: fillBoard}.lines(
			row{"ZRANK_OF_MANY", "zrank board m:__rand_int__", ordered, 0.5},
			row{"ZREVRANK_OF_MANY", "zrevrank board m:__rand_int__", ordered, 0.5},
			row{"ZCOUNT_OF_MANY", "zcount board __rand_int__ +inf", ordered, 0.5},
			row{"ZRANGE_10_OF_MANY", "zrange board 250000 250009", ordered, 0.3},
			row{"ZRANGEBYSCORE_10_OF_MANY", "zrangebyscore board __rand_int__ +inf limit 0 10", ordered, 0.3},
			row{"ZREVRANGE_10_OF_MANY", "zrevrange board 0 9", ordered, 0.3},
			row{"ZRANDMEMBER_OF_MANY", "zrandmember board", ordered, 0.5},
			row{"ZSCORE_OF_MANY", "zscore board m:__rand_int__", points, 1},
			row{"ZINCRBY_OF_MANY", "zincrby board 3 m:__rand_int__", points, 0.5},
			row{"ZADD_OF_MANY", "zadd board __rand_int__ m:__rand_int__", points, 0.5}),
		data{prepare: fillNames}.lines(
			row{"ZRANGEBYLEX_10_OF_MANY", "zrangebylex names [m:__rand_int__ + limit 0 10", ordered, 0.3}),
		data{prepare: fillBoard, anew: true, takes: 1}.lines(
			row{"ZPOPMIN_OF_MANY", "zpopmin board", ordered, 0.2},
			row{"ZPOPMAX_OF_MANY", "zpopmax board", ordered, 0.2}),
		data{prepare: fillSet}.lines(
			row{"SISMEMBER_OF_MANY", "sismember set m:__rand_int__", points, 1},
			row{"SRANDMEMBER_OF_MANY", "srandmember set", ordered, 0.5},
			row{"SRANDMEMBER_10_OF_MANY", "srandmember set 10", ordered, 0.2}),
		data{prepare: fillSet, anew: true, takes: 1}.lines(row{"SPOP_OF_MANY", "spop set", ordered, 0.2}),
		data{prepare: fillSet, anew: true, takes: 10}.lines(row{"SPOP_10_OF_MANY", "spop set 10", ordered, 0.03}),
		data{prepare: fillFields}.lines(
			row{"HGET_OF_MANY", "hget hash m:__rand_int__", points, 1},
			row{"HINCRBY_OF_MANY", "hincrby hash m:__rand_int__ 1", points, 0.5},
			row{"HRANDFIELD_OF_MANY", "hrandfield hash", ordered, 0.5},
			row{"HRANDFIELD_10_OF_MANY", "hrandfield hash 10", ordered, 0.2}),
		data{prepare: fillFields, anew: true}.lines(row{"HSETNX_OF_MANY", "hsetnx hash m:__rand_int__ 1", points, 0.5}),
		data{prepare: fillElements}.lines(
			row{"LINDEX_OF_MANY", "lindex list 250000", points, 1}, // no number of redis-benchmark's: they have zeros in front
			row{"LPOS_OF_MANY", "lpos list near", points, 0.5},
			row{"LPOS_LAST_OF_MANY", "lpos list far rank -1", points, 0.5}),
	)
}

// manySmall is the number of small collections. A request reads one of them.
const manySmall = 100_000

// small read whole collections, of ten and of a hundred elements, packed and spread. Redis has them
// in memory once they are written, Kedis once they were read.
func small() (lines []workload) {
	for _, kind := range []struct{ name, request, add string }{
		{"HGETALL", "hgetall small:__rand_int__", "hset"},
		{"LRANGE", "lrange small:__rand_int__ 0 -1", "rpush"},
		{"SMEMBERS", "smembers small:__rand_int__", "sadd"},
		{"ZRANGE", "zrange small:__rand_int__ 0 -1", "zadd"},
	} {
		for _, n := range []struct {
			elements int
			requests float64
		}{{10, 0.5}, {100, 0.1}} {
			for _, form := range []string{packed, spread} {
				d := data{keys: manySmall, each: true, prepare: fillSmall(kind.add, n.elements, form)}
				lines = append(lines, d.lines(row{fmt.Sprintf("%s_%d_%s", kind.name, n.elements, form), kind.request, ordered, n.requests})...)
			}
		}
	}
	return lines
}

// combinations are of two collections that share half of their members.
func combinations() (lines []workload) {
	for _, of := range []struct {
		size     int
		requests float64
	}{{200, 0.03}, {100_000, 0.0001}} {
		name := func(command string) string { return fmt.Sprintf("%s_%d", command, of.size) }
		lines = append(lines, slices.Concat(
			data{prepare: fillTwo("sadd", of.size)}.lines(
				row{name("SINTER"), "sinter one two", ordered, of.requests},
				row{name("SUNION"), "sunion one two", ordered, of.requests},
				row{name("SDIFF"), "sdiff one two", ordered, of.requests}),
			data{prepare: fillTwo("zadd", of.size)}.lines(
				row{name("ZUNIONSTORE"), "zunionstore three 2 one two", ordered, of.requests / 3},
				row{name("ZINTER"), "zinter 2 one two", ordered, of.requests}))...)
	}
	return lines
}

// partsOfStrings are commands on parts of strings of a kilobyte, and on a HyperLogLog.
func partsOfStrings() []workload {
	const strings, size = 100_000, 1 << 10
	return slices.Concat(
		data{keys: strings, prepare: requestedOfSize(size, strings, 4, "set string:__rand_int__ __data__")}.lines(
			row{"SETRANGE", "setrange string:__rand_int__ 500 0123456789", points, 1},
			row{"GETRANGE", "getrange string:__rand_int__ 500 599", points, 1},
			row{"BITCOUNT", "bitcount string:__rand_int__", points, 1},
			row{"SETBIT", "setbit string:__rand_int__ 7000 1", points, 1},
			row{"BITFIELD", "bitfield string:__rand_int__ incrby u32 100 1", points, 1},
			row{"APPEND", "append string:__rand_int__ 0123456789", points, 1}),
		data{prepare: requested(0, 1, "pfadd visitors visitor:__rand_int__")}.lines(
			row{"PFADD", "pfadd visitors visitor:__rand_int__", points, 1},
			row{"PFCOUNT", "pfcount visitors", points, 1}),
	)
}

// expiries are strings that go, or are taken once.
func expiries() []workload {
	return slices.Concat(
		data{prepare: requested(0, 3, "set key:__rand_int__ __data__ ex 100000")}.lines(
			row{"GETEX", "getex key:__rand_int__ ex 100000", points, 1},
			row{"EXPIRE", "expire key:__rand_int__ 100000", points, 1},
			row{"TTL", "ttl key:__rand_int__", points, 1},
			row{"SETEX", "setex key:__rand_int__ 100000 __data__", points, 1}),
		data{prepare: flush, anew: true}.lines(row{"SETNX", "setnx key:__rand_int__ __data__", points, 1}),
	)
}

// walkers go over everything, see client.go.
func walkers() []workload {
	return slices.Concat(
		data{prepare: fillStrings}.lines(row{"SCAN", "scan __cursor__ count 100", walks, 1}),
		data{prepare: fillSet}.lines(row{"SSCAN", "sscan set __cursor__ count 100", walks, 1}),
		data{prepare: fillFields}.lines(row{"HSCAN", "hscan hash __cursor__ count 100", walks, 1}),
		data{prepare: fillBoard}.lines(row{"ZSCAN", "zscan board __cursor__ count 100", walks, 1}),
	)
}

// payloads are of collections of ten thousand elements.
func payloads() (lines []workload) {
	for _, kind := range []struct{ name, add string }{{"HASH", "hset"}, {"LIST", "rpush"}, {"SET", "sadd"}, {"ZSET", "zadd"}} {
		d := data{prepare: fillOne(kind.add, 10_000)}
		lines = append(lines, d.lines(row{"DUMP_" + kind.name, "dump collection", ordered, 0.002})...)
		d.anew, d.keys = true, unheardOf // each is restored under a name of its own
		lines = append(lines, d.lines(row{"RESTORE_" + kind.name, "restore copy:__rand_int__ 0 __payload__", ordered, 0.0005})...)
	}
	return lines
}
