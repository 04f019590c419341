package server

import (
	"crypto/tls"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// handshakeLimit is how long a handshake may take.
	handshakeLimit = 10 * time.Second
	// mostHandshakes is how many may be under way. Others wait to be accepted, but not for clients
	// that do nothing: one that is waited for longer than handshakePatience gives way.
	mostHandshakes    = 512
	handshakePatience = time.Second
	// handshakeShare is the part of the descriptors, one of so many, that handshakes may hold.
	handshakeShare = 16
)

// handshakes do the handshakes of those who have come to the TLS port, a goroutine each, and give
// the connections to the event loops. Few of them compute at a time, so that the loops keep their
// processors.
type handshakes struct {
	acceptance *acceptance
	most       int
	turns      chan struct{}
	left       chan struct{} // is told when one has ended
	running    sync.WaitGroup

	mu       sync.Mutex
	underway []*handshake
	ended    bool
}

// handshake is one that is under way. Its Read waits for the client out of turn.
type handshake struct {
	net.Conn
	turns   chan struct{}
	waiting atomic.Int64 // since when it waits for the client, Unix ns; 0: it doesn't
}

// Read waits for the client, and then for the turn.
func (h *handshake) Read(b []byte) (int, error) {
	h.waiting.Store(time.Now().UnixNano())
	<-h.turns
	n, err := h.Conn.Read(b)
	h.waiting.Store(0)
	h.turns <- struct{}{}
	return n, err
}

func newHandshakes(a *acceptance) *handshakes {
	return &handshakes{acceptance: a, most: handshakesWithin(descriptorLimit()), left: make(chan struct{}, 1),
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// handshakesWithin is how many handshakes a limit of descriptors allows.
func handshakesWithin(limit int) int {
	return max(1, min(mostHandshakes, limit/handshakeShare/acceptorDescriptors))
}

// begin does a handshake with a client, as soon as there is room for it.
func (h *handshakes) begin(conn net.Conn) {
	one := &handshake{Conn: conn, turns: h.turns}
	for !h.admit(one) {
		select {
		case <-h.left:
		case <-time.After(acceptPause):
		}
	}
}

// admit begins a handshake if there is room for it, or if another one gives way.
func (h *handshakes) admit(one *handshake) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		h.close(one)
		return true
	}
	if len(h.underway) >= h.most && !h.giveWay() {
		return false
	}
	h.underway = append(h.underway, one)
	h.running.Go(func() {
		h.do(one)
		h.leave(one)
	})
	return true
}

// giveWay ends the handshake whose client keeps it waiting longest; false if none waits for long.
func (h *handshakes) giveWay() bool {
	slowest, latest := -1, time.Now().Add(-handshakePatience).UnixNano()
	for i, one := range h.underway {
		if since := one.waiting.Load(); since != 0 && since < latest {
			slowest, latest = i, since
		}
	}
	if slowest < 0 {
		return false
	}
	h.close(h.underway[slowest])
	h.underway = slices.Delete(h.underway, slowest, slowest+1)
	return true
}

// leave makes room for others.
func (h *handshakes) leave(one *handshake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.underway, one); i >= 0 {
		h.underway = slices.Delete(h.underway, i, i+1)
	}
	select {
	case h.left <- struct{}{}:
	default:
	}
}

func (h *handshakes) close(one *handshake) {
	if err := one.Close(); err != nil {
		h.acceptance.server.logger.Debug("closing a connection", "client", one.RemoteAddr().String(), "error", err)
	}
}

// giveUp ends all handshakes. Those that begin later are ended, too.
func (h *handshakes) giveUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, one := range h.underway {
		h.close(one)
	}
}

// do does a handshake, and gives the connection to an event loop.
func (h *handshakes) do(one *handshake) {
	s := h.acceptance.server
	e := &encryption{wire: &wire{one}}
	e.conn = tls.Server(e.wire, s.engine.TLS.Server())
	err := one.SetDeadline(time.Now().Add(handshakeLimit))
	if err == nil {
		h.turns <- struct{}{}
		err = e.conn.Handshake()
		<-h.turns
	}
	if err != nil {
		s.logger.Debug("a handshake failed", "client", one.RemoteAddr().String(), "error", err)
		h.close(one)
		return
	}
	if err := h.acceptance.enroll(one.Conn, e); err != nil {
		h.acceptance.warn(one.LocalAddr(), err)
	}
}
