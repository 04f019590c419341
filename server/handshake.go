package server

import (
	"crypto/tls"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// handshakeLimit is how long a handshake may take.
	handshakeLimit = 10 * time.Second
	// mostHandshakes is how many may be under way. When one more begins, the one that began first is given up: who does
	// nothing keeps nobody else out.
	mostHandshakes = 512
	// handshakeShare is the part of the descriptors, one of so many, that handshakes may hold.
	handshakeShare = 16
)

// handshakes do the handshakes of those who have come to the TLS port, a goroutine each, and give the connections to the
// event loops. Few of them compute at a time, so that the loops keep their processors.
type handshakes struct {
	acceptance *acceptance
	most       int
	turns      chan struct{}
	running    sync.WaitGroup

	mu       sync.Mutex
	underway []net.Conn // the first to come stands first
	ended    bool
}

func newHandshakes(a *acceptance) *handshakes {
	return &handshakes{acceptance: a, most: handshakesWithin(descriptorLimit()), turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// handshakesWithin is how many handshakes a limit of descriptors allows.
func handshakesWithin(limit int) int {
	return max(1, min(mostHandshakes, limit/handshakeShare/acceptorDescriptors))
}

// begin does a handshake with a client.
func (h *handshakes) begin(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		h.close(conn)
		return
	}
	if len(h.underway) == h.most {
		h.close(h.underway[0])
		h.underway = slices.Delete(h.underway, 0, 1)
	}
	h.underway = append(h.underway, conn)
	h.running.Go(func() {
		h.do(conn)
		h.mu.Lock()
		defer h.mu.Unlock()
		if i := slices.Index(h.underway, conn); i >= 0 {
			h.underway = slices.Delete(h.underway, i, i+1)
		}
	})
}

func (h *handshakes) close(conn net.Conn) {
	if err := conn.Close(); err != nil {
		h.acceptance.server.logger.Debug("closing a connection", "client", conn.RemoteAddr().String(), "error", err)
	}
}

// end gives up all handshakes.
func (h *handshakes) end() {
	h.mu.Lock()
	h.ended = true
	for _, conn := range h.underway {
		h.close(conn)
	}
	h.mu.Unlock()
	h.running.Wait()
}

// do does a handshake, and gives the connection to an event loop.
func (h *handshakes) do(conn net.Conn) {
	s := h.acceptance.server
	e := &encryption{wire: &wire{inTurn{conn, h.turns}}}
	e.conn = tls.Server(e.wire, s.engine.TLS.Server())
	err := conn.SetDeadline(time.Now().Add(handshakeLimit))
	if err == nil {
		h.turns <- struct{}{}
		err = e.conn.Handshake()
		<-h.turns
	}
	if err != nil {
		s.logger.Debug("a handshake failed", "client", conn.RemoteAddr().String(), "error", err)
		h.close(conn)
		return
	}
	if _, err := h.acceptance.loops.EnrollContext(conn, e); err != nil { // closes conn, whose copy it uses
		h.acceptance.warn(conn.LocalAddr(), err)
	}
}

// inTurn is a socket whose owner computes when it is its turn, and waits for the client out of turn.
type inTurn struct {
	net.Conn
	turns chan struct{}
}

func (t inTurn) Read(b []byte) (int, error) {
	<-t.turns
	n, err := t.Conn.Read(b)
	t.turns <- struct{}{}
	return n, err
}
