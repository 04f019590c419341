package replication

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// occupied is a server on which a script runs until it is killed.
type occupied struct {
	t      *testing.T
	server *launch.Server
	script *resp.Connection
}

func occupy(t *testing.T, s *launch.Server) *occupied {
	t.Helper()
	do(t, s.MustDial(t), "CONFIG", "SET", "busy-reply-threshold", "100")
	o := &occupied{t, s, sent(t, s, "EVAL", "while 1 do end", "1", "of the script")}
	eventually(t, "the script runs", func() bool { return o.answersBusy("GET", "of the script") })
	return o
}

// answersBusy reports whether a request is refused because of the script.
func (o *occupied) answersBusy(words ...string) bool {
	o.t.Helper()
	reply, err := o.server.MustDial(o.t).Do(words...)
	if err != nil {
		o.t.Fatal(err)
	}
	return strings.HasPrefix(reply.String(), "-BUSY")
}

// serves checks for a while that the server serves those whom the script doesn't concern.
func (o *occupied) serves(key, want string) {
	o.t.Helper()
	for range 20 {
		c := o.server.MustDial(o.t)
		c.SetTimeout(30 * time.Second)
		expect(o.t, c, want, "GET", key)
		do(o.t, c, "ROLE")
		do(o.t, c, "INFO")
		time.Sleep(10 * time.Millisecond)
	}
}

func (o *occupied) kill() {
	o.t.Helper()
	do(o.t, o.server.MustDial(o.t), "SCRIPT", "KILL")
	if reply, err := o.script.Read(); err != nil || !reply.IsError() {
		o.t.Fatalf("the script was answered %v, %v", reply, err)
	}
}

// TestRolesChangeBesideAScript has replication wait for an endless script: nobody else does.
func TestRolesChangeBesideAScript(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	do(t, c, "SET", "key", "1")
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	online(t, primary, 1)

	o := occupy(t, replica)
	do(t, c, "FLUSHALL")
	o.serves("key", `"1"`)
	eventually(t, "other scripts are kept out", func() bool { return o.answersBusy("EVAL", "for i = 1, 10000000 do end", "1", "other") })
	o.kill()
	converge(t, primary, replica)
	expect(t, replica.MustDial(t), "nil", "GET", "key")

	do(t, c, "SET", "key", "2")
	converge(t, primary, replica)
	o = occupy(t, primary)
	do(t, c, "FAILOVER", "TIMEOUT", "200")
	o.serves("key", `"2"`)
	until(t, primary, "master_failover_state", "no-failover")
	expect(t, c, "+OK", "FAILOVER")
	do(t, c, "FAILOVER", "ABORT")
	o.serves("key", `"2"`)
	do(t, c, "REPLICAOF", "127.0.0.1", strconv.Itoa(replica.Port))
	o.serves("key", `"2"`)
	do(t, c, "REPLICAOF", "NO", "ONE") // nothing waits for the script any more
	do(t, c, "SET", "key", "3")
	o.kill()
	expect(t, c, `"3"`, "GET", "key")
}

// TestStopBesideAScript: who waits for an endless script is no reason for the server not to end.
func TestStopBesideAScript(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	o := occupy(t, server)
	do(t, server.MustDial(t), "REPLICAOF", "127.0.0.1", "1")
	o.serves("key", "nil")
	if err := server.Shutdown(); err != nil {
		t.Error(err)
	}
}
