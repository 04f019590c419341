// Package failover replaces primaries under load, and holds what clients have seen against what a
// single server could have shown them: nothing acknowledged is lost, and histories of registers,
// lists and transactions are linearizable. It drives the built binary.
package failover
