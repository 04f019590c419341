package server

import (
	"fmt"
	"reflect"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// polled is the epoll(7) of a reactor's event loop. gnet has no way to stop reading from a socket
// for a while, so the reactor says itself what is to be looked for.
type polled struct{ descriptor int }

// newPolled returns nil if gnet's epoll isn't where it is expected: gnet doesn't tell, so it is
// looked up in its memory.
func newPolled(loop gnet.EventLoop) *polled {
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
	return &polled{int(v.Int())}
}

// watch says what is to be looked for at a socket. gnet itself says so when it begins and ends to
// have something to send.
func (p *polled) watch(socket int, events uint32) error {
	event := unix.EpollEvent{Fd: int32(socket), Events: events}
	if err := unix.EpollCtl(p.descriptor, unix.EPOLL_CTL_MOD, socket, &event); err != nil {
		return fmt.Errorf("changing what epoll looks for: %w", err)
	}
	return nil
}
