package engine

import "time"

const (
	// restBegins is how long nothing was written when RocksDB begins to compact what has collected,
	// so that there is less to go through for who reads all: SCAN, snapshots.
	restBegins = 5 * time.Second
	// tellAgain is how often RocksDB is told of that, since what is in memory comes to it later.
	tellAgain = 10 * time.Second
)

// rest is a time in which nothing is written.
type rest struct {
	at      int64     // the position
	since   time.Time // when it came there
	eagerly bool      // RocksDB, or a part of it, was told to compact eagerly
	told    time.Time // when
}

// compactsEagerly reports whether RocksDB is to compact eagerly at a position, and whether it is to
// be told so now.
func (r *rest) compactsEagerly(position int64, now time.Time) (eagerly, tell bool) {
	if position != r.at {
		r.at, r.since = position, now
	}
	eagerly = now.Sub(r.since) >= restBegins
	if eagerly == r.eagerly && (!eagerly || now.Sub(r.told) < tellAgain) {
		return eagerly, false
	}
	r.eagerly, r.told = eagerly, now
	return eagerly, true
}

// failed has RocksDB told again: some of it may compact eagerly, and some may not.
func (r *rest) failed() { r.eagerly, r.told = true, time.Time{} }
