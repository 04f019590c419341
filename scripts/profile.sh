#!/usr/bin/env bash
# Makes the profile that `go build` reads (default.pgo beside main.go, see https://go.dev/doc/pgo): profile.sh [file]
#
# bin/kedis is put under each line below for some seconds, and what its processors did is merged: calls that are hot in any of them are
# inlined. The profile changes nothing that a program does, so it may be older than the code.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-default.pgo}
port=${PORT:-7577}
pages=127.0.0.1:$((port + 1))
seconds=4

directory=$(mktemp -d)
bin/kedis serve --port "$port" --dir "$directory/data" --pprof-address "$pages" >"$directory/log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server; rm -rf "$directory"' EXIT
until redis-cli -p "$port" ping >/dev/null 2>&1; do
	kill -0 $server || { cat "$directory/log" >&2; exit 1; }
	sleep 0.1
done

requests() { # number of requests, request …
	redis-benchmark -p "$port" -c 50 -P 16 -q -r 500000 -n "$1" "${@:2}" >/dev/null
}

requests 500000 SET key:__rand_int__ value
requests 500000 ZADD board __rand_int__ m:__rand_int__
requests 500000 HSET hash m:__rand_int__ value
requests 500000 SADD set m:__rand_int__
requests 300000 RPUSH list element:__rand_int__
requests 200000 SADD others m:__rand_int__
for i in $(seq 100); do
	requests 1000 HSET "small:$i" f:__rand_int__ value
done

lines=0
while read -r line; do
	read -ra request <<<"${line//@/__rand_int__}"
	timeout $((seconds + 1)) redis-benchmark -p "$port" -c 50 -P 16 -q -r 500000 -n 1000000000 "${request[@]}" >/dev/null &
	curl -sSf "http://$pages/debug/pprof/profile?seconds=$seconds" -o "$directory/$((++lines)).pprof"
	wait $! || [ $? -eq 124 ] # timeout ended it, and no error
done <<'LINES'
PING
SET key:@ value
SET other:@ value
GET key:@
GET absent:@
INCR counter:@
MSET key:@ a key:@ b key:@ c key:@ d key:@ e
HSET hash m:@ value
HGET hash m:@
HGET hash absent:@
HINCRBY counts m:@ 1
HGETALL small:7
HRANDFIELD hash
ZADD board @ m:@
ZSCORE board m:@
ZINCRBY board 3 m:@
ZRANK board m:@
ZRANGE board 250000 250009
ZRANGEBYSCORE board @ +inf LIMIT 0 10
ZREVRANGE board 0 9
ZPOPMIN board
SADD set m:@
SISMEMBER set m:@
SRANDMEMBER set
SPOP set
SINTERCARD 2 set others LIMIT 100
LPUSH list element
LPOP list
LRANGE list 0 99
LINDEX list 1000
LPOS list element
SETRANGE string:@ 500 0123456789
GETRANGE string:@ 500 599
SETBIT string:@ 7000 1
APPEND appended:@ 0123456789
PFADD visitors visitor:@
SETEX key:@ 100000 value
GETEX key:@ EX 100000
EXPIRE key:@ 100000
TTL key:@
SCAN 0 COUNT 100
XADD stream * field value
XRANGE stream - + COUNT 10
EVAL return(redis.call('GET',KEYS[1])) 1 key:@
LINES

go tool pprof -proto -output "$target" "$directory"/*.pprof
echo "$target: $lines lines, $(stat -c %s "$target") bytes"
