package execute

import (
	"errors"
	"strings"
	"testing"
)

// inDoubt is how the reply to a write begins when the log couldn't be synced.
const inDoubt = "-MISCONF Errors writing to the log: storage: the write stands"

// A write whose log can't be synced stands, so all that it concerns are told, and nothing is
// executed again: of a pipeline's replies only those to writes are the error.
func TestACommitInDoubtIsTold(t *testing.T) {
	e, log := newTestEngine(t)
	b := e.NewBatch(0)
	execute := executesOn(t, b)
	told := new(strings.Builder)
	giver, taker, cacher := e.NewClient(Nowhere{}), e.NewClient(Nowhere{}), e.NewClient(sending{sent: told})
	for _, request := range []string{"HELLO 3", "CLIENT TRACKING ON", "GET cached", "SUBSCRIBE channel"} {
		execute(cacher, strings.Split(request, " ")...)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	waiter := b.Read(taker, words("BLPOP", "list", "100"))
	if outcome := b.Execute(taker, waiter); outcome != Waiting {
		t.Fatal(outcome)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Clear()
	e.BeginWait(taker)
	blocked := taker.Wait().Blocked

	log.FailSync = errors.New("EIO")
	requests := []string{"PUBLISH channel once", "RPUSH list x", "LLEN list", "CLIENT REPLY SKIP", "SET cached 0", "MULTI", "INCR cached", "GET cached", "EXEC", "GET cached"}
	for _, request := range requests {
		execute(giver, strings.Split(request, " ")...)
	}
	err := b.Commit()
	if err == nil {
		t.Fatal("the commit succeeded")
	}
	if b.Undo(err) {
		t.Error("what stands is executed again")
	}
	b.Clear()
	log.FailSync = nil

	replies := strings.Split(string(giver.Reply.Bytes()), "\r\n")
	for i, want := range []string{":1", inDoubt, ":0", "+OK", "+QUEUED", "+QUEUED", inDoubt, "$1", "1", ""} {
		if i >= len(replies) || replies[i] != want && !(want == inDoubt && strings.HasPrefix(replies[i], want)) {
			t.Fatalf("got %q, want %q at %d", replies, want, i)
		}
	}
	if !blocked.Ended() || !b.Answered(taker, waiter, blocked) || string(taker.Reply.Bytes()) != "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" {
		t.Errorf("who waited for the list got %q", taker.Reply.Bytes())
	}
	for _, want := range []string{"message\r\n$7\r\nchannel\r\n$4\r\nonce\r\n", "invalidate\r\n*1\r\n$6\r\ncached\r\n"} {
		if strings.Count(told.String(), want) != 1 {
			t.Errorf("%q isn't told once in %q", want, told)
		}
	}
}

// A line of HTTP ends the connection, and leaves replies in front of it that the commit may change.
func TestACommitInDoubtBeforeAWebRequest(t *testing.T) {
	e, log := newTestEngine(t)
	b := e.NewBatch(0)
	client := e.NewClient(Nowhere{})
	log.FailSync = errors.New("EIO")
	for _, request := range []string{"ECHO hello", "SET key value", "POST / HTTP/1.1"} {
		executesOn(t, b)(client, strings.Split(request, " ")...)
	}
	err := b.Commit()
	if err == nil || b.Undo(err) {
		t.Fatalf("the commit isn't in doubt: %v", err)
	}
	log.FailSync = nil
	if reply := string(client.Reply.Bytes()); !strings.HasPrefix(reply, "$5\r\nhello\r\n"+inDoubt) || !client.Closing() {
		t.Errorf("the client got %q", reply)
	}
}

// A line of HTTP takes back the replies in front of it, also when it has none itself.
func TestAWebRequestWithoutReply(t *testing.T) {
	e, _ := newTestEngine(t)
	for _, mode := range []string{"ON", "OFF", "SKIP"} {
		b, client := e.NewBatch(0), e.NewClient(Nowhere{})
		for _, request := range []string{"ECHO hello", "CLIENT REPLY " + mode, "POST / HTTP/1.1"} {
			executesOn(t, b)(client, strings.Split(request, " ")...)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		if reply := string(client.Reply.Bytes()); reply != "" || !client.Closing() {
			t.Errorf("behind CLIENT REPLY %s the client got %q", mode, reply)
		}
	}
}

// A worker's command, too, stands: the session is as the command has left it.
func TestAWorkersCommitInDoubtStands(t *testing.T) {
	e, log := newTestEngine(t)
	client := newTestClient(t, e)
	for _, request := range []string{"WATCH key", "MULTI", "SET key value"} {
		client.do(strings.Split(request, " ")...)
	}
	log.FailSync = errors.New("EIO")
	if outcome := e.Work(client.session, read(e, client.session, "EXEC")); outcome != Done {
		t.Fatal(outcome)
	}
	log.FailSync = nil
	if reply := string(client.session.Reply.Bytes()); !strings.HasPrefix(reply, inDoubt) {
		t.Errorf("EXEC answers %q", reply)
	}
	client.session.Reply.Reset()
	if reply := client.do("GET", "key"); reply != "$5\r\nvalue\r\n" {
		t.Errorf("GET answers %q behind the transaction", reply)
	}
}
