#!/usr/bin/env bash
# Runs Redis's own tests on bin/kedis, those that it has for a server of somebody else's: redis-suite.sh [unit, as unit/type/list ...]
#
# They are those of Redis 8.0.2 and stand in Debian's source package, not in this tree. Each unit has a server of its own. What differs on purpose stands with
# its reason in redis-suite-differences.txt and is left out; any other test that fails is shown, and is the script's failure.
# REDIS_SUITE_SOURCE names a redis_8.0.2.orig.tar.gz that is here already, for machines without a network.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/source-package.sh"

readonly version=8.0.2
readonly checksum=caf3c0069f06fc84c5153bd2a348b204c578de80490c73857bee01d9b5d7401f
readonly here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly kedis=${KEDIS_BINARY:-$here/../bin/kedis}

units=(unit/type/{string,incr,list,list-2,list-3,set,zset,hash,stream,stream-cgroups}
	unit/{dump,protocol,keyspace,scan,info-command,sort,expire,other,multi,quit,pubsub,slowlog,scripting,functions}
	unit/{introspection,introspection-2,bitops,bitfield,geo,hyperloglog,lazyfree,pause,querybuf,tracking,violations,latency-monitor})
[ $# -eq 0 ] || units=("$@")

free_port() {
	local port
	while port=$((RANDOM % 8000 + 20000)) && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
	echo $port
}

# Says how many tests of a unit have passed, and which have failed.
report() { # unit, output
	local passed failed
	sed -i 's/\x1b\[[0-9;]*m//g' "$2"
	passed=$(grep -acE '^\[ok\]: ' "$2" || true)
	# What several tests have in common can't be left out by a name: of scripting some begin with a DEBUG of Redis's own.
	failed=$(sed '/^Execution time of/,$d; /set-disable-deny-scripts/d' "$2" | grep -aA 1 -E '^\[(err|exception|TIMEOUT)\]' || true)
	printf '%-30s %4d passed\n' "$1" "$passed"
	if [ -n "$failed" ] || [ "$passed" -eq 0 ]; then
		printf '%s\n' "${failed:-nothing has run}" | cut -c 1-500
		return 1
	fi
}

run_unit() { # unit
	local port data=$work/data outcome=0
	port=$(free_port)
	rm -rf "$data"
	"$kedis" serve --port "$port" --dir "$data" --enable-debug-command yes >"$work/kedis.log" 2>&1 &
	server=$!
	until (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
		kill -0 $server 2>/dev/null || fail "Kedis does not start: $(tail -n 3 "$work/kedis.log")"
		sleep 0.1
	done
	(cd "$work/redis-$version" && tclsh tests/test_helper.tcl --host 127.0.0.1 --port "$port" --baseport $((port + 8000)) --single "$1" \
		--tags -needs:config-maxmemory --ignore-encoding --ignore-digest --durable --no-latency --timeout 180 --skipfile "$here/redis-suite-differences.txt") >"$work/output" 2>&1 || true
	kill $server
	wait $server || outcome=1
	report "$1" "$work/output" && return $outcome
}

need_command tclsh tcl
[ -x "$kedis" ] || fail "$kedis is missing: make build"
work=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
fetch_source redis redis_$version.orig.tar.gz $checksum "${REDIS_SUITE_SOURCE:-}"
outcome=0
for unit in "${units[@]}"; do
	run_unit "$unit" || outcome=1
done
exit $outcome
