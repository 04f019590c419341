#!/usr/bin/env bash
# Installs from the distribution's packages what is missing, and nothing when nothing is:
#   install-dependencies.sh build         what building Kedis needs: a C++ compiler, RocksDB and the libraries it is linked with
#   install-dependencies.sh build release what building an optimized RocksDB needs as well
#   install-dependencies.sh build test    also what the tests need: redis-server (as the oracle), redis-benchmark, node and npm
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	printf 'install-dependencies: %s\n' "$1" >&2
	exit 1
}

need_go() {
	command -v go >/dev/null || fail "Go is missing: install Go 1.26 or later from https://go.dev/dl/ and put it into PATH."
}

# Every header or command that is missing names its package; what is there already, however it came there, is left alone.
missing=()
need_header() { # header, package
	echo "#include <$1>" | c++ -E -x c++ - >/dev/null 2>&1 || missing+=("$2")
}
need_command() { # command, package
	command -v "$1" >/dev/null || missing+=("$2")
}

find_missing() {
	missing=()
	local wanted
	for wanted in "$@"; do
		case $wanted in
		build)
			need_command c++ g++
			need_header rocksdb/c.h librocksdb-dev
			need_header snappy.h libsnappy-dev
			need_header zlib.h zlib1g-dev
			need_header bzlib.h libbz2-dev
			need_header lz4.h liblz4-dev
			need_header zstd.h libzstd-dev
			;;
		release)
			need_command cmake cmake
			need_command make make
			need_command curl curl
			need_header jemalloc/jemalloc.h libjemalloc-dev
			;;
		test)
			need_command redis-check-rdb redis-tools
			need_command node nodejs
			need_command npm npm
			;;
		*) fail "unknown argument $wanted (build, test, release)" ;;
		esac
	done
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

install_missing() {
	command -v apt-get >/dev/null ||
		fail "this system has no apt-get; install what Debian calls: ${missing[*]}"
	printf 'install-dependencies: installing %s\n' "${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	as_root apt-get update -qq || fail "apt-get update failed; see above"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
		fail "apt-get install failed; see above"
}

# The package redis-server would start a server on port 6379, which is the port that Kedis is to have. But its program is in redis-tools
# too: redis-check-rdb is redis-server by another name. So where there is no redis-server, a link in .cache makes it one.
link_oracle() {
	command -v redis-server >/dev/null && return
	mkdir -p .cache/oracle
	ln -sf "$(command -v redis-check-rdb)" .cache/oracle/redis-server
}

need_go
find_missing "$@"
if [ ${#missing[@]} -gt 0 ]; then
	install_missing
	find_missing "$@"
	[ ${#missing[@]} -eq 0 ] || fail "still missing after installing: ${missing[*]}"
fi
case " $* " in *" test "*) link_oracle ;; esac
