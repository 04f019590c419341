#!/usr/bin/env bash
# Installs from the distribution's packages what is missing, and nothing when nothing is:
#   install-dependencies.sh check     installs nothing: fails with the command to run when RocksDB or Lua is missing
#   install-dependencies.sh build     what building Kedis needs: a C++ compiler, Lua 5.1, RocksDB 7.8 and the libraries it is linked with
#   install-dependencies.sh release   what building it with a RocksDB of its own needs (build-rocksdb.sh)
#   install-dependencies.sh oracle    what building Redis 7.0 needs (build-redis.sh)
#   install-dependencies.sh test      what the tests need as well: redis-server 7.0 (as the oracle), redis-cli, redis-benchmark, node, npm and
#                             strace, and the programs of docs/programs.md that the distribution has
#
# What the distribution has in another version is built from source: RocksDB (build-rocksdb.sh; some minutes) and Redis (build-redis.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	printf 'install-dependencies: %s\n' "$1" >&2
	exit 1
}

need_go() {
	command -v go >/dev/null || fail "Go is missing: install Go 1.26 or later from https://go.dev/dl/ and put it into PATH."
}

# grocksdb v1.7.14 calls the functions of RocksDB 7.8, and Kedis is compared with Redis 7.0: Debian 12 has both as packages.
readonly rocksdb_wanted=7.8 redis_wanted=7.0

# Every header or command that is missing names its package; what is there already, however it came there, is left alone.
missing=()
need_header() { # header, package
	echo "#include <$1>" | c++ -E -x c++ - >/dev/null 2>&1 || missing+=("$2")
}
need_command() { # command, package
	command -v "$1" >/dev/null || missing+=("$2")
}

# need_offered wants a package only where the distribution has it; redis-tests/programs says which tests are skipped without.
need_offered() { # package, command that succeeds where it is installed
	"${@:2}" >/dev/null 2>&1 && return
	[ -n "$(packaged "$1")" ] || ! command -v apt-get >/dev/null || refresh_lists
	[ -z "$(packaged "$1")" ] || missing+=("$1")
}

# has_module tells whether the distribution's Python has a module. Another Python may be the first in PATH.
has_module() { /usr/bin/python3 -I -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

find_missing() {
	missing=()
	local wanted
	for wanted in "$@"; do
		case $wanted in
		build)
			need_libraries
			has_rocksdb || need_rocksdb
			;;
		release)
			need_libraries
			need_command cmake cmake
			need_command make make
			need_command curl curl
			need_header jemalloc/jemalloc.h libjemalloc-dev
			;;
		test)
			need_command redis-check-rdb redis-tools
			need_command node nodejs
			need_command npm npm
			need_command strace strace
			need_offered python3-celery has_module celery
			need_offered python3-redis has_module redis
			need_offered python3-rq has_module rq
			need_offered python3-channels-redis has_module channels_redis
			need_offered ruby-sidekiq command -v sidekiq
			;;
		oracle)
			need_command cc gcc
			need_command make make
			need_command curl curl
			;;
		*) fail "unknown argument $wanted (build, release, oracle, test)" ;;
		esac
	done
}

need_libraries() {
	need_command c++ g++
	need_header snappy.h libsnappy-dev
	need_header zlib.h zlib1g-dev
	need_header bzlib.h libbz2-dev
	need_header lz4.h liblz4-dev
	need_header zstd.h libzstd-dev
	need_header lua5.1/lua.h liblua5.1-0-dev
}

# has_lua tells whether there is the interpreter of scripts.
has_lua() { echo '#include <lua5.1/lua.h>' | c++ -E -x c++ - >/dev/null 2>&1; }

# has_rocksdb tells whether there is a RocksDB to build with: one of our own, unless the system's is asked for, or the system's.
has_rocksdb() {
	[ "${ROCKSDB:-release}" = release ] && [ -e "$(scripts/build-rocksdb.sh --prefix)/lib/librocksdb.a" ] && return
	[ "$(rocksdb_found)" = $rocksdb_wanted ]
}

# rocksdb_found prints the version of the headers that the compiler finds.
rocksdb_found() {
	printf '#include <rocksdb/version.h>\nfound ROCKSDB_MAJOR ROCKSDB_MINOR\n' | c++ -E -P -x c++ - 2>/dev/null |
		sed -n 's/^found \([0-9]*\) \([0-9]*\)$/\1.\2/p'
}

# need_rocksdb takes the distribution's RocksDB, if it is the right one. Otherwise what is needed to build one.
build_rocksdb=no
need_rocksdb() {
	local packaged
	packaged=$(packaged librocksdb-dev)
	if [ -z "$packaged" ] && command -v apt-get >/dev/null; then
		refresh_lists
		packaged=$(packaged librocksdb-dev)
	fi
	case $packaged in
	$rocksdb_wanted.*) missing+=(librocksdb-dev) ;;
	*)
		[ "${ROCKSDB:-release}" = release ] ||
			fail "ROCKSDB=$ROCKSDB: Kedis needs RocksDB $rocksdb_wanted, this system has ${packaged:-none}; without ROCKSDB one is built"
		if [ $build_rocksdb = no ]; then
			printf 'install-dependencies: this system has RocksDB %s, Kedis needs %s: it will be built, once\n' "${packaged:-in no version}" $rocksdb_wanted
		fi
		build_rocksdb=yes
		;;
	esac
}

# packaged prints the version of a package that apt would install.
packaged() {
	command -v apt-cache >/dev/null || return 0
	LC_ALL=C apt-cache policy "$1" | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p'
}

# as_root runs a command as root: by itself, or with sudo.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		fail "not root and no sudo; as root, run: apt-get install -y ${missing[*]}"
	fi
}

refreshed=no
refresh_lists() {
	[ $refreshed = no ] || return 0
	as_root apt-get update -qq || fail "apt-get update failed; see above"
	refreshed=yes
}

install_missing() {
	command -v apt-get >/dev/null ||
		fail "this system has no apt-get; install what Debian calls: ${missing[*]}"
	printf 'install-dependencies: installing %s\n' "${missing[*]}"
	refresh_lists
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		fail "apt-get install failed; see above"
}

# require finds what is missing and installs it. What is still missing then can't be had.
require() {
	find_missing "$@"
	[ ${#missing[@]} -gt 0 ] || return 0
	install_missing
	find_missing "$@"
	[ ${#missing[@]} -eq 0 ] || fail "still missing after installing: ${missing[*]}"
}

# is_oracle tells whether a program is the redis-server to compare with. redis-check-rdb is redis-server by another name, which decides what it does.
is_oracle() {
	local program directory
	program=$(command -v "$1") || return 1
	directory=$(mktemp -d)
	ln -s "$(realpath "$program")" "$directory/redis-server"
	"$directory/redis-server" --version 2>/dev/null | grep -q "v=$redis_wanted\."
	local is=$?
	rm -r "$directory"
	return $is
}

# The package redis-server would start a server on port 6379, which is the port that Kedis is to have. But its program is in redis-tools
# too, see is_oracle. So where there is no redis-server of the right version, a link in .cache/oracle makes it one, or links to what was built.
link_oracle() {
	is_oracle redis-server && return
	is_oracle .cache/oracle/redis-server && return
	mkdir -p .cache/oracle
	if is_oracle redis-check-rdb; then
		ln -sf "$(command -v redis-check-rdb)" .cache/oracle/redis-server
	else
		require oracle
		local built
		built=$(scripts/build-redis.sh)
		ln -sf "$built"/redis-* .cache/oracle/
	fi
}

# check is for make build, which installs nothing.
check() {
	command -v c++ >/dev/null && has_rocksdb && has_lua && return
	fail "RocksDB $rocksdb_wanted, Lua 5.1 or a C++ compiler is missing; run: make dependencies"
}

need_go
if [ "$*" = check ]; then
	check
	exit
fi
require "$@"
if [ $build_rocksdb = yes ]; then
	require release
	scripts/build-rocksdb.sh >/dev/null
fi
case " $* " in *" test "*) link_oracle ;; esac
