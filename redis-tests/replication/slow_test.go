package replication

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// scripted is a replica that does what a test says.
type scripted struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

// attach connects to a primary and asks for all data, in a form whose end is marked.
func attach(t *testing.T, primary *launch.Server) *scripted {
	t.Helper()
	conn, err := net.Dial("tcp", primary.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &scripted{t, conn, bufio.NewReader(conn)}
	r.say("REPLCONF", "capa", "eof", "capa", "psync2")
	r.line("+OK")
	r.say("PSYNC", "?", "-1")
	r.line("+FULLRESYNC ")
	return r
}

func (r *scripted) say(words ...string) {
	r.t.Helper()
	if _, err := r.conn.Write(resp.AppendRequest(nil, words...)); err != nil {
		r.t.Fatal(err)
	}
}

// line reads a line that begins with a prefix, and returns the rest of it.
func (r *scripted) line(prefix string) string {
	r.t.Helper()
	line, err := r.reader.ReadString('\n')
	rest, ok := strings.CutPrefix(line, prefix)
	if err != nil || !ok {
		r.t.Fatalf("the primary says %q (%v), not %q", line, err, prefix)
	}
	return strings.TrimSuffix(rest, "\r\n")
}

// takeSnapshot reads up to the mark at the snapshot's end.
func (r *scripted) takeSnapshot() {
	r.t.Helper()
	mark := []byte(r.line("$EOF:"))
	var tail []byte
	for !bytes.HasSuffix(tail, mark) {
		b, err := r.reader.ReadByte()
		if err != nil {
			r.t.Fatal(err)
		}
		if tail = append(tail, b); len(tail) > 4*len(mark) {
			tail = tail[len(tail)-len(mark):]
		}
	}
}

// ended reads until the primary ends the connection.
func (r *scripted) ended() {
	r.t.Helper()
	if err := r.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r.reader); err != nil && strings.Contains(err.Error(), "timeout") {
		r.t.Fatal("the primary keeps the connection")
	}
}

// logs waits until a server has printed something.
func logs(t *testing.T, s *launch.Server, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.Output(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log doesn't say %q:\n%s", text, s.Output())
		}
	}
}

// TestSilentReplica takes a snapshot and never says so.
func TestSilentReplica(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t), "--repl-timeout", "3")
	r := attach(t, primary)
	r.takeSnapshot()
	logs(t, primary, "a replica is silent")
	r.ended()
}

// TestSilentOldReplica does that with SYNC. One that says so may be silent from then on.
func TestSilentOldReplica(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t), "--repl-timeout", "3")
	r, online := attachOld(t, primary), attachOld(t, primary)
	r.takeSnapshot()
	online.takeSnapshot()
	online.say("REPLCONF", "ACK", "0")
	r.ended()
	do(t, primary.MustDial(t), "SET", "key", "value")
	online.line("*")
}

// attachOld is attach with SYNC, for a snapshot whose end is marked all the same.
func attachOld(t *testing.T, primary *launch.Server) *scripted {
	t.Helper()
	conn := dial(t, primary)
	r := &scripted{t, conn, bufio.NewReader(conn)}
	r.say("REPLCONF", "capa", "eof")
	r.line("+OK")
	r.say("SYNC")
	return r
}

// TestReplicaThatOnlyLoads says no more than that it lives while it takes the snapshot, for longer
// than repl-timeout.
func TestReplicaThatOnlyLoads(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t), "--repl-timeout", "3")
	r := attach(t, primary)
	r.takeSnapshot()
	for range 10 {
		if _, err := r.conn.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(400 * time.Millisecond)
	}
	do(t, primary.MustDial(t), "SET", "key", "value")
	r.say("REPLCONF", "ACK", "0")
	r.line("*")
}

// TestReplicaThatLoadsHoldsNothing takes the snapshot and says so late: what is deleted meanwhile
// leaves the primary's disk.
func TestReplicaThatLoadsHoldsNothing(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t), "--persist-log-size", "1mb", "--persist-interval", "1s", "--generation-bytes", "1mb")
	c := primary.MustDial(t)
	do(t, c, "EVAL", "for i = 1, 20000 do redis.call('hset', KEYS[1], i, string.rep('v', 100)) end", "1", "hash")
	flush := func(key string) { do(t, c, "SET", key, strings.Repeat("v", 3<<20)) } // a new key: nothing else is deleted
	flush("first")
	eventually(t, "the hash is in RocksDB", func() bool {
		return !strings.Contains(string(do(t, c, "INFO", "everything").Text), "tier_flushed_records:0\r\n")
	})
	r := attach(t, primary)
	r.takeSnapshot()
	do(t, c, "DEL", "hash")
	flush("second")
	eventually(t, "the elements of the deleted hash are removed", func() bool {
		return strings.Contains(string(do(t, c, "INFO", "everything").Text), "tier_reaped_elements:20000\r\n")
	})
	do(t, c, "SET", "key", "value")
	r.say("REPLCONF", "ACK", "0")
	r.line("*")
}

// TestReplicaThatDoesNotRead lets a replica fall back: the log is kept for it up to
// replica-log-limit, and no further. It is told so, and takes all data when the log doesn't reach
// back to where it is.
func TestReplicaThatDoesNotRead(t *testing.T) {
	const limit = 32 << 20
	primary := launch.ForTest(t, launch.MustUnderTest(t), "--replica-log-limit", strconv.Itoa(limit), "--binlog-retention-size", "1mb",
		"--binlog-segment-size", "1mb", "--persist-log-size", "1mb", "--persist-interval", "1s", "--generation-bytes", "1mb")
	idle := attach(t, primary)
	idle.takeSnapshot()
	idle.say("REPLCONF", "ACK", "0")
	c := primary.MustDial(t)
	value := strings.Repeat("v", 1<<20)
	for i := range limit >> 20 {
		do(t, c, "SET", "key"+strconv.Itoa(i%3), value)
	}
	// The log holds what the replica has not been sent, far more than the retention.
	if first := firstPosition(t, primary); first > limit/2 {
		t.Fatalf("the log begins at %d, and a replica that is attached has hardly anything", first)
	}
	for range 24 {
		do(t, c, "SET", "key", value)
	}
	logs(t, primary, "a replica has fallen back too far")
	idle.ended()
	// Now the log goes, and whoever comes back to the beginning gets a snapshot.
	deadline := time.Now().Add(30 * time.Second)
	for firstPosition(t, primary) < limit && time.Now().Before(deadline) {
		do(t, c, "SET", "key", "value")
		time.Sleep(50 * time.Millisecond)
	}
	late := launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, late, primary.Port)
	converge(t, primary, late)
	equal(t, primary, late)
	if first := firstPosition(t, primary); first < limit {
		t.Fatalf("the log still begins at %d", first)
	}
}

// firstPosition is where a server's log begins.
func firstPosition(t *testing.T, s *launch.Server) int64 {
	t.Helper()
	info := string(do(t, s.MustDial(t), "INFO", "replication").Text)
	_, rest, _ := strings.Cut(info, "repl_backlog_first_byte_offset:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	first, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatalf("%v in\n%s", err, info)
	}
	return first - 1
}
