// Package port tests kedis port and kedis verify as a user runs them: the built binary between real
// servers, under writes, with kill -9 of the tool, the source and the target.
package port
