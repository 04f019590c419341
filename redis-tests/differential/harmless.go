package differential

import (
	"slices"
	"strconv"
	"strings"
)

// harmless takes out of a command what would make the comparison, and not a server, go wrong: times
// that come while the run goes on, requests for gigabytes, and counts of random picks that keep
// redis-server busy for hours. What a server is to refuse stays.
func (g *Generator) harmless(line []string) []string {
	name := strings.ToLower(line[0])
	g.harmlessTimes(name, line)
	g.harmlessSizes(name, line)
	switch name {
	case "lrem":
		// 7.2 refuses the smallest integer; 7.0 removes all.
		if len(line) > 2 && line[2] == "-9223372036854775808" {
			line[2] = "-1"
		}
	case "sort":
		line = orderedStore(line)
	case "wait":
		// One for a replica that isn't there would wait for ever.
		if len(line) > 1 {
			line[1] = "0"
		}
	case "scan":
		plainCursor(line, 1)
	case "hscan", "sscan", "zscan":
		plainCursor(line, 2)
	case "client":
		// Redis 7.2 looks at a name only as far as its first byte 0.
		for i := range line {
			line[i] = strings.ReplaceAll(line[i], "\x00", "0")
		}
		return harmlessClient(line)
	case "hello":
		// When a later word is wrong, Redis 7.0 has given the connection its name by then; 7.2 has
		// not.
		if at := slices.IndexFunc(line, func(word string) bool { return strings.EqualFold(word, "setname") }); at > 0 && at+2 < len(line) {
			return line[:at+2]
		}
	case "config":
		return harmlessConfig(line)
	case "debug":
		// What has expired is removed, or members of a cluster never hold the same keys.
		if len(line) == 3 && strings.EqualFold(line[1], "set-active-expire") {
			line[2] = "1"
		}
	case "command":
		if len(line) > 2 {
			g.harmless(line[2:])
		}
	}
	return line
}

// harmlessTimes moves times out of the run.
func (g *Generator) harmlessTimes(name string, line []string) {
	switch name {
	case "expire", "setex":
		g.farAway(line, 2, secondsRange)
	case "pexpire", "psetex":
		g.farAway(line, 2, millisecondsRange)
	case "restore":
		g.farAway(line, 2, millisecondsRange)
		g.farAway(line, 2, unixMillisecondsRange)
	case "expireat":
		g.farAway(line, 2, unixSecondsRange)
	case "pexpireat":
		g.farAway(line, 2, unixMillisecondsRange)
	case "set", "getex":
		g.farAwayOptions(line)
	}
}

// harmlessSizes lowers offsets and counts.
func (g *Generator) harmlessSizes(name string, line []string) {
	switch name {
	case "setrange":
		g.reduce(line, 2, 10_000, 536_870_912)
	case "setbit":
		g.reduce(line, 2, 10_000, 1<<32)
	case "bitfield", "bitfield_ro":
		g.reduceBitOffsets(line)
	case "srandmember", "hrandfield", "zrandmember":
		g.reduceCount(line)
	}
}

// span is a range of numbers.
type span struct{ low, high int64 }

// The times that may come during a run, generously.
var (
	secondsRange          = span{1, 199_999}
	millisecondsRange     = span{1, 199_999_999}
	unixSecondsRange      = span{1_500_000_000, 4_199_999_999}
	unixMillisecondsRange = span{1_500_000_000_000, 4_199_999_999_999}
)

func (g *Generator) farAway(line []string, at int, near span) {
	if at >= len(line) {
		return
	}
	if n, err := strconv.ParseInt(line[at], 10, 64); err == nil && n >= near.low && n <= near.high {
		line[at] = strconv.FormatInt(near.high+1+n%1_000_000, 10)
	}
}

func (g *Generator) farAwayOptions(line []string) {
	for at, word := range line[:len(line)-1] {
		switch strings.ToLower(word) {
		case "ex":
			g.farAway(line, at+1, secondsRange)
		case "px":
			g.farAway(line, at+1, millisecondsRange)
		case "exat":
			g.farAway(line, at+1, unixSecondsRange)
		case "pxat":
			g.farAway(line, at+1, unixMillisecondsRange)
		}
	}
}

// reduce replaces a number between low and high, which a server would take and pay for, by one
// below a thousand.
func (g *Generator) reduce(line []string, at int, low, high int64) {
	if at >= len(line) {
		return
	}
	if n, err := strconv.ParseInt(line[at], 10, 64); err == nil && n > low && n < high {
		line[at] = strconv.FormatInt(n%1000, 10)
	}
}

func (g *Generator) reduceBitOffsets(line []string) {
	for at := 2; at < len(line); at++ {
		digits, multiplied := strings.CutPrefix(line[at], "#")
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil:
		case multiplied && n > 1000:
			line[at] = "#" + strconv.FormatInt(n%100, 10)
		case !multiplied:
			// An offset, or a value to set: either way a number above what a string may hold stays.
			g.reduce(line, at, 10_000, 1<<33)
		}
	}
}

func (g *Generator) reduceCount(line []string) {
	if len(line) < 3 {
		return
	}
	// The smallest integers are refused; those above them are carried out.
	if n, err := strconv.ParseInt(line[2], 10, 64); err == nil && n < -1000 && n != -1<<63 {
		line[2] = strconv.FormatInt(n%50, 10)
	}
}

// plainCursor replaces a cursor that some C function takes for a number although it isn't one,
// since versions use different functions.
func plainCursor(line []string, at int) {
	if at < len(line) && (line[at] == "" || strings.ContainsAny(line[at], " \t\n\v\f\r+-\x00")) {
		line[at] = "abc"
	}
}

// orderedStore makes SORT not store what it may store in any order.
func orderedStore(line []string) []string {
	if has(line, "by") && has(line, "alpha") && has(line, "store") {
		return slices.DeleteFunc(line, func(argument string) bool { return strings.EqualFold(argument, "alpha") })
	}
	return line
}

// has reports whether one of the words is the option, in any case.
func has(line []string, option string) bool {
	return slices.ContainsFunc(line, func(word string) bool { return strings.EqualFold(word, option) })
}

// harmlessConfig lets CONFIG SET change nothing: a crash would undo it, and a mistake might hit any
// option.
func harmlessConfig(line []string) []string {
	if len(line) < 4 || !strings.EqualFold(line[1], "set") {
		return line
	}
	if !slices.Contains(badNumbers, line[3]) || !slices.Contains(limitNames, line[2]) {
		line[2] = "nothing"
	}
	return line
}

// harmlessClient names no connection that there is, and no time that a pause could take.
func harmlessClient(line []string) []string {
	if len(line) < 3 {
		return line
	}
	switch strings.ToLower(line[1]) {
	case "kill", "unblock", "list", "pause":
		for at := 2; at < len(line); at++ {
			if n, err := strconv.ParseInt(line[at], 10, 64); err == nil && n > 0 {
				line[at] = "999999"
			}
			if strings.EqualFold(line[1], "pause") && line[at] == "999999" {
				line[at] = "0"
			}
		}
	}
	return line
}

// badNumbers are values that no option in limitNames takes.
var badNumbers = []string{"abc", "-1", "1.5", "99999999999999999999"}

// limitNames are options that take a number from 0.
var limitNames = []string{"hash-max-listpack-entries", "hash-max-listpack-value", "zset-max-listpack-entries", "zset-max-listpack-value", "set-max-intset-entries",
	"hash-max-ziplist-entries", "nothing"}
