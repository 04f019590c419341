package observe

import (
	"kedis/internal/number"
	"kedis/server/execute"
)

func slowlogCommand() execute.Command {
	admin := execute.Admin | execute.Loading | execute.Stale
	all := "request_policy:all_nodes"
	return execute.Command{Name: "slowlog", Arity: -2, Group: "server", Since: "2.2.12", Complexity: "Depends on subcommand.",
		Summary: "A container for commands on the list of commands that took long.",
		Subcommands: []execute.Command{
			{Name: "get", Arity: -2, Flags: admin, Run: cmdSlowlogGet, Tips: []string{all, "nondeterministic_output"},
				Since: "2.2.12", Complexity: "O(N) where N is the number of entries returned", Syntax: "[count]",
				Summary: "Returns the latest commands that took long."},
			{Name: "len", Arity: 2, Flags: admin, Run: cmdSlowlogLen,
				Tips:  []string{all, "response_policy:agg_sum", "nondeterministic_output"},
				Since: "2.2.12", Complexity: "O(1)", Summary: "Counts the entries of the list."},
			{Name: "reset", Arity: 2, Flags: admin | execute.AtOnce, Run: cmdSlowlogReset, Tips: []string{all, "response_policy:all_succeeded"},
				Since: "2.2.12", Complexity: "O(N) where N is the number of entries in the slowlog", Summary: "Empties the list."},
			execute.HelpRow("slowlog", "6.2.0", execute.Loading|execute.Stale, 0,
				"GET [<count>]",
				"    Return the latest entries of the list (default: 10, -1 are all). An entry",
				"    has an id, a Unix time, microseconds, the words of the command, the",
				"    client's address and the client's name.",
				"LEN",
				"    Count the entries.",
				"RESET",
				"    Empty the list."),
		}}
}

const slowlogEntries = 10

func cmdSlowlogGet(c *execute.Invocation) error {
	count := int64(slowlogEntries)
	switch len(c.Args) {
	case 2:
	case 3:
		var ok bool
		if count, ok = number.ParseInt(c.Args[2]); !ok || count < -1 {
			return execute.Error("ERR count should be greater than or equal to -1")
		}
	default:
		return c.Misused()
	}
	entries := c.Engine.Slowlog.Latest(count)
	c.Reply.Array(len(entries))
	for _, entry := range entries {
		c.Reply.Array(6)
		c.Reply.Integer(entry.ID)
		c.Reply.Integer(entry.Time.Unix())
		c.Reply.Integer(entry.Duration.Microseconds())
		c.Reply.Array(len(entry.Arguments))
		for _, argument := range entry.Arguments {
			c.Reply.Bulk(argument)
		}
		c.Reply.BulkString(entry.Address)
		c.Reply.BulkString(entry.Name)
	}
	return nil
}

func cmdSlowlogLen(c *execute.Invocation) error {
	c.Reply.Integer(int64(c.Engine.Slowlog.Len()))
	return nil
}

func cmdSlowlogReset(c *execute.Invocation) error {
	c.Engine.Slowlog.Reset()
	c.Reply.OK()
	return nil
}
