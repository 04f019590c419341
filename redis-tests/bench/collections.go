package main

import (
	"fmt"
	"slices"
	"strconv"

	"kedis/redis-tests/launch"
)

// Large collections have about half as many elements as the plan has keys, by chance, as what is asked for is.
const (
	manySmall = 100_000 // collections of which one is asked for at a time
	many      = 0.9     // of Redis: what issue 27 names for what needs an order
	points    = 1.0     // and for what doesn't
)

// collections are what people pick a sorted set, a set or a hash for.
var collections = []workload{
	{name: "ZRANK_OF_MANY", request: []string{"zrank", "board", "m:__rand_int__"}, target: many, requests: 0.5, prepare: fillBoard, reply: rank},
	{name: "ZREVRANK_OF_MANY", request: []string{"zrevrank", "board", "m:__rand_int__"}, target: many, requests: 0.5, prepare: fillBoard, reply: rank},
	{name: "ZCOUNT_OF_MANY", request: []string{"zcount", "board", "__rand_int__", "+inf"}, target: many, requests: 0.5, prepare: fillBoard, reply: rank},
	{name: "ZRANGE_10_OF_MANY", request: []string{"zrange", "board", "250000", "250009"}, target: many, requests: 0.3, prepare: fillBoard, reply: ten},
	{name: "ZRANGEBYSCORE_10_OF_MANY", request: []string{"zrangebyscore", "board", "__rand_int__", "+inf", "limit", "0", "10"}, target: many, requests: 0.3,
		prepare: fillBoard, reply: ten},
	{name: "ZREVRANGE_10_OF_MANY", request: []string{"zrevrange", "board", "0", "9"}, target: many, requests: 0.3, prepare: fillBoard, reply: ten},
	{name: "ZRANDMEMBER_OF_MANY", request: []string{"zrandmember", "board"}, target: many, requests: 0.5, prepare: fillBoard, reply: member},
	{name: "ZRANGEBYLEX_10_OF_MANY", request: []string{"zrangebylex", "names", "[m:__rand_int__", "+", "limit", "0", "10"}, target: many, requests: 0.3,
		prepare: fillNames, reply: ten},
	{name: "ZPOPMIN_OF_MANY", request: []string{"zpopmin", "board"}, target: many, requests: 0.2, prepare: fillBoard, anew: true, reply: member},
	{name: "ZPOPMAX_OF_MANY", request: []string{"zpopmax", "board"}, target: many, requests: 0.2, prepare: fillBoard, anew: true, reply: member},
	{name: "ZSCORE_OF_MANY", request: []string{"zscore", "board", "m:__rand_int__"}, target: points, requests: 1, prepare: fillBoard, reply: member},
	{name: "ZINCRBY_OF_MANY", request: []string{"zincrby", "board", "3", "m:__rand_int__"}, target: points, requests: 0.5, prepare: fillBoard, reply: member},
	{name: "ZADD_OF_MANY", request: []string{"zadd", "board", "__rand_int__", "m:__rand_int__"}, target: points, requests: 0.5, prepare: fillBoard, reply: none},
	{name: "SISMEMBER_OF_MANY", request: []string{"sismember", "set", "m:__rand_int__"}, target: points, requests: 1, prepare: fillSet, reply: none},
	{name: "SRANDMEMBER_OF_MANY", request: []string{"srandmember", "set"}, target: many, requests: 0.5, prepare: fillSet, reply: member},
	{name: "SRANDMEMBER_10_OF_MANY", request: []string{"srandmember", "set", "10"}, target: many, requests: 0.2, prepare: fillSet, reply: ten},
	{name: "SPOP_OF_MANY", request: []string{"spop", "set"}, target: many, requests: 0.2, prepare: fillSet, anew: true, reply: member},
	{name: "HRANDFIELD_OF_MANY", request: []string{"hrandfield", "hash"}, target: many, requests: 0.5, prepare: fillFields, reply: member},
	{name: "HRANDFIELD_10_OF_MANY", request: []string{"hrandfield", "hash", "10"}, target: many, requests: 0.2, prepare: fillFields, reply: ten},
	{name: "SMEMBERS_100_OF_MANY", request: []string{"smembers", "set:__rand_int__"}, keys: manySmall, target: many, requests: 0.1, prepare: fillSets, reply: members},
	{name: "SINTER_200", request: []string{"sinter", "one", "two"}, target: many, requests: 0.05, prepare: fillTwo("sadd", 200), reply: members},
	{name: "SUNION_200", request: []string{"sunion", "one", "two"}, target: many, requests: 0.03, prepare: fillTwo("sadd", 200), reply: members},
	{name: "SDIFF_200", request: []string{"sdiff", "one", "two"}, target: many, requests: 0.05, prepare: fillTwo("sadd", 200), reply: members},
	{name: "ZUNIONSTORE_200", request: []string{"zunionstore", "three", "2", "one", "two"}, target: many, requests: 0.01, prepare: fillTwo("zadd", 200), reply: rank},
	{name: "ZINTER_200", request: []string{"zinter", "2", "one", "two"}, target: many, requests: 0.03, prepare: fillTwo("zadd", 200), reply: members},
}

func rank(*plan) string   { return ":250000\r\n" }
func member(*plan) string { return bulk("m:000000123456") }
func ten(*plan) string    { return "*10\r\n" + bulk("m:000000123456") }

// fillMany sends a request so often that about half of all that its place holders can name is there.
func fillMany(request ...string) func(p *plan, server *launch.Server) error {
	return func(p *plan, server *launch.Server) error {
		if err := flush(p, server); err != nil {
			return err
		}
		err := p.load(server, append([]string{"-P", "64", "-n", strconv.Itoa(p.keys * 7 / 10)}, request...)...)
		return err
	}
}

var (
	fillBoard  = fillMany("zadd", "board", "__rand_int__", "m:__rand_int__")
	fillNames  = fillMany("zadd", "names", "0", "m:__rand_int__")
	fillSet    = fillMany("sadd", "set", "m:__rand_int__")
	fillFields = fillMany("hset", "hash", "m:__rand_int__", "value")
)

// fillSets makes nearly all of many sets of a hundred members, which are too long for a listpack.
func fillSets(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	arguments := []string{"-P", "16", "-r", strconv.Itoa(manySmall), "-n", strconv.Itoa(3 * manySmall), "sadd", "set:__rand_int__"}
	for i := range 100 {
		arguments = append(arguments, fmt.Sprintf("%070d", i))
	}
	err := p.load(server, arguments...)
	return err
}

// fillTwo makes two collections of so many members, of which they share half.
func fillTwo(command string, size int) func(p *plan, server *launch.Server) error {
	return func(p *plan, server *launch.Server) error {
		if err := flush(p, server); err != nil {
			return err
		}
		for n, key := range []string{"one", "two"} {
			request := []string{command, key}
			for i := range size {
				if command == "zadd" {
					request = append(request, strconv.Itoa(i))
				}
				request = append(request, fmt.Sprintf("member:%06d", i+n*size/2))
			}
			if _, err := ask(server, slices.Clip(request)...); err != nil {
				return err
			}
		}
		return nil
	}
}
