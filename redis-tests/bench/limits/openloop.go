package main

import (
	"math/rand/v2"
	"time"

	"kedis/redis-tests/launch"
)

// slot is the time that a point of a timeline stands for.
const slot = 100 * time.Millisecond

// timeline is the worst latency among the requests that were due in each slot.
type timeline []time.Duration

func (t *timeline) record(due, latency time.Duration) {
	i := int(due / slot)
	for len(*t) <= i {
		*t = append(*t, 0)
	}
	(*t)[i] = max((*t)[i], latency)
}

func (t *timeline) add(other timeline) {
	for i, latency := range other {
		t.record(time.Duration(i)*slot, latency)
	}
}

// pending is a request that was sent and isn't answered yet.
type pending struct {
	due    time.Duration // since the beginning
	writes bool
}

// unanswered is how many requests of one connection may wait for their replies before it sends no
// more. Those count from when they were due all the same.
const unanswered = 1 << 12

// openLoop sends rate requests/s whatever the server does, each when it is due, and counts latency
// from then on: what waits behind a slow request counts as slow too.
func (w *workload) openLoop(server *launch.Server, rate float64, length time.Duration) (*outcome, error) {
	interval := time.Duration(float64(clients) / rate * float64(time.Second))
	return w.onEach(server, func(c *connection, random *rand.Rand, o *outcome, t turn) error {
		sent := make(chan pending, unanswered)
		failed := make(chan error, 1)
		go func() {
			defer close(sent)
			failed <- w.sendWhenDue(c, random, sent, schedule{t.began, interval * time.Duration(t.number) / clients, interval, length})
		}()
		for p := range sent {
			if err := c.skipReply(); err != nil {
				c.Close() // the sender ends too
				for range sent {
				}
				return err
			}
			latency := time.Since(t.began) - p.due
			o.record(p.writes, latency)
			o.timeline.record(p.due, latency)
		}
		return <-failed
	})
}

// schedule is when one connection's requests are due.
type schedule struct {
	began         time.Time
	first         time.Duration // since began
	every, length time.Duration
}

// sendWhenDue writes each request at its time; those that have become due meanwhile leave as one
// write.
func (w *workload) sendWhenDue(c *connection, random *rand.Rand, sent chan<- pending, s schedule) error {
	var batch []pending
	for due := s.first; due < s.length; {
		time.Sleep(due - time.Since(s.began))
		c.request, batch = c.request[:0], batch[:0]
		for now := time.Since(s.began); due <= now && due < s.length; due += s.every {
			p := pending{due: due}
			c.request, p.writes = w.appendRequest(c.request, random)
			batch = append(batch, p)
		}
		if _, err := c.Write(c.request); err != nil {
			return err
		}
		for _, p := range batch {
			sent <- p
		}
	}
	return nil
}
