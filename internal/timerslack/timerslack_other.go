//go:build !linux

// Package timerslack has no counterpart here.
package timerslack
