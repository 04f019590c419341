package attack

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// hostilePrimary is one that says to a replica whatever its script has it say.
type hostilePrimary struct {
	listener net.Listener
	snapshot []byte
	random   *rand.Rand
	t        *testing.T
	served   int
}

// snapshot is an RDB file of all types.
func (v *target) snapshot() []byte {
	v.payloads()
	path := filepath.Join(v.t.TempDir(), "snapshot.rdb")
	binary, err := launch.Binary()
	if err != nil {
		v.t.Fatal(err)
	}
	if output, err := exec.Command(binary, "export", "--from", v.Address, path).CombinedOutput(); err != nil {
		v.t.Fatalf("%v: %s", err, output)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		v.t.Fatal(err)
	}
	return content
}

// serve answers a replica's handshake and then goes wrong, connection by connection, until the
// listener is closed.
func (p *hostilePrimary) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.served++
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		p.handshake(conn, bufio.NewReader(conn))
		reset(conn.(*net.TCPConn))
	}
}

func (p *hostilePrimary) handshake(conn net.Conn, reader *bufio.Reader) {
	for {
		request, err := resp.ReadReply(reader)
		if err != nil {
			return
		}
		words := request.Strings()
		switch name := strings.ToUpper(strings.Join(words[:min(1, len(words))], "")); {
		case p.random.IntN(40) == 0:
			_, err = conn.Write(mutate(p.random, []byte("+OK\r\n-ERR no\r\n$5\r\nhello\r\n")))
		case name == "PING":
			_, err = io.WriteString(conn, "+PONG\r\n")
		case name == "PSYNC":
			p.misbehave(conn)
			return
		case name == "INFO":
			_, err = io.WriteString(conn, "$0\r\n\r\n")
		default:
			_, err = io.WriteString(conn, "+OK\r\n")
		}
		if err != nil {
			return
		}
	}
}

// misbehave is what comes instead of a synchronization.
func (p *hostilePrimary) misbehave(conn net.Conn) {
	write := func(format string, values ...any) { _, _ = fmt.Fprintf(conn, format, values...) }
	id := strings.Repeat(fmt.Sprintf("%x", p.random.IntN(16)), 40)
	offset := []string{"0", "-1", "100", "9223372036854775807", "99999999999999999999", "x", ""}[p.random.IntN(7)]
	switch p.random.IntN(8) {
	case 0:
		write("+FULLRESYNC %s %s\r\n", id, offset)
		write("$%s\r\nREDIS0010", claims[p.random.IntN(len(claims))])
	case 1:
		write("+FULLRESYNC %s 0\r\n$EOF:%s\r\n", id, strings.Repeat("e", p.random.IntN(60)))
		_, _ = conn.Write(mutate(p.random, p.snapshot))
	case 2:
		write("+CONTINUE %s\r\n", mutate(p.random, []byte(id)))
		_, _ = conn.Write(p.commands())
	case 3:
		_, _ = conn.Write(mutate(p.random, []byte("+FULLRESYNC "+id+" 0\r\n$5\r\nhello\r\n")))
	case 4:
		write("%s", strings.Repeat("\n", 100_000))
	default:
		write("+FULLRESYNC %s %d\r\n", id, p.random.IntN(1000))
		snapshot := p.snapshot
		if p.random.IntN(4) > 0 {
			snapshot = mutate(p.random, snapshot)
		}
		write("$%d\r\n", len(snapshot))
		_, _ = conn.Write(snapshot)
		_, _ = conn.Write(p.commands())
	}
	_, _ = io.CopyN(io.Discard, conn, int64(p.random.IntN(200)))
}

// commands is a stream with something wrong in it.
func (p *hostilePrimary) commands() []byte { return stream(p.t, p.random) }

// TestHostilePrimaries has a server follow primaries that send nearly right snapshots and streams.
// It goes on to live, answers meanwhile, and serves again when it is told to follow nobody.
func TestHostilePrimaries(t *testing.T) {
	v := newTarget(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	primary := &hostilePrimary{listener: listener, snapshot: v.snapshot(), random: v.random, t: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		primary.serve()
	}()
	victim := launch.ForTest(t, launch.MustUnderTest(t), modest...)
	c := victim.MustDial(t)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	for round := range 30 * *scale {
		for _, request := range [][]string{{"replicaof", "127.0.0.1", port}, {"ping"}, {"info", "replication"}, {"replicaof", "no", "one"},
			{"set", "k", strconv.Itoa(round)}} {
			if reply, err := c.Do(request...); err != nil || reply.IsError() {
				t.Fatalf("round %d: %s: %s (%v)", round, resp.Line(request), reply, err)
			}
			if request[0] == "replicaof" && request[1] != "no" {
				time.Sleep(time.Duration(20+v.random.IntN(60)) * time.Millisecond)
			}
		}
		if reply, err := c.Must("get", "k"); err != nil || string(reply.Text) != strconv.Itoa(round) {
			t.Fatalf("round %d: what was written is %s (%v)", round, reply, err)
		}
	}
	_ = listener.Close()
	<-ended
	if primary.served < 10**scale {
		t.Errorf("only %d connections were served", primary.served)
	}
	t.Logf("%d synchronizations", primary.served)
	if !victim.Running() || strings.Contains(victim.Output(), "panic") {
		t.Errorf("the replica:\n%s", victim.Output())
	}
	if memory, err := launch.ProcessMemory(victim.ProcessID(), "VmHWM"); err != nil || memory > mostMemory {
		t.Errorf("the replica has taken %d MB (%v)", memory>>20, err)
	}
	digest, err := c.Must("debug", "digest")
	if err != nil {
		t.Fatal(err)
	}
	victim.Kill()
	again, err := victim.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, again)
	if reply, err := again.MustDial(t).Must("debug", "digest"); err != nil || reply.String() != digest.String() {
		t.Errorf("after a kill the digest is %s (%v), before it was %s", reply, err, digest)
	}
	v.survives()
}

// replicaWords are what a replica says.
var replicaWords = strings.Split(`PING
REPLCONF listening-port 70000
REPLCONF ip-address `+strings.Repeat("x", 300)+`
REPLCONF capa eof capa psync2
REPLCONF ACK -1
REPLCONF ACK 9223372036854775807
REPLCONF ACK 0 FACK 5
REPLCONF GETACK *
REPLCONF rdb-only 1
PSYNC ? -1
PSYNC 0123456789012345678901234567890123456789 1
PSYNC ? 9223372036854775807
PSYNC x y
SYNC
SET k v`, "\n")

// TestHostileReplicas has replicas ask for synchronizations, say what makes no sense, read nothing,
// and break off.
func TestHostileReplicas(t *testing.T) {
	v := newTarget(t, "--replica-log-limit", "8mb", "--client-output-buffer-limit", "replica 8mb 0 0")
	v.payloads()
	v.together(8, func(random *rand.Rand) {
		for range 15 * *scale {
			conn := v.connect()
			if conn == nil {
				continue
			}
			_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
			for range 1 + random.IntN(8) {
				words := strings.Fields(replicaWords[random.IntN(len(replicaWords))])
				request := resp.AppendRequest(nil, words...)
				if random.IntN(4) == 0 {
					request = mutate(random, request)
				}
				_, _ = conn.Write(request)
			}
			if random.IntN(2) == 0 {
				_, _ = io.CopyN(io.Discard, conn, random.Int64N(1<<16))
			}
			reset(conn)
		}
	})
	v.gone(t)
	v.survives()
}
