// Package replication tests replication between Kedis and Redis, and between two Kedis, over the
// wire: mixed writes, cut links, kills, restarts and promotions; in the end all servers hold the
// same data at the same position. It imports only the standard library and other packages of
// redis-tests.
package replication
