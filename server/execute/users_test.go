package execute

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/metrics"
	"kedis/server/enginetest"
	"kedis/storage/layout"
)

// TestUsersChangeBesideClients changes and deletes users while sessions of them run on several
// reactors. It is for the race detector; a command that begins after a right was taken is refused.
func TestUsersChangeBesideClients(t *testing.T) {
	const reactors = 3
	store, c, log := enginetest.Open(t)
	e := newEngineOfFamilies(store, c, log, hclog.NewNullLogger(), reactors+1)
	admin := &testClient{t, e, e.NewBatch(reactors), e.NewClient(Nowhere{})}
	admin.do("ACL", "SETUSER", "alice", "on", "nopass", "+@all", "~*", "&*")
	var taken atomic.Int64 // odd while the right is known to be taken
	var running sync.WaitGroup
	stop := make(chan struct{})
	for reactor := range reactors {
		c := &testClient{t, e, e.NewBatch(reactor), e.NewClient(Nowhere{})}
		e.Clients.Add(c.session)
		running.Go(func() {
			key := fmt.Sprint("key", reactor) // of no other, so that nobody waits for a lock
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if c.session.Killed() {
					c.session = e.NewClient(Nowhere{})
					e.Clients.Add(c.session)
				}
				c.do("AUTH", "alice", "x")
				before := taken.Load()
				reply := c.do("SET", key, "v")
				if before%2 == 1 && taken.Load() == before && reply != "" && !strings.HasPrefix(reply, "-NOPERM") {
					t.Errorf("after its right was taken: %q", reply)
					return
				}
				c.do("MULTI")
				c.do("GET", key)
				c.do("EXEC")
				c.do("SUBSCRIBE", "a")
				c.do("UNSUBSCRIBE")
				c.do("PUBLISH", "a", "b")
				c.do("CLIENT", "INFO")
				if i%10 == 0 {
					c.do("AUTH", "bob", "x")
					c.do("RESET")
				}
			}
		})
	}
	for range 100 {
		admin.do("ACL", "SETUSER", "alice", "-set", "resetchannels", "resetkeys", "~other")
		taken.Add(1)
		admin.do("ACL", "LIST")
		admin.do("ACL", "LOG")
		taken.Add(1)
		admin.do("ACL", "SETUSER", "alice", "+set", "allkeys", "allchannels", "(+get)")
		admin.do("ACL", "SETUSER", "alice", "clearselectors")
		admin.do("ACL", "SETUSER", "bob", "on", "nopass", "+@all")
		admin.do("CLIENT", "LIST", "USER", "alice")
		admin.do("ACL", "DELUSER", "bob")
	}
	close(stop)
	running.Wait()
}

// TestUserChangesWithinARequest: a transaction, or a script, is done as a whole when its user's
// rules change while it runs; the next request is refused.
func TestUserChangesWithinARequest(t *testing.T) {
	const script = "redis.call('SET', 'a', 1) redis.call('meanwhile') redis.call('SET', 'b', 1) return redis.acl_check_cmd('SET', 'b', 2)"
	for name, change := range map[string]func(e *Engine) error{
		"rules": func(e *Engine) error {
			_, err := e.Users.Set("alice", []string{"-set"})
			return err
		},
		"deleted": func(e *Engine) error {
			user := e.Users.Delete("alice")
			e.UserChanged(user, nil)
			return nil
		},
	} {
		for _, requests := range [][]string{{"EVAL|" + script + "|0"}, {"MULTI", "SET|a|1", "meanwhile", "SET|b|1", "EXEC"}} {
			e, _ := newTestEngine(t)
			row := &Command{Name: "meanwhile", Arity: 1, Flags: Fast, Summary: "Is what another client does.", Group: "server", Since: "1.0.0"}
			row.Run = func(c *Invocation) error {
				c.Reply.OK()
				return change(e)
			}
			e.Table.add(row)
			row.Measures = metrics.NewCommand(e.Statistics.Lanes)
			admin, c := newTestClient(t, e), newTestClient(t, e)
			e.Clients.Add(c.session)
			admin.do("ACL", "SETUSER", "alice", "on", "nopass", "+@all", "~*")
			c.do("AUTH", "alice", "x")
			// For the disk the request would be taken back, and be refused when it runs again.
			admin.do("EXISTS", "a", "b")
			for _, request := range requests {
				if reply := c.do(strings.Split(request, "|")...); strings.Contains(reply, "-") {
					t.Errorf("%s: %s is answered %q", name, request, reply)
				}
			}
			if reply := admin.do("EXISTS", "a", "b"); reply != ":2\r\n" {
				t.Errorf("%s: %s: EXISTS is %q", name, requests[0], reply)
			}
			if reply := c.do("SET", "c", "1"); reply != "" && !strings.HasPrefix(reply, "-NOPERM") {
				t.Errorf("%s: the next request is answered %q", name, reply)
			}
			if reply := admin.do("EXISTS", "c"); reply != ":0\r\n" {
				t.Errorf("%s: the next request is done", name)
			}
		}
	}
}

// TestAuthenticationWithinATransaction: what follows AUTH is the other user's, judged by the rules
// of that moment.
func TestAuthenticationWithinATransaction(t *testing.T) {
	e, _ := newTestEngine(t)
	admin, c := newTestClient(t, e), newTestClient(t, e)
	admin.do("ACL", "SETUSER", "alice", "on", "nopass", "+@all", "~*")
	admin.do("ACL", "SETUSER", "bob", "on", "nopass", "+@all", "-set", "~*")
	c.do("AUTH", "alice", "x")
	for _, request := range []string{"MULTI", "SET a 1", "AUTH bob x", "SET b 1", "AUTH alice x", "SET c 1"} {
		c.do(strings.Fields(request)...)
	}
	reply := c.do("EXEC")
	if !strings.HasPrefix(reply, "*5\r\n+OK\r\n+OK\r\n-NOPERM ") || !strings.HasSuffix(reply, "\r\n+OK\r\n+OK\r\n") {
		t.Errorf("EXEC: %q", reply)
	}
}

// TestKilledWhileItWaitsForALock: who kills a client and changes a key finds the change untouched,
// whether a reactor or a worker was about to execute a request of the client's.
func TestKilledWhileItWaitsForALock(t *testing.T) {
	for _, worker := range []bool{false, true} {
		e, _ := newTestEngine(t)
		victim, other := newTestClient(t, e), &testClient{t, e, e.NewBatch(1), e.NewClient(Nowhere{})}
		if outcome := other.batch.Execute(other.session, read(e, other.session, "RPUSH", "list", "element")); outcome != Done {
			t.Fatalf("RPUSH: outcome %d", outcome)
		}
		pop := read(e, victim.session, "BLPOP", "list", "0")
		executed := make(chan Outcome, 1)
		if worker {
			go func() { executed <- e.Work(victim.session, pop) }()
			for e.Statistics.Offloads.Load() == 0 { // it asks for the lock now or behind the kill
				runtime.Gosched()
			}
		} else if outcome := victim.batch.Execute(victim.session, pop); outcome != Waiting || victim.session.Wait().Cause != ForLock {
			t.Fatalf("BLPOP, of a key that is locked: outcome %d", outcome)
		}
		e.kill(victim.session)
		if err := other.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		other.batch.Clear()
		other.session.Reply.Reset()
		if worker {
			<-executed
		} else if outcome := victim.batch.Execute(victim.session, pop); outcome != Separate {
			t.Errorf("BLPOP of a client that was killed: outcome %d", outcome)
		} else if err := victim.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		if reply := victim.session.Reply.Bytes(); len(reply) > 0 {
			t.Errorf("it is answered %q", reply)
		}
		if reply := other.do("LLEN", "list"); reply != ":1\r\n" {
			t.Errorf("worker %v: LLEN is %q", worker, reply)
		}
	}
}

// TestKilledWhileReserved: who is killed while somebody is about to serve it, and then doesn't, is
// served by nobody else.
func TestKilledWhileReserved(t *testing.T) {
	e, _ := newTestEngine(t)
	victim, other := newTestClient(t, e), &testClient{t, e, e.NewBatch(1), e.NewClient(Nowhere{})}
	victim.beginToWait("BLPOP", "list", "0")
	key := watchedKey{0, "list"}
	place := e.Blocking.reserve(key, layout.List, nil)
	if place == nil {
		t.Fatal("nobody waits")
	}
	e.kill(victim.session)
	place.blocked.release()
	if e.Blocking.anybody(key, nil) {
		t.Error("it counts as one that waits")
	}
	other.do("RPUSH", "list", "element")
	if reply := other.do("LLEN", "list"); reply != ":1\r\n" {
		t.Errorf("LLEN is %q", reply)
	}
}
