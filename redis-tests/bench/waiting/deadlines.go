package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"time"

	"kedis/redis-tests/launch"
)

const (
	probesAtOnce  = 20
	shortestProbe = 20 * time.Millisecond
	longestProbe  = 300 * time.Millisecond
)

// probe is a client that waits for nothing but its deadline.
type probe struct{ due time.Time }

// deadlines measures how late deadlines are told of, among clients that wait, and with SETs beside
// them.
func (b *bench) deadlines(server *launch.Server) error {
	c, err := newCrowd()
	if err != nil {
		return err
	}
	defer c.close()
	h := &handing{crowd: c, keys: max(b.clients/clientsPerKey, 3)}
	if err := h.start(b.clients, server); err != nil {
		return err
	}
	late, err := b.probe(c, server)
	if err != nil {
		return err
	}
	b.say("  %d deadlines among %d waiting clients, late by: %v", len(late), b.clients, late)
	if !b.load {
		return nil
	}
	load := exec.Command("redis-benchmark", "-p", strconv.Itoa(server.Port), "-t", "set", "-c", "16", "-P", "16", "-r", "100000", "-n", "1000000000", "-q")
	if err := load.Start(); err != nil {
		return err
	}
	defer func() {
		_ = load.Process.Kill()
		_ = load.Wait()
	}()
	time.Sleep(500 * time.Millisecond)
	if late, err = b.probe(c, server); err != nil {
		return err
	}
	b.say("  beside SETs at depth 16, late by: %v", late)
	return nil
}

// probe has some clients wait for deadlines, one after the other, and returns how late they came.
func (b *bench) probe(c *crowd, server *launch.Server) (late distribution, err error) {
	probes := map[int]*probe{}
	random := rand.New(rand.NewPCG(1, 2))
	begin := func(m *member) error {
		wait := shortestProbe + time.Duration(random.Int64N(int64((longestProbe-shortestProbe)/time.Millisecond)))*time.Millisecond
		probes[m.number] = &probe{time.Now().Add(wait)}
		return m.send(command("BLPOP", "nothing", strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)))
	}
	for range probesAtOnce {
		m, err := c.dial(server.Port)
		if err != nil {
			return nil, err
		}
		if err := begin(m); err != nil {
			return nil, err
		}
	}
	err = c.until("deadlines", func() bool { return len(late) >= b.probes }, func(m *member, received []byte) (int, error) {
		if string(received) != "*-1\r\n" {
			return 0, fmt.Errorf("client %d was answered %q", m.number, received)
		}
		p := probes[m.number]
		if p == nil { // it is one of another run
			return len(received), nil
		}
		late = append(late, time.Since(p.due))
		return len(received), begin(m)
	})
	return late, err
}
