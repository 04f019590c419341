package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// send writes as much to a socket as that takes at once, and returns how much it was. An error is
// found by whoever sends the rest. The socket doesn't block, so Go's scheduler isn't told of the
// call: it would give the processor to another goroutine now and then, and the reactor had to wait
// until it gets one back.
func send(descriptor int, b []byte) int {
	n, _, failed := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(descriptor), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if failed != 0 {
		return 0
	}
	return int(n)
}
