// Package encryption tests TLS between the built binary and others: redis-cli, replicas and
// primaries, Sentinel, and Kedis's own commands. What a single connection does is tested in package
// server.
package encryption
