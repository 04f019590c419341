package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	// restStep is how long the machine is looked at at a time, and atRest how much of its
	// processors may be in use then.
	restStep = 250 * time.Millisecond
	atRest   = 0.1
)

// rest waits until what came before has ended: compactions, a rewrite of Redis's log. It would else
// be counted against what comes next. It returns how much of the processors' time was used
// meanwhile, in seconds: what is left to the background costs, too.
func (p *plan) rest() (seconds float64, err error) {
	first, err := readTicks()
	before := first
	for began := time.Now(); err == nil && time.Since(began) < p.patience; {
		time.Sleep(restStep)
		var after ticks
		if after, err = readTicks(); err != nil {
			break
		}
		if total := after.total - before.total; total > 0 && float64(after.used-before.used) < atRest*float64(total) {
			break
		}
		before = after
	}
	return float64(before.used-first.used) / ticksPerSecond, err
}

// ticksPerSecond is USER_HZ, which is the same for all that Go runs on.
const ticksPerSecond = 100

// ticks are times of all processors together since the machine was started.
type ticks struct{ used, total int64 }

// readTicks reads the first line of /proc/stat; see proc_stat(5). Waiting for a disk counts as use.
func readTicks() (t ticks, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	const idle = 4
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return t, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, field := range fields[1:9] { // those behind are part of the first two
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		if t.total += n; i+1 != idle {
			t.used += n
		}
	}
	return t, nil
}
