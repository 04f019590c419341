package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/seed"
	"kedis/server/enginetest"
	"kedis/server/execute"
)

// TestPushedIsShared pushes random messages to random connections: each has all of its own in
// order, however they share memory.
func TestPushedIsShared(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.Of(t), 0))
	for range 200 {
		var first pushed
		connections := make([]*pushed, 1+random.IntN(8))
		wanted := make([]string, len(connections))
		for message := range 30 {
			text := []byte(fmt.Sprint(message, ";"))
			for i := range connections {
				if random.IntN(3) == 0 {
					continue
				}
				if connections[i] == nil {
					connections[i] = &first
				}
				connections[i] = connections[i].push(text)
				wanted[i] += string(text)
			}
		}
		for i, c := range connections {
			if c != nil && string(c.text) != wanted[i] {
				t.Fatalf("connection %d has %q instead of %q", i, c.text, wanted[i])
			}
		}
	}
}

// TestPushedToWhoWaits pushes a message while a worker has a request, which then waits for others.
func TestPushedToWhoWaits(t *testing.T) {
	r := startServer(t)
	client := r.dialRaw()
	r.at(client, func(c *connection) {
		request := c.reactor.batch.Read(c.session, [][]byte{[]byte("BLPOP"), []byte("none"), []byte("0")})
		c.park(request)
		c.working = true
		c.push([]byte("+message\r\n"))
		c.reactor.sendPushed()
		if outcome := r.engine.Work(c.session, request); outcome != execute.Waiting || c.pushedBytes() == 0 {
			t.Errorf("outcome %d, %d bytes wait for the worker", outcome, c.pushedBytes())
		}
		c.reactor.workDone(c)
	})
	client.wantLine("+message")
	r.dial().want(":1", "rpush", "none", "x")
	for _, line := range []string{"*2", "$4", "none", "$1", "x"} {
		client.wantLine(line)
	}
}

// BenchmarkPushToMany pushes 16 messages to a thousand connections.
func BenchmarkPushToMany(b *testing.B) {
	messages := make([][]byte, 16)
	for i := range messages {
		messages[i] = []byte("*3\r\n$7\r\nmessage\r\n$6\r\nnews:7\r\n$20\r\nsomething has changed\r\n")
	}
	connections := make([]*pushed, 1000)
	b.ReportAllocs()
	for b.Loop() {
		var first pushed
		for i := range connections {
			connections[i] = &first
		}
		for _, text := range messages {
			for i := range connections {
				connections[i] = connections[i].push(text)
			}
		}
	}
}

// TestSlowPatternsSlowWriters: what waits to be matched with patterns that take long is bounded,
// and is dropped when nobody listens to them any more.
func TestSlowPatternsSlowWriters(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes the race detector minutes")
	}
	const writes = 3000
	s := startServer(t, "notify-keyspace-events", "K$")
	listener, writer, other := s.dial(), s.dial(), s.dial()
	listener.do("psubscribe", "*"+strings.Repeat("a", 10_000)+"b*")
	key := strings.Repeat("a", 30_000) // 0.1 s for each message, so minutes for all
	written := make(chan error, 1)
	go func() {
		for range writes {
			writer.Queue("set", key, "value")
		}
		err := writer.Flush()
		for range writes {
			if err == nil {
				_, err = writer.Read()
			}
		}
		written <- err
	}()
	unmatched := s.engine.Listeners.Unmatched
	eventually(t, "many messages wait", func() bool { return unmatched() > mostUndelivered })
	time.Sleep(time.Second) // in which the rest would be written
	if waiting := unmatched(); waiting > mostUndelivered+mostUndelivered/8 {
		t.Errorf("%d bytes of messages wait", waiting)
	}
	listener.Close()
	if err := <-written; err != nil {
		t.Error(err)
	}
	eventually(t, "none waits", func() bool { return unmatched() == 0 })
	other.want("+PONG", "ping")
}

// TestNothingIsPushedBehindTheEnd: what was on its way to a client comes before the reply by which
// the client has ended that, or not at all. It would be taken for the reply to the next request.
func TestNothingIsPushedBehindTheEnd(t *testing.T) {
	r := startServer(t)
	for _, one := range []struct {
		requests []string // some are what the server does in between
		end      string
	}{
		{[]string{"MONITOR", "PING", "RESET"}, "+RESET"},
		{[]string{"HELLO 3", "CLIENT TRACKING ON", "invalidate", "RESET"}, "+RESET"},
		{[]string{"SUBSCRIBE __redis__:invalidate", "redirect", "invalidate", "UNSUBSCRIBE"}, ":0"},
	} {
		client := r.dialRaw()
		r.at(client, func(c *connection) {
			for _, request := range one.requests {
				switch request {
				case "invalidate":
					r.engine.InvalidateAll()
				case "redirect":
					r.engine.Caching.Start(r.engine.NewClient(execute.Nowhere{}), execute.Tracking{Redirect: c.session.ID})
				default:
					words := enginetest.Words(strings.Fields(request)...)
					if !c.reactor.dispatch(c, c.reactor.batch.Read(c.session, words)) {
						c.reactor.process(c)
					}
				}
			}
			c.reactor.finish()
		})
		for line := ""; line != one.end+"\r\n"; {
			var err error
			if line, err = client.lines.ReadString('\n'); err != nil {
				t.Fatalf("%q: %v", one.requests, err)
			}
		}
		client.send("PING\r\n")
		if line, err := client.lines.ReadString('\n'); line != "+PONG\r\n" {
			t.Errorf("%q: behind the end comes %q (%v)", one.requests, line, err)
		}
	}
}

// TestUnreadPushesAreBounded: who is told of keys to forget is one of the normal clients, whose
// class has no limit.
func TestUnreadPushesAreBounded(t *testing.T) {
	r := startServer(t)
	client := r.dialRaw()
	r.at(client, func(c *connection) {
		if c.configuredLimit().Hard != 0 {
			t.Error("there is a limit")
		}
		if c.exceedsPushed(pushLimit + 1) {
			t.Error("a long reply is taken for what wasn't asked for")
		}
		c.push(make([]byte, pushLimit+1))
		if !c.dropped || c.pushedBytes() > 0 {
			t.Errorf("%d bytes wait for the client", c.pushedBytes())
		}
	})
}
