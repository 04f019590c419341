package replication

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// falsePrimary is a primary that says what a test has it say.
type falsePrimary struct {
	t        *testing.T
	listener net.Listener
	port     int
}

func newFalsePrimary(t *testing.T) *falsePrimary {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return &falsePrimary{t, listener, listener.Addr().(*net.TCPAddr).Port}
}

// accept waits until the replica connects.
func (s *falsePrimary) accept() *dialogue {
	s.t.Helper()
	if err := s.listener.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	conn, err := s.listener.Accept()
	if err != nil {
		s.t.Fatalf("the replica doesn't connect: %v", err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return newDialogue(s.t, conn)
}

// dialogue is one connection of the replica.
type dialogue struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
	id     string // that the replica asked for
	from   int64
}

func newDialogue(t *testing.T, conn net.Conn) *dialogue {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &dialogue{t: t, conn: conn, reader: bufio.NewReader(conn)}
}

// request is the replica's next one, without what only says that it lives.
func (d *dialogue) request() ([]string, error) {
	for {
		next, err := d.reader.Peek(1)
		if err != nil {
			return nil, err
		}
		if next[0] == '\n' {
			if _, err := d.reader.Discard(1); err != nil {
				return nil, err
			}
			continue
		}
		reply, err := resp.ReadReply(d.reader)
		words := reply.Strings()
		if len(words) == 3 && words[1] == "kedis-histories" || len(words) == 2 && words[0] == "INFO" {
			d.send("-ERR it is not told\r\n")
			continue
		}
		return words, err
	}
}

func (d *dialogue) send(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d.conn, text); err != nil {
		d.t.Fatal(err)
	}
}

// expect waits for a request.
func (d *dialogue) expect(words ...string) []string {
	d.t.Helper()
	got, err := d.request()
	if err != nil {
		d.t.Fatalf("waiting for %q: %v", words, err)
	}
	if len(got) < len(words) || !strings.EqualFold(strings.Join(got[:len(words)], " "), strings.Join(words, " ")) {
		d.t.Fatalf("the replica says %q where %q should come", got, words)
	}
	return got
}

// reach goes through the handshake up to a step, whose request it leaves unanswered.
func (d *dialogue) reach(to step) {
	d.t.Helper()
	d.expect("AUTH", "secret")
	if to == stepAuth {
		return
	}
	d.send("+OK\r\n")
	d.expect("REPLCONF", "listening-port")
	if to == stepPort {
		return
	}
	d.send("+OK\r\n")
	d.expect("REPLCONF", "capa")
	if to == stepCapa {
		return
	}
	d.send("+OK\r\n")
	words := d.expect("PSYNC")
	if len(words) != 3 {
		d.t.Fatalf("the replica asks %q", words)
	}
	d.id = words[1]
	var err error
	if d.from, err = strconv.ParseInt(words[2], 10, 64); err != nil {
		d.t.Fatal(err)
	}
	switch to {
	case stepSnapshot:
		d.send(fmt.Sprintf("+FULLRESYNC %s 5000\r\n", otherID))
	case stepStream:
		d.send("+CONTINUE\r\n")
		d.expect("REPLCONF", "ACK")
	}
}

// acknowledged waits until the replica has everything up to a position.
func (d *dialogue) acknowledged(position int64) {
	d.t.Helper()
	d.send(getAck)
	for {
		words := d.expect("REPLCONF", "ACK")
		if words[2] == strconv.FormatInt(position+int64(len(getAck)), 10) {
			return
		}
	}
}

// leaves waits until the replica has closed the connection.
func (d *dialogue) leaves() {
	d.t.Helper()
	for {
		if _, err := d.request(); err != nil {
			if wait, ok := err.(net.Error); ok && wait.Timeout() {
				d.t.Fatal("the replica doesn't give the connection up")
			}
			return
		}
	}
}

const getAck = "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"

// step is how far a handshake has come.
type step int

const (
	stepAuth step = iota
	stepPort
	stepCapa
	stepPsync
	stepSnapshot // FULLRESYNC was said
	stepStream   // CONTINUE was said
)

var stepNames = []string{"AUTH", "listening-port", "capa", "PSYNC", "snapshot", "stream"}

const (
	historyID = "1111111111111111111111111111111111111111"
	otherID   = "2222222222222222222222222222222222222222"
	mark      = "0123456789012345678901234567890123456789"
)

// rdbFile is an RDB file with one string in it, "new", and a checksum; 0 is none.
func rdbFile(body string, checksum string) string { return "REDIS0010" + body + "\xff" + checksum }

func rdbString(key, value string) string {
	return "\x00" + string(rune(len(key))) + key + string(rune(len(value))) + value
}

func request(words ...string) string { return string(resp.AppendRequest(nil, words...)) }

// misbehaviour is something that a primary should not do. With hangUp it closes the connection
// then, else it waits until the replica does.
type misbehaviour struct {
	at     step
	name   string
	says   string
	hangUp bool
}

// diverges tells that what the primary says can't be carried out on the replica's data: it asks for
// all of the primary's then.
func (m misbehaviour) diverges() bool {
	switch m.name {
	case "a command that fails", "a transaction that fails", "EXEC alone", "a database that there isn't":
		return m.at == stepStream
	}
	return false
}

const noChecksum = "\x00\x00\x00\x00\x00\x00\x00\x00"

func misbehaviours() []misbehaviour {
	var all []misbehaviour
	for at := stepAuth; at <= stepPsync; at++ {
		all = append(all,
			misbehaviour{at, "closes", "", true},
			misbehaviour{at, "NOAUTH", "-NOAUTH Authentication required.\r\n", false},
			misbehaviour{at, "NOPERM", "-NOPERM this user has no permissions to run the command\r\n", false},
			misbehaviour{at, "LOADING", "-LOADING Redis is loading the dataset in memory\r\n", false},
			misbehaviour{at, "garbage", "\x16\x03\x01\x02\x00 not RESP\r\n", false},
			misbehaviour{at, "half a line", "+O", true},
			misbehaviour{at, "a line without end", "+" + strings.Repeat("x", 1<<17), false})
	}
	whole := rdbFile("\xfe\x00"+rdbString("new", "1"), noChecksum)
	marked := "$EOF:" + mark + "\r\n"
	file := func(content string) string { return fmt.Sprintf("$%d\r\n%s", len(content), content) }
	return append(all,
		misbehaviour{stepAuth, "WRONGPASS", "-WRONGPASS invalid username-password pair or user is disabled.\r\n", false},
		misbehaviour{stepAuth, "ERR", "-ERR AUTH <password> called without any password configured for the default user.\r\n", false},

		misbehaviour{stepPsync, "ERR", "-ERR unknown command 'PSYNC'\r\n", false},
		misbehaviour{stepPsync, "NOMASTERLINK", "-NOMASTERLINK Can't SYNC while not connected with my master\r\n", false},
		misbehaviour{stepPsync, "nonsense", "+OK\r\n", false},
		misbehaviour{stepPsync, "FULLRESYNC alone", "+FULLRESYNC\r\n", false},
		misbehaviour{stepPsync, "FULLRESYNC with a short id", "+FULLRESYNC 2222 5000\r\n", false},
		misbehaviour{stepPsync, "FULLRESYNC at no number", "+FULLRESYNC " + otherID + " here\r\n", false},
		misbehaviour{stepPsync, "FULLRESYNC before 0", "+FULLRESYNC " + otherID + " -1\r\n", false},
		misbehaviour{stepPsync, "FULLRESYNC at the greatest number", "+FULLRESYNC " + otherID + " 9223372036854775807\r\n" + file(whole), false},
		misbehaviour{stepPsync, "FULLRESYNC with letters for an id", "+FULLRESYNC " + strings.Repeat("z", 40) + " 5000\r\n" + file(whole), false},
		misbehaviour{stepPsync, "CONTINUE with letters for an id", "+CONTINUE " + strings.Repeat("z", 40) + "\r\n" + request("SELECT", "0") + request("SET", "new", "1"), false},
		misbehaviour{stepPsync, "CONTINUE with a short id", "+CONTINUE 2222\r\n", false},
		misbehaviour{stepPsync, "CONTINUE with a long id", "+CONTINUE " + otherID + "2\r\n", false},
		misbehaviour{stepPsync, "CONTINUE with bytes for an id", "+CONTINUE " + strings.Repeat("\x01", 40) + "\r\n", false},
		misbehaviour{stepPsync, "CONTINUE with more", "+CONTINUE " + otherID + " 7\r\n", false},

		misbehaviour{stepSnapshot, "closes", "", true},
		misbehaviour{stepSnapshot, "an error", "-ERR no disk\r\n", false},
		misbehaviour{stepSnapshot, "no length", "$\r\n", false},
		misbehaviour{stepSnapshot, "a negative length", "$-1\r\n", false},
		misbehaviour{stepSnapshot, "a short mark", "$EOF:0123\r\n", false},
		misbehaviour{stepSnapshot, "half a header", "$EOF:0123", true},
		misbehaviour{stepSnapshot, "half a snapshot", marked + whole[:len(whole)-12], true},
		misbehaviour{stepSnapshot, "half a file", fmt.Sprintf("$%d\r\n", len(whole)) + whole[:len(whole)-12], true},
		misbehaviour{stepSnapshot, "no mark", marked + whole, true},
		misbehaviour{stepSnapshot, "half a mark", marked + whole + mark[:39], true},
		misbehaviour{stepSnapshot, "another mark", marked + whole + otherID, true},
		misbehaviour{stepSnapshot, "an early mark", marked + whole[:15] + mark, false},
		misbehaviour{stepSnapshot, "more behind the mark", marked + whole + mark + request("SET", "new", "1"), false},
		misbehaviour{stepSnapshot, "more behind the end", file(whole + "x"), false},
		misbehaviour{stepSnapshot, "a file that is cut off", file(whole[:len(whole)-9]), false},
		misbehaviour{stepSnapshot, "an empty file", "$0\r\n", false},
		misbehaviour{stepSnapshot, "another format", file("SQLite format 3" + whole), false},
		misbehaviour{stepSnapshot, "a version to come", file("REDIS9999" + whole[9:]), false},
		misbehaviour{stepSnapshot, "a bad checksum", file(rdbFile("\xfe\x00"+rdbString("new", "1"), "\x01\x02\x03\x04\x05\x06\x07\x08")), false},
		misbehaviour{stepSnapshot, "a bad checksum behind a mark",
			marked + rdbFile("\xfe\x00"+rdbString("new", "1"), "\x01\x02\x03\x04\x05\x06\x07\x08") + mark, false},
		misbehaviour{stepSnapshot, "a type that there isn't", file(rdbFile("\xfe\x00\x63\x03new\x011", noChecksum)), false},
		misbehaviour{stepSnapshot, "a string of 2 GB that isn't there", file(rdbFile("\xfe\x00\x00\x03new\x80\x80\x00\x00\x00", noChecksum)), false},
		misbehaviour{stepSnapshot, "bad compression", file(rdbFile("\xfe\x00\x00\x03new\xc3\x04\x20\xff\xff\xff\xff", noChecksum)), false},
		misbehaviour{stepSnapshot, "a key twice", file(rdbFile("\xfe\x00"+rdbString("new", "1")+rdbString("new", "2"), noChecksum)), false},
		misbehaviour{stepSnapshot, "a database that there isn't", file(rdbFile("\xfe\x40\xff"+rdbString("new", "1"), noChecksum)), false},
		misbehaviour{stepSnapshot, "a function", file(rdbFile("\xf5\x03abc\xfe\x00"+rdbString("new", "1"), noChecksum)), false},
		misbehaviour{stepSnapshot, "a stream in no database",
			file(rdbFile("\xfa\x0erepl-stream-db\x0299\xfe\x00"+rdbString("new", "1"), noChecksum)), false},

		misbehaviour{stepStream, "closes", "", true},
		misbehaviour{stepStream, "an error", "-ERR what do you want\r\n", false},
		misbehaviour{stepStream, "garbage", "\x00\x01\x02\x03\r\n", false},
		misbehaviour{stepStream, "half a command", request("SET", "new", "1")[:20], true},
		misbehaviour{stepStream, "a bad length", "*3\r\n$3\r\nSET\r\n$x\r\n", false},
		misbehaviour{stepStream, "a length below", "*3\r\n$3\r\nSET\r\n$-5\r\n", false},
		misbehaviour{stepStream, "too much", "*3\r\n$3\r\nSET\r\n$9223372036854775807\r\n", false},
		misbehaviour{stepStream, "no line end", "*3\r\n$3\r\nSET\r\n$3\r\nnew1\r\n", false},
		misbehaviour{stepStream, "a command that there isn't", request("NOSUCH", "new"), false},
		misbehaviour{stepStream, "a script", request("EVAL", "return redis.call('set', KEYS[1], '1')", "1", "new"), false},
		misbehaviour{stepStream, "a script by its SHA-1", request("MULTI") + request("SET", "new", "1") + request("evalsha", otherID, "0"), false},
		misbehaviour{stepStream, "a command that fails", request("RPUSH", "old", "new"), false},
		misbehaviour{stepStream, "a transaction that fails",
			request("MULTI") + request("SET", "new", "1") + request("RPUSH", "old", "new") + request("EXEC"), false},
		misbehaviour{stepStream, "half a transaction", request("MULTI") + request("SET", "new", "1"), true},
		misbehaviour{stepStream, "EXEC alone", request("EXEC"), false},
		misbehaviour{stepStream, "a database that there isn't", request("SELECT", "99"), false},
	)
}

// TestMisbehavingPrimary has a primary do what it shouldn't, at each step of the handshake, of a
// snapshot and of the stream. After each the replica has what it had, nothing of what came half,
// asks for the stream from the position where it was, and goes on; or for all data, when an effect
// has shown that its own are others.
func TestMisbehavingPrimary(t *testing.T) {
	s := newFalsePrimary(t)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masterauth", "secret", "--repl-timeout", "10")
	follow(t, replica, s.port)
	c := replica.MustDial(t)

	d := s.accept()
	d.reach(stepPsync)
	d.send(fmt.Sprintf("\n\n+FULLRESYNC %s 1000\r\n\n$EOF:%s\r\n%s%s", historyID, mark, rdbFile("\xfe\x00"+rdbString("old", "1"), noChecksum), mark))
	d.expect("REPLCONF", "ACK", "1000")
	position := int64(1000)
	for i, m := range misbehaviours() {
		if testing.Short() && i%3 != 0 {
			continue
		}
		d.conn.Close()
		d = s.accept()
		d.reach(m.at)
		d.send(m.says)
		if m.hangUp {
			d.conn.Close()
		} else {
			d.leaves()
		}
		name := stepNames[m.at] + ": " + m.name
		d = s.accept()
		d.reach(stepPsync)
		wantID, wantFrom := historyID, position+1
		if m.diverges() {
			wantID, wantFrom = "?", -1
		}
		if d.id != wantID || d.from != wantFrom {
			t.Fatalf("after %s: the replica asks for %s from %d, and was at %d", name, d.id, d.from, position)
		}
		if got := do(t, c, "MGET", "old", "new").Strings(); got[0] != "1" || got[1] != "" {
			t.Fatalf("after %s: the data is %q", name, got)
		}
		if got := string(do(t, c, "DBSIZE").Text); got != strconv.Itoa(min(i, 1)+1) {
			t.Fatalf("after %s: there are %s keys", name, got)
		}
		if got := info(t, replica, "master_link_status"); got != "down" {
			t.Fatalf("after %s: the link is %s", name, got)
		}
		if m.diverges() {
			data := rdbFile("\xfe\x00"+rdbString("old", "1")+rdbString("case", ""), noChecksum)
			d.send(fmt.Sprintf("+FULLRESYNC %s %d\r\n$%d\r\n%s", historyID, position, len(data), data))
		} else {
			d.send("+CONTINUE\r\n")
		}
		effect := request("SET", "case", name)
		d.send(effect)
		position += int64(len(effect))
		d.acknowledged(position)
		position += int64(len(getAck))
		if got := string(do(t, c, "GET", "case").Text); got != name {
			t.Fatalf("after %s: the stream does not go on: %q", name, got)
		}
	}
	if reply, err := c.Do("SET", "own", "1"); err != nil || !strings.HasPrefix(string(reply.Text), "READONLY") {
		t.Fatalf("a write: %q, %v", reply.Text, err)
	}
}

// TestOldPrimary has a primary that doesn't know what newer ones are told, and histories neither.
func TestOldPrimary(t *testing.T) {
	s := newFalsePrimary(t)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--replica-announce-ip", "replica.example", "--replica-announce-port", "7777")
	follow(t, replica, s.port)
	d := s.accept()
	d.expect("REPLCONF", "listening-port", "7777")
	d.send("-ERR unknown command 'REPLCONF'\r\n")
	d.expect("REPLCONF", "ip-address", "replica.example")
	d.send("-ERR Unrecognized REPLCONF option: ip-address\r\n")
	d.expect("REPLCONF", "capa")
	d.send("-ERR Unrecognized REPLCONF option: capa\r\n")
	d.expect("PSYNC")
	file := "REDIS0006\xfe\x00" + rdbString("old", "1") + "\xff" + noChecksum
	d.send(fmt.Sprintf("+FULLRESYNC %s 1\r\n$%d\r\n%s", historyID, len(file), file) + request("SELECT", "0") + request("INCR", "old"))
	d.acknowledged(1 + int64(len(request("SELECT", "0")+request("INCR", "old"))))
	if got := string(do(t, replica.MustDial(t), "GET", "old").Text); got != "2" {
		t.Fatalf("the replica has %q", got)
	}
}

// TestSilentPrimary has a primary fall silent at each step: the replica waits for as long as
// repl-timeout says, and tries again.
func TestSilentPrimary(t *testing.T) {
	steps := []step{stepAuth, stepPort, stepCapa, stepPsync, stepSnapshot, stepStream}
	if testing.Short() {
		steps = []step{stepPsync, stepStream}
	}
	s := newFalsePrimary(t)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masterauth", "secret", "--repl-timeout", "3")
	follow(t, replica, s.port)
	d := s.accept()
	d.reach(stepSnapshot)
	d.send(fmt.Sprintf("$EOF:%s\r\n%s%s", mark, rdbFile("\xfe\x00"+rdbString("old", "1"), noChecksum), mark))
	d.expect("REPLCONF", "ACK", "5000")
	for _, at := range steps {
		d.conn.Close()
		d = s.accept()
		d.reach(at)
		if at == stepSnapshot {
			d.send("$EOF:" + mark + "\r\n" + rdbFile("\xfe\x00"+rdbString("new", "1"), noChecksum))
		}
		d.leaves()
		d = s.accept()
		d.reach(stepPsync)
		if d.id != otherID || d.from != 5001 {
			t.Fatalf("after silence at %s the replica asks for %s from %d", stepNames[at], d.id, d.from)
		}
		if got := do(t, replica.MustDial(t), "MGET", "old", "new").Strings(); got[0] != "1" || got[1] != "" {
			t.Fatalf("after silence at %s: the data is %q", stepNames[at], got)
		}
	}
}

// TestHalfLoaded stops a snapshot half-way. Until it is whole the replica serves what it had, feeds
// nobody, and has only that when it is killed or made a primary.
func TestHalfLoaded(t *testing.T) {
	s := newFalsePrimary(t)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masterauth", "secret")
	follow(t, replica, s.port)
	d := s.accept()
	d.reach(stepPsync)
	d.send(fmt.Sprintf("+FULLRESYNC %s 1000\r\n$EOF:%s\r\n%s%s", historyID, mark, rdbFile("\xfe\x00"+rdbString("old", "1"), noChecksum), mark))
	d.expect("REPLCONF", "ACK", "1000")
	body := rdbFile("\xfe\x00"+rdbString("new", "1")+rdbString("old", "2"), noChecksum)
	half := func() {
		t.Helper()
		d.conn.Close()
		d = s.accept()
		d.reach(stepPsync)
		if d.id != historyID || d.from != 1001 {
			t.Fatalf("the replica asks for %s from %d", d.id, d.from)
		}
		d.send(fmt.Sprintf("+FULLRESYNC %s 5000\r\n$%d\r\n%s", otherID, len(body), body[:len(body)-9]))
		until(t, replica, "master_sync_in_progress", "1")
		until(t, replica, "master_sync_read_bytes", strconv.Itoa(len(body)-9))
	}
	serves := func() *resp.Connection {
		t.Helper()
		c := replica.MustDial(t)
		if got := do(t, c, "MGET", "old", "new").Strings(); got[0] != "1" || got[1] != "" {
			t.Fatalf("the server has %q", got)
		}
		if got := string(do(t, c, "DBSIZE").Text); got != "1" {
			t.Fatalf("there are %s keys", got)
		}
		return c
	}
	half()
	c := serves()
	if role := do(t, c, "ROLE"); string(role.Elements[3].Text) != "sync" {
		t.Fatalf("the replica's state is %s", role.Elements[3].Text)
	}
	for _, words := range [][]string{{"PSYNC", "?", "-1"}, {"PSYNC", historyID, "1001"}, {"SYNC"}} {
		if reply, err := c.Do(words...); err != nil || string(reply.Text) != "NOMASTERLINK Can't SYNC while not connected with my master" {
			t.Fatalf("%q: %q, %v", words, reply.Text, err)
		}
	}
	replica.Kill()
	var err error
	if replica, err = replica.Restart(); err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, replica) }()
	serves()
	half()
	c = serves()
	do(t, c, "REPLICAOF", "NO", "ONE")
	d.leaves()
	serves()
	do(t, c, "SET", "old", "1")
	if got := info(t, replica, "master_replid2") + " " + info(t, replica, "second_repl_offset"); got != historyID+" 1001" {
		t.Fatalf("the primary's former history is %s", got)
	}
}

// TestSnapshotThatIsRefusedEachTime: the primary has to make it less and less often.
func TestSnapshotThatIsRefusedEachTime(t *testing.T) {
	s := newFalsePrimary(t)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masterauth", "secret")
	follow(t, replica, s.port)
	d := s.accept()
	var sent time.Time
	for range 6 {
		d.reach(stepSnapshot)
		sent = time.Now()
		d.send("$5\r\nwrong")
		d.leaves()
		d = s.accept()
	}
	if took := time.Since(sent); took < 1500*time.Millisecond {
		t.Errorf("after a row of snapshots that it refused, the replica asks again after %v", took)
	}
}
