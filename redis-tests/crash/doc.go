// Package crash kills the built binary under load, tears its files, fills its disk and starts it
// where it can't start, and checks what is there afterwards.
//
//	go test ./redis-tests/crash -args -rounds=300 -seed=7
//
// A Writer sends random requests and executes the same ones on a State, which is a model of
// everything that its keys hold. Only the requests whose replies were missing at the kill are in
// doubt: the server must hold what the State holds after some number of them.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package crash
