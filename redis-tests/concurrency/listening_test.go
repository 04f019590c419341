package concurrency

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// listener comes and goes while messages are published.
type listener struct {
	*resp.Connection
	got int
}

// listen subscribes, takes some messages, unsubscribes, and asks for something else: messages come
// in order and without a gap between the first and the last, each for the channel and for the
// pattern, and none when the client was told that it listens no more.
func (l *listener) listen(messages int) error {
	l.Queue("SUBSCRIBE", "news")
	l.Queue("PSUBSCRIBE", "n*s")
	if err := l.Flush(); err != nil {
		return err
	}
	last := map[string]int{}
	for listening := 0; ; {
		reply, err := l.Read()
		if err != nil {
			return err
		}
		words := reply.Strings()
		switch word := words[0]; word {
		case "subscribe", "psubscribe":
			listening++
		case "unsubscribe", "punsubscribe":
			if listening--; listening == 0 {
				return l.ping()
			}
		default:
			number, err := strconv.Atoi(words[len(words)-1])
			if before, any := last[word]; err != nil || any && number != before+1 {
				return fmt.Errorf("%s came behind number %d", words, before)
			}
			last[word] = number
			l.got++
			if messages--; messages == 0 {
				l.Queue("UNSUBSCRIBE", "news")
				l.Queue("PUNSUBSCRIBE", "n*s")
				if err := l.Flush(); err != nil {
					return err
				}
			}
		}
	}
}

// ping expects nothing before the reply.
func (l *listener) ping() error {
	reply, err := l.Do("PING")
	if err == nil && !reply.Is("PONG") {
		err = fmt.Errorf("PING was answered %s", reply)
	}
	return err
}

// TestListenersThatComeAndGo publishes to clients that begin and end to listen all the time.
func TestListenersThatComeAndGo(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	publisher := server.MustDial(t)
	listeners := make([]*listener, 40)
	var left atomic.Int32
	var running sync.WaitGroup
	left.Store(int32(len(listeners)))
	for i := range listeners {
		listeners[i] = &listener{Connection: server.MustDial(t)}
		running.Go(func() {
			defer left.Add(-1)
			for range 20 * *scale {
				if err := listeners[i].listen(1 + i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for number := 0; left.Load() > 0; {
		for range 16 {
			publisher.Queue("PUBLISH", "news", strconv.Itoa(number))
			number++
		}
		if err := publisher.Flush(); err != nil {
			t.Fatal(err)
		}
		for range 16 {
			if _, err := publisher.Read(); err != nil {
				t.Fatal(err)
			}
		}
	}
	running.Wait()
	for i, l := range listeners {
		if l.got == 0 {
			t.Errorf("listener %d got nothing", i)
		}
	}
}
