//go:build rocksdb_release

package rocks

// The tag is set together with the flags that link the library of scripts/build-rocksdb.sh.
const buildKind = "release static"
