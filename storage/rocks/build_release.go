//go:build rocksdb_release

package rocks

// #cgo CXXFLAGS: -DNDEBUG
// #cgo LDFLAGS: -lrocksdb -lsnappy -llz4 -lzstd -lz -lstdc++ -ljemalloc -lm -ldl -pthread
//
// // What jemalloc reads when it begins. With its defaults, four arenas for each processor that
// // keep what was freed for ten seconds, a bulk load had 120 MB beyond RocksDB's caches.
// const char *malloc_conf = "percpu_arena:percpu,dirty_decay_ms:1000,muzzy_decay_ms:0";
import "C"

// The tag comes together with the flags that lead to the library of scripts/build-rocksdb.sh; see
// scripts/release.mk.
const buildKind = "release static"
