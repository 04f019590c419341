package server

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// moveAll moves all connections that can be moved from one reactor to another, and returns when
// they have left.
func moveAll(from, to *reactor) (moved int) {
	done := make(chan int)
	from.post(func() {
		before := len(from.connections)
		from.moveSome(to, before)
		done <- before - len(from.connections)
	})
	return <-done
}

// bothReactors returns them as soon as there are two, which connections that are opened see to.
func (r *running) bothReactors() (all []*reactor) {
	r.t.Helper()
	eventually(r.t, "both reactors have connections", func() bool {
		r.dial().want("+PONG", "ping")
		r.mu.Lock()
		defer r.mu.Unlock()
		all = all[:0]
		for _, reactor := range r.reactors {
			all = append(all, reactor)
		}
		return len(all) == 2
	})
	return all
}

// TestMovedConnections moves connections to and fro while their clients work on, alone, in
// pipelines and in transactions.
func TestMovedConnections(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	var stop atomic.Bool
	var clients sync.WaitGroup
	for i := range 8 {
		c := r.dial()
		clients.Go(func() {
			for n := 1; !stop.Load() && !t.Failed(); n += 4 {
				if err := countFour(c, i, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for moved, i := 0, 0; moved < 500 && !t.Failed(); i++ {
		moved += moveAll(reactors[i%2], reactors[(i+1)%2])
	}
	stop.Store(true)
	clients.Wait()
}

// countFour counts from n on, alone and in a transaction, and writes a text.
func countFour(c *client, client, n int) error {
	key := fmt.Sprintf("counter:%d", client)
	text := strings.Repeat("x", client*1000+1)
	for _, step := range []struct {
		want  string
		words []string
	}{
		{fmt.Sprintf(":%d", n), []string{"incr", key}},
		{"+OK", []string{"multi"}},
		{"+QUEUED", []string{"incr", key}},
		{fmt.Sprintf("[:%d]", n+1), []string{"exec"}},
		{fmt.Sprintf(":%d", n+2), []string{"incr", key}},
		{fmt.Sprintf(":%d", n+3), []string{"incr", key}},
		{"+OK", []string{"set", key + ":text", text}},
		{fmt.Sprintf(":%d", len(text)), []string{"strlen", key + ":text"}},
	} {
		if reply, err := c.Do(step.words...); err != nil || reply.String() != step.want {
			return fmt.Errorf("%.60q: %s (%v), want %s", step.words, reply, err, step.want)
		}
	}
	return nil
}

// TestMovedPipelines moves connections to and fro whose clients all write to the same key, in
// pipelines, so that they wait for each other's locks. Each reply has to be for the request of its
// client.
func TestMovedPipelines(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	const depth = 20
	var stop atomic.Bool
	var pushed atomic.Int64
	var clients sync.WaitGroup
	for i := range 12 {
		c := r.dial()
		clients.Go(func() {
			for n := 0; !stop.Load() && !t.Failed(); n++ {
				for j := range depth {
					c.Queue("rpush", "shared", "element")
					c.Queue("echo", fmt.Sprintf("%d %d %d", i, n, j))
				}
				if err := c.Flush(); err != nil {
					t.Error(err)
					return
				}
				length := int64(0)
				for j := range depth {
					pushedTo, err := c.Read()
					grown, ok := pushedTo.Integer()
					if err != nil || !ok || grown <= length {
						t.Errorf("RPUSH is answered by %v, %v behind a length of %d", pushedTo, err, length)
						return
					}
					length = grown
					echo, err := c.Read()
					if want := fmt.Sprintf("%q", fmt.Sprintf("%d %d %d", i, n, j)); err != nil || echo.String() != want {
						t.Errorf("ECHO is answered by %v, %v, want %s", echo, err, want)
						return
					}
				}
				pushed.Add(depth)
			}
		})
	}
	for moved, i := 0, 0; moved < 300 && !t.Failed(); i++ {
		moved += moveAll(reactors[i%2], reactors[(i+1)%2])
	}
	stop.Store(true)
	clients.Wait()
	r.dial().want(fmt.Sprintf(":%d", pushed.Load()), "llen", "shared")
}

// TestMovedConnectionIsReached has others close, list and send to connections that are on their
// way.
func TestMovedConnectionIsReached(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	var stop atomic.Bool
	var mover sync.WaitGroup
	mover.Go(func() {
		for i := 0; !stop.Load(); i++ {
			moveAll(reactors[i%2], reactors[(i+1)%2])
		}
	})
	defer mover.Wait()
	defer stop.Store(true)
	killer := r.dial()
	for i := range 40 {
		victim := r.dial()
		id := strings.TrimPrefix(victim.do("client", "id"), ":")
		if list := killer.do("client", "list", "id", id); !strings.Contains(list, "id="+id+" ") {
			t.Fatalf("client %d, %s, is not in the list: %s", i, id, list)
		}
		killer.want(":1", "client", "kill", "id", id)
		victim.wantClosed()
	}
}

// TestMovedConnectionKeepsItsPlace looks whether a session is the same on another reactor.
func TestMovedConnectionKeepsItsPlace(t *testing.T) {
	r := startServer(t, "tcp-keepalive", "0")
	reactors := r.bothReactors()
	c := r.dial()
	c.want("+OK", "client", "setname", "wanderer")
	c.want("+OK", "select", "3")
	c.want("+OK", "set", "key", "value")
	moved := 0
	for i := range 2 {
		moved += moveAll(reactors[i], reactors[1-i])
	}
	if moved == 0 {
		t.Error("nothing was moved")
	}
	c.want(`"wanderer"`, "client", "getname")
	c.want(`"value"`, "get", "key")
}

// TestMovedConnectionOverUnixSocket moves one that has no address.
func TestMovedConnectionOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	r := startServer(t, "unixsocket", path)
	reactors := r.bothReactors()
	network, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	replies := bufio.NewReader(network)
	for i := range 3 {
		if _, err := network.Write([]byte("incr key\r\n")); err != nil {
			t.Fatal(err)
		}
		if line, err := replies.ReadString('\n'); err != nil || line != fmt.Sprintf(":%d\r\n", i+1) {
			t.Errorf("round %d: %q, %v", i, line, err)
		}
		if moved := moveAll(reactors[0], reactors[1]) + moveAll(reactors[1], reactors[0]); moved == 0 {
			t.Error("nothing was moved")
		}
	}
}

// TestWhoStays looks whether connections stay where they are while something waits for them, or
// others know where they are.
func TestWhoStays(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	stays, ids := map[string]*client{}, map[string]string{}
	for _, name := range []string{"multi", "subscribed", "unsubscribed", "blocked", "tracking", "monitor", "ordinary"} {
		stays[name] = r.dial()
		ids[strings.TrimPrefix(stays[name].do("client", "id"), ":")] = name
	}
	stays["multi"].want("+OK", "multi")
	stays["subscribed"].do("subscribe", "news")
	stays["unsubscribed"].do("subscribe", "news")
	stays["unsubscribed"].do("unsubscribe", "news")
	stays["blocked"].Queue("blpop", "nothing", "0")
	if err := stays["blocked"].Flush(); err != nil {
		t.Fatal(err)
	}
	stays["tracking"].do("hello", "3")
	stays["tracking"].want("+OK", "client", "tracking", "on")
	stays["monitor"].want("+OK", "monitor")
	observer := r.dial()
	eventually(t, "a client is blocked", func() bool { return strings.Contains(observer.do("info", "clients"), "blocked_clients:1") })
	var movable []string
	for _, reactor := range reactors {
		done := make(chan struct{})
		reactor.post(func() {
			reactor.commit()
			for _, c := range reactor.connections {
				if name := ids[fmt.Sprint(c.session.ID)]; name != "" && c.movable() {
					movable = append(movable, name)
				}
			}
			close(done)
		})
		<-done
	}
	if len(movable) != 1 || movable[0] != "ordinary" {
		t.Errorf("%v can be moved, want the ordinary one alone", movable)
	}
}

// TestRebalance has clients write to one key while only one processor is to be had: they come to
// one reactor. When they write to many keys in pipelines, both serve.
func TestRebalance(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	clients := make([]*client, 16)
	for i := range clients {
		clients[i] = r.dial()
	}
	byReactor := func() (counts [2]int) {
		for _, reactor := range reactors {
			done := make(chan struct{})
			reactor.post(func() { counts[reactor.number] = len(reactor.connections); close(done) })
			<-done
		}
		return counts
	}
	spread := func(serving int) {
		for _, c := range clients {
			c.want("+PONG", "ping")
		}
		for _, reactor := range reactors {
			done := make(chan struct{})
			reactor.post(func() { reactor.arrivals.turn(); close(done) })
			<-done
		}
		r.mu.Lock()
		r.balance.serving = serving
		r.distribute(len(clients))
		r.mu.Unlock()
	}
	eventually(t, "all clients are at one reactor", func() bool { spread(1); return byReactor()[0] >= len(clients) })
	eventually(t, "both serve", func() bool { spread(2); return byReactor()[1] >= len(clients)/4 })
}
