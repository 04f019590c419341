package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// crowd drives thousands of connections from one goroutine with epoll(7). A goroutine for each of
// them would take the processors away from the server that is measured.
type crowd struct {
	poller  int
	members []*member
	events  []unix.EpollEvent
	buffer  []byte
}

// member is one connection of a crowd.
type member struct {
	number int
	socket int
	rest   []byte // of a reply that hasn't come whole
}

// take is called with what a member has received. It returns how many bytes it has used; the rest
// comes again with more.
type take func(m *member, received []byte) (used int, err error)

func newCrowd() (*crowd, error) {
	poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &crowd{poller: poller, events: make([]unix.EpollEvent, 512), buffer: make([]byte, 256<<10)}, nil
}

// dial adds a connection.
func (c *crowd) dial(port int) (*member, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	m := &member{number: len(c.members), socket: socket}
	c.members = append(c.members, m)
	if err := unix.Connect(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	if err := unix.SetsockoptInt(socket, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(m.number)}
	return m, os.NewSyscallError("epoll_ctl", unix.EpollCtl(c.poller, unix.EPOLL_CTL_ADD, socket, &event))
}

func (c *crowd) close() {
	for _, m := range c.members {
		_ = unix.Close(m.socket)
	}
	_ = unix.Close(c.poller)
}

// send sends all of it, waiting when the socket is full.
func (m *member) send(requests []byte) error {
	for len(requests) > 0 {
		n, err := unix.Write(m.socket, requests)
		if err != nil {
			return os.NewSyscallError("write", err)
		}
		requests = requests[n:]
	}
	return nil
}

// wait waits for something to come, for so long at most, and hands out what has.
func (c *crowd) wait(most time.Duration, take take) error {
	n, err := unix.EpollWait(c.poller, c.events, int(most/time.Millisecond))
	if err == unix.EINTR {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("epoll_wait", err)
	}
	for _, event := range c.events[:n] {
		if err := c.receive(c.members[event.Fd], take); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) receive(m *member, take take) error {
	n, err := unix.Read(m.socket, c.buffer)
	switch {
	case err != nil:
		return os.NewSyscallError("read", err)
	case n == 0:
		return fmt.Errorf("the server has closed connection %d", m.number)
	}
	received := c.buffer[:n]
	if len(m.rest) > 0 {
		received = append(m.rest, received...)
	}
	used, err := take(m, received)
	m.rest = slices.Clone(received[used:])
	return err
}

// until waits until something is so, for a minute at most.
func (c *crowd) until(what string, so func() bool, take take) error {
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			return fmt.Errorf("no end of waiting for %s", what)
		}
		if err := c.wait(10*time.Millisecond, take); err != nil {
			return err
		}
	}
	return nil
}
