package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// floor is a server that does nothing: one thread reads with epoll_wait and read, counts requests
// by their length, and answers each with the same bytes in one write. It sleeps only after a
// millisecond without a request, so that nothing is lost by waking it. What redis-benchmark gets
// from it is what the system calls and redis-benchmark itself leave to any server of one thread on
// this machine.
type floor struct {
	listener int
	poller   int
	port     int
	replies  atomic.Pointer[[]byte] // floorBatch times the reply to each request
}

// floorBatch is how many requests are answered with one write at most, more than what
// redis-benchmark sends at once.
const floorBatch = 1024

// caller is a connection to a floor.
type caller struct {
	length int // of a request; all that a connection sends are alike
	have   int // bytes of the next one
}

// startFloor starts one for as long as the program runs. There is no garbage collection from then
// on, which would wait for its thread.
func startFloor() (*floor, error) {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	f := &floor{}
	var err error
	if f.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err = unix.Bind(f.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err = unix.Listen(f.listener, 512); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	address, err := unix.Getsockname(f.listener)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	f.port = address.(*unix.SockaddrInet4).Port
	if f.poller, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	f.answer("+OK\r\n")
	go f.accept()
	go f.serve()
	return f, nil
}

// answer sets the reply to each request from now on.
func (f *floor) answer(reply string) {
	replies := bytes.Repeat([]byte(reply), floorBatch)
	f.replies.Store(&replies)
}

// accept runs until the program ends.
func (f *floor) accept() {
	for {
		connection, _, err := unix.Accept4(f.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == nil {
			err = unix.SetsockoptInt(connection, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		}
		if err == nil {
			err = unix.EpollCtl(f.poller, unix.EPOLL_CTL_ADD, connection, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(connection)})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: the floor:", err)
			return
		}
	}
}

// serve has a thread of its own and makes system calls that Go's scheduler doesn't know of, as a
// server in C does.
func (f *floor) serve() {
	runtime.LockOSThread()
	callers := map[int32]*caller{}
	events := make([]unix.EpollEvent, 128)
	buffer := make([]byte, 1<<16)
	const never = ^uintptr(0)
	last, timeout := time.Now(), never
	for {
		n, _, failed := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(f.poller), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), timeout, 0, 0)
		switch {
		case failed == unix.EINTR:
			continue
		case failed != 0:
			fmt.Fprintln(os.Stderr, "bench: the floor:", os.NewSyscallError("epoll_pwait", failed))
			return
		case n > 0:
			last, timeout = time.Now(), 0
		case time.Since(last) > time.Millisecond:
			timeout = never
		default:
			unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
		for i := range int(n) {
			descriptor := events[i].Fd
			read, _, failed := unix.RawSyscall(unix.SYS_READ, uintptr(descriptor), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
			if failed != 0 || read == 0 {
				delete(callers, descriptor)
				unix.Close(int(descriptor))
				continue
			}
			c := callers[descriptor]
			if c == nil {
				c = &caller{length: requestLength(buffer[:read])}
				callers[descriptor] = c
			}
			c.have += int(read)
			requests := min(c.have/c.length, floorBatch)
			c.have -= requests * c.length
			if requests > 0 {
				replies := *f.replies.Load()
				send(descriptor, replies[:requests*(len(replies)/floorBatch)])
			}
		}
	}
}

// send writes all of it, or as much as a caller that is about to leave takes.
func send(descriptor int32, rest []byte) {
	for len(rest) > 0 {
		written, _, failed := unix.RawSyscall(unix.SYS_WRITE, uintptr(descriptor), uintptr(unsafe.Pointer(&rest[0])), uintptr(len(rest)))
		switch failed {
		case 0:
			rest = rest[written:]
		case unix.EAGAIN, unix.EINTR:
			unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		default:
			return
		}
	}
}

// requestLength is the length of the first request in bytes that redis-benchmark sent, which is an
// array of strings, or else all of them.
func requestLength(sent []byte) int {
	count, at := number(sent, 0)
	for range count {
		length, next := number(sent, at)
		at = next + length + len("\r\n")
	}
	if at == 0 {
		return len(sent)
	}
	return at
}

// number reads the number of a line such as "$3\r\n" and returns where the next one begins; zeros
// if there is none.
func number(sent []byte, at int) (value, next int) {
	if at >= len(sent) {
		return 0, 0
	}
	end := bytes.Index(sent[at:], []byte("\r\n"))
	if end < 1 {
		return 0, 0
	}
	value, err := strconv.Atoi(string(sent[at+1 : at+end]))
	if err != nil {
		return 0, 0
	}
	return value, at + end + len("\r\n")
}
