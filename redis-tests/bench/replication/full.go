package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const valueBytes = 64

// smallKeys measures a full synchronization of many small keys.
func smallKeys(out io.Writer, p pair, t *table) error {
	value := strings.Repeat("v", valueBytes)
	request := func(i int) []string { return []string{"set", fmt.Sprintf("key:%010d", i), value} }
	content := int64(*keys) * int64(len("key:0000000000")+valueBytes)
	return full(out, p, t, fmt.Sprintf("full sync, %d keys", *keys), *keys, *keys, content, request)
}

// largeCollections measures one of hashes, lists, sets and sorted sets of many elements.
func largeCollections(out io.Writer, p pair, t *table) error {
	const each = 100 // elements that one request brings
	steps := (*fields + each - 1) / each
	value := strings.Repeat("v", valueBytes)
	request := func(i int) []string {
		number, from := i/steps, i%steps*each
		kind := []string{"hset", "rpush", "sadd", "zadd"}[number%4]
		line := []string{kind, fmt.Sprintf("%s:%d", kind, number)}
		for element := from; element < min(from+each, *fields); element++ {
			switch kind {
			case "hset":
				line = append(line, fmt.Sprintf("field:%08d", element), value)
			case "zadd":
				line = append(line, strconv.Itoa(element), fmt.Sprintf("%s%08d", value, element))
			default:
				line = append(line, fmt.Sprintf("%s%08d", value, element))
			}
		}
		return line
	}
	elements := *collections * *fields
	content := int64(elements) * (valueBytes + 8)
	return full(out, p, t, fmt.Sprintf("full sync, %d collections of %d elements", *collections, *fields), *collections*steps, elements, content, request)
}

// full fills a primary and measures how fast a replica gets everything, and the memory that both
// take.
func full(out io.Writer, p pair, t *table, what string, requests, items int, content int64, request func(i int) []string) (err error) {
	s, err := start(p)
	if err != nil {
		return err
	}
	defer func() {
		if ended := s.end(); err == nil {
			err = ended
		}
	}()
	began := time.Now()
	if err := fill(s.primary, requests, request); err != nil {
		return err
	}
	fmt.Fprintf(out, "filled in %.1f s\n", time.Since(began).Seconds())
	time.Sleep(3 * time.Second) // for what goes on in the background
	resetPeak(s.primary)
	resetPeak(s.replica)
	before := resident(s.primary)
	cost := [2]float64{-processor(s.primary), -processor(s.replica)}
	took, err := s.synchronize()
	if err != nil {
		return err
	}
	cost[0] += processor(s.primary)
	cost[1] += processor(s.replica)
	row := []cell{
		{"seconds", "%.1f", took.Seconds()},
		{"keys or elements/s", "%.0f", float64(items) / took.Seconds()},
		{"MB/s of content", "%.1f", float64(content) / 1e6 / took.Seconds()},
		{"primary's CPU, s", "%.1f", cost[0]},
		{"replica's CPU, s", "%.1f", cost[1]},
		{"primary before, MB", "%.0f", float64(before) / 1e6},
		{"primary peak, MB", "%.0f", float64(peak(s.primary)) / 1e6},
		{"replica peak, MB", "%.0f", float64(peak(s.replica)) / 1e6},
	}
	t.add(what, p.name, row)
	for _, c := range row {
		fmt.Fprintf(out, "%s: %s\n", c.name, c.text())
	}
	return nil
}
