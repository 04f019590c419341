package server

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kedis/redis-tests/certificates"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

// encryptedServer is a server with a TLS port.
type encryptedServer struct {
	*running
	authority *certificates.Authority
}

func startEncrypted(t *testing.T, options ...string) *encryptedServer {
	t.Helper()
	authority := certificates.NewAuthority(t)
	return &encryptedServer{startServer(t, append(options, encryptedOptions(t, authority)...)...), authority}
}

func encryptedOptions(t *testing.T, authority *certificates.Authority) []string {
	t.Helper()
	own := authority.Sign("server")
	return []string{"tls-port", freePort(t), "tls-cert-file", own.File, "tls-key-file", own.Key, "tls-ca-cert-file", authority.File}
}

func (s *encryptedServer) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.FormatInt(s.config.TLSPort.Get(), 10))
}

// dialAs connects with a certificate for a name.
func (s *encryptedServer) dialAs(name string, uris ...string) *client {
	s.t.Helper()
	c, err := resp.DialTLS(s.address(), patience, s.authority.Client(s.authority.Sign(name, uris...)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return &client{c, s.t}
}

// dialTLS returns the connection itself, over what wrap makes of the socket.
func (s *encryptedServer) dialTLS(wrap func(net.Conn) net.Conn) *tls.Conn {
	s.t.Helper()
	socket, err := net.Dial("tcp", s.address())
	if err != nil {
		s.t.Fatal(err)
	}
	if wrap != nil {
		socket = wrap(socket)
	}
	conn := tls.Client(socket, s.authority.Client(s.authority.Sign("client")))
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// pieces is a socket that is written to in small pieces, so that records come in parts.
type pieces struct {
	net.Conn
	random *mathrand.Rand
}

func (p pieces) Write(b []byte) (written int, err error) {
	for len(b) > 0 && err == nil {
		var n int
		n, err = p.Conn.Write(b[:min(len(b), 1+p.random.IntN(60))])
		b, written = b[n:], written+n
		if p.random.IntN(20) == 0 {
			time.Sleep(100 * time.Microsecond) // so that the server reads what is there
		}
	}
	return written, err
}

// TestPartialRecords has records come in parts, the handshake's too: crypto/tls has to go on where
// it was.
func TestPartialRecords(t *testing.T) {
	s := startEncrypted(t)
	random := mathrand.New(mathrand.NewPCG(seed.Of(t), 0))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conn := s.dialTLS(func(c net.Conn) net.Conn { return pieces{c, random} })
		config := s.authority.Client(s.authority.Sign("client"))
		config.MaxVersion = version
		conn = tls.Client(conn.NetConn(), config)
		defer conn.Close()
		const times = 300
		requests, want := "", ""
		for i := range times {
			value := strings.Repeat("v", random.IntN(300))
			requests += string(resp.AppendRequest(nil, "set", "key", value)) + string(resp.AppendRequest(nil, "get", "key"))
			want += fmt.Sprintf("+OK\r\n$%d\r\n%s\r\n", len(value), value)
			if random.IntN(10) == 0 || i == times-1 {
				if _, err := conn.Write([]byte(requests)); err != nil {
					t.Fatal(err)
				}
				requests = ""
			}
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			t.Errorf("version %x: the replies are others than expected (%v)", version, err)
		}
	}
}

// TestEncryptedClients does over TLS what the reactor does in other ways than answering at once.
func TestEncryptedClients(t *testing.T) {
	s := startEncrypted(t)
	admin := s.dial()
	a, b := s.dialAs("a"), s.dialAs("b")
	large := make([]byte, 24<<20)
	if _, err := rand.Read(large); err != nil {
		t.Fatal(err)
	}
	t.Run("large", func(t *testing.T) {
		a.want("+OK", "set", "large", string(large))
		for _, c := range []*client{a, b, admin} {
			if reply, err := c.Do("get", "large"); err != nil || !bytes.Equal(reply.Text, large) {
				t.Errorf("%d bytes come back (%v)", len(reply.Text), err)
			}
		}
	})
	t.Run("pipeline", func(t *testing.T) {
		const times = 50000
		for range times {
			a.Queue("incr", "n")
		}
		go func() {
			if err := a.Flush(); err != nil {
				t.Error(err)
			}
		}()
		for i := range times {
			if reply, err := a.Read(); err != nil || reply.String() != ":"+strconv.Itoa(i+1) {
				t.Fatalf("reply %d is %s (%v)", i, reply, err)
			}
		}
	})
	t.Run("blocked", func(t *testing.T) {
		b.Queue("blpop", "list", "0")
		if err := b.Flush(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return a.field("blocked_clients") == "1" })
		a.want(":1", "rpush", "list", "x")
		if reply, err := b.Read(); err != nil || !strings.Contains(reply.String(), "x") {
			t.Errorf("BLPOP: %s (%v)", reply, err)
		}
	})
	t.Run("pushes", func(t *testing.T) {
		listener, monitor := s.dialAs("listener"), s.dialAs("monitor")
		listener.do("subscribe", "news")
		monitor.want("+OK", "monitor")
		for i := range 100 {
			a.want(":1", "publish", "news", strconv.Itoa(i))
			if reply, err := listener.Read(); err != nil || !strings.Contains(reply.String(), strconv.Itoa(i)) {
				t.Fatalf("message %d: %s (%v)", i, reply, err)
			}
			if reply, err := monitor.Read(); err != nil || !strings.Contains(reply.String(), strconv.Itoa(i)) {
				t.Fatalf("MONITOR: %s (%v)", reply, err)
			}
		}
		a.want(":1", "client", "kill", "type", "pubsub")
		listener.wantClosed()
	})
}

// TestEncryptedOutputLimits has clients not read: requests wait, and who is over the limit is
// disconnected.
func TestEncryptedOutputLimits(t *testing.T) {
	s := startEncrypted(t, "client-output-buffer-limit", "pubsub 1mb 0 0")
	admin, listener, reader := s.dial(), s.dialAs("listener"), s.dialAs("reader")
	listener.do("subscribe", "news")
	message := strings.Repeat("x", 100<<10)
	eventually(t, "it is disconnected", func() bool { return admin.do("publish", "news", message) == ":0" })
	listener.wantClosed()
	admin.want("+OK", "set", "key", strings.Repeat("x", 1<<20))
	const times = 100
	for range times {
		reader.Queue("get", "key")
	}
	if err := reader.Flush(); err != nil {
		t.Fatal(err)
	}
	s.wantSome("has to read first", (*connection).stuck)
	for i := range times {
		if reply, err := reader.Read(); err != nil || len(reply.Text) != 1<<20 {
			t.Fatalf("reply %d: %v", i, err)
		}
	}
}

// TestEncryptedEnd sends the end behind requests: as a message of TLS, of the socket, or both.
func TestEncryptedEnd(t *testing.T) {
	s := startEncrypted(t)
	admin := s.dial()
	requests, want := strings.Repeat("SET key value\r\n", 1000), strings.Repeat("+OK\r\n", 1000)
	socketEnd := func(c *tls.Conn) error { return c.NetConn().(*net.TCPConn).CloseWrite() }
	for name, end := range map[string]func(c *tls.Conn) error{
		"TLS":    (*tls.Conn).CloseWrite,
		"socket": socketEnd,
		"both": func(c *tls.Conn) error {
			if err := c.CloseWrite(); err != nil {
				return err
			}
			return socketEnd(c)
		},
	} {
		for _, before := range []string{"", "KEYS none\r\n"} {
			conn := s.dialTLS(nil)
			if _, err := conn.Write([]byte(before + requests + "*2\r\n$3\r\nGE")); err != nil {
				t.Fatal(err)
			}
			if err := end(conn); err != nil {
				t.Fatal(err)
			}
			want := want
			if before != "" {
				want = "*0\r\n" + want
			}
			if got, err := io.ReadAll(conn); err != nil || string(got) != want {
				t.Errorf("%s: %d bytes of replies instead of %d (%v)", name, len(got), len(want), err)
			}
		}
	}
	eventually(t, "their sessions have ended", func() bool { return s.engine.Clients.Count() == 1 })
	admin.want("+PONG", "ping")
}

// hello is the first message of a client.
func (s *encryptedServer) hello() []byte {
	near, far := net.Pipe()
	defer near.Close()
	go func() { _ = tls.Client(far, s.authority.Client(certificates.Certificate{})).Handshake() }()
	message := make([]byte, 4096)
	n, err := near.Read(message)
	if err != nil {
		s.t.Fatal(err)
	}
	return message[:n]
}

// TestHostileHandshakes has more clients begin a handshake than may be under way, and sends what is
// none, while others are served.
func TestHostileHandshakes(t *testing.T) {
	s := startEncrypted(t)
	random, hello := mathrand.New(mathrand.NewPCG(seed.Of(t), 0)), s.hello()
	good := s.dialAs("good")
	var held []net.Conn
	for i := range handshakesWithin(descriptorLimit()) + 20 {
		socket, err := net.Dial("tcp", s.address())
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		if _, err := socket.Write(hello[:i%len(hello)]); err != nil {
			t.Fatal(err)
		}
		held = append(held, socket)
	}
	s.dialAs("another").want("+PONG", "ping")
	if err := held[0].SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := held[0].Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the first of too many has not given way (%v)", err)
	}
	var sending sync.WaitGroup
	for range 200 {
		damaged := bytes.Clone(hello)
		for range 1 + random.IntN(5) {
			damaged[random.IntN(len(damaged))] ^= byte(1 + random.IntN(255))
		}
		sending.Go(func() {
			socket, err := net.Dial("tcp", s.address())
			if err != nil {
				t.Error(err)
				return
			}
			defer socket.Close()
			_, _ = socket.Write(damaged)
			_, _ = socket.Write([]byte("PING\r\nPING\r\n"))
		})
	}
	for range 50 {
		good.want("+PONG", "ping")
	}
	sending.Wait()
	s.dialAs("the last").want("+PONG", "ping")
	eventually(t, "nobody else is a client", func() bool { return s.engine.Clients.Count() <= 3 })
}

// damaging is a socket of which one byte of what is sent behind the handshake is changed.
type damaging struct {
	net.Conn
	at *int // is counted down; negative: nothing is changed
}

func (d damaging) Write(b []byte) (int, error) {
	b = bytes.Clone(b)
	if *d.at >= 0 && *d.at < len(b) {
		b[*d.at] ^= 0x40
	}
	*d.at -= len(b)
	return d.Conn.Write(b)
}

// TestDamagedRecords changes a byte of a request: nothing of it is executed, and the connection is
// closed.
func TestDamagedRecords(t *testing.T) {
	s := startEncrypted(t)
	admin := s.dial()
	for place := range 60 {
		at := -1
		conn := s.dialTLS(func(c net.Conn) net.Conn { return damaging{c, &at} })
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		at = place
		if _, err := conn.Write([]byte("SET damaged x\r\nSET damaged x\r\nSET damaged x\r\n")); err != nil {
			t.Fatal(err)
		}
		if place == 3 || place == 4 { // the length: the server may wait for more
			_ = conn.NetConn().(damaging).Conn.(*net.TCPConn).CloseWrite()
		}
		if got, err := io.ReadAll(conn); err == nil && len(got) > 0 {
			t.Errorf("byte %d: the server answers %q", place, got)
		}
		conn.Close()
	}
	admin.want(":0", "exists", "damaged")
}

// TestCertifiedUsers signs clients in by what their certificates say.
func TestCertifiedUsers(t *testing.T) {
	s := startEncrypted(t, "tls-auth-clients-user", "CN", "tls-auth-clients", "optional")
	admin := s.dial()
	admin.want("+OK", "acl", "setuser", "worker", "on", "+@all", "~*")
	admin.want("+OK", "acl", "setuser", "former", "off", "+@all", "~*")
	admin.want("+OK", "acl", "setuser", "urn:a:worker", "on", "+@all")
	whoami := func(name string, uris ...string) string {
		t.Helper()
		return s.dialAs(name, uris...).do("acl", "whoami")
	}
	if a, b, c := whoami("worker"), whoami("former"), whoami("nobody"); a != `"worker"` || b != `"default"` || c != `"default"` {
		t.Errorf("worker is %s, former is %s, nobody is %s", a, b, c)
	}
	if got := admin.field("acl_access_denied_tls_cert"); got != "2" {
		t.Errorf("%s names of certificates were no user's", got)
	}
	if got := admin.do("acl", "log", "1"); !strings.Contains(got, "tls-cert") || !strings.Contains(got, "nobody") {
		t.Errorf("ACL LOG: %s", got)
	}
	plain, err := resp.DialTLS(s.address(), patience, s.authority.Client(certificates.Certificate{}))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	(&client{plain, t}).want(`"default"`, "acl", "whoami")
	admin.want("+OK", "config", "set", "tls-auth-clients-user", "URI")
	if a, b := whoami("worker"), whoami("nobody", "urn:b:x", "urn:a:worker"); a != `"default"` || b != `"urn:a:worker"` {
		t.Errorf("without a URI: %s, with one: %s", a, b)
	}
	// A user who begins by a certificate may be another one later, and is none any more once
	// deleted.
	admin.want("+OK", "config", "set", "tls-auth-clients-user", "CN")
	worker := s.dialAs("worker")
	worker.want(`"worker"`, "acl", "whoami")
	admin.want(":1", "acl", "deluser", "worker")
	worker.wantClosed()
}

// TestNewCertificates puts other files into effect while the server runs.
func TestNewCertificates(t *testing.T) {
	s := startEncrypted(t)
	admin, old := s.dial(), s.dialAs("a")
	serves := func() string {
		t.Helper()
		conn := s.dialTLS(nil)
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	next := s.authority.Sign("next")
	const refusal = "-ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - Unable to update TLS configuration. Check server logs."
	admin.want(refusal, "config", "set", "tls-cert-file", next.File)
	if name := serves(); name != "server" {
		t.Errorf("after a refusal %s serves", name)
	}
	admin.want("+OK", "config", "set", "tls-cert-file", next.File, "tls-key-file", next.Key)
	if name := serves(); name != "next" {
		t.Errorf("after CONFIG SET %s serves", name)
	}
	last := s.authority.Sign("last")
	for _, files := range [][2]string{{last.File, next.File}, {last.Key, next.Key}} {
		if err := os.Rename(files[0], files[1]); err != nil {
			t.Fatal(err)
		}
	}
	admin.want("+OK", "config", "set", "tls-cert-file", next.File) // the same name
	if name := serves(); name != "last" {
		t.Errorf("after a CONFIG SET of the same name %s serves", name)
	}
	old.want("+PONG", "ping")
	admin.want("+OK", "config", "set", "tls-protocols", "TLSv1.2")
	conn := s.dialTLS(nil)
	if err := conn.Handshake(); err != nil || conn.ConnectionState().Version != tls.VersionTLS12 {
		t.Errorf("version %x is spoken (%v)", conn.ConnectionState().Version, err)
	}
	stranger := certificates.NewAuthority(t)
	config := s.authority.Client(stranger.Sign("x"))
	if c, err := resp.DialTLS(s.address(), patience, config); err == nil {
		defer c.Close()
		if reply, err := c.Do("ping"); err == nil {
			t.Errorf("somebody whom nobody trusts got %s", reply)
		}
	}
}

// TestResumption takes sessions up again, for as long as they may be.
func TestResumption(t *testing.T) {
	s := startEncrypted(t)
	admin := s.dial()
	config := s.authority.Client(s.authority.Sign("client"))
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	resumes := func() bool {
		t.Helper()
		conn, err := tls.Dial("tcp", s.address(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 10)); err != nil { // a ticket comes before the reply
			t.Fatal(err)
		}
		return conn.ConnectionState().DidResume
	}
	if first, second, third := resumes(), resumes(), resumes(); first || !second || !third {
		t.Errorf("resumed: %v, %v, %v", first, second, third)
	}
	admin.want("+OK", "config", "set", "tls-session-caching", "no")
	for range 2 {
		if resumes() {
			t.Error("resumed although sessions are not to be")
		}
	}
}

func TestEncryptedMaxClients(t *testing.T) {
	s := startEncrypted(t, "maxclients", "1")
	s.dial().want("+PONG", "ping")
	c := s.dialAs("a")
	if reply, err := c.Read(); err != nil || reply.String() != "-ERR max number of clients reached" {
		t.Errorf("the second client got %s (%v)", reply, err)
	}
	c.wantClosed()
}
