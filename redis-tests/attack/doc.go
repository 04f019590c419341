// Package attack is an adversary's run against the built server: mutated requests, payloads,
// snapshots and streams, connections that break off, stall and crowd, a system that gives no
// descriptors, no inodes and no writable disk, a clock that jumps, and data directories whose files
// were changed. Meanwhile a witness writes and reads as an ordinary client does.
//
// Each test asserts that the process lives and has met no panic, that the witness is served and
// finds all that was acknowledged, after a kill too, and that memory stays within bounds; the
// witness's p99 is logged. `make attack SCALE=20` is the long form.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package attack
