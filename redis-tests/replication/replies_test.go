package replication

import (
	"io"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// TestRepliesAsRedis sends what no replica sends, and compares all bytes that come back.
func TestRepliesAsRedis(t *testing.T) {
	oracle, kedis := launch.Pair(t)
	psync, old, last := request("PSYNC", "?", "-1"), request("SYNC"), request("ECHO", "the end")
	for _, text := range []string{
		request("REPLCONF", "ACK", "0"), request("REPLCONF", "ack", "x"), request("REPLCONF", "GETACK", "*"), request("REPLCONF", "ACK", "0", "nosuch", "1"),
		request("REPLCONF", "listening-port", "x", "ACK", "0"), request("REPLCONF", "listening-port", "1", "ACK", "0"),
		request("MULTI") + request("REPLCONF", "capa", "eof") + request("EXEC"),
		request("REPLCONF", "rdb-only", "5"), request("REPLCONF", "rdb-only", "-1"), request("REPLCONF", "rdb-only", "x"), request("REPLCONF", "rdb-only", "1"),
		request("SET", "a", "1") + psync + request("GET", "a"), request("SET", "a", "1") + old, request("SET", "a", "1") + request("PSYNC", "?", "x"),
		request("WAIT", "0", greatest), request("FAILOVER", "TIMEOUT", greatest), request("FAILOVER", "TIMEOUT", greatest+"0"),
	} {
		if want, got := said(t, oracle, text+last), said(t, kedis, text+last); got != want {
			t.Errorf("%q\nRedis: %q\nKedis: %q", text, want, got)
		}
	}
	for _, s := range []*launch.Server{oracle, kedis} {
		monitor := newDialogue(t, dial(t, s))
		for _, text := range []string{request("MONITOR"), psync, request("PSYNC", "?", "x"), old, request("PSYNC")} {
			monitor.send(text)
		}
		for _, want := range []string{"+OK\r\n", "-ERR wrong number of arguments for 'psync' command\r\n"} {
			if line, err := monitor.reader.ReadString('\n'); err != nil || line != want {
				t.Errorf("a monitor is told %q (%v), and not %q", line, err, want)
			}
		}
		waiting := sent(t, s, "WAIT", "1", greatest)
		blockedClients(t, s, 1)
		waiting.Close()
	}
}

// said is all that a server answers, up to the reply of what ends it.
func said(t *testing.T, s *launch.Server, text string) string {
	t.Helper()
	conn := dial(t, s)
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	const last = "$7\r\nthe end\r\n"
	var all []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(all), last); {
		if _, err := conn.Read(one); err != nil {
			return string(all) + " and then " + err.Error()
		}
		all = append(all, one...)
	}
	return string(all)
}
