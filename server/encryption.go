package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"time"

	"kedis/internal/config"
	"kedis/internal/secure"
)

// encryption is a connection's TLS. The handshake is done on a goroutine (handshake.go). From then
// on the reactor decrypts what it has read and encrypts what it sends, so a connection that is idle
// costs no goroutine and no buffer.
//
// crypto/tls goes on after an error of its network that is temporary (Conn.readRecordOrCCS). So a
// Read that finds no whole record says that nothing has come, and the next one goes on where it
// was. TestPartialRecords watches over that.
type encryption struct {
	conn    *tls.Conn
	wire    *wire
	records records
}

// wire is what crypto/tls takes for the network: the socket during the handshake and after a
// hand-over, records in between.
type wire struct{ net.Conn }

// records are what the reactor has read of a connection, and what it is about to send.
type records struct {
	of       *connection // is sent what is composed; nil: all of it is collected
	received []byte
	composed []byte
}

// nothingCame is the error of a Read that would have to wait.
type nothingCame struct{}

func (nothingCame) Error() string   { return "server: no whole record has come" }
func (nothingCame) Timeout() bool   { return false }
func (nothingCame) Temporary() bool { return true }

func (r *records) Read(b []byte) (int, error) {
	if len(r.received) == 0 {
		return 0, nothingCame{}
	}
	n := copy(b, r.received)
	r.received = r.received[n:]
	return n, nil
}

func (r *records) Write(b []byte) (int, error) {
	if r.of != nil && len(r.composed)+len(b) > sendMost {
		r.send()
	}
	r.composed = append(r.composed, b...)
	return len(b), nil
}

func (r *records) send() {
	if len(r.composed) > 0 {
		r.of.transmit(r.composed)
		r.composed = r.composed[:0]
	}
}

func (r *records) Close() error                     { return nil }
func (r *records) LocalAddr() net.Addr              { return nil }
func (r *records) RemoteAddr() net.Addr             { return nil }
func (r *records) SetDeadline(time.Time) error      { return nil }
func (r *records) SetReadDeadline(time.Time) error  { return nil }
func (r *records) SetWriteDeadline(time.Time) error { return nil }

// last encrypts all that a connection is ever sent.
func (e *encryption) last(text []byte) []byte {
	r := &e.records
	e.wire.Conn = r
	if _, err := e.conn.Write(text); err == nil {
		_ = e.conn.CloseWrite() // composes what says that this is the end
	}
	return r.composed
}

// encryptionMemory is a reactor's, for whichever connection it is at.
type encryptionMemory struct {
	text     []byte // for what a record holds
	composed []byte // for records; nil while it is in use
}

const longestText = 16 << 10 // of a record

// borrow takes the reactor's memory for records, until giveBack.
func (c *connection) borrow() *records {
	r := &c.encryption.records
	r.composed, c.reactor.encryption.composed = c.reactor.encryption.composed, nil
	return r
}

// giveBack sends what is composed.
func (r *records) giveBack() {
	r.send()
	r.of.reactor.encryption.composed, r.composed = r.composed, nil
}

// decrypt gives the parser what the records hold that have come.
func (c *connection) decrypt(received []byte) error {
	memory := &c.reactor.encryption
	if memory.text == nil {
		memory.text = make([]byte, longestText)
	}
	r := c.borrow()
	r.received = received
	var err error
	for err == nil {
		var n int
		n, err = c.encryption.conn.Read(memory.text)
		if n > 0 {
			if failed := c.feed(memory.text[:n]); failed != nil {
				err = failed
			}
		}
	}
	r.received = nil
	r.giveBack() // the answer to a change of keys, or an alert
	switch {
	case errors.Is(err, nothingCame{}):
		return nil
	case errors.Is(err, io.EOF):
		c.hangUp()
		return nil
	}
	return err
}

// hangUp notes that the client has said that it sends no more, while its socket is open.
func (c *connection) hangUp() {
	if !c.ended {
		c.ended = true
		c.session.HangUp()
	}
}

// seal sends bytes as records.
func (c *connection) seal(b []byte) {
	r := c.borrow()
	if _, err := c.encryption.conn.Write(b); err != nil {
		c.server.logger.Debug("encrypting", "client", c.remote, "error", err)
	}
	r.giveBack()
}

// endEncryption says that nothing more is sent.
func (c *connection) endEncryption() {
	if c.encryption != nil {
		r := c.borrow()
		_ = c.encryption.conn.CloseWrite() // fails where nothing can be sent any more
		r.giveBack()
	}
}

// overTLS returns a connection that speaks the connection's TLS through a socket, for its new
// owner; the socket itself if there is none.
func (c *connection) overTLS(socket net.Conn) net.Conn {
	if c.encryption == nil {
		return socket
	}
	conn := c.encryption.conn
	c.encryption.wire.Conn = socket
	c.encryption = nil
	return &secure.Conn{Conn: conn, Socket: socket}
}

// beginEncrypted signs the client in by its certificate, and executes what came together with the
// end of the handshake.
func (c *connection) beginEncrypted() {
	s, e := c.server, c.encryption
	e.records.of, e.wire.Conn = c, &e.records
	if names := certifiedNames(s.config.TLSAuthClientsUser.Get(), c.encryption.conn.ConnectionState().PeerCertificates); len(names) > 0 {
		s.engine.SignInCertified(c.session, names)
	}
	c.post(func() {
		switch {
		case c.closed || c.dropped || c.encryption == nil:
		case c.refuseInput(c.decrypt(nil)):
			c.drop()
		default:
			c.reactor.arrive(c)
		}
	})
}

// certifiedNames are the names of users in a certificate that was checked, the client's own first.
func certifiedNames(part config.TLSUser, certificates []*x509.Certificate) (names []string) {
	if len(certificates) == 0 {
		return nil
	}
	switch part {
	case config.TLSUserCN:
		return []string{certificates[0].Subject.CommonName}
	case config.TLSUserURI:
		for _, uri := range certificates[0].URIs {
			names = append(names, uri.String())
		}
	}
	return names
}
