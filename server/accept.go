package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"
)

const (
	// mostAcceptors is how many goroutines accept. One that has accepted waits for the
	// connection's event loop, so some have to be left while a loop is busy.
	mostAcceptors = 16
	// acceptorDescriptors are those that an acceptor holds at a time: gnet copies the socket.
	acceptorDescriptors = 2
	mostArrivals        = mostAcceptors * acceptorDescriptors
	// acceptPause is how long an acceptor waits after a failure, such as having no descriptor left.
	acceptPause = 10 * time.Millisecond
	// acceptWarningInterval is how often a failure to accept is logged at most.
	acceptWarningInterval = time.Minute
)

// acceptance accepts connections and gives them to gnet's event loops.
//
// gnet's own listeners end the whole engine at the first accept(2) that finds no free descriptor,
// and nothing bounds how far they run ahead of the loops that refuse connections. So gnet is run
// without listeners. An acceptor accepts its next connection when the event loop has taken or
// refused the last.
type acceptance struct {
	server     *Server
	loops      *gnet.Client // named for what it is made for: event loops without listeners
	listeners  []listener
	acceptors  sync.WaitGroup
	handshakes *handshakes
	ending     chan struct{}

	mu     sync.Mutex
	warned time.Time // guarded by mu
}

// listener is a socket that clients come to.
type listener struct {
	net.Listener
	encrypted bool // with TLS
}

// listen opens all addresses. The acceptance accepts nothing yet.
func (s *Server) listen(addresses []string) (*acceptance, error) {
	a := &acceptance{server: s, ending: make(chan struct{})}
	a.handshakes = newHandshakes(a)
	for _, address := range addresses {
		address, encrypted := strings.CutPrefix(address, encryptedPrefix)
		socket, err := s.listenOn(address)
		if err != nil {
			return nil, errors.Join(err, a.closeListeners())
		}
		a.listeners = append(a.listeners, listener{socket, encrypted})
	}
	return a, nil
}

// start accepts connections for the event loops.
func (a *acceptance) start(loops *gnet.Client) {
	a.loops = loops
	number := a.server.acceptors() / max(1, len(a.listeners))
	for _, listener := range a.listeners {
		for range max(1, number) {
			a.acceptors.Go(func() { a.accept(listener) })
		}
	}
}

// acceptors returns how many acceptors the limit of descriptors allows.
func (s *Server) acceptors() int {
	d := shareConfigured(s.config, descriptorLimit(), s.loops)
	return min(mostAcceptors, d.arrivals/acceptorDescriptors)
}

// end accepts nothing more. It returns when each accepted connection is at its event loop, so the
// loops must still run.
func (a *acceptance) end() error {
	close(a.ending)
	err := a.closeListeners()
	a.handshakes.giveUp()
	a.acceptors.Wait()
	a.handshakes.running.Wait()
	return err
}

func (a *acceptance) closeListeners() error {
	var failed error
	for _, listener := range a.listeners {
		failed = errors.Join(failed, listener.Close())
	}
	if failed != nil {
		return fmt.Errorf("server: closing a listening socket: %w", failed)
	}
	return nil
}

// accept gives connections to the event loops until the listener is closed.
func (a *acceptance) accept(listener listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		switch {
		case err != nil:
		case listener.encrypted:
			a.handshakes.begin(conn)
		default:
			err = a.enroll(conn, nil)
		}
		if err != nil {
			a.warn(listener.Addr(), err)
			a.pause()
		}
	}
}

// enroll gives a connection to the event loop of a reactor that serves, and returns when that has
// taken or refused it. It closes conn, whose copy is used. OnOpen finds of as its context.
func (a *acceptance) enroll(conn net.Conn, of any) error {
	r := a.server.nextServing()
	if r == nil {
		_, err := a.loops.EnrollContext(conn, of)
		return err
	}
	taken, err := r.loop.Enroll(gnet.NewContext(context.Background(), of), conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	return (<-taken).Err
}

// pause waits until there may be descriptors again.
func (a *acceptance) pause() {
	select {
	case <-a.ending:
	case <-time.After(acceptPause):
	}
}

func (a *acceptance) warn(address net.Addr, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.warned) >= acceptWarningInterval {
		a.warned = now
		a.server.logger.Warn("accepting a connection failed; it is tried again", "address", address.String(), "error", err)
	}
}

// listenOn listens on an address such as tcp4://0.0.0.0:6379 or unix:///run/kedis.sock.
func (s *Server) listenOn(address string) (net.Listener, error) {
	network, rest := splitAddress(address)
	// attach sets the keepalive of each connection.
	listener, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), network, rest)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err := setBacklog(listener.(syscall.Conn), int(s.config.TCPBacklog.Get())); err != nil {
		s.logger.Warn("setting tcp-backlog", "address", address, "error", err)
	}
	if network == "unix" {
		s.permitUnixSocket(rest)
	}
	return listener, nil
}

// setBacklog sets how many connections may wait to be accepted. Go asks for as many as the kernel
// allows.
func setBacklog(listener syscall.Conn, backlog int) error {
	socket, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = socket.Control(func(descriptor uintptr) { failed = syscall.Listen(int(descriptor), backlog) })
	return errors.Join(err, failed)
}
