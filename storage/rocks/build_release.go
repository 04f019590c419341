//go:build rocksdb_release

package rocks

// #cgo CXXFLAGS: -DNDEBUG
// #cgo LDFLAGS: -lrocksdb -lsnappy -llz4 -lzstd -lz -lstdc++ -ljemalloc -lm -ldl -pthread
import "C"

// The tag comes together with the flags that lead to the library of scripts/build-rocksdb.sh; see
// scripts/release.mk.
const buildKind = "release static"
