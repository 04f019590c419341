#!/usr/bin/env bash
# Builds the RocksDB that `make release` links: 7.8.3 from Debian's source package, without assertions, optimized,
# static, and with the compressions that grocksdb v1.7.14 asks for and nothing else. Beside it lies jemalloc, with which
# batches are written 5 to 10 % faster than with glibc's malloc, and a cache under pressure takes a fifth less memory.
#
#   build-rocksdb.sh            build it, unless it is there; the last line printed is its directory
#   build-rocksdb.sh --prefix   print the directory that it has or would have, and do nothing
#
# From the environment:
#   ROCKSDB_MARCH   instruction set: x86-64-v2 (the default on x86-64: processors since 2010), native, ...
#   ROCKSDB_CACHE   where libraries are kept; default ${XDG_CACHE_HOME:-~/.cache}/kedis
#   ROCKSDB_JOBS    compilers at once; default: one for each processor
#   ROCKSDB_SOURCE  a rocksdb_7.8.3.orig.tar.gz that is here already, for machines without a network
#
# The directory holds include/ and lib/; in lib/ are static libraries only, so that a linker which looks there first
# takes these. It gets its name when it is complete, and not before.
set -euo pipefail

readonly version=7.8.3
readonly checksum=b85408a374770897332bf15e51620a5f35720dd416a4749e3899057f9cfaf84d

. "$(dirname "${BASH_SOURCE[0]}")/source-package.sh"

case $(uname -m) in
x86_64) march=${ROCKSDB_MARCH:-x86-64-v2} ;;
*) march=${ROCKSDB_MARCH:-default} ;; # what RocksDB chooses: on arm64, with the CRC instructions
esac
readonly march
readonly cache=${ROCKSDB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kedis}
readonly prefix=$cache/rocksdb-$version-$march-jemalloc
readonly jobs=${ROCKSDB_JOBS:-$(nproc)}

# Where the compiler finds a static library; empty when it doesn't.
static_library() {
	local path
	path=$(c++ -print-file-name="lib$1.a")
	[ "$path" != "lib$1.a" ] && echo "$path"
}

check_tools() {
	need_command c++ g++
	need_command cmake cmake
	need_command make make
	need_command sha256sum coreutils
	local library
	for library in snappy lz4 zstd z stdc++ jemalloc_pic; do
		[ -n "$(static_library "$library")" ] ||
			fail "lib$library.a is missing; install g++ libsnappy-dev liblz4-dev libzstd-dev zlib1g-dev libjemalloc-dev"
	done
}

configure() {
	# RocksDB's sources of that time count on <cstdint> coming with other headers, which ends with GCC 13.
	local flags="-include cstdint" options=()
	if [ "$march" = default ]; then
		options+=(-DPORTABLE=OFF)
	else
		flags+=" -march=$march"
		options+=(-DPORTABLE=ON)
		# RocksDB asks with this flag for CRC32C by the processor, and chooses no instruction set of its own.
		case $(uname -m) in x86_64) options+=(-DFORCE_SSE42=ON) ;; esac
	fi
	cmake -S "rocksdb-$version" -B build "${options[@]}" \
		-DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work/prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_FLAGS="$flags" \
		-DROCKSDB_BUILD_SHARED=OFF -DUSE_RTTI=OFF -DWITH_RUNTIME_DEBUG=OFF -DFAIL_ON_WARNINGS=OFF \
		-DWITH_SNAPPY=ON -DWITH_LZ4=ON -DWITH_ZSTD=ON -DWITH_ZLIB=ON -DWITH_BZ2=OFF \
		-DWITH_LIBURING=OFF -DWITH_JEMALLOC=OFF -DWITH_GFLAGS=OFF -DWITH_NUMA=OFF -DWITH_TBB=OFF \
		-DWITH_TESTS=OFF -DWITH_ALL_TESTS=OFF -DWITH_BENCHMARK_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_TOOLS=OFF \
		-DWITH_TRACE_TOOLS=OFF -DWITH_EXAMPLES=OFF -DWITH_BENCHMARK=OFF -DWITH_JNI=OFF
}

# One moving line on a terminal; elsewhere a line for every ten percent.
progress() {
	local line percent shown=0
	while IFS= read -r line; do
		printf '%s\n' "$line" >>"$work/log"
		[[ $line =~ ^\[\ *([0-9]+)%\] ]] || continue
		percent=${BASH_REMATCH[1]}
		if [ -t 2 ]; then
			printf '\rbuild-rocksdb: %3d%%' "$percent" >&2
		elif [ $((percent / 10)) -gt $shown ]; then
			shown=$((percent / 10))
			say "$percent%"
		fi
	done
	if [ -t 2 ]; then printf '\n' >&2; fi
}

run() { # what it does, command ...
	say "$1"
	shift
	"$@" 2>&1 | progress || {
		tail -n 40 "$work/log" >&2
		cp "$work/log" "$cache/build-rocksdb.log"
		fail "failed; the whole output is in $cache/build-rocksdb.log"
	}
}

# The linker takes the libraries that RocksDB needs from beside it, so that they are static as well.
add_libraries() {
	local library
	for library in snappy lz4 zstd z stdc++; do
		cp "$(static_library "$library")" "$work/prefix/lib/"
	done
	cp "$(static_library jemalloc_pic)" "$work/prefix/lib/libjemalloc.a"
}

main() {
	if [ "${1:-}" = --prefix ]; then
		echo "$prefix"
		return
	fi
	[ $# -eq 0 ] || fail "unknown argument $1"
	if [ ! -e "$prefix/lib/librocksdb.a" ]; then
		build
	fi
	echo "$prefix"
}

build() {
	check_tools
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	fetch_source rocksdb "rocksdb_$version.orig.tar.gz" $checksum "${ROCKSDB_SOURCE:-}"
	run "configuring RocksDB $version for $march with $(c++ --version | head -n 1)" configure
	run "compiling with $jobs jobs, which takes some minutes" make -C build -j "$jobs"
	run "installing" make -C build install
	add_libraries
	mv -T "$work/prefix" "$prefix" || [ -e "$prefix/lib/librocksdb.a" ] # another build was faster
	say "RocksDB $version is in $prefix"
}

main "$@"
