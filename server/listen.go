package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"

	"kedis/internal/config"
)

// CheckAddresses tells why the configured addresses can't be listened on, before anything is
// opened.
func CheckAddresses(c *config.Config) error {
	_, err := addresses(c)
	return err
}

// encryptedPrefix stands before an address for TLS.
const encryptedPrefix = "tls+"

// addresses are where to listen: tcp4://0.0.0.0:6379, tls+tcp4://0.0.0.0:6380,
// unix:///run/kedis.sock. As in Redis, port 0 leaves those alone that there are besides, and it is
// an error that there are none at all.
func addresses(c *config.Config) ([]string, error) {
	var addresses []string
	port, encrypted := c.Port.Get(), c.TLSPort.Get()
	if port != 0 || c.UnixSocket.Get() == "" && encrypted == 0 {
		var err error
		if addresses, err = hosts(c, port); err != nil {
			return nil, err
		}
	}
	if encrypted != 0 {
		hosts, err := hosts(c, encrypted)
		if err != nil {
			return nil, err
		}
		for _, host := range hosts {
			addresses = append(addresses, encryptedPrefix+host)
		}
	}
	if c.UnixSocket.Get() == "" {
		if len(addresses) == 0 {
			return nil, errNoAddress
		}
		return addresses, nil
	}
	socket, err := unixSocket(c.UnixSocket.Get())
	if err != nil {
		return nil, fmt.Errorf("server: unixsocket: %w", err)
	}
	return append(addresses, "unix://"+socket), nil
}

var errNoAddress = errors.New("server: bind has no address that this machine has, and there is no unixsocket: nothing to listen on")

func splitAddress(address string) (network, rest string) {
	network, rest, _ = strings.Cut(address, "://")
	return network, rest
}

// hosts are all addresses that are configured, with a port, but those with a minus before them that
// the machine doesn't have.
func hosts(c *config.Config, number int64) ([]string, error) {
	var hosts []string
	port := strconv.FormatInt(number, 10)
	for _, host := range c.Bind.Get() {
		host, optional := strings.CutPrefix(host, "-")
		network := "tcp"
		switch host {
		case "*", "0.0.0.0": // for "tcp" Go would listen on all addresses of IPv6, too
			network, host = "tcp4", "0.0.0.0"
		case "::*", "::":
			network, host = "tcp6", "::"
		}
		address := net.JoinHostPort(host, port)
		if err := probe(network, address); err == nil {
			hosts = append(hosts, network+"://"+address)
		} else if !optional || errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	return hosts, nil
}

// probe tells a port in use from other troubles, before anything is opened.
func probe(network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	return l.Close()
}

const longestUnixSocket = 107 // what the kernel's sockaddr_un has room for, and a zero

// unixSocket returns the whole path of the Unix socket, when one can be made there. A socket that a
// killed server has left is removed.
func unixSocket(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if len(path) > longestUnixSocket {
		return "", fmt.Errorf("%s: the path is longer than %d bytes", path, longestUnixSocket)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return path, probe("unix", path)
	case err != nil:
		return "", err
	case info.Mode().Type() != fs.ModeSocket:
		return "", fmt.Errorf("%s is there, and no socket", path)
	}
	if client, err := net.Dial("unix", path); err == nil {
		return "", errors.Join(fmt.Errorf("%s: %w", path, syscall.EADDRINUSE), client.Close())
	}
	if err := os.Remove(path); err != nil {
		return "", err
	}
	return path, probe("unix", path)
}

// permitUnixSocket says who may connect to the Unix socket; by default those whom the umask lets.
func (s *Server) permitUnixSocket(path string) {
	permissions := s.config.UnixSocketPerm.Get()
	if permissions == 0 {
		return
	}
	if err := os.Chmod(path, fs.FileMode(permissions)); err != nil {
		s.logger.Error("setting unixsocketperm", "error", err)
	}
}

// Addresses are those that the server listens on, as soon as Run has called ready.
func (s *Server) Addresses() []string { return s.addresses }

func isUnixSocket(conn gnet.Conn) bool {
	_, is := conn.RemoteAddr().(*net.UnixAddr)
	return is
}

// ends tells where a client is and where it connected to. Both are the socket's path, as Redis has
// it, when it came through the Unix socket.
func (s *Server) ends(conn gnet.Conn) ends {
	if isUnixSocket(conn) {
		path := s.config.UnixSocket.Get() + ":0"
		return ends{path, path, true}
	}
	return ends{conn.RemoteAddr().String(), conn.LocalAddr().String(), false}
}

// ownZone gives an address memory of its own for its zone. gnet takes that for a buffer when the
// connection ends, and Go's is the same for all connections of an interface.
func ownZone(address net.Addr) {
	if a, is := address.(*net.TCPAddr); is {
		a.Zone = strings.Clone(a.Zone)
	}
}

// keepAlive has the kernel ask whether the client is still there, as tcp-keepalive says.
func (c *connection) keepAlive(conn gnet.Conn) {
	if c.overUnixSocket {
		return
	}
	silence := time.Duration(c.server.config.TCPKeepalive.Get()) * time.Second
	const questions = 5
	if err := conn.SetKeepAlive(silence > 0, silence, max(silence/questions, time.Second), questions); err != nil {
		c.server.logger.Debug("setting a connection's keepalive", "client", c.remote, "error", err)
	}
}
