package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"kedis/redis-tests/launch"
)

// Requests on streams and places.

const (
	streamEntries = 1_000_000
	places        = 1_000_000
	// Places are spread over a region of some 700 by 1,100 km, so that there are some twenty within
	// two kilometres of each.
	west, east, south, north = 0.0, 10.0, 45.0, 55.0
	atATime                  = 1000 // requests of a pipeline, or places of a request
)

var streamWorkloads = slices.Concat(
	data{prepare: flush, anew: true}.lines(row{"XADD", "xadd stream * field __data__", ordered, 1}),
	data{prepare: flush}.lines(row{"XADD_MAXLEN", "xadd stream maxlen ~ 1000 * field __data__", ordered, 1}),
	data{prepare: fillStream, keys: streamEntries - 10}.lines(
		row{"XREAD_LAST_10", "xread count 10 streams stream " + strconv.Itoa(streamEntries-10), ordered, 0.3},
		row{"XRANGE_10", "xrange stream __rand_int__ + count 10", ordered, 0.3}),
	data{prepare: fillGroup, keys: consumers, anew: true}.lines(
		row{"XREADGROUP", "xreadgroup group group consumer:__rand_int__ count 1 streams stream >", ordered, 0.3}),
	data{prepare: fillPending, keys: streamEntries, anew: true}.lines(row{"XACK", "xack stream group __rand_int__", ordered, 0.3}),
	data{prepare: fillPlaces, keys: places}.lines(
		row{"GEOSEARCH", "geosearch places frommember place:__rand_int__ byradius 2 km asc", ordered, 0.1}),
)

// consumers of a group.
const consumers = 10

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
