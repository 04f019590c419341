package access

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// as is a connection of a user.
func as(t *testing.T, server *launch.Server, user string) *resp.Connection {
	t.Helper()
	c := server.MustDial(t)
	must(t, c, "auth", user, "x")
	return c
}

// send sends a request whose reply is read later.
func send(t *testing.T, c *resp.Connection, words ...string) {
	t.Helper()
	c.Queue(words...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

func reply(t *testing.T, c *resp.Connection) string {
	t.Helper()
	r, err := c.Read()
	if err != nil {
		return "closed"
	}
	return r.String()
}

// eventually waits for something that happens at once, but not in one step with a reply on another
// connection.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it doesn't hold that %s", what)
		}
	}
}

func blocked(t *testing.T, c *resp.Connection) int {
	return strings.Count(string(must(t, c, "client", "list").Text), " flags=b ")
}

// TestBlockedClient ends the wait of a client for what it may do no longer, and of no other.
func TestBlockedClient(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	for _, change := range []struct {
		rule, says string
	}{
		{"-blpop", "-NOPERM this user has no permissions to run the 'blpop' command"},
		{"resetkeys", "-NOPERM this user has no permissions to access one of the keys used as arguments"},
		{"-get", `["k" "v"]`},
		{"off", `["k" "v"]`},
	} {
		must(t, c, "acl", "setuser", "alice", "reset", "on", "nopass", "+@all", "~k*")
		waiter := as(t, server, "alice")
		send(t, waiter, "blpop", "k", "0")
		eventually(t, "the client waits", func() bool { return blocked(t, c) == 1 })
		must(t, c, "acl", "setuser", "alice", change.rule)
		if strings.HasPrefix(change.says, "[") {
			must(t, c, "rpush", "k", "v")
		}
		if got := reply(t, waiter); got != change.says {
			t.Errorf("after %s the client gets %s, want %s", change.rule, got, change.says)
		}
		must(t, waiter, "auth", "default", "x")
		must(t, waiter, "ping")
	}
	if entries := must(t, c, "acl", "log").Elements; len(entries) != 2 {
		t.Errorf("the log has %v", entries)
	}
}

// TestDeletedUser ends all connections of a user who is deleted, whatever they do, and no others.
func TestDeletedUser(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	var clients []*resp.Connection
	must(t, c, "acl", "setuser", "alice", "on", "nopass", "+@all", "~*", "&*")
	must(t, c, "acl", "setuser", "bob", "on", "nopass", "+@all", "~*", "&*")
	for _, words := range [][]string{{"ping"}, {"multi"}, {"subscribe", "a"}, {"monitor"}} {
		client := as(t, server, "alice")
		must(t, client, words...)
		clients = append(clients, client)
	}
	waiter := as(t, server, "alice")
	send(t, waiter, "blpop", "k", "0")
	clients = append(clients, waiter)
	eventually(t, "a client waits", func() bool { return blocked(t, c) == 1 })
	bob := as(t, server, "bob")
	must(t, c, "acl", "deluser", "alice")
	for i, client := range clients {
		got := reply(t, client)
		for strings.HasPrefix(got, "+") { // what a monitor was shown before
			got = reply(t, client)
		}
		if got != "closed" {
			t.Errorf("client %d gets %s", i, got)
		}
	}
	must(t, bob, "ping")
	must(t, c, "acl", "setuser", "alice", "on", "nopass", "+@all")
	if got := do(t, c, "auth", "alice", "x").String(); got != "+OK" {
		t.Error(got)
	}
	if got := do(t, bob, "acl", "deluser", "bob", "alice").String(); got != ":2" {
		t.Errorf("who deletes himself gets %s", got)
	}
	if _, err := bob.Do("ping"); err == nil {
		t.Error("who was deleted goes on")
	}
}

// TestLostRights disconnects who watches, is told of keys, or follows, and may no longer.
func TestLostRights(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	must(t, c, "acl", "setuser", "alice", "on", "nopass", "+@all")
	watcher := as(t, server, "alice")
	must(t, watcher, "monitor")
	must(t, c, "acl", "setuser", "alice", "-get")
	must(t, c, "echo", "seen")
	for !strings.Contains(reply(t, watcher), "seen") {
	}
	must(t, c, "acl", "setuser", "alice", "-monitor")
	for last := ""; last != "closed"; last = reply(t, watcher) {
	}
	cached := as(t, server, "alice")
	must(t, cached, "hello", "3")
	must(t, cached, "client", "tracking", "on", "bcast", "prefix", "k")
	must(t, c, "acl", "setuser", "alice", "resetkeys", "-client", "+client|tracking")
	must(t, c, "set", "k", "v")
	if got := reply(t, cached); !strings.Contains(got, "invalidate") {
		t.Errorf("a client that is told of all keys with a prefix gets %s", got)
	}
	must(t, c, "acl", "setuser", "alice", "-client|tracking")
	if got := reply(t, cached); got != "closed" {
		t.Errorf("a client that may not be told of them any longer gets %s", got)
	}
	must(t, c, "acl", "setuser", "copier", "on", "nopass", "+psync", "+replconf", "+ping")
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masteruser", "copier", "--masterauth", "x")
	r := replica.MustDial(t)
	must(t, r, "replicaof", "127.0.0.1", fmt.Sprint(server.Port))
	link := func(state string) func() bool {
		return func() bool {
			return strings.Contains(string(must(t, r, "info", "replication").Text), "master_link_status:"+state)
		}
	}
	eventually(t, "the replica follows", link("up"))
	must(t, c, "acl", "setuser", "copier", "-psync")
	eventually(t, "the replica follows no longer", link("down"))
	must(t, c, "acl", "setuser", "copier", "+psync")
	eventually(t, "the replica follows again", link("up"))
}

// TestPrefixOfKeysToMigrate: who may use some keys only doesn't move those whose names go on.
func TestPrefixOfKeysToMigrate(t *testing.T) {
	server, target := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	for _, user := range [][]string{{"some", "~user:1"}, {"reader", "%R~*"}, {"all", "~*"}} {
		must(t, c, "acl", "setuser", user[0], "on", "nopass", "+migrate", user[1])
	}
	must(t, c, "mset", "user:1", "a", "user:10", "b")
	migrate := func(user string, more ...string) string {
		words := append([]string{"migrate", "127.0.0.1", fmt.Sprint(target.Port), "user:1", "0", "5000"}, more...)
		r, err := as(t, server, user).Do(words...)
		if err != nil {
			t.Fatal(err)
		}
		return r.String()
	}
	for _, user := range []string{"some", "reader"} {
		if got := migrate(user, "USE_PREFIX"); !strings.Contains(got, "ERR USE_PREFIX option of MIGRATE denied") && !strings.Contains(got, "NOPERM") {
			t.Errorf("%s: %s", user, got)
		}
	}
	if got := must(t, target.MustDial(t), "dbsize").String(); !strings.HasSuffix(got, "0") {
		t.Errorf("the target has keys: %s", got)
	}
	if got := migrate("some"); !strings.Contains(got, "OK") {
		t.Errorf("a key by its name: %s", got)
	}
	if got := migrate("all", "USE_PREFIX"); !strings.Contains(got, "OK") {
		t.Errorf("who may use all keys: %s", got)
	}
	if got := must(t, c, "dbsize").String(); !strings.HasSuffix(got, "0") {
		t.Errorf("keys were left: %s", got)
	}
}

// TestLoadedUsers: ACL LOAD disconnects whose user is gone, or who listens to what it may not hear,
// as Redis 7.4; 7.0 and 7.2 disconnect all but the default user's clients.
func TestLoadedUsers(t *testing.T) {
	text := adminLine + "user alice on nopass +@all &a\nuser bob on nopass +@all &b\nuser carol on nopass +@all\n"
	server, refusal := start(t, launch.MustUnderTest(t), map[string]string{userFile: text}, "--aclfile", userFile)
	if refusal != "" {
		t.Fatal(refusal)
	}
	c := admin(t, server)
	alice, bob, carol := as(t, server, "alice"), as(t, server, "bob"), as(t, server, "carol")
	must(t, alice, "subscribe", "a")
	must(t, bob, "subscribe", "b")
	write(t, server.Directory+"/"+userFile, adminLine+"user alice on nopass &a +subscribe +ping\nuser bob on nopass +@all &c\n")
	must(t, c, "acl", "load")
	must(t, alice, "ping")
	for _, gone := range []*resp.Connection{bob, carol} {
		if got := reply(t, gone); got != "closed" {
			t.Errorf("a client that may not stay gets %s", got)
		}
	}
	write(t, server.Directory+"/"+userFile, adminLine+"user alice foo\n")
	if got := do(t, c, "acl", "load"); !got.IsError() {
		t.Errorf("a wrong file: %s", got)
	}
	must(t, alice, "ping")
}

// TestChangesBesideClients changes a user while its clients run. Who asks after a right was taken
// is refused, until it is given again.
func TestChangesBesideClients(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t), "--reactors", "2")
	c := server.MustDial(t)
	must(t, c, "acl", "setuser", "alice", "on", "nopass", "+@all", "~*", "&*")
	var taken atomic.Int64 // odd while the right is known to be taken
	var clients sync.WaitGroup
	var wrong atomic.Pointer[string]
	stop := make(chan struct{})
	for range 4 {
		client := as(t, server, "alice")
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				before := taken.Load()
				var said string
				for range 8 {
					client.Queue("set", "k", "v")
				}
				if err := client.Flush(); err != nil {
					said = err.Error()
				}
				for range 8 {
					r, err := client.Read()
					if err != nil || r.IsError() != strings.HasPrefix(string(r.Text), "NOPERM ") {
						said = fmt.Sprint(r, err)
					} else if before%2 == 1 && taken.Load() == before && !r.IsError() {
						said = "a write that was forbidden: " + r.String()
					}
				}
				if said != "" {
					wrong.Store(&said)
					return
				}
			}
		})
	}
	for i := range 100 {
		must(t, c, "acl", "setuser", "alice", []string{"-set", "resetkeys", "-@write"}[i%3])
		taken.Add(1)
		time.Sleep(time.Millisecond)
		taken.Add(1)
		must(t, c, "acl", "setuser", "alice", "+@all", "allkeys")
		must(t, c, "acl", "setuser", fmt.Sprint("other", i%5), "on", "nopass")
		must(t, c, "acl", "deluser", fmt.Sprint("other", i%7))
	}
	close(stop)
	clients.Wait()
	if said := wrong.Load(); said != nil {
		t.Error(*said)
	}
}
