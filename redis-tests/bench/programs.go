package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"kedis/redis-tests/launch"
)

// Scripts and functions. A bucket has what a limiter of requests does: two reads, arithmetic, two
// writes and an expiry.
const (
	getScript    = `return redis.call('get', KEYS[1])`
	setScript    = `return redis.call('set', KEYS[1], ARGV[1])`
	hsetScript   = `for i = 1, 20, 2 do redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1]) end return 1`
	bucketScript = `local now, rate, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens, at = tonumber(redis.call('hget', KEYS[1], 'tokens') or most), tonumber(redis.call('hget', KEYS[1], 'at') or now)
tokens = math.min(most, tokens + math.max(0, now - at) * rate / 1000)
local allowed = 0
if tokens >= 1 then tokens, allowed = tokens - 1, 1 end
redis.call('hset', KEYS[1], 'tokens', tokens)
redis.call('hset', KEYS[1], 'at', now)
redis.call('pexpire', KEYS[1], 60000)
return allowed`
	jsonScript    = `return #cjson.encode(cjson.decode(ARGV[1]))`
	messageScript = `return #cmsgpack.pack(cmsgpack.unpack(ARGV[1]))`
	loopScript    = `local n = 0 for i = 1, 1000000 do n = n + i end return n`
	setLibrary    = "#!lua name=bench\nredis.register_function('bench_set', function(keys, args) return redis.call('set', keys[1], args[1]) end)"
)

// evalsha is a workload that runs a script by its SHA-1.
func evalsha(name, script string, requests float64, words ...string) workload {
	sum := sha1.Sum([]byte(script))
	return workload{name: "EVALSHA_" + name, request: append([]string{"evalsha", hex.EncodeToString(sum[:])}, words...), target: points, requests: requests,
		prepare: func(p *plan, server *launch.Server) error {
			if err := flush(p, server); err != nil {
				return err
			}
			_, err := ask(server, "script", "load", script)
			return err
		}}
}

// programWorkloads run scripts and functions.
func programWorkloads() []workload {
	fields := []string{"1", "hash:__rand_int__"}
	for i := range 10 {
		fields = append(fields, fmt.Sprintf("field:%d", i), "value")
	}
	return []workload{
		evalsha("GET", getScript, 0.5, "1", "key:__rand_int__"),
		evalsha("SET", setScript, 0.5, "1", "key:__rand_int__", "value"),
		evalsha("HSET_10", hsetScript, 0.1, fields...),
		evalsha("BUCKET", bucketScript, 0.2, "1", "bucket:__rand_int__", "1700000000000", "10", "100"),
		evalsha("CJSON_1K", jsonScript, 0.1, "0", jsonOf1K()),
		evalsha("CMSGPACK_1K", messageScript, 0.1, "0", messageOf1K()),
		evalsha("LOOP_1M", loopScript, 0.0005, "0"),
		{name: "FCALL_SET", request: []string{"fcall", "bench_set", "1", "key:__rand_int__", "value"}, target: points, requests: 0.5,
			prepare: func(_ *plan, server *launch.Server) error {
				_, err := ask(server, "function", "load", "replace", setLibrary)
				return err
			}},
	}
}

// jsonOf1K is an object of about a kilobyte: names, texts, numbers and lists.
func jsonOf1K() string {
	var members []string
	for i := range 16 {
		members = append(members, fmt.Sprintf(`"member%d":{"name":"a text of some length","number":%d,"list":[1,2.5,true,null]}`, i, i*1000))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// messageOf1K is a list of 257 texts and numbers in MessagePack. A word of a command line has no
// byte 0, so the length has none.
func messageOf1K() string {
	return "\xdc\x01\x01" + strings.Repeat("\xa6abcdef\x07", 128) + "\xa6abcdef"
}
