// Package crash holds the tests that kill the built binary, tear its files and fill its disk.
package crash
