package oracle

import "syscall"

// endWithParent lets the kernel end the server when the test process dies before its cleanup: by a
// panic, by a time limit, or killed. (Strictly it is the thread that started the server; Go ends a
// thread early only where a goroutine exits while locked to it.)
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
