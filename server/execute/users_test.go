package execute

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"

	"kedis/server/enginetest"
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
				c.do("AUTH", "alice", "x")
				before := taken.Load()
				reply := c.do("SET", key, "v")
				if before%2 == 1 && taken.Load() == before && !strings.HasPrefix(reply, "-NOPERM") {
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
