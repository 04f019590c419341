package resp

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Connection is one client's connection. It is for one goroutine.
type Connection struct {
	network net.Conn
	reader  *bufio.Reader
	queued  []byte
	timeout time.Duration
}

// Dial connects to address. A server that takes longer than timeout to take a request or to answer
// it is given up.
func Dial(address string, timeout time.Duration) (*Connection, error) {
	network, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, fmt.Errorf("resp: %w", err)
	}
	return NewConnection(network, timeout), nil
}

// DialTLS is Dial with TLS.
func DialTLS(address string, timeout time.Duration, config *tls.Config) (*Connection, error) {
	network, err := tls.DialWithDialer(&net.Dialer{Timeout: timeout}, "tcp", address, config)
	if err != nil {
		return nil, fmt.Errorf("resp: %w", err)
	}
	return NewConnection(network, timeout), nil
}

// NewConnection makes a client's connection of one that is there.
func NewConnection(network net.Conn, timeout time.Duration) *Connection {
	return &Connection{network: network, reader: bufio.NewReaderSize(network, 1<<16), timeout: timeout}
}

// AppendRequest appends a request with the given arguments, as an array of bulk strings.
func AppendRequest(destination []byte, arguments ...string) []byte {
	destination = append(destination, Array)
	destination = strconv.AppendInt(destination, int64(len(arguments)), 10)
	destination = append(destination, "\r\n"...)
	for _, argument := range arguments {
		destination = append(destination, BulkString)
		destination = strconv.AppendInt(destination, int64(len(argument)), 10)
		destination = append(destination, "\r\n"...)
		destination = append(destination, argument...)
		destination = append(destination, "\r\n"...)
	}
	return destination
}

// Queue adds a request to what the next Flush sends.
func (c *Connection) Queue(arguments ...string) { c.queued = AppendRequest(c.queued, arguments...) }

// QueueRaw adds bytes to what the next Flush sends.
func (c *Connection) QueueRaw(bytes []byte) { c.queued = append(c.queued, bytes...) }

// Flush sends what has been queued, as one write.
func (c *Connection) Flush() error {
	if err := c.network.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return fmt.Errorf("resp: %w", err)
	}
	_, err := c.network.Write(c.queued)
	c.queued = c.queued[:0]
	if err != nil {
		return fmt.Errorf("resp: %w", err)
	}
	return nil
}

// Read waits for one reply.
func (c *Connection) Read() (Reply, error) {
	if err := c.network.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return Reply{}, fmt.Errorf("resp: %w", err)
	}
	return ReadReply(c.reader)
}

// Do sends one request and waits for its reply.
func (c *Connection) Do(arguments ...string) (Reply, error) {
	c.Queue(arguments...)
	if err := c.Flush(); err != nil {
		return Reply{}, err
	}
	return c.Read()
}

// Must is Do for requests that have to succeed: an error reply becomes an error.
func (c *Connection) Must(arguments ...string) (Reply, error) {
	reply, err := c.Do(arguments...)
	if err == nil && reply.IsError() {
		err = fmt.Errorf("resp: %s answered %s", Line(arguments), reply)
	}
	return reply, err
}

// SetTimeout changes how long a server may take.
func (c *Connection) SetTimeout(timeout time.Duration) { c.timeout = timeout }

// Close closes the connection.
func (c *Connection) Close() error { return c.network.Close() }
