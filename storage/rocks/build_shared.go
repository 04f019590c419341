//go:build !rocksdb_release

package rocks

// #cgo LDFLAGS: -lrocksdb -lstdc++
import "C"

const buildKind = "shared"
