package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// alarm wakes a reactor at a time. It is a timerfd(2) among the sockets of the event loop, since a
// timer of Go's goes off up to 10 ms late when all event loops sleep: they keep Go's processors
// until its monitor looks after them.
//
// gnet takes sockets only. It is given one, whose descriptor then becomes the timer's.
type alarm struct {
	descriptor int           // -1: gnet hasn't opened it yet
	rings      time.Duration // when it is set for, as Engine.Elapsed tells the time; 0: it isn't set
	failed     bool          // there was no descriptor for it; tick tries again
}

// newAlarm gives an event loop an alarm.
func newAlarm(loop gnet.EventLoop) (*alarm, error) {
	a := &alarm{descriptor: -1}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	file := os.NewFile(uintptr(pair[0]), "alarm")
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close(), unix.Close(pair[1])); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	_, err = loop.Enroll(gnet.NewContext(context.Background(), a), conn) // closes conn, whose copy it uses
	return a, err
}

// open is called by gnet when it has the socket.
func (a *alarm) open(r *reactor, socket int) error {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	defer func() { _ = unix.Close(timer) }()
	if err := unix.Dup3(timer, socket, unix.O_CLOEXEC); err != nil { // epoll forgets the socket with that
		return os.NewSyscallError("dup3", err)
	}
	event := unix.EpollEvent{Fd: int32(socket), Events: unix.EPOLLIN}
	if err := unix.EpollCtl(r.polled.descriptor, unix.EPOLL_CTL_ADD, socket, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	a.descriptor = socket
	if a.rings != 0 {
		a.start(a.rings - r.server.engine.Elapsed())
	}
	return nil
}

// set has the reactor woken at a time, instead of the one that it was set for.
func (a *alarm) set(at, now time.Duration) {
	a.rings = at
	if a.descriptor >= 0 {
		a.start(at - now)
	}
}

func (a *alarm) start(wait time.Duration) {
	setting := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(wait, 1)))}
	_ = unix.TimerfdSettime(a.descriptor, 0, &setting, nil) // tick looks after deadlines, too
}
