package server

import (
	"golang.org/x/sys/unix"
)

// readiness tells whether any of a reactor's sockets has something to read, without waiting for it and without taking it. gnet's own
// poller can't be asked: what it is told to do runs to its end before it looks at sockets.
type readiness struct {
	poller int // epoll(7), level-triggered
	event  [1]unix.EpollEvent
}

func newReadiness() (*readiness, error) {
	poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &readiness{poller: poller}, err
}

func (r *readiness) add(descriptor int) error {
	return unix.EpollCtl(r.poller, unix.EPOLL_CTL_ADD, descriptor, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(descriptor)})
}

func (r *readiness) remove(descriptor int) error {
	return unix.EpollCtl(r.poller, unix.EPOLL_CTL_DEL, descriptor, nil)
}

// any tells whether a socket has something to read, or that it can't be told.
func (r *readiness) any() bool {
	n, err := unix.EpollWait(r.poller, r.event[:], 0)
	return n != 0 || err != nil
}

func (r *readiness) close() error { return unix.Close(r.poller) }

// giveWay lets another thread have this processor if it wants it.
func giveWay() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
