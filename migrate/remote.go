package migrate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"kedis/internal/resp"
	"kedis/internal/secure"
)

// Server is a server to connect to.
type Server struct {
	Address  string // host:port; the port is 6379 unless given
	User     string
	Password string
	TLS      *tls.Config // nil: there is none
	Name     string      // what its CLIENT LIST shows of connections; empty: nothing
}

// connectTimeout bounds how long it may take to connect, with the handshake of TLS.
const connectTimeout = 10 * time.Second

// replyTimeout bounds how long a server may take to answer a batch.
const replyTimeout = 60 * time.Second

// dial connects. A server that is away is looked for again and again, and one day from its own
// port, so that the connection meets itself: that is none.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err == nil && conn.LocalAddr().String() == conn.RemoteAddr().String() {
		return nil, errors.Join(&net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: syscall.ECONNREFUSED}, conn.Close())
	}
	if err != nil || s.TLS == nil {
		return conn, err
	}
	encrypted, err := secure.Connect(ctx, conn, s.TLS)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return encrypted, nil
}

// address is Address with its port.
func (s *Server) address() string {
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		return net.JoinHostPort(strings.Trim(s.Address, "[]"), "6379")
	}
	return s.Address
}

// password is what AUTH is sent with, empty if it isn't. A user without a password takes any one,
// and go-redis sends none that is empty.
func (s *Server) password() string {
	if s.User != "" && s.Password == "" {
		return "none"
	}
	return s.Password
}

// options are for clients that repeat nothing by themselves: a write that is sent twice is done
// twice.
func (s *Server) options(database, connections int) *redis.Options {
	return &redis.Options{Addr: s.address(), Username: s.User, Password: s.password(), DB: database, Protocol: 2, DisableIndentity: true,
		ClientName: s.Name, MaxRetries: -1, PoolSize: connections, PoolTimeout: replyTimeout, Dialer: s.dial, ReadTimeout: replyTimeout, WriteTimeout: replyTimeout}
}

// clusterClient is a client of the cluster that a server belongs to.
func clusterClient(s *Server, connections int) *redis.ClusterClient {
	o := s.options(0, connections)
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password,
		Protocol: o.Protocol, DisableIndentity: true, ClientName: o.ClientName, MaxRetries: -1, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout,
		Dialer: o.Dialer, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout})
}

// facts are what a server tells of itself.
type facts map[string]string

// ask reads INFO.
func ask(ctx context.Context, client *redis.Client, sections ...string) (facts, error) {
	all := facts{}
	for _, section := range sections {
		text, err := client.Info(ctx, section).Result()
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(text, "\r\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				all[name] = value
			}
		}
	}
	return all, nil
}

// keys is how many keys the databases have that are counted, as INFO keyspace tells.
func (f facts) keys(counts func(database int) bool) (all int64) {
	for name, line := range f {
		var database int
		var keys int64
		if _, err := fmt.Sscanf(name+":"+line, "db%d:keys=%d", &database, &keys); err == nil && counts(database) {
			all += keys
		}
	}
	return all
}

// version is that of Redis that the server is, or is like; what isn't told is 0.
func (f facts) version() (major, minor int) {
	_, _ = fmt.Sscanf(f["redis_version"], "%d.%d", &major, &minor)
	return major, minor
}

func (f facts) major() int {
	major, _ := f.version()
	return major
}

// before says that the version is one before that.
func (f facts) before(major, minor int) bool {
	itsMajor, itsMinor := f.version()
	return itsMajor < major || itsMajor == major && itsMinor < minor
}

// side tells how errors of one of the two servers are called.
type side struct {
	name string // "source" or "target"
	auth string // the option that has its password
	code int
}

var (
	sourceSide = side{"source", "--from-auth", ExitSource}
	targetSide = side{"target", "--to-auth", ExitTarget}
)

// isTransient says that an error may be gone when it is tried again: the server is away, or not
// ready. A net.Error isn't enough: each of the system's is one, that of a file, too.
func isTransient(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return true
	}
	return slices.Contains([]string{"LOADING", "MASTERDOWN", "NOMASTERLINK", "CLUSTERDOWN", "BUSY"}, replyCode(err))
}

// replyError is a command that a server has refused.
type replyError struct {
	text    string
	command string // empty where the text says enough
}

func (e *replyError) Error() string {
	if e.command == "" {
		return e.text
	}
	return e.text + " (" + e.command + ")"
}

// refused is a reply that is an error.
func refused(reply *resp.Reply) error {
	if reply.Err() == nil {
		return nil
	}
	return &replyError{text: string(reply.Text)}
}

// isRedirection says that another server of a cluster has the keys, or will have them soon.
func (e *replyError) isRedirection() bool {
	return slices.Contains([]string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"}, replyCode(e))
}

// replyCode is the first word of the error reply that an error is or wraps, or that it says.
func replyCode(err error) string {
	text := err.Error()
	var refused *replyError
	var reply *resp.ReplyError
	var theirs redis.Error
	switch {
	case errors.As(err, &refused):
		text = refused.text
	case errors.As(err, &reply):
		text = reply.Text
	case errors.As(err, &theirs):
		text = theirs.Error()
	}
	text = strings.TrimPrefix(text, "EXECABORT Transaction discarded because of: ")
	code, _, _ := strings.Cut(text, " ")
	return code
}

// explain says what an error of a server means, and what to do about it.
func (s side) explain(address string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	switch replyCode(err) {
	case "WRONGPASS", "NOAUTH", "NOPERM":
		return failure(s.code, "the %s %s refuses the user or the password (%s): %w", s.name, address, s.auth, err)
	case "OOM":
		return failure(s.code, "the %s %s is full, it has reached its maxmemory: %w", s.name, address, err)
	case "MISCONF":
		return failure(s.code, "the %s %s takes no writes, its disk may be full: %w", s.name, address, err)
	case "READONLY":
		return failure(s.code, "the %s %s is a replica, which can't be written to; name its primary: %w", s.name, address, err)
	case "MOVED", "ASK", "CLUSTERDOWN", "CROSSSLOT", "TRYAGAIN":
		return failure(s.code, "the %s %s is part of a cluster that doesn't serve the key now: %w", s.name, address, err)
	case "MASTERDOWN", "LOADING", "NOREPLICAS", "NOMASTERLINK", "BUSY":
		return failure(s.code, "the %s %s isn't ready: %w", s.name, address, err)
	}
	if strings.Contains(err.Error(), "without any password configured") {
		return failure(s.code, "the %s %s has no password, and was given one (%s): %w", s.name, address, s.auth, err)
	}
	if strings.Contains(err.Error(), "unknown command") {
		return failure(ExitUnsupported, "the %s %s lacks a command that the data needs; leave such keys out with --exclude: %w", s.name, address, err)
	}
	return failure(s.code, "the %s %s: %w", s.name, address, err)
}
