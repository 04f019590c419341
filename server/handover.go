package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Detach gives the connection away when the replies so far have been sent.
func (c *connection) Detach(serve func(conn net.Conn)) { c.serve = serve }

// handOver duplicates the socket, lets gnet close its own, and serves the copy on a goroutine of
// its own. The session lives on until that ends.
func (c *connection) handOver() {
	serve := c.serve
	c.serve = nil
	s := c.server
	if c.dropped { // since it has asked for that
		return
	}
	if c.ended { // who sends no more can't take a stream
		c.dropWhenSent()
		return
	}
	if c.parser.Buffered() > 0 || c.conn.OutboundBuffered() > 0 {
		s.logger.Warn("closing a connection that does not wait for the stream it asks for", "client", c.remote)
		c.drop()
		return
	}
	conn, err := c.takeSocket()
	if err != nil {
		s.logger.Error("a connection can't be handed over", "client", c.remote, "error", err)
		c.drop()
		return
	}
	c.handedOver.Store(&conn)
	if c.session.Closing() { // a kill from before the copy was stored doesn't close it
		c.Close()
	}
	served := c.overTLS(conn)
	c.drop()
	go func() {
		defer s.forget(c)
		serve(served)
	}()
}

// takeSocket duplicates the socket. From then on nothing is read from gnet's own: until that is
// closed, which is a task behind the events of the loop's next pass, gnet would read what is sent
// to who serves the copy, such as a replica's first REPLCONF ACK.
func (c *connection) takeSocket() (net.Conn, error) {
	if polled := c.reactor.polled; polled != nil {
		if err := polled.watch(c.conn.Fd(), 0); err != nil {
			return nil, err
		}
	}
	return duplicate(c.conn.Fd())
}

var errReset = errors.New("the client has reset the connection")

// duplicate makes a connection of Go's of a socket that is somebody else's to close. A socket that
// was reset has no remote address any more, which those who get a connection rely on.
func duplicate(descriptor int) (net.Conn, error) {
	copied, err := syscall.Dup(descriptor)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	file := os.NewFile(uintptr(copied), "connection")
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if conn.RemoteAddr() == nil {
		return nil, errors.Join(errReset, conn.Close())
	}
	return conn, nil
}
