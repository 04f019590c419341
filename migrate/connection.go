package migrate

import (
	"context"
	"net"
	"time"

	"kedis/internal/resp"
)

// connection is one that batches are written to. It is for one goroutine, and after an error of no
// more use.
type connection struct {
	conn    net.Conn
	replies *resp.Reader
	closed  func() bool // ends the watch over the context
	used    time.Time
}

const (
	// largestReply bounds what a reply may take that is kept. Those to writes are passed over.
	largestReply = 1 << 20
	// idleLimit is how long a connection may have been idle and still be used: servers close those
	// that do nothing for long.
	idleLimit = 20 * time.Second
	// writeBytes is how much has to get through within replyTimeout.
	writeBytes = 1 << 20
)

// connect opens a connection to an address of a server, in database 0.
func (s *Server) connect(ctx context.Context, address string) (*connection, error) {
	conn, err := s.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &connection{conn: conn, used: time.Now()}
	c.replies = resp.NewReader(readerFunc(c.read), largestReply)
	// What waits ends with the context.
	c.closed = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if password := s.password(); password != "" {
		words := [][]byte{[]byte("AUTH"), []byte(s.User), []byte(password)}
		if s.User == "" {
			words = [][]byte{words[0], words[2]}
		}
		if err := c.exchange(takeOK, resp.AppendRequest(nil, words...)); err != nil {
			c.close()
			return nil, err
		}
	}
	if s.Name == "" {
		return c, nil
	}
	if err := c.exchange(takeOK, resp.AppendRequest(nil, []byte("CLIENT"), []byte("SETNAME"), []byte(s.Name))); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// takeOK takes a reply that must be no error.
func takeOK(replies *resp.Reader) error {
	reply, err := replies.ReadReply()
	if err == nil {
		err = refused(&reply)
	}
	return err
}

func (c *connection) close() {
	c.closed()
	_ = c.conn.Close() // all replies that matter have come
}

func (c *connection) read(p []byte) (int, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(replyTimeout)); err != nil {
		return 0, err
	}
	return c.conn.Read(p)
}

func (c *connection) write(parts [][]byte) error {
	for _, part := range parts {
		for len(part) > 0 {
			if err := c.conn.SetWriteDeadline(time.Now().Add(replyTimeout)); err != nil {
				return err
			}
			n, err := c.conn.Write(part[:min(len(part), writeBytes)])
			if err != nil {
				return err
			}
			part = part[n:]
		}
	}
	return nil
}

// exchange writes requests, and has their replies taken. That begins at once, for a server may take
// no more until somebody reads what it answers.
func (c *connection) exchange(take func(*resp.Reader) error, requests ...[]byte) error {
	written := make(chan error, 1)
	go func() { written <- c.write(requests) }()
	err := take(c.replies)
	if err != nil {
		_ = c.conn.SetWriteDeadline(time.Unix(1, 0)) // nobody waits for what is still to be written
		<-written
		return err
	}
	c.used = time.Now()
	return <-written
}
