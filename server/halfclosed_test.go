package server

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"kedis/lock"
	"kedis/server/execute"
)

// sendLast sends text and then the end, and returns all replies. The server sees nothing of it
// before all is there.
func (r *running) sendLast(c *rawClient, text string) (replies func() string) {
	r.t.Helper()
	r.at(c, func(*connection) {
		c.send(text)
		if err := c.CloseWrite(); err != nil {
			r.t.Error(err)
		}
	})
	return func() string {
		r.t.Helper()
		all, err := io.ReadAll(c.lines)
		if err != nil {
			r.t.Error(err)
		}
		return string(all)
	}
}

// TestLastRequestsAreAnswered sends requests and the end of the stream behind them.
func TestLastRequestsAreAnswered(t *testing.T) {
	r := startServer(t)
	admin := r.dial()
	const times = 400
	sets, oks := strings.Repeat("SET key value\r\n", times), strings.Repeat("+OK\r\n", times)
	large := strings.Repeat("x", 10<<20)
	admin.want("+OK", "set", "large", large)
	bulk := fmt.Sprintf("$%d\r\n%s\r\n", len(large), large)
	for name, c := range map[string]struct{ requests, replies string }{
		"writes":         {sets, oks},
		"protocol error": {sets + "*1\r\n!\r\n", oks + "-ERR Protocol error: expected '$', got '!'\r\n"},
		"half a request": {sets + "*2\r\n$3\r\nGE", oks},
		"quit":           {sets + "QUIT\r\n" + sets, oks + "+OK\r\n"},
		"worker":         {"DEBUG DIGEST-VALUE none\r\nKEYS none\r\n" + sets, "*1\r\n+" + strings.Repeat("0", 40) + "\r\n*0\r\n" + oks},
		"large":          {strings.Repeat("GET large\r\n", 3) + sets, bulk + bulk + bulk + oks},
	} {
		t.Run(name, func(t *testing.T) {
			client := r.dialRaw()
			if got := r.sendLast(client, c.requests)(); got != c.replies {
				t.Errorf("%d bytes of replies instead of %d: %.60q … %.60q", len(got), len(c.replies), got, got[max(0, len(got)-60):])
			}
		})
	}
	eventually(t, "their sessions have ended", func() bool { return r.engine.Clients.Count() == 1 })
}

// TestLastRequestsBehindAPause sends the end behind requests that wait for the end of a pause, at
// once, and when a worker has run what is before them: the client is gone.
func TestLastRequestsBehindAPause(t *testing.T) {
	r := startServer(t)
	admin := r.dial()
	admin.want("+OK", "client", "pause", "1000000", "write")
	for requests, want := range map[string]string{"SET key value\r\n": "", "GET key\r\nSET key value\r\n": "$-1\r\n", "KEYS none\r\nSET key value\r\n": "*0\r\n"} {
		if got := r.sendLast(r.dialRaw(), requests)(); got != want {
			t.Errorf("%q: the replies are %q", requests, got)
		}
		eventually(t, "it is gone", func() bool { return r.engine.Clients.Count() == 1 })
	}
	admin.want("+OK", "client", "unpause")
	admin.want("nil", "get", "key")
}

// TestHalfClosedClientIsKilled closes one that waits, and one that doesn't read.
func TestHalfClosedClientIsKilled(t *testing.T) {
	r := startServer(t)
	admin := r.dial()
	admin.want("+OK", "set", "large", strings.Repeat("x", 20<<20))
	const worker = 3
	stripe := r.engine.Store.Stripe(0, []byte("key"))
	if r.engine.Locks.TryExclusive(stripe, worker) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	defer r.engine.Locks.ReleaseExclusive(stripe, worker)
	for _, requests := range []string{"SET key value\r\n", "GET large\r\n"} {
		client := r.dialRaw()
		r.sendLast(client, requests)
		r.wantSome("is half closed", func(c *connection) bool { return c.ended })
		admin.want(":1", "client", "kill", "addr", client.LocalAddr().String())
		eventually(t, "it is gone", func() bool { return r.engine.Clients.Count() == 1 })
	}
}

// TestHalfClosedClientIsGone resets a connection whose client sends no more and doesn't read.
func TestHalfClosedClientIsGone(t *testing.T) {
	r := startServer(t)
	client := r.dialRaw()
	r.dial().want("+OK", "set", "large", strings.Repeat("x", 20<<20))
	r.sendLast(client, "GET large\r\n")
	r.wantSome("is half closed", func(c *connection) bool { return c.ended })
	client.reset()
	eventually(t, "it is gone", func() bool { return r.engine.Clients.Count() == 1 })
}

// sendToWorker sends a request that a worker has, and waits for the lock of "key".
func (r *running) sendToWorker(client *rawClient, behind string) (replies func() string) {
	r.t.Helper()
	replies = r.sendLast(client, "DEBUG DIGEST-VALUE key\r\n"+behind)
	r.wantSome("is half closed, and a worker has its request", func(c *connection) bool { return c.ended && c.working })
	return replies
}

// TestWorkerIsTakenForTooLong: a request that only reads ends when its client has sent no more for
// long, with an error for a client that is there all the same. What is behind it is answered.
func TestWorkerIsTakenForTooLong(t *testing.T) {
	r := startServer(t)
	const worker = 3
	stripe := r.engine.Store.Stripe(0, []byte("key"))
	if r.engine.Locks.TryExclusive(stripe, worker) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	client := r.dialRaw()
	replies := r.sendToWorker(client, "DEBUG DIGEST-VALUE other\r\nPING\r\n")
	r.look(func(c *connection) bool {
		now := time.Now().Add(time.Hour)
		c.lookAfter(now)
		c.lookAfter(now.Add(doubtAfter))
		return true
	})
	r.engine.Locks.ReleaseExclusive(stripe, worker)
	none := "*1\r\n+" + strings.Repeat("0", 40) + "\r\n"
	if got := replies(); !strings.HasPrefix(got, "-ERR the client sends no more") || !strings.HasSuffix(got, "\r\n"+none+"+PONG\r\n") {
		t.Errorf("the replies are %q", got)
	}
	r.wantNoClients()
}

// TestWorkerIsGivenBackByWhoIsGone: the end of a connection ends what a worker does for it.
func TestWorkerIsGivenBackByWhoIsGone(t *testing.T) {
	r := startServer(t)
	admin := r.dial()
	const worker = 3
	stripe := r.engine.Store.Stripe(0, []byte("key"))
	if r.engine.Locks.TryExclusive(stripe, worker) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	client := r.dialRaw()
	var session *execute.Session
	r.at(client, func(c *connection) {
		session = c.session
		client.send("DEBUG DIGEST-VALUE key\r\n")
	})
	r.wantSome("is a worker's", func(c *connection) bool { return c.working })
	client.reset()
	eventually(t, "its end is known", func() bool { return session.Killed() })
	r.engine.Locks.ReleaseExclusive(stripe, worker)
	eventually(t, "its session has ended", func() bool { return r.engine.Clients.Count() == 1 })
	if statistics := admin.do("info", "commandstats"); strings.Contains(statistics, "cmdstat_debug") {
		t.Errorf("it was executed: %s", statistics)
	}
}
