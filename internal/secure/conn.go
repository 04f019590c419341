package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// Conn is TLS over a socket. Its Close closes the socket at once: that of crypto/tls waits, for
// seconds, until the other side has room for the message that this is the end.
type Conn struct {
	*tls.Conn
	Socket net.Conn
}

// Close closes the socket.
func (c *Conn) Close() error { return c.Socket.Close() }

// SyscallConn is the socket's.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	socket, ok := c.Socket.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return socket.SyscallConn()
}

// Connect does the handshake of a client. After an error the socket is closed.
func Connect(ctx context.Context, socket net.Conn, config *tls.Config) (*Conn, error) {
	c := &Conn{tls.Client(socket, config), socket}
	if err := c.HandshakeContext(ctx); err != nil {
		_ = socket.Close() // the context may have closed it
		return nil, err
	}
	return c, nil
}
