package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
)

// depths are how many messages the publisher sends at once.
var depths = []int{1, 16}

// published counts what has come of the messages.
type published struct {
	publisher *member
	confirmed int // subscriptions
	replies   int // to PUBLISH
	bytes     int // that subscribers have received
}

const (
	channel = "news:7"
	message = "something has happened that everybody should know of"
)

// publish sends messages to many clients that listen to a channel, and to one of many that listen
// to a pattern each.
func (b *bench) publish(server *launch.Server) error {
	c, err := newCrowd()
	if err != nil {
		return err
	}
	defer c.close()
	p := &published{}
	for i := range b.subscribers + b.patterns {
		m, err := c.dial(server.Port)
		if err != nil {
			return err
		}
		request := command("SUBSCRIBE", channel)
		if i >= b.subscribers {
			request = command("PSUBSCRIBE", "*:"+strconv.Itoa(i-b.subscribers))
		}
		if err := m.send(request); err != nil {
			return err
		}
	}
	if err := c.until("subscriptions", func() bool { return p.confirmed == len(c.members) }, func(_ *member, received []byte) (int, error) {
		p.confirmed += bytes.Count(received, []byte("subscribe\r\n"))
		return len(received), nil
	}); err != nil {
		return err
	}
	if p.publisher, err = c.dial(server.Port); err != nil {
		return err
	}
	for _, depth := range depths {
		used, err := launch.ProcessorTime(server.ProcessID())
		if err != nil {
			return err
		}
		began := time.Now()
		count, err := b.publishFor(c, p, depth)
		if err != nil {
			return err
		}
		took := time.Since(began)
		now, err := launch.ProcessorTime(server.ProcessID())
		if err != nil {
			return err
		}
		b.say("  %d at once: %.0f PUBLISH/s; %.0f µs of the server's processor each", depth, float64(count)/took.Seconds(),
			float64((now-used).Microseconds())/float64(count))
	}
	return nil
}

// publishFor publishes so many at once, as soon as those before are answered, and waits until all
// have come to all who listen.
func (b *bench) publishFor(c *crowd, p *published, depth int) (count int, err error) {
	received := b.subscribers + min(b.patterns, 8)/8 // who get each message
	plain := len(messageText("message", channel, message)) * b.subscribers
	if received > b.subscribers {
		plain += len(messageText("pmessage", "*:7", channel, message))
	}
	p.replies, p.bytes = 0, 0
	requests := bytes.Repeat(command("PUBLISH", channel, message), depth)
	expected := ":" + strconv.Itoa(received) + "\r\n"
	take := func(m *member, b []byte) (int, error) {
		if m != p.publisher {
			p.bytes += len(b)
			return len(b), nil
		}
		whole := len(b) / len(expected)
		if string(b[:whole*len(expected)]) != strings.Repeat(expected, whole) {
			return 0, fmt.Errorf("PUBLISH was answered %q", b)
		}
		p.replies += whole
		return whole * len(expected), nil
	}
	for began := time.Now(); time.Since(began) < b.length; {
		if err := p.publisher.send(requests); err != nil {
			return 0, err
		}
		count += depth
		if err := c.until("replies", func() bool { return p.replies == count }, take); err != nil {
			return 0, err
		}
	}
	return count, c.until("messages", func() bool { return p.bytes == count*plain }, take)
}

// messageText is what a subscriber is sent.
func messageText(words ...string) []byte { return command(words...) }
