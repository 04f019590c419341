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
	"time"
)

// moveAll moves all connections that can be moved from one reactor to another, and returns when they have left.
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

// TestMovedConnections moves connections to and fro while their clients work on, alone, in pipelines and in transactions.
func TestMovedConnections(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	var stop atomic.Bool
	var clients sync.WaitGroup
	for i := range 8 {
		c := r.dial()
		clients.Go(func() {
			key := fmt.Sprintf("counter:%d", i)
			for n := 1; !stop.Load() && !t.Failed(); n += 4 {
				c.want(fmt.Sprintf(":%d", n), "incr", key)
				c.want("+OK", "multi")
				c.want("+QUEUED", "incr", key)
				c.want(fmt.Sprintf("[:%d]", n+1), "exec")
				c.want(fmt.Sprintf(":%d", n+2), "incr", key)
				c.want(fmt.Sprintf(":%d", n+3), "incr", key)
				if text := strings.Repeat("x", i*1000+1); c.do("set", key+":text", text) != "+OK" || c.do("strlen", key+":text") != fmt.Sprintf(":%d", len(text)) {
					t.Errorf("a text of %d bytes was cut", len(text))
				}
			}
		})
	}
	for moved, i := 0, 0; moved < 2000 && !t.Failed(); i++ {
		moved += moveAll(reactors[i%2], reactors[(i+1)%2])
	}
	stop.Store(true)
	clients.Wait()
}

// TestMovedPipelines moves connections to and fro whose clients all write to the same key, in pipelines, so that they wait for each other's
// locks. Each reply has to be for the request of its client.
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
	for moved, i := 0, 0; moved < 1000 && !t.Failed(); i++ {
		moved += moveAll(reactors[i%2], reactors[(i+1)%2])
	}
	stop.Store(true)
	clients.Wait()
	r.dial().want(fmt.Sprintf(":%d", pushed.Load()), "llen", "shared")
}

// TestMovedConnectionIsReached has others close, list and send to connections that are on their way.
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
	for i := range 100 {
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

// TestLingeringReactorIsReached has reactors look for requests for 10 ms after each, and others send to their connections and open new ones
// meanwhile.
func TestLingeringReactorIsReached(t *testing.T) {
	r := startServer(t, "busy-poll", "10000")
	reactors := r.bothReactors()
	listener, speaker := r.dial(), r.dial()
	listener.do("subscribe", "news")
	for i := range 50 {
		for _, reactor := range reactors {
			reactor.post(func() { reactor.linger.permit = permit{allowed: true, shared: i%2 == 0} })
		}
		speaker.want("+PONG", "ping")
		speaker.want(":1", "publish", "news", fmt.Sprint(i))
		if message, err := listener.Read(); err != nil || !strings.Contains(message.String(), fmt.Sprintf("%q", fmt.Sprint(i))) {
			t.Fatalf("round %d: %v, %v", i, message, err)
		}
		r.dial().want("+PONG", "ping")
	}
}

// TestReadiness sends something while no reactor reads: each sees that there is something, and didn't before.
func TestReadiness(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	clients := make([]*client, 8)
	for i := range clients {
		clients[i] = r.dial()
		clients[i].want("+PONG", "ping")
	}
	before, after, sent := make(chan bool), make(chan bool), make(chan struct{})
	for _, reactor := range reactors {
		if reactor.linger.ready == nil {
			t.Fatal("gnet's epoll isn't where it is looked for")
		}
		reactor.post(func() {
			before <- reactor.linger.ready.any()
			<-sent
			after <- reactor.linger.ready.any()
		})
	}
	for range reactors {
		if <-before {
			t.Error("something is said to be there before anything was sent")
		}
	}
	for _, c := range clients {
		c.Queue("ping")
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	close(sent)
	for range reactors {
		if !<-after {
			t.Error("what was sent isn't seen")
		}
	}
	for _, c := range clients {
		if reply, err := c.Read(); err != nil || reply.String() != "+PONG" {
			t.Errorf("%v, %v", reply, err)
		}
	}
}

// TestPlacedConnections opens connections while one reactor serves: wherever they are accepted, they are there as soon as they have been
// answered twice, or have come and gone.
func TestPlacedConnections(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	r.mu.Lock()
	r.balance = balance{processors: 1, serving: 1} // which a look at the load doesn't change
	r.mu.Unlock()
	elsewhere := func() (connections int) {
		for _, reactor := range reactors {
			count := make(chan int)
			reactor.post(func() { count <- len(reactor.connections) })
			if n := <-count; reactor.number > 0 {
				connections += n
			}
		}
		return connections
	}
	before, stayed := elsewhere(), 0
	for i := range 200 {
		c := r.dial()
		c.want("+OK", "set", "key", fmt.Sprint(i))
		c.want(fmt.Sprintf("%q", fmt.Sprint(i)), "get", "key")
		if elsewhere() > before {
			stayed++
		}
		gone, err := net.Dial("tcp", r.address())
		if err != nil {
			t.Fatal(err)
		}
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if stayed > 50 {
		t.Errorf("after %d of 200 connections some were not where they should be", stayed)
	}
}

// TestRestingReactors looks whether reactors are left alone while they have no clients, and looked after again as soon as they have.
func TestRestingReactors(t *testing.T) {
	r := startServer(t)
	reactors := r.bothReactors()
	periods := func() (all int) {
		period := make(chan int)
		for _, reactor := range reactors {
			reactor.post(func() { period <- reactor.load.period })
			all += <-period
		}
		return all
	}
	for range 3 {
		c := r.dial()
		c.do("client", "kill", "type", "normal")
		c.Close()
		eventually(t, "all reactors rest", func() bool { return reactors[0].load.rests() && reactors[1].load.rests() })
		before := periods()
		time.Sleep(3 * tickInterval)
		// One may have been on its way.
		if after := periods(); after > before+len(reactors) {
			t.Errorf("period %d, and then %d, where nobody was served", before, after)
		}
		reactors[1].load.coming.Add(1) // who doesn't arrive
		eventually(t, "nobody is waited for any more", func() bool { return reactors[1].load.coming.Load() == 0 })
		r.dial().want("+PONG", "ping")
		before = periods()
		eventually(t, "the client's reactor is looked after", func() bool { return periods() > before+2 })
	}
}
