#!/usr/bin/env bash
# Builds the oracle, Redis 7.0.15 from Debian's source package, for systems whose own Redis is another version: what Kedis answers is
# compared with 7.0, byte for byte. Debian 12 has it as a package.
#
#   build-redis.sh   build it, unless it is there; the last line printed is the directory of redis-server, redis-cli and redis-benchmark
#
# It is kept in ${XDG_CACHE_HOME:-~/.cache}/kedis. REDIS_SOURCE names a redis_7.0.15.orig.tar.gz that is here already, for machines without a network.
#
# The directory gets its name when it is complete, and not before.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/source-package.sh"

readonly version=7.0.15
readonly checksum=4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/kedis
readonly prefix=$cache/redis-$version

build() {
	need_command cc gcc
	need_command make make
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	fetch_source redis redis_$version.orig.tar.gz $checksum "${REDIS_SOURCE:-}"
	say "compiling Redis $version with $(cc --version | head -n 1), which takes a minute or two"
	make -C redis-$version -j "$(nproc)" >log 2>&1 || {
		tail -n 40 log >&2
		fail "failed"
	}
	mkdir prefix
	cp redis-$version/src/redis-{server,cli,benchmark} prefix/
	mv -T prefix "$prefix" || [ -e "$prefix/redis-server" ] # another build was faster
	say "Redis $version is in $prefix"
}

[ $# -eq 0 ] || fail "unknown argument $1"
[ -e "$prefix/redis-server" ] || build
echo "$prefix"
