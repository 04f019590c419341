package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"kedis/redis-tests/launch"
)

// clients is how many connections send requests.
const clients = 32

// connection sends requests and reads replies without allocating: the client's own garbage
// collection isn't to be measured.
type connection struct {
	net.Conn
	reader  *bufio.Reader
	request []byte
}

func dial(server *launch.Server, bufferSize int) (*connection, error) {
	network, err := net.Dial("tcp", server.Address)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: network, reader: bufio.NewReaderSize(network, bufferSize)}, nil
}

// errMissing says that a key that was loaded isn't there.
var errMissing = errors.New("a key that was written isn't there")

// skipReply reads one status or bulk string and forgets it. An error reply is an error, and so is a
// missing key.
func (c *connection) skipReply() error {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch line[0] {
	case '+':
		return nil
	case '$':
		length, err := strconv.Atoi(string(line[1 : len(line)-2]))
		if err != nil {
			return err
		}
		if length < 0 {
			return errMissing
		}
		_, err = c.reader.Discard(length + 2)
		return err
	}
	return fmt.Errorf("the server answered %q", line)
}

// load sets every key once, in pipelines over some connections.
func (d *data) load(server *launch.Server) error {
	const connections, depth = 8, 64
	return parallel(connections, func(n int) error {
		c, err := dial(server, 1<<12)
		if err != nil {
			return err
		}
		defer c.Close()
		random := rand.New(rand.NewPCG(1, uint64(n)))
		until := d.count * (n + 1) / connections
		for from := d.count * n / connections; from < until; from += depth {
			c.request = c.request[:0]
			count := min(depth, until-from)
			for i := range count {
				c.request = d.appendSet(c.request, from+i, random)
			}
			if _, err := c.Write(c.request); err != nil {
				return err
			}
			for range count {
				if err := c.skipReply(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// parallel runs work n times side by side, and returns every error.
func parallel(n int, work func(i int) error) error {
	failures := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { failures[i] = work(i) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// workload is a mix of requests: which keys, and what share (0 to 1) of the requests writes.
type workload struct {
	data   *data
	choose chooser
	writes float64
}

// outcome is what requests of one workload took.
type outcome struct {
	reads, writes histogram
	took          time.Duration
	timeline      timeline // of an open loop
}

func (o *outcome) all() *histogram {
	all := o.reads
	all.add(&o.writes)
	return &all
}

// rate is requests/s.
func (o *outcome) rate() float64 { return float64(o.reads.count+o.writes.count) / o.took.Seconds() }

// appendRequest appends the next request, and says whether it writes.
func (w *workload) appendRequest(destination []byte, random *rand.Rand) (_ []byte, writes bool) {
	i := w.choose(random)
	if random.Float64() < w.writes {
		return w.data.appendSet(destination, i, random), true
	}
	return appendGet(destination, i), false
}

// record counts one request in the histogram of its kind.
func (o *outcome) record(writes bool, d time.Duration) {
	if writes {
		o.writes.record(d)
	} else {
		o.reads.record(d)
	}
}

// closedLoop has every connection send its next request when the last one is answered.
func (w *workload) closedLoop(server *launch.Server, length time.Duration) (*outcome, error) {
	return w.onEach(server, func(c *connection, random *rand.Rand, o *outcome, t turn) error {
		for sent := time.Now(); sent.Sub(t.began) < length; {
			var writes bool
			c.request, writes = w.appendRequest(c.request[:0], random)
			if _, err := c.Write(c.request); err != nil {
				return err
			}
			if err := c.skipReply(); err != nil {
				return err
			}
			now := time.Now()
			o.record(writes, now.Sub(sent))
			sent = now
		}
		return nil
	})
}

// turn is what one connection of a run has to know.
type turn struct {
	number int // of the connection
	began  time.Time
}

// onEach runs work on each connection, and adds up the outcomes. The clock starts when all of them
// are served: making them isn't measured.
func (w *workload) onEach(server *launch.Server, work func(*connection, *rand.Rand, *outcome, turn) error) (*outcome, error) {
	outcomes := make([]outcome, clients)
	connections, err := dialAll(server)
	defer func() {
		for _, c := range connections {
			c.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = parallel(clients, func(i int) error {
		return work(connections[i], rand.New(rand.NewPCG(uint64(began.UnixNano()), uint64(i))), &outcomes[i], turn{i, began})
	})
	sum := &outcome{took: time.Since(began)}
	for i := range outcomes {
		sum.reads.add(&outcomes[i].reads)
		sum.writes.add(&outcomes[i].writes)
		sum.timeline.add(outcomes[i].timeline)
	}
	return sum, err
}

// dialAll makes the connections of a run, each of which the server has answered once.
func dialAll(server *launch.Server) (connections []*connection, err error) {
	for range clients {
		c, err := dial(server, 1<<12)
		if err != nil {
			return connections, err
		}
		connections = append(connections, c)
		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			return connections, err
		}
		if err := c.skipReply(); err != nil {
			return connections, err
		}
	}
	return connections, nil
}
