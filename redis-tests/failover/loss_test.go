package failover

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

// TestLoss counts what one writer was told and the new primary doesn't have, after a SENTINEL
// FAILOVER: nothing when replies wait for the replica, and otherwise the more, the later the former
// primary finds out.
func TestLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("each failover takes seconds")
	}
	for _, test := range []struct {
		name                     string
		replicas, sentinelQuorum int
	}{{"nobody waits", 0, 0}, {"nobody waits, sentinel-quorum 2", 0, 2}, {"synchronous-replicas 1, sentinel-quorum 2", 1, 2}} {
		t.Run(test.name, func(t *testing.T) {
			if test.replicas == 0 && *rounds == 0 {
				t.Skip("this only tells a figure: make failovers")
			}
			g := start(t, 1, nil, "--synchronous-replicas", strconv.Itoa(test.replicas), "--sentinel-quorum", strconv.Itoa(test.sentinelQuorum))
			w := &writer{t: t}
			g.eventually(g.primary, "connected_slaves:1")
			g.ready()
			done := make(chan struct{})
			former := g.primary
			go func() {
				defer close(done)
				w.write(former.Address)
			}()
			sentinelFailover(g, rand.New(rand.NewPCG(seed.Of(t), 1)))
			<-done
			g.eventually(former, "role:slave")
			lost := w.missing(g.primary.Address)
			t.Logf("%s: %d of %d acknowledged writes are lost", test.name, lost, w.acknowledged)
			if test.replicas > 0 && lost > 0 {
				t.Error("that was promised not to happen")
			}
		})
	}
}

// writer sets one key after the other, batch by batch.
type writer struct {
	t            *testing.T
	acknowledged int // keys from 0 on
}

const batch = 16

// write goes on until it is answered with an error, or not at all, within 30 s.
func (w *writer) write(address string) {
	c, err := resp.Dial(address, patience)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer hangUp(c)
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		for i := range batch {
			c.Queue("SET", fmt.Sprint("key:", w.acknowledged+i), "value")
		}
		if c.Flush() != nil {
			return
		}
		for range batch {
			reply, err := c.Read()
			if err != nil || reply.IsError() {
				return
			}
			w.acknowledged++
		}
	}
	w.t.Error("the former primary takes writes for half a minute")
}

// missing counts the acknowledged keys that a server doesn't have.
func (w *writer) missing(address string) (missing int) {
	c, err := resp.Dial(address, time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	defer hangUp(c)
	for first := 0; first < w.acknowledged; first += 1000 {
		words := []string{"EXISTS"}
		for key := first; key < min(first+1000, w.acknowledged); key++ {
			words = append(words, fmt.Sprint("key:", key))
		}
		reply, err := c.Must(words...)
		if err != nil {
			w.t.Fatal(err)
		}
		there, _ := reply.Integer()
		missing += len(words) - 1 - int(there)
	}
	return missing
}
