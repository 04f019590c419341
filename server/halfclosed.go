package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"reflect"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/buffer/elastic"
)

// socket is what a connection needs of its socket. It is gnet's, or a halfClosed one.
type socket interface {
	Fd() int
	Write(b []byte) (int, error)
	OutboundBuffered() int
	Close() error
}

// halfClosed is the socket of a client that sends no more and is still owed replies: gnet closes
// its own as soon as it has read the end. Its methods are called on the reactor; a goroutine sends
// what the kernel doesn't take at once.
type halfClosed struct {
	conn       net.Conn
	descriptor int
	failed     func() // is called when nothing more can be sent
	ended      func() // is called when Close is done

	mu      sync.Mutex
	waiting [][]byte
	size    int // bytes in waiting, and in what is being sent
}

// Fd is the number of the socket's descriptor.
func (h *halfClosed) Fd() int { return h.descriptor }

// Write sends a copy of b behind what waits.
func (h *halfClosed) Write(b []byte) (int, error) {
	if len(b) > 0 {
		h.enqueue(bytes.Clone(b))
	}
	return len(b), nil
}

func (h *halfClosed) enqueue(piece []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	idle := h.size == 0
	h.waiting = append(h.waiting, piece)
	h.size += len(piece)
	if idle {
		go h.send()
	}
}

// OutboundBuffered is how many bytes wait to be sent.
func (h *halfClosed) OutboundBuffered() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size
}

// Close closes the socket; what waits isn't sent.
func (h *halfClosed) Close() error {
	err := h.conn.Close()
	h.ended()
	return err
}

// send sends until nothing waits, or it fails.
func (h *halfClosed) send() {
	for sent := 0; ; {
		piece := h.next(sent)
		if piece == nil {
			return
		}
		if _, err := h.conn.Write(piece); err != nil {
			h.failed()
			return
		}
		sent = len(piece)
	}
}

// next takes note of what was sent, and returns what is to be sent next; nil if nothing is.
func (h *halfClosed) next(sent int) (piece []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size -= sent
	if len(h.waiting) == 0 {
		return nil
	}
	piece, h.waiting = h.waiting[0], h.waiting[1:]
	return piece
}

// halfClose is called when the client has sent its last byte. It reports whether the connection
// lives on until all that came before is answered. It doesn't while a pause keeps it from that: who
// is gone would count as a client for as long, and have its requests executed then.
func (c *connection) halfClose(conn gnet.Conn, cause error) bool {
	if !errors.Is(cause, io.EOF) || c.dropped || c.handedOver.Load() != nil || c.session.Paused() || !c.owes() {
		return false
	}
	copied, err := duplicate(conn.Fd())
	if err != nil {
		c.server.logger.Debug("a client that sends no more gets no more replies", "client", c.remote, "error", err)
		return false
	}
	h := &halfClosed{conn: copied, descriptor: descriptorOf(copied),
		failed: func() { c.post(c.drop) }, ended: func() { c.reactor.post(func() { c.server.closed(c) }) }}
	if unsent := takeUnsent(conn); len(unsent) > 0 {
		h.enqueue(unsent)
	}
	c.conn, c.ended, c.unread = h, true, false
	c.descriptor.Store(int64(h.descriptor))
	c.session.HangUp()
	if !c.parked() {
		c.post(func() { c.reactor.process(c) })
	}
	return true
}

// owes reports whether something is still to be executed or sent.
func (c *connection) owes() bool {
	waits := c.stuck() || c.reactor.batch.Has(c.session)
	return waits || !c.empty() || c.pushedBytes()+c.conn.OutboundBuffered() > 0
}

// endIfDone ends a connection that is half closed when everything that came is executed.
func (c *connection) endIfDone() {
	if c.reactor.batch.Has(c.session) {
		c.reactor.commit() // which may fail, and then has it executed again
	}
	if !c.parked() && c.pending == nil && len(c.retry) == 0 {
		c.session.CloseAfterReply()
		c.flush()
	}
}

// doubtAfter is how long a worker may read for a client that sends no more. Who shuts down its half
// of the connection waits for the replies, but hardly for long; who has given up, or is gone, looks
// the same, and would take the worker for as long as the request takes.
const doubtAfter = 5 * time.Second

// doubt has a request end that only reads, when it takes a worker too long for a client that sends
// no more.
func (c *connection) doubt(now time.Time) {
	switch {
	case !c.ended || !c.working:
	case c.alone.IsZero():
		c.alone = now
	case now.Sub(c.alone) >= doubtAfter:
		c.session.SetUnwanted(true)
	}
}

// trust ends doubt when the worker has done with the request: each has its own time.
func (c *connection) trust() {
	if !c.alone.IsZero() && !c.session.Killed() {
		c.alone = time.Time{}
		c.session.SetUnwanted(false)
	}
}

// takeUnsent takes what gnet has not sent. gnet would try once, and then lose it; it is looked up
// in its memory.
func takeUnsent(conn gnet.Conn) []byte {
	field := reflect.Indirect(reflect.ValueOf(conn)).FieldByName("outboundBuffer")
	if !field.IsValid() || field.Type() != reflect.TypeFor[elastic.Buffer]() {
		return nil
	}
	buffer := (*elastic.Buffer)(unsafe.Pointer(field.UnsafeAddr()))
	unsent := make([]byte, buffer.Buffered())
	n, _ := io.ReadFull(buffer, unsent) // it has that many
	return unsent[:n]
}

// descriptorOf returns the number of a connection's descriptor, -1 if it has none.
func descriptorOf(conn net.Conn) int {
	number := -1
	if socket, ok := conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			_ = raw.Control(func(descriptor uintptr) { number = int(descriptor) }) // -1 if it is closed
		}
	}
	return number
}
