package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"kedis/redis-tests/launch"
)

// Requests on streams and places.

const (
	streamEntries = 1_000_000
	places        = 1_000_000
	// Places are spread over a region of some 700 by 1,100 km, so that there are some twenty within two kilometres of each.
	west, east, south, north = 0.0, 10.0, 45.0, 55.0
	atATime                  = 1000 // requests of a pipeline, or places of a request
)

var streamWorkloads = []workload{
	{name: "XADD", request: []string{"xadd", "stream", "*", "field", "__data__"}, requests: 1, prepare: flush, anew: true, reply: entryID},
	{name: "XADD_MAXLEN", request: []string{"xadd", "stream", "maxlen", "~", "1000", "*", "field", "__data__"}, requests: 1, prepare: flush, reply: entryID},
	{name: "XREAD_LAST_10", request: []string{"xread", "count", "10", "streams", "stream", strconv.Itoa(streamEntries - 10)}, requests: 0.3,
		prepare: fillStream, reply: func(p *plan) string { return "*1\r\n*2\r\n" + bulk("stream") + tenEntries(p) }},
	{name: "XRANGE_10", request: []string{"xrange", "stream", "__rand_int__", "+", "count", "10"}, keys: streamEntries - 10, requests: 0.3,
		prepare: fillStream, reply: tenEntries},
	{name: "XREADGROUP", request: []string{"xreadgroup", "group", "group", "consumer:__rand_int__", "count", "1", "streams", "stream", ">"},
		keys: consumers, requests: 0.3, prepare: fillGroup, anew: true, reply: func(p *plan) string { return "*1\r\n*2\r\n" + bulk("stream") + "*1\r\n" + entry(p) }},
	{name: "XACK", request: []string{"xack", "stream", "group", "__rand_int__"}, keys: streamEntries, requests: 0.3, prepare: fillPending, anew: true, reply: count},
	{name: "GEOSEARCH", request: []string{"geosearch", "places", "frommember", "place:__rand_int__", "byradius", "2", "km", "asc"}, keys: places,
		requests: 0.1, prepare: fillPlaces, reply: func(*plan) string { return "*1\r\n" + bulk("place:000000000001") }},
}

// consumers of a group.
const consumers = 10

func entryID(*plan) string { return bulk("1700000000000-0") }

func entry(p *plan) string {
	return "*2\r\n" + bulk("1000000-0") + "*2\r\n" + bulk("field") + value(p)
}

func tenEntries(p *plan) string {
	text := "*10\r\n"
	for range 10 {
		text += entry(p)
	}
	return text
}

// fillStream makes a stream whose entries have the ids 1-0, 2-0 …
func fillStream(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	return pipeline(server, streamEntries, func(i int) []string {
		return []string{"xadd", "stream", fmt.Sprintf("%d-0", i+1), "field", text(p, wholeText, i)}
	})
}

// fillGroup makes such a stream, and a group that has got nothing of it.
func fillGroup(p *plan, server *launch.Server) error {
	if err := fillStream(p, server); err != nil {
		return err
	}
	_, err := ask(server, "xgroup", "create", "stream", "group", "0")
	return err
}

// fillPending makes such a stream, and a group to whose ten consumers all of it is pending.
func fillPending(p *plan, server *launch.Server) error {
	if err := fillGroup(p, server); err != nil {
		return err
	}
	return pipeline(server, streamEntries/atATime, func(i int) []string {
		return []string{"xreadgroup", "group", "group", fmt.Sprint("consumer:", i%consumers), "count", strconv.Itoa(atATime), "streams", "stream", ">"}
	})
}

func fillPlaces(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	degrees := func(from, to float64) string {
		return strconv.FormatFloat(from+random.Float64()*(to-from), 'f', 6, 64)
	}
	return pipeline(server, places/atATime, func(i int) []string {
		request := []string{"geoadd", "places"}
		for k := range atATime {
			request = append(request, degrees(west, east), degrees(south, north), fmt.Sprintf("place:%012d", i*atATime+k))
		}
		return request
	})
}

// pipeline sends requests, many at a time.
func pipeline(server *launch.Server, requests int, request func(i int) []string) error {
	c, err := server.Dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for from := 0; from < requests; from += atATime {
		n := min(atATime, requests-from)
		for i := range n {
			c.Queue(request(from + i)...)
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for range n {
			if reply, err := c.Read(); err != nil || reply.IsError() {
				return fmt.Errorf("%s %w", reply, err)
			}
		}
	}
	return nil
}
