package server

import (
	"fmt"
	"reflect"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// readiness tells whether any of a reactor's sockets has something to read, without waiting for it and without taking it. gnet can't be asked:
// what it is told to do runs to its end before it looks at sockets.
//
// It asks gnet's epoll(7), which is a file as others are, readable when one of its own is. A second one for the same sockets would be told of each
// arrival too, by the thread that sends.
type readiness struct {
	poll [1]unix.PollFd
}

// newReadiness returns nil if gnet's epoll isn't where it is expected: gnet doesn't tell, so it is looked up in its memory.
func newReadiness(loop gnet.EventLoop) *readiness {
	v := reflect.ValueOf(loop)
	for _, name := range []string{"poller", "fd"} {
		if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
			return nil
		}
		v = v.FieldByName(name)
	}
	if !v.CanInt() {
		return nil
	}
	return &readiness{poll: [1]unix.PollFd{{Fd: int32(v.Int()), Events: unix.POLLIN}}}
}

// watch says what gnet's epoll is to look for at a socket. gnet itself says so when it begins and ends to have something to send.
func (r *readiness) watch(descriptor int, events uint32) error {
	event := unix.EpollEvent{Fd: int32(descriptor), Events: events}
	if err := unix.EpollCtl(int(r.poll[0].Fd), unix.EPOLL_CTL_MOD, descriptor, &event); err != nil {
		return fmt.Errorf("changing what epoll looks for: %w", err)
	}
	return nil
}

// any tells whether a socket has something to read, or that it can't be told.
func (r *readiness) any() bool {
	n, err := unix.Poll(r.poll[:], 0)
	return n != 0 || err != nil
}

// giveWay lets another thread have this processor if it wants it.
func giveWay() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
