package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// request is how the tests below fill buffers: its reply is as long.
var request = "ECHO " + strings.Repeat("x", 1000) + "\r\n"

// sendAll sends a request so many times from a goroutine, while the caller does something else.
func (c *rawClient) sendAll(text string, times int) (sent <-chan error) {
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < times && err == nil; i++ {
			_, err = c.Write([]byte(text))
		}
		done <- err
	}()
	return done
}

// wantEchoes expects the replies to request.
func (c *rawClient) wantEchoes(times int) {
	c.t.Helper()
	for range times {
		c.wantLine("$1000")
		c.wantLine(strings.Repeat("x", 1000))
	}
}

// startTight starts a server that lets little wait.
func startTight(t *testing.T, options ...string) *running {
	return startPrepared(t, func(s *running) { s.outboundPause, s.mostWaiting = 64<<10, 256<<10 }, options...)
}

// wantUnread waits until a connection isn't read from, and looks how much it holds.
func (r *running) wantUnread() {
	r.t.Helper()
	r.wantSome("is not read from", func(c *connection) bool { return c.unread })
	const once = 64 << 10 // what gnet reads in one go
	if !r.look(func(c *connection) bool { return c.parser.Buffered() <= r.mostWaiting+2*once }) {
		r.t.Error("more waits than may")
	}
}

// wantSome waits until something is true of a connection.
func (r *running) wantSome(what string, is func(c *connection) bool) {
	r.t.Helper()
	eventually(r.t, "a connection "+what, func() bool {
		var found atomic.Bool
		r.look(func(c *connection) bool {
			if is(c) {
				found.Store(true)
			}
			return true
		})
		return found.Load()
	})
}

// TestUnreadRepliesStopReading sends more than may wait and reads nothing: the server stops to
// read, and goes on when the client reads.
func TestUnreadRepliesStopReading(t *testing.T) {
	r := startTight(t)
	c := r.dialRaw()
	const times = 50_000
	sent := c.sendAll(request, times)
	r.wantUnread()
	c.wantEchoes(times)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	c.send("PING\r\n")
	c.wantLine("+PONG")
	if !r.look(func(c *connection) bool { return !c.unread }) {
		t.Error("the server does not read")
	}
}

// TestWaitingRequestStopsReading sends more than may wait behind a request that waits for the end
// of a pause.
func TestWaitingRequestStopsReading(t *testing.T) {
	r := startTight(t)
	admin, c := r.dial(), r.dialRaw()
	admin.want("+OK", "client", "pause", "1000000", "write")
	const times = 20_000
	c.send("SET key value\r\n")
	sent := c.sendAll(request, times)
	r.wantUnread()
	admin.want("+OK", "client", "unpause")
	c.wantLine("+OK")
	c.wantEchoes(times)
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestUnreadClientIsDisconnected sends more than a limit allows and reads nothing.
func TestUnreadClientIsDisconnected(t *testing.T) {
	unknown := strings.Repeat("x", 128) + " " + strings.Repeat("y", 128) + "\r\n" // of refusals the longest
	for name, limit := range map[string]struct {
		options []string
		request string
	}{
		"hard":            {[]string{"client-output-buffer-limit", "normal 8mb 0 0"}, request},
		"soft":            {[]string{"client-output-buffer-limit", "normal 0 8mb 1"}, request},
		"unauthenticated": {[]string{"requirepass", "secret"}, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			r := startServer(t, limit.options...)
			c := r.dialRaw()
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			err := <-c.sendAll(limit.request, 200_000)
			if timeout := net.Error(nil); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("the client is still connected (%v)", err)
			}
			r.wantNoClients()
		})
	}
}

// TestNothingIsKeptBehindTheEnd sends much behind QUIT, whose reply waits behind others that aren't
// read.
func TestNothingIsKeptBehindTheEnd(t *testing.T) {
	r := startPrepared(t, func(s *running) { s.outboundPause = 64 << 20 }) // so that QUIT is executed
	c := r.dialRaw()
	const large, times = 1 << 20, 20 // no worker makes the replies: a connection waits until such a one is sent
	r.dial().want("+OK", "set", "key", strings.Repeat("x", large))
	c.send(strings.Repeat("GET key\r\n", times) + "QUIT\r\n")
	r.wantSome("waits for its end", func(c *connection) bool { return c.session.Closing() })
	sent := c.sendAll(request, 5000)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if !r.look(func(c *connection) bool { return c.parser.Buffered() < 1<<20 }) {
		t.Error("what comes behind QUIT is kept")
	}
	c.wantLine(fmt.Sprintf("$%d", large))
}
