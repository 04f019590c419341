//go:build !linux

package oracle

import "syscall"

// endWithParent has no counterpart here: a test process that is killed leaves its server behind.
func endWithParent() *syscall.SysProcAttr { return nil }
