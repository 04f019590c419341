//go:build !rocksdb_release

package rocks

// #cgo LDFLAGS: -lrocksdb -lstdc++
// #include <malloc.h>
import "C"

import (
	"os"
	"runtime"
)

const buildKind = "shared"

// The shared library allocates with glibc's malloc, which keeps what RocksDB's threads free for
// each of many arenas: twice as much as is in use. So there are as many arenas as processors, and
// memtables' pieces go back to the system. What the environment says of it counts.
func init() {
	const mapped = 1 << 20
	if os.Getenv("MALLOC_ARENA_MAX") == "" {
		C.mallopt(C.M_ARENA_MAX, C.int(runtime.NumCPU()))
	}
	if os.Getenv("MALLOC_MMAP_THRESHOLD_") == "" {
		C.mallopt(C.M_MMAP_THRESHOLD, mapped)
	}
}
