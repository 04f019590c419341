package port

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// oldSource is the address of what answers as a Redis 4 without keys does, until the test ends.
// Behind each snapshot it sends the next of the streams, the last one again and again. Where it is
// is the end of that one.
func oldSource(t *testing.T, streams ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	info := fmt.Sprintf("redis_version:4.0.14\r\nrole:master\r\nmaster_repl_offset:%d\r\n", len(streams[len(streams)-1]))
	snapshot := "REDIS0008\xff" + strings.Repeat("\x00", 8) // without a checksum
	var sent atomic.Int64
	answer := func(conn net.Conn) {
		defer conn.Close()
		requests := bufio.NewReader(conn)
		for {
			request, err := resp.ReadReply(requests)
			if err != nil {
				return
			}
			switch strings.ToUpper(string(request.Elements[0].Text)) {
			case "INFO":
				_, err = fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
			case "REPLCONF":
				_, err = fmt.Fprint(conn, "+OK\r\n")
			case "PSYNC":
				stream := streams[min(int(sent.Add(1)), len(streams))-1]
				_, err = fmt.Fprintf(conn, "+FULLRESYNC %040d 0\r\n$%d\r\n%s%s", sent.Load(), len(snapshot), snapshot, stream)
				_, _ = io.Copy(io.Discard, conn) // how far the replica is, until it goes
			default:
				_, err = fmt.Fprint(conn, "-ERR unknown command\r\n")
			}
			if err != nil {
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

// TestScriptWithoutBody: a script whose body isn't known is behind a new snapshot, if that is asked
// for.
func TestScriptWithoutBody(t *testing.T) {
	const body, sha = "return redis.call('INCR', KEYS[1])", "61636018f4e6b5817b89791bbed242f93fa089e3"
	without := string(resp.AppendRequest(nil, "EVALSHA", sha, "1", "counter"))
	whole := string(resp.AppendRequest(nil, "EVAL", body, "1", "counter")) + without
	to := start(t, launch.MustUnderTest(t))
	from := oldSource(t, without, without, whole)
	directory := t.TempDir()
	command := []string{"port", "--from", from, "--to", to.Address}
	if said := startTool(t, directory, command...).ends(7); !strings.Contains(said, sha) || !strings.Contains(said, "--resync delete") {
		t.Errorf("without --resync it says %s", said)
	}
	c := to.MustDial(t)
	set(t, c, "counter", "10")
	startTool(t, directory, append(command, "--resync", "delete")...).ends(0)
	if got := string(do(t, c, "GET", "counter").Text); got != "2" {
		t.Errorf("the counter is %s", got)
	}
}
