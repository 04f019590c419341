package events

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

// cachingClient keeps what it reads until it is told that it has changed. Replies and what it is
// told come over one connection, in order.
type cachingClient struct {
	*resp.Connection
	random *rand.Rand
	cache  map[string]string // replies by their requests
	told   int
	writes bool // it writes, too
}

// keysRead are so few that writers and readers meet.
const keysRead = 12

func (c *cachingClient) request() []string {
	key := fmt.Sprint("key:", c.random.IntN(keysRead))
	switch n := c.random.IntN(40); {
	case n > 37 && c.writes:
		return []string{"set", key, fmt.Sprint(c.random.IntN(1000000))}
	case n == 0:
		return []string{"sintercard", "2", "large", "large"}
	case n < 8:
		return []string{"lrange", fmt.Sprint("list:", c.random.IntN(keysRead)), "0", "-1"}
	case n < 12:
		return []string{"exists", key}
	case n < 16:
		return []string{"strlen", key}
	}
	return []string{"get", key}
}

// keyOf is the key that a request reads.
func keyOf(request []string) string {
	if request[0] == "sintercard" {
		return "large"
	}
	return request[1]
}

// readSome sends some requests at once, perhaps in a transaction, and keeps what is answered.
func (c *cachingClient) readSome() error {
	requests := make([][]string, 1+c.random.IntN(6))
	together := c.random.IntN(4) == 0
	if together {
		c.Queue("multi")
	}
	for i := range requests {
		requests[i] = c.request()
		c.Queue(requests[i]...)
	}
	if together {
		c.Queue("exec")
	}
	if err := c.Flush(); err != nil {
		return err
	}
	if together {
		for range 1 + len(requests) {
			if _, err := c.next(); err != nil {
				return err
			}
		}
		replies, err := c.next()
		if err != nil || replies.IsError() { // a replica may be loading
			return err
		}
		for i, request := range requests {
			c.keep(request, replies.Elements[i])
		}
		return nil
	}
	for _, request := range requests {
		reply, err := c.next()
		if err != nil {
			return err
		}
		c.keep(request, reply)
	}
	return nil
}

// keep takes up a reply. What the client changes itself it forgets without being told.
func (c *cachingClient) keep(request []string, reply resp.Reply) {
	switch {
	case request[0] == "set":
		c.drop([]string{request[1]})
		return
	case reply.IsError(): // a replica may be loading
		return
	}
	c.cache[resp.Line(request)] = reply.String()
}

// drop forgets what was read of keys.
func (c *cachingClient) drop(keys []string) {
	maps.DeleteFunc(c.cache, func(line, _ string) bool {
		words, err := resp.SplitLine(line)
		return err != nil || slices.Contains(keys, keyOf(words))
	})
}

// next is the next reply. What it is told before it forgets.
func (c *cachingClient) next() (resp.Reply, error) {
	for {
		reply, err := c.Read()
		if err != nil || reply.Kind != resp.Push {
			return reply, err
		}
		c.forget(reply.Elements[1])
	}
}

func (c *cachingClient) forget(keys resp.Reply) {
	c.told++
	if keys.Null || keys.Kind == resp.Null {
		clear(c.cache)
		return
	}
	c.drop(keys.Strings())
}

// write makes one change.
func write(c *resp.Connection, random *rand.Rand, flushes bool) error {
	key := fmt.Sprint("key:", random.IntN(keysRead))
	list := fmt.Sprint("list:", random.IntN(keysRead))
	lines := []string{"set " + key + " " + fmt.Sprint(random.IntN(1000000)), "append " + key + " x", "del " + key, "rpush " + list + " a", "ltrim " + list + " -5 -1",
		"set " + key + " v px 5", "pexpire " + key + " 5", "rename " + key + " key:0", "copy " + key + " key:1 replace", "sadd large new:" + fmt.Sprint(random.IntN(1000000)),
		"spop large", "mset " + key + " 1 key:2 2"}
	if flushes {
		lines = append(lines, "flushall", "flushdb")
	}
	line := lines[random.IntN(len(lines))]
	if strings.HasPrefix(line, "flush") && random.IntN(40) > 0 {
		line = lines[0]
	}
	_, err := c.Do(strings.Fields(line)...)
	return err
}

// trackingOptions are how caching clients track.
var trackingOptions = []string{"", "bcast", "bcast prefix key: prefix list: prefix large", "noloop", "optout", ""}

// TestNoStaleAnswers has caching clients read while others write. When all is quiet, nothing that a
// client still keeps is old.
func TestNoStaleAnswers(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	t.Run("primary", caching{writes: primary, reads: primary}.check)
	t.Run("with FLUSHALL", caching{writes: primary, reads: primary, flushes: true}.check)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--replicaof", fmt.Sprint("127.0.0.1 ", primary.Port))
	t.Run("replica", caching{writes: primary, reads: replica}.check)
	t.Run("replica with FLUSHALL", caching{writes: primary, reads: replica, flushes: true}.check)
	other := launch.ForTest(t, launch.MustUnderTest(t))
	t.Run("replica that changes its primary", caching{writes: primary, reads: replica, other: other}.check)
}

// caching is a way in which data changes under clients that keep what they have read.
type caching struct {
	writes, reads *launch.Server
	flushes       bool
	other         *launch.Server // not nil: reads follows this one in between, which has other data, so that each change is a full synchronization
}

func (k caching) check(t *testing.T) {
	const clients, phases = 100, 3
	first := seed.Of(t)
	makeLarge(t, k.writes.MustDial(t))
	all := make([]*cachingClient, clients)
	for i := range all {
		all[i] = &cachingClient{Connection: k.reads.MustDial(t), random: rand.New(rand.NewPCG(first, uint64(i))), cache: map[string]string{},
			writes: k.reads == k.writes}
		for _, line := range []string{"hello 3", "client tracking on " + trackingOptions[i%len(trackingOptions)]} {
			if _, err := all[i].Must(strings.Fields(line)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for phase := range uint64(phases) {
		k.change(t, all, first+phase)
		if k.reads != k.writes {
			caughtUp(t, k.writes, k.reads)
		}
		k.changeLittle(t, all, first+phase)
		compareCaches(t, k.reads.MustDial(t), all)
	}
	if k.other != nil {
		if ever, err := followed(k.other.MustDial(t)); err != nil || !ever {
			t.Errorf("it never followed the other server (%v)", err)
		}
	}
}

// change has clients read while others write.
func (k caching) change(t *testing.T, clients []*cachingClient, seed uint64) {
	t.Helper()
	const writers, rounds, changes = 4, 10, 100
	var busy sync.WaitGroup
	var writing atomic.Int32
	writing.Store(writers)
	if k.other != nil {
		replica, other := k.reads.MustDial(t), k.other.MustDial(t)
		busy.Go(func() {
			if err := k.follow(replica, other, rand.New(rand.NewPCG(seed, 0))); err != nil {
				t.Error(err)
			}
		})
	}
	for _, c := range clients {
		busy.Go(func() {
			for round := 0; round < rounds || writing.Load() > 0; round++ {
				if round > rounds { // the writers have to come to their end
					time.Sleep(10 * time.Millisecond)
				}
				if err := c.readSome(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range writers {
		server := k.writes
		if k.other != nil && i%2 == 1 {
			server = k.other
		}
		connection, random := server.MustDial(t), rand.New(rand.NewPCG(seed, uint64(len(clients)+i)))
		busy.Go(func() {
			defer writing.Add(-1)
			for range changes {
				if err := write(connection, random, k.flushes); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	busy.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// changeLittle has clients read, and then a few keys changed: they keep most of what they have
// read, which is nothing when all data have just been replaced.
func (k caching) changeLittle(t *testing.T, clients []*cachingClient, seed uint64) {
	t.Helper()
	for _, c := range clients {
		if err := c.readSome(); err != nil {
			t.Fatal(err)
		}
	}
	connection, random := k.writes.MustDial(t), rand.New(rand.NewPCG(seed, 0))
	for range 3 {
		if err := write(connection, random, false); err != nil {
			t.Fatal(err)
		}
	}
	if k.reads != k.writes {
		caughtUp(t, k.writes, k.reads)
	}
}

// follow has the replica follow the other server, while it is read and both are written to, and
// then the first one again.
func (k caching) follow(replica, other *resp.Connection, random *rand.Rand) error {
	for _, primary := range []*launch.Server{k.other, k.writes} {
		if _, err := replica.Must("replicaof", "127.0.0.1", fmt.Sprint(primary.Port)); err != nil {
			return err
		}
		for until := time.Now().Add(20 * time.Second); primary == k.other && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			if ever, err := followed(other); err != nil || ever {
				break
			}
		}
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
	}
	return nil
}

// followed reports whether a server has ever been followed.
func followed(c *resp.Connection) (bool, error) {
	reply, err := c.Must("info", "stats")
	return err == nil && !strings.Contains(string(reply.Text), "\r\nsync_full:0\r\n"), err
}

// caughtUp waits until a replica has all of its primary's data.
func caughtUp(t *testing.T, primary, replica *launch.Server) {
	t.Helper()
	asked, follower := primary.MustDial(t), replica.MustDial(t)
	offset := func(c *resp.Connection, field string) string {
		reply, err := c.Must("info", "replication")
		if err != nil {
			t.Fatal(err)
		}
		_, behind, _ := strings.Cut(string(reply.Text), "\r\n"+field+":")
		value, _, _ := strings.Cut(behind, "\r\n")
		return value
	}
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if offset(follower, "master_link_status") == "up" && offset(follower, "slave_repl_offset") == offset(asked, "master_repl_offset") &&
			offset(follower, "master_port") == fmt.Sprint(primary.Port) {
			return
		}
		if time.Now().After(until) {
			t.Fatal("the replica lags behind")
		}
	}
}

// makeLarge makes the set that takes long to be read.
func makeLarge(t *testing.T, c *resp.Connection) {
	t.Helper()
	members := []string{"sadd", "large"}
	for i := range 15000 {
		members = append(members, fmt.Sprint("member:", i))
	}
	if _, err := c.Must(members...); err != nil {
		t.Fatal(err)
	}
}

// compareCaches asks for all that clients keep. What is on its way to them may still make them
// forget some of it.
func compareCaches(t *testing.T, c *resp.Connection, clients []*cachingClient) {
	t.Helper()
	if _, err := c.Must("hello", "3"); err != nil {
		t.Fatal(err)
	}
	kept, told := 0, 0
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		stale := ""
		now := map[string]string{}
		kept, told = 0, 0
		for i, client := range clients {
			if err := client.ping(); err != nil {
				t.Fatal(err)
			}
			kept, told = kept+len(client.cache), told+client.told
			for line, value := range client.cache {
				if now[line] == "" {
					now[line] = ask(t, c, line)
				}
				if value != now[line] {
					stale = fmt.Sprintf("client %d (%s) keeps %s for %s, which is %s", i, trackingOptions[i%len(trackingOptions)], value, line, now[line])
				}
			}
		}
		if stale == "" {
			break
		}
		if time.Now().After(until) {
			t.Fatal(stale)
		}
	}
	if t.Logf("%d answers are kept, %d times clients were told", kept, told); kept == 0 || told == 0 {
		t.Error("clients keep nothing, or were told nothing")
	}
}

func ask(t *testing.T, c *resp.Connection, line string) string {
	t.Helper()
	words, err := resp.SplitLine(line)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Do(words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply.String()
}

// ping has the client take in what it was told before.
func (c *cachingClient) ping() error {
	c.Queue("ping")
	if err := c.Flush(); err != nil {
		return err
	}
	_, err := c.next()
	return err
}

// track connects a client with a cache.
func track(t *testing.T, server *launch.Server) *cachingClient {
	t.Helper()
	c := &cachingClient{Connection: server.MustDial(t), cache: map[string]string{}}
	for _, words := range [][]string{{"hello", "3"}, {"client", "tracking", "on"}} {
		if _, err := c.Must(words...); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestTrackedKeysAreLimited: clients are told to forget what the server doesn't remember any
// longer, also when it may remember less from now on and nobody reads anything.
func TestTrackedKeysAreLimited(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	control, c := server.MustDial(t), track(t, server)
	if _, err := control.Must("config", "set", "tracking-table-max-keys", "10"); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		c.Queue("get", fmt.Sprint("key:", i))
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		reply, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		c.keep([]string{"get", fmt.Sprint("key:", i)}, reply)
	}
	for _, most := range []int{10, 4} {
		if _, err := control.Must("config", "set", "tracking-table-max-keys", fmt.Sprint(most)); err != nil {
			t.Fatal(err)
		}
		for len(c.cache) > most { // a message for each key is on its way
			reply, err := c.Read()
			if err != nil {
				t.Fatal(err)
			}
			c.forget(reply.Elements[1])
		}
		info, err := control.Must("info", "stats")
		if err != nil || !strings.Contains(string(info.Text), fmt.Sprintf("tracking_total_keys:%d\r\n", most)) {
			t.Errorf("%v: not %d keys: %s", err, most, info.Text)
		}
	}
	for line := range c.cache {
		words, _ := resp.SplitLine(line)
		if _, err := control.Must("set", words[1], "v"); err != nil {
			t.Fatal(err)
		}
		reply, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		c.forget(reply.Elements[1])
	}
	if len(c.cache) > 0 {
		t.Errorf("keeps %v, which have changed", c.cache)
	}
}

// TestFullSynchronizationEmptiesCaches: what a client has read is of other data.
func TestFullSynchronizationEmptiesCaches(t *testing.T) {
	primary, server := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	if _, err := primary.MustDial(t).Must("set", "k", "primary's"); err != nil {
		t.Fatal(err)
	}
	control, c := server.MustDial(t), track(t, server)
	if _, err := c.Must("get", "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Must("replicaof", "127.0.0.1", fmt.Sprint(primary.Port)); err != nil {
		t.Fatal(err)
	}
	message, err := c.Read()
	if err != nil || message.Kind != resp.Push || message.Elements[1].Kind != resp.Null {
		t.Fatalf("%v: told %s", err, message)
	}
	reply, err := c.Must("get", "k")
	if err != nil || string(reply.Text) != "primary's" {
		t.Errorf("%v: %s", err, reply)
	}
}

// TestSwappedDatabasesEmptyCaches: what a client has read is another database's afterwards.
func TestSwappedDatabasesEmptyCaches(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	control, c := server.MustDial(t), track(t, server)
	if _, err := c.Must("get", "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Must("swapdb", "0", "1"); err != nil {
		t.Fatal(err)
	}
	if message, err := c.Read(); err != nil || message.Kind != resp.Push || message.Elements[1].Kind != resp.Null {
		t.Fatalf("%v: told %s", err, message)
	}
}
