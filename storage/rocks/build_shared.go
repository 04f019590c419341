//go:build !rocksdb_release

package rocks

const buildKind = "shared"
