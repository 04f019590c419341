// Package oracle starts a real redis-server for a test and talks RESP2 to it, so that an expected
// reply is what Redis answers and not what somebody remembers. It is for tests only; it knows no
// command and nothing of ours.
package oracle

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Error is an error reply, without the leading minus sign.
type Error string

func (e Error) Error() string { return string(e) }

// Server is one redis-server with one connection to it. It ends with its test. It is used by one
// goroutine at a time.
type Server struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

// Program names the redis-server to run: what KEDIS_ORACLE says, or the one in PATH.
func Program() string { return cmp.Or(os.Getenv("KEDIS_ORACLE"), "redis-server") }

// Start runs redis-server with the given further options. It listens on a Unix socket in a
// directory of its own, so that no port can collide, in the C locale, and saves nothing. The test
// fails when redis-server is not installed: a comparison that was skipped proves nothing.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	// Not t.TempDir: its path may exceed the 107 bytes that a socket's may have.
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		t.Fatalf("oracle: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	arguments := append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", ""}, options...)
	command := exec.Command(Program(), arguments...)
	command.Env = append(os.Environ(), "LC_ALL=C")
	command.SysProcAttr = endWithParent()
	if err := command.Start(); err != nil {
		t.Fatalf("oracle: %v", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	conn, err := dial(socket, exited)
	if err != nil {
		command.Process.Kill()
		t.Fatalf("oracle: %v", err)
	}
	t.Cleanup(func() {
		conn.Close()
		command.Process.Kill()
		<-exited
	})
	return &Server{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// dial waits until the server listens, and gives up when it has exited instead.
func dial(socket string, exited chan error) (net.Conn, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case err := <-exited:
			exited <- err
			return nil, fmt.Errorf("redis-server exited: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
}

// Do sends one command and returns its reply: nil, int64, string (simple and bulk strings), Error
// or []any. Arguments are strings, []byte, int, int64, uint64 or float64. A broken connection fails
// the test.
func (s *Server) Do(arguments ...any) any {
	s.t.Helper()
	s.Send(arguments...)
	return s.Receive()
}

// Send queues one command, whose reply Receive returns. What is queued leaves with the next
// Receive.
func (s *Server) Send(arguments ...any) {
	s.out = fmt.Appendf(s.out, "*%d\r\n", len(arguments))
	for _, argument := range arguments {
		text := fmt.Sprint(argument)
		if raw, ok := argument.([]byte); ok {
			text = string(raw)
		}
		s.out = fmt.Appendf(s.out, "$%d\r\n%s\r\n", len(text), text)
	}
}

// Receive returns the reply to the earliest command that was sent and not yet answered.
func (s *Server) Receive() any {
	s.t.Helper()
	if len(s.out) > 0 {
		if _, err := s.conn.Write(s.out); err != nil {
			s.t.Fatalf("oracle: %v", err)
		}
		s.out = s.out[:0]
	}
	reply, err := readReply(s.in)
	if err != nil {
		s.t.Fatalf("oracle: %v", err)
	}
	return reply
}

func readReply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("reply line %q", line)
	}
	text := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return text, nil
	case '-':
		return Error(text), nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reply line %q: %w", line, err)
	}
	switch {
	case line[0] == ':':
		return number, nil
	case number < 0:
		return nil, nil
	case line[0] == '$':
		return readBulk(in, number)
	case line[0] == '*':
		return readArray(in, number)
	}
	return nil, errors.New("reply of an unknown type: " + line)
}

func readBulk(in *bufio.Reader, length int64) (any, error) {
	body := make([]byte, length+2)
	_, err := io.ReadFull(in, body)
	return string(body[:length]), err
}

func readArray(in *bufio.Reader, length int64) (any, error) {
	elements := make([]any, length)
	for i := range elements {
		element, err := readReply(in)
		if err != nil {
			return nil, err
		}
		elements[i] = element
	}
	return elements, nil
}
