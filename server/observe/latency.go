package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kedis/internal/metrics"
	"kedis/server/execute"
)

func latencyCommand() execute.Command {
	admin := execute.Admin | execute.NoScript | execute.Loading | execute.Stale
	tips := []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"}
	return execute.Command{Name: "latency", Arity: -2, Group: "server", Since: "2.8.13", Complexity: "Depends on subcommand.",
		Summary: "A container for commands that tell where time goes.",
		Subcommands: []execute.Command{
			{Name: "history", Arity: 3, Flags: admin, Tips: tips, Run: cmdLatencyHistory, Since: "2.8.13", Complexity: "O(1)",
				Syntax: "event", Summary: "Returns when an event took long, and how long."},
			{Name: "latest", Arity: 2, Flags: admin, Tips: tips, Run: cmdLatencyLatest, Since: "2.8.13", Complexity: "O(1)",
				Summary: "Returns of each event when it took long the last time, and how long it took at worst."},
			{Name: "reset", Arity: -2, Flags: admin | execute.AtOnce, Run: cmdLatencyReset,
				Tips:  []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
				Since: "2.8.13", Complexity: "O(1)", Syntax: "[event [event ...]]", Summary: "Forgets some events, or all."},
			{Name: "graph", Arity: 3, Flags: admin, Tips: tips, Run: cmdLatencyGraph, Since: "2.8.13", Complexity: "O(1)",
				Syntax: "event", Summary: "Draws how long an event took."},
			{Name: "doctor", Arity: 2, Flags: admin, Tips: tips, Run: cmdLatencyDoctor, Since: "2.8.13", Complexity: "O(1)",
				Summary: "Tells in words which events take long, and what may help."},
			{Name: "histogram", Arity: -2, Flags: admin, Tips: tips, Run: cmdLatencyHistogram, Since: "7.0.0",
				Complexity: "O(N) where N is the number of commands with latency information being retrieved.",
				Syntax:     "[command [command ...]]", Summary: "Returns how long commands took, in buckets."},
			execute.HelpRow("latency", "2.8.13", execute.Loading|execute.Stale, 0,
				"DOCTOR",
				"    Tell in words which events take long, and what may help.",
				"GRAPH <event>",
				"    Draw how long the <event> took.",
				"HISTORY <event>",
				"    Return when the <event> took long, and how long.",
				"LATEST",
				"    Return of all events when they took long the last time.",
				"RESET [<event> ...]",
				"    Forget some events (default: all).",
				"HISTOGRAM [COMMAND ...]",
				"    Return how long commands took, in buckets (default: all commands)."),
		}}
}

func cmdLatencyHistory(c *execute.Invocation) error {
	samples := c.Engine.Latency.History(string(c.Args[2]))
	c.Reply.Array(len(samples))
	for _, sample := range samples {
		c.Reply.Array(2)
		c.Reply.Integer(sample.Time.Unix())
		c.Reply.Integer(sample.Latency.Milliseconds())
	}
	return nil
}

func cmdLatencyLatest(c *execute.Invocation) error {
	events := c.Engine.Latency.Latest()
	c.Reply.Array(len(events))
	for _, event := range events {
		c.Reply.Array(4)
		c.Reply.BulkString(event.Name)
		c.Reply.Integer(event.Latest.Time.Unix())
		c.Reply.Integer(event.Latest.Latency.Milliseconds())
		c.Reply.Integer(event.Worst.Milliseconds())
	}
	return nil
}

func cmdLatencyReset(c *execute.Invocation) error {
	var names []string
	for _, name := range c.Args[2:] {
		names = append(names, string(name))
	}
	c.Reply.Integer(int64(c.Engine.Latency.Reset(names...)))
	return nil
}

func cmdLatencyGraph(c *execute.Invocation) error {
	name := string(c.Args[2])
	samples := c.Engine.Latency.History(name)
	if len(samples) == 0 {
		return execute.Errorf("ERR No samples available for event '%s'", execute.UntilZero(c.Args[2]))
	}
	c.Reply.Verbatim("txt", drawLatency(name, samples, c.Engine.Latency.Worst(name), time.Now()))
	return nil
}

const (
	graphColumns = 80
	graphRows    = 4
	graphMarks   = "_o#" // what a row shows of a bar that ends in it, from low to high
)

// drawLatency draws a bar for each sample, 80 beside each other; below it stands, from top to
// bottom, how long ago that was. It is Redis's drawing to the byte.
func drawLatency(name string, samples []metrics.LatencySample, worst time.Duration, now time.Time) string {
	least, most := samples[0].Latency.Milliseconds(), samples[0].Latency.Milliseconds()
	for _, sample := range samples {
		least, most = min(least, sample.Latency.Milliseconds()), max(most, sample.Latency.Milliseconds())
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s - high %d ms, low %d ms (all time high %d ms)\n%s\n", name, most, least, worst.Milliseconds(),
		strings.Repeat("-", graphColumns))
	separator := ""
	for part := range slices.Chunk(samples, graphColumns) {
		out.WriteString(separator)
		for row := graphRows - 1; row >= 0; row-- {
			for _, sample := range part {
				out.WriteByte(barMark(sample.Latency.Milliseconds()-least, max(most-least, 1), row))
			}
			out.WriteByte('\n')
		}
		out.WriteString(strings.Repeat(" ", len(part)) + "\n" + turn(ages(part, now)))
		separator = "\n"
	}
	return out.String()
}

// barMark is what a sample's column shows in a row; row 0 is the lowest.
func barMark(latency, most int64, row int) byte {
	const steps = graphRows * len(graphMarks)
	switch step := min(int(latency*int64(steps)/most), steps-1) - row*len(graphMarks); {
	case step >= len(graphMarks):
		return '|'
	case step >= 0:
		return graphMarks[step]
	}
	return ' '
}

// ages are how long ago the samples were taken, as 5s, 12m, 3h or 2d.
func ages(samples []metrics.LatencySample, now time.Time) []string {
	names := make([]string, len(samples))
	for i, sample := range samples {
		seconds := max(0, now.Unix()-sample.Time.Unix())
		switch {
		case seconds < 60:
			names[i] = fmt.Sprintf("%ds", seconds)
		case seconds < 3600:
			names[i] = fmt.Sprintf("%dm", seconds/60)
		case seconds < 24*3600:
			names[i] = fmt.Sprintf("%dh", seconds/3600)
		default:
			names[i] = fmt.Sprintf("%dd", seconds/(24*3600))
		}
	}
	return names
}

// turn writes words from top to bottom, one beside the other.
func turn(words []string) string {
	var out strings.Builder
	for row := 0; ; row++ {
		line := make([]byte, len(words))
		some := false
		for i, word := range words {
			line[i] = ' '
			if row < len(word) {
				line[i] = word[row]
				some = true
			}
		}
		if !some {
			return out.String()
		}
		fmt.Fprintf(&out, "%s\n", line)
	}
}

// latencyAdvice says what may help against events that take long.
var latencyAdvice = map[string]string{
	"command":      "SLOWLOG GET shows which commands took long. Commands on many elements run beside the others and keep only their own client waiting.",
	"fast-command": "Commands that touch a single element took long: the machine may be short of processors, or the disk of speed.",
	"commit":       "Writing the log took long. With appendfsync always every commit waits for the disk; everysec doesn't.",
	"expire-cycle": "Removing expired keys took long: many expire at once. active-expire-effort says how much time may go into it.",
}

func cmdLatencyDoctor(c *execute.Invocation) error {
	c.Reply.Verbatim("txt", reportOf(c.Engine).diagnoseLatency())
	return nil
}

func (e report) diagnoseLatency() string {
	threshold := e.Config.LatencyMonitorThreshold.Get()
	if threshold == 0 {
		return "Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> turns it on.\n"
	}
	events := e.Latency.Latest()
	if len(events) == 0 {
		return fmt.Sprintf("Nothing took %d ms or more since the monitoring began.\n", threshold)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d events took %d ms or more:\n", len(events), threshold)
	for i, event := range events {
		samples := e.Latency.History(event.Name)
		var sum time.Duration
		for _, sample := range samples {
			sum += sample.Latency
		}
		fmt.Fprintf(&out, "\n%d. %s: %d times lately, %d ms on average, %d ms at worst.\n   %s\n", i+1, event.Name, len(samples),
			sum.Milliseconds()/int64(max(1, len(samples))), event.Worst.Milliseconds(), latencyAdvice[event.Name])
	}
	return out.String()
}

func cmdLatencyHistogram(c *execute.Invocation) error {
	var commands []*execute.Command
	add := func(command *execute.Command) {
		if command.Measures.Latency.Distribution().Count() > 0 {
			commands = append(commands, command)
		}
	}
	if len(c.Args) == 2 {
		c.Engine.Table.Each(add)
	}
	for _, name := range c.Args[2:] {
		command := c.Engine.Table.Named(name)
		if command == nil {
			continue
		}
		add(command)
		for i := range command.Subcommands {
			add(&command.Subcommands[i])
		}
	}
	c.Reply.Map(len(commands))
	for _, command := range commands {
		replyHistogram(c, command)
	}
	return nil
}

func replyHistogram(c *execute.Invocation, command *execute.Command) {
	distribution := command.Measures.Latency.Distribution()
	buckets := distribution.Buckets()
	c.Reply.BulkString(command.FullName())
	c.Reply.Map(2)
	c.Reply.BulkString("calls")
	c.Reply.Integer(distribution.Count())
	c.Reply.BulkString("histogram_usec")
	c.Reply.Map(len(buckets))
	for _, bucket := range buckets {
		c.Reply.Integer(bucket.Longest.Microseconds())
		c.Reply.Integer(bucket.Count)
	}
}
