package execute

import (
	"errors"
	"regexp"
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

// failsToCommit commits what one client's requests have written, to a log that takes nothing, and
// returns the requests, to be executed again.
func failsToCommit(t *testing.T, b *Batch) (again []*Request) {
	t.Helper()
	err := b.Commit()
	if err == nil || !b.Undo(err) {
		t.Fatalf("the commit hasn't failed: %v", err)
	}
	for _, member := range b.Members() {
		for _, executed := range member.Executed {
			again = append(again, b.Again(member.Session, executed))
		}
	}
	b.Clear()
	return again
}

// What is executed again, since the commit failed, was counted when it was executed first: only an
// error that it hadn't met then is new.
func TestWhatIsExecutedAgainIsCountedOnce(t *testing.T) {
	e, log := newTestEngine(t)
	client, other := e.NewClient(Nowhere{}), newTestClient(t, e)
	other.do("SET", "list", "none")
	other.do("CONFIG", "SET", "slowlog-log-slower-than", "0")
	other.do("CONFIG", "RESETSTAT")
	other.do("SLOWLOG", "RESET")
	b := e.NewBatch(0)
	execute := executesOn(t, b)
	for _, request := range []string{"SET key value", "GET key", "LPOP list", "NOSUCH", "MULTI", "INCR number", "GET key", "EXEC",
		"EVAL return{redis.pcall('get','key'),redis.pcall('llen','list')} 2 key list", "MULTI", "STRLEN key"} {
		execute(client, strings.Split(request, " ")...)
	}
	log.Fail = errors.New("EIO")
	for _, request := range failsToCommit(t, b) {
		if outcome := b.Execute(client, request); outcome != Done {
			t.Fatalf("%q: outcome %d", request.Args, outcome)
		}
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Clear()
	log.Fail, client.Refuse = nil, nil
	execute(client, "EXEC")
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Clear()

	usec := regexp.MustCompile(`usec.*?,(rejected.*)`)
	for field, want := range map[string]string{
		"cmdstat_set":         "calls=1,rejected_calls=0,failed_calls=0",
		"cmdstat_get":         "calls=3,rejected_calls=0,failed_calls=0",
		"cmdstat_lpop":        "calls=1,rejected_calls=0,failed_calls=1",
		"cmdstat_llen":        "calls=1,rejected_calls=0,failed_calls=1",
		"cmdstat_multi":       "calls=2,rejected_calls=0,failed_calls=0",
		"cmdstat_incr":        "calls=1,rejected_calls=0,failed_calls=0",
		"cmdstat_exec":        "calls=2,rejected_calls=0,failed_calls=0",
		"cmdstat_eval":        "calls=1,rejected_calls=0,failed_calls=0",
		"cmdstat_strlen":      "calls=1,rejected_calls=0,failed_calls=0",
		"errorstat_ERR":       "count=1", // NOSUCH
		"errorstat_WRONGTYPE": "count=2", // LPOP, which is refused now, and LLEN
		"errorstat_MISCONF":   "count=2", // SET and INCR
		"errorstat_EXECABORT": "count=1",
		"keyspace_hits":       "1", // by LLEN
		"keyspace_misses":     "3", // by GET, also within EVAL, and by STRLEN
	} {
		if got := usec.ReplaceAllString(other.info(field), "$1"); got != want {
			t.Errorf("%s is %q, not %q", field, got, want)
		}
	}
	slow := map[string]int{}
	for _, entry := range e.Slowlog.Latest(-1) {
		slow[string(entry.Arguments[0])]++
	}
	for name, want := range map[string]int{"SET": 1, "GET": 2, "LPOP": 1, "EVAL": 1, "MULTI": 2} {
		if slow[name] != want {
			t.Errorf("the slow log has %s %d times, not %d", name, slow[name], want)
		}
	}
}

// What acts at once waits for the commit of what its client has sent before: else that would be
// executed again in the state of later.
func TestWhatIsExecutedAgainSeesNothingOfLater(t *testing.T) {
	const refused, script = "-MISCONF Errors writing to the log: storage: EIO\r\n", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db" // return 1
	for pipeline, want := range map[string]string{
		"SET key value,CLIENT GETNAME,CLIENT SETNAME later":       refused + "$6\r\nbefore\r\n+OK\r\n",
		"CLIENT GETNAME,CLIENT SETNAME later,SET key value":       "$6\r\nbefore\r\n+OK\r\n" + refused,
		"SET key value,CLIENT GETNAME,RESET":                      refused + "$6\r\nbefore\r\n+RESET\r\n",
		"SET key value,SCRIPT EXISTS " + script + ",SCRIPT FLUSH": refused + "*1\r\n:1\r\n+OK\r\n",
		"SET key value,ACL LOG,ACL LOG RESET":                     refused + "*1\r\n",
		"SET key value,CLIENT GETNAME,HELLO 2 SETNAME later,QUIT": refused + "$6\r\nbefore\r\n*14\r\n",
	} {
		e, log := newTestEngine(t)
		client := newTestClient(t, e)
		client.do("SCRIPT", "LOAD", "return 1")
		client.do("AUTH", "nobody", "wrong") // ACL LOG has it
		client.do("CLIENT", "SETNAME", "before")
		s, b := client.session, client.batch
		var waiting []*Request
		for _, request := range strings.Split(pipeline, ",") {
			waiting = append(waiting, b.Read(s, words(strings.Split(request, " ")...)))
		}
		for b.Open() || len(waiting) > 0 {
			if len(waiting) > 0 {
				outcome := b.Execute(s, waiting[0])
				if outcome == Done {
					waiting = waiting[1:]
					continue
				}
				if outcome != Separate {
					t.Fatalf("%q: outcome %d", waiting[0].Args, outcome)
				}
			}
			if !b.txn.Empty() {
				log.Fail = errors.New("EIO")
				waiting = append(failsToCommit(t, b), waiting...)
				log.Fail = nil
			} else if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			b.Clear()
		}
		if reply := string(s.Reply.Bytes()); !strings.HasPrefix(reply, want) {
			t.Errorf("%s: %q, not %q", pipeline, reply, want)
		}
	}
}
