package attack

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

func (v *target) connect() *net.TCPConn {
	conn, err := net.Dial("tcp", v.Address)
	if err != nil {
		return nil
	}
	return conn.(*net.TCPConn)
}

// reset ends a connection with RST instead of FIN.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// TestBrokenConnections breaks off connections in all ways, in the middle of requests and of
// replies.
func TestBrokenConnections(t *testing.T) {
	v := newTarget(t)
	c := v.MustDial(t)
	if _, err := c.Must("set", "large", strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	v.together(16, func(random *rand.Rand) {
		for range 40 * *scale {
			conn := v.connect()
			if conn == nil {
				continue
			}
			request := stream(t, random)
			if random.IntN(3) == 0 {
				request = append(request, "GET large\r\nBLPOP nothing 1\r\nGET large\r\n"...)
			}
			_, _ = conn.Write(request[:random.IntN(len(request)+1)])
			switch random.IntN(4) {
			case 0:
				reset(conn)
			case 1:
				_ = conn.CloseWrite()
				_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
				_, _ = io.CopyN(io.Discard, conn, random.Int64N(1<<20))
				reset(conn)
			case 2:
				_ = conn.CloseRead()
				_, _ = conn.Write(stream(t, random))
				_ = conn.Close()
			default:
				_ = conn.Close()
			}
		}
	})
	v.gone(t)
	v.survives()
}

// gone waits until the server has noticed that all connections but the witness's and one of its own
// are gone.
func (v *target) gone(t *testing.T) {
	t.Helper()
	c := v.MustDial(t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		reply, err := c.Must("client", "list")
		if err != nil {
			t.Fatal(err)
		}
		left := strings.Count(string(reply.Text), "\n")
		if left <= 3 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left:\n%s", left, reply.Text)
		}
	}
}

// TestSlowClients has clients ask for much and read nothing, and others send requests byte by byte,
// or claim long ones.
func TestSlowClients(t *testing.T) {
	v := newTarget(t, "--client-output-buffer-limit", "normal 8mb 0 0")
	c := v.MustDial(t)
	if _, err := c.Must("set", "large", strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	var open []*net.TCPConn
	for i := range 60 * *scale {
		conn := v.connect()
		if conn == nil {
			t.Fatal("no connection")
		}
		open = append(open, conn)
		_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		switch i % 3 {
		case 0: // asks for a gigabyte
			_, _ = conn.Write([]byte(strings.Repeat("GET large\r\n", 1024)))
		case 1: // claims much and brings little
			_, _ = fmt.Fprintf(conn, "*1000000\r\n$3\r\nDEL\r\n$%d\r\n%s", 60<<20, strings.Repeat("y", 1<<16))
		case 2: // never comes to an end
			_, _ = conn.Write([]byte("*2\r\n$3\r\nGE"))
		}
	}
	slow := v.connect()
	for _, b := range []byte("*2\r\n$3\r\nGET\r\n$7\r\nnothing\r\n") {
		_, _ = slow.Write([]byte{b})
		time.Sleep(time.Millisecond)
	}
	answer := make([]byte, 5)
	if _, err := io.ReadFull(slow, answer); err != nil || string(answer) != "$-1\r\n" {
		t.Errorf("a client that sends byte by byte is answered %q, %v", answer, err)
	}
	for _, conn := range append(open, slow) {
		reset(conn)
	}
	v.gone(t)
	v.survives()
}

// TestBeforeAuthentication has clients who haven't said who they are claim much.
func TestBeforeAuthentication(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--requirepass", "secret")
	for request, says := range map[string]string{
		"*11\r\n":                        "-ERR Protocol error: unauthenticated multibulk length",
		"*2\r\n$16385\r\n":               "-ERR Protocol error: unauthenticated bulk length",
		"*1\r\n$4\r\nPING\r\n":           "-NOAUTH Authentication required.",
		strings.Repeat("x", 70_000):      "-ERR Protocol error: too big inline request",
		"AUTH wrong\r\n":                 "-WRONGPASS",
		"HELLO 3\r\n":                    "-NOAUTH HELLO must be called",
		"*2\r\n$4\r\nAUTH\r\n$16384\r\n": "",
	} {
		conn, err := net.Dial("tcp", server.Address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		if says == "" {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer := make([]byte, 4096)
		n, _ := conn.Read(answer)
		if got := string(answer[:n]); !strings.HasPrefix(got, says) || says == "" && got != "" {
			t.Errorf("%.30q is answered %q, want %q", request, got, says)
		}
		conn.Close()
	}
}

// TestDescriptors takes all descriptors that the process may have, while the witness writes enough
// for new files.
func TestDescriptors(t *testing.T) {
	program := launch.MustUnderTest(t)
	program.Line = append([]string{"/bin/sh", "-c", `ulimit -n 200; exec "$0" "$@"`}, program.Line...)
	options := append([]string{"--binlog-segment-size", "1mb", "--persist-interval", "1s", "--maxclients", "100000"}, modest...)
	v := watch(t, launch.ForTest(t, program, options...))
	writer := v.MustDial(t)
	for range *scale {
		var open []net.Conn
		for range 500 {
			if conn := v.connect(); conn != nil {
				open = append(open, conn)
			}
		}
		for i := range 200 {
			if _, err := writer.Must("set", fmt.Sprint("filler", i), strings.Repeat("x", 10_000)); err != nil {
				t.Fatal(err)
			}
		}
		for _, conn := range open {
			_ = conn.Close()
		}
		v.serves(t)
	}
	v.survives()
}

// serves waits until the server takes connections again.
func (v *target) serves(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := resp.Dial(v.Address, time.Minute)
		if err == nil {
			_, err = c.Must("ping")
			c.Close()
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody is served any more: %v", err)
		}
	}
}
