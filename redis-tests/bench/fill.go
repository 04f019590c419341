package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/launch"
)

func flush(_ *plan, server *launch.Server) error {
	_, err := ask(server, "flushall")
	return err
}

// requested fills an empty server by a request with place holders, which is sent so many times for
// each of the keys that they stand for; 0: as many as the plan has.
func requested(keys int, times float64, request string) func(*plan, *launch.Server) error {
	return requestedOfSize(0, keys, times, request)
}

// requestedOfSize is requested with values of a size; 0: as the plan says.
func requestedOfSize(size, keys int, times float64, request string) func(*plan, *launch.Server) error {
	return func(p *plan, server *launch.Server) error {
		if err := flush(p, server); err != nil {
			return err
		}
		return p.send(server, size, keys, times, request)
	}
}

func (p *plan) send(server *launch.Server, size, keys int, times float64, request string) error {
	if keys == 0 {
		keys = p.keys
	}
	arguments := []string{"-P", "64", "-r", strconv.Itoa(keys), "-n", strconv.Itoa(int(times * float64(keys)))}
	return p.load(server, append(arguments, p.withData(strings.Fields(request), size)...)...)
}

// fillStrings writes every key that GET may ask for, and reads them all once: hot means hot.
func fillStrings(p *plan, server *launch.Server) error {
	if err := requested(0, 4, "set key:__rand_int__ __data__")(p, server); err != nil {
		return err
	}
	return p.send(server, 0, 0, 4, "get key:__rand_int__")
}

// fillOthers writes ten million keys, and a hash of a million fields, among which there are none
// that are asked for.
func fillOthers(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	for _, c := range []struct {
		count   float64
		request string
	}{{1e7, "set key:__rand_int__ value"}, {1e6, "hset hash field:__rand_int__ value"}} {
		if err := p.send(server, 0, unheardOf, c.count*p.scale/unheardOf, c.request); err != nil {
			return err
		}
	}
	return nil
}

// fillList pushes more elements than all of a round's LPOPs can take.
func fillList(p *plan, server *launch.Server) error {
	if err := flush(p, server); err != nil {
		return err
	}
	return p.load(server, "-P", "64", "-n", strconv.Itoa(p.ordinary(64)), "-t", "lpush")
}

// fillElements makes a list of as many elements as the plan has keys, with one that is looked for
// near each end.
func fillElements(p *plan, server *launch.Server) error {
	if err := requested(0, 1, "rpush list m:__rand_int__")(p, server); err != nil {
		return err
	}
	others := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for command, sought := range map[string]string{"lpush": "near", "rpush": "far"} {
		if _, err := ask(server, append([]string{command, "list", sought}, others...)...); err != nil {
			return err
		}
	}
	return nil
}

const (
	// wholeText leaves values as large as the plan has them.
	wholeText = 1 << 20
	// shortText is the size (bytes) of values that leave a hash packed, in Redis and in Kedis.
	shortText = 40
)

// fillHash makes a hash of 100 values of the plan's size, or of the most, if that is less.
func fillHash(most int) func(*plan, *launch.Server) error {
	return func(p *plan, server *launch.Server) error {
		return fill(p, server, "hset", "hash100", func(i int) []string { return []string{fmt.Sprintf("field:%03d", i), text(p, most, i)} })
	}
}

func fillSortedSet(p *plan, server *launch.Server) error {
	return fill(p, server, "zadd", "zset100", func(i int) []string { return []string{strconv.Itoa(i), fmt.Sprintf("member:%03d", i)} })
}

func fill(p *plan, server *launch.Server, command, key string, element func(int) []string) error {
	if err := flush(p, server); err != nil {
		return err
	}
	request := []string{command, key}
	for i := range 100 {
		request = append(request, element(i)...)
	}
	_, err := ask(server, request...)
	return err
}

// text is a value of the wanted size, or of the most, that differs from the next.
func text(p *plan, most, i int) string { return fmt.Sprintf("%0*d", min(p.valueSize, most), i) }

// The forms of small collections: one record in Kedis, or one for each element. Redis keeps the
// first as listpacks, but for sets.
const (
	packed = "PACKED"
	spread = "SPREAD"
)

// widths are the bytes of the first element of a small collection and of the others. A list is
// spread for what its elements take together, others for one that is long.
func widths(add string, elements int, form string) (first, others int) {
	const short, long, longList = 20, 70, 8500
	switch {
	case form == packed:
		return short, short
	case add == "rpush":
		return longList / elements, longList / elements
	}
	return long, short
}

// fillSmall makes many collections with so many elements by a command.
func fillSmall(add string, elements int, form string) func(*plan, *launch.Server) error {
	first, others := widths(add, elements, form)
	words := elementsOf(add, elements, func(i int) string {
		if i == 0 {
			return fmt.Sprintf("%0*d", first, i)
		}
		return fmt.Sprintf("%0*d", others, i)
	})
	return func(p *plan, server *launch.Server) error {
		if err := flush(p, server); err != nil {
			return err
		}
		return pipeline(server, min(manySmall, p.keys), func(i int) []string {
			return slices.Concat([]string{add, fmt.Sprintf("small:%012d", i)}, words)
		})
	}
}

// elementsOf are the words with which a command adds elements.
func elementsOf(add string, count int, element func(i int) string) (words []string) {
	for i := range count {
		switch add {
		case "hset":
			words = append(words, fmt.Sprintf("field:%d", i))
		case "zadd":
			words = append(words, strconv.Itoa(i))
		}
		words = append(words, element(i))
	}
	return words
}

func member(i int) string { return fmt.Sprintf("member:%06d", i) }

// fillOne makes a collection of so many elements.
func fillOne(add string, size int) func(*plan, *launch.Server) error {
	return func(p *plan, server *launch.Server) error {
		if err := flush(p, server); err != nil {
			return err
		}
		_, err := ask(server, slices.Concat([]string{add, "collection"}, elementsOf(add, size, member))...)
		return err
	}
}

// fillTwo makes two collections of one size. Half of their members are in both.
func fillTwo(add string, size int) func(*plan, *launch.Server) error {
	return func(p *plan, server *launch.Server) error {
		if err := flush(p, server); err != nil {
			return err
		}
		for n, key := range []string{"one", "two"} {
			words := elementsOf(add, size, func(i int) string { return member(i + n*size/2) })
			if _, err := ask(server, slices.Concat([]string{add, key}, words)...); err != nil {
				return err
			}
		}
		return nil
	}
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
