// Package migrate tests the moving of data over the wire and by files: MIGRATE, kedis port, import,
// export and verify, with the built binary and redis-server on either side. It imports only the
// standard library and other packages of redis-tests.
package migrate
