package migrate

import (
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"kedis/internal/resp"
)

// oldSource answers as a Redis 2.8 does, or with other replies, until the test ends. It returns its
// address.
func oldSource(t *testing.T, replies map[string]string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	answer := func(conn net.Conn) {
		defer conn.Close()
		for requests := resp.NewReader(conn, 1<<20); ; {
			words, _, err := requests.ReadRequest()
			if err != nil {
				return
			}
			reply := replies[strings.ToUpper(string(words[0]))]
			if reply == "" {
				reply = "-ERR unknown command"
			}
			if _, err := conn.Write([]byte(reply + "\r\n")); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	return listener.Addr().String()
}

// TestOldSource: a Redis before 3.0.4 knows no option that a replica tells, and one before 4.0 has
// no name for its history.
func TestOldSource(t *testing.T) {
	source := Server{Address: oldSource(t, map[string]string{
		"REPLCONF": "-ERR Unrecognized REPLCONF option: capa",
		"PSYNC":    "+FULLRESYNC " + strings.Repeat("a", 40) + " 7",
		"INFO":     "$26\r\n# Replication\r\nrole:master",
	})}
	l, answer, err := attach(t.Context(), source, "", Position{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil || !answer.Full || answer.Position != 7 {
		t.Errorf("%+v, %v", answer, err)
	}
	p := &port{PortOptions: PortOptions{From: source}, target: &Target{facts: facts{"redis_version": "2.8.17"}}, info: redis.NewClient(source.options(0, 1))}
	defer p.info.Close()
	if err := p.refuseLoop(t.Context()); err != nil {
		t.Errorf("two old servers: %v", err)
	}
}

// TestSourceRefuses: what a source doesn't let its user do isn't taken for an option that it
// doesn't know.
func TestSourceRefuses(t *testing.T) {
	source := Server{Address: oldSource(t, map[string]string{"REPLCONF": "-NOPERM this user has no permissions", "PSYNC": "+CONTINUE"})}
	if _, _, err := attach(t.Context(), source, "", Position{}); ExitCode(err) != ExitSource || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("%v", err)
	}
}
