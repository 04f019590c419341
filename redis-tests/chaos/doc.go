// Package chaos lets a primary and its replicas, Kedis and Redis, run under mixed load while links
// between them are cut, slowed and frozen, processes are killed, stopped and started again, and
// roles are switched. At the end of each round all of them must hold the same data, and libraries
// of functions, at the same position, and what WAIT said to be on enough replicas must have
// outlived a promotion. When a test fails, the members' directories stay.
//
//	go test ./redis-tests/chaos -args -minutes=10 -seed=7
//
// A seed makes the same faults and the same load; when they meet is up to the machine.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package chaos
