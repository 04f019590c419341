package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// redis-benchmark can't follow a cursor, and its words end at a byte 0. Such requests are sent by a
// client of our own.

// connectionsOfOurs is how many connections it has.
const connectionsOfOurs = 8

// done is what one connection has done.
type done struct {
	count int
	times []float64 // of each request, ms
	err   error
}

// together has all connections do the same, and returns how much they did.
func together(do func(connection int) done) (s sample, count int, err error) {
	var all sync.WaitGroup
	results := make([]done, connectionsOfOurs)
	began := time.Now()
	for i := range results {
		all.Go(func() { results[i] = do(i) })
	}
	all.Wait()
	took := time.Since(began)
	var times []float64
	for _, r := range results {
		if r.err != nil {
			return s, 0, r.err
		}
		count += r.count
		times = append(times, r.times...)
	}
	slices.Sort(times)
	at := func(share float64) float64 { return times[int(share*float64(len(times)-1))] }
	return sample{rate: float64(count) / took.Seconds(), p50: at(0.5), p95: at(0.95), p99: at(0.99), most: at(1)}, count, nil
}

// restore sends a payload, each time for a key of its own, a pipeline at a time.
func restore(server *launch.Server, request []string, requests, depth int) (sample, int, error) {
	payload, err := ask(server, "dump", "collection")
	if err != nil {
		return sample{}, 0, err
	}
	request = slices.Clone(request)
	request[slices.Index(request, payloadHolder)] = payload
	return together(func(connection int) (d done) {
		c, err := server.Dial()
		if err != nil {
			return done{err: err}
		}
		defer func() { _ = c.Close() }()
		for d.count*connectionsOfOurs < requests {
			for range depth {
				c.Queue(withPlaces(request, d.count*connectionsOfOurs+connection)...)
				d.count++
			}
			began := time.Now()
			if err := c.Flush(); err != nil {
				return done{err: err}
			}
			for range depth {
				if reply, err := c.Read(); err != nil || !reply.Is("OK") {
					return done{err: fmt.Errorf("%s answered %s: %w", request[0], reply, err)}
				}
			}
			d.times = append(d.times, time.Since(began).Seconds()*1000)
		}
		return d
	})
}

// walk has each connection go over everything. What is counted is elements, since a server may
// answer more or fewer than it was asked for.
func walk(server *launch.Server, request []string) (sample, int, error) {
	return together(func(int) done { return walkOnce(server, request) })
}

func walkOnce(server *launch.Server, request []string) (d done) {
	c, err := server.Dial()
	if err != nil {
		return done{err: err}
	}
	defer func() { _ = c.Close() }()
	perElement := 1
	if request[0] == "hscan" || request[0] == "zscan" {
		perElement = 2 // with its value or its score
	}
	request = slices.Clone(request)
	at := slices.Index(request, cursorHolder)
	for request[at] = "0"; ; {
		began := time.Now()
		reply, err := c.Must(request...)
		if err != nil {
			return done{err: err}
		}
		if len(reply.Elements) != 2 {
			return done{err: fmt.Errorf("%s answered %s", resp.Line(request), reply)}
		}
		d.times = append(d.times, time.Since(began).Seconds()*1000)
		d.count += len(reply.Elements[1].Elements) / perElement
		if request[at] = string(reply.Elements[0].Text); request[at] == "0" {
			return d
		}
	}
}

// walks reports whether it follows a cursor.
func (w *workload) walks() bool { return slices.Contains(w.request, cursorHolder) }

// withPlaces puts numbers in the place of redis-benchmark's holders.
func withPlaces(request []string, number int) []string {
	request = slices.Clone(request)
	for i := range request {
		request[i] = strings.ReplaceAll(request[i], "__rand_int__", fmt.Sprintf("%012d", number))
	}
	return request
}
