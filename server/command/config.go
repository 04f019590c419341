package command

import (
	"errors"

	"kedis/internal/config"
	"kedis/server/execute"
)

func configFamily() Family {
	admin := Admin | NoScript | Loading | Stale
	return Family{Commands: []Command{
		{Name: "config", Arity: -2, Group: "server", Since: "2.0.0", Complexity: "Depends on the subcommand",
			Summary: "A container for commands on the server's options.",
			Subcommands: []Command{
				{Name: "get", Arity: -3, Flags: admin, Since: "2.0.0", Run: cmdConfigGet,
					Complexity: "O(N), N being the number of options", Syntax: "parameter [parameter ...]",
					Summary: "Returns options whose names match patterns, and their values."},
				{Name: "set", Arity: -4, Flags: admin | Worker | AtOnce, Since: "2.0.0", Run: cmdConfigSet,
					Tips:       []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
					Complexity: "O(N), N being the number of options given", Syntax: "parameter value [parameter value ...]",
					Summary: "Changes options: all that are given, or none."},
				{Name: "rewrite", Arity: 2, Flags: admin | Worker, Since: "2.8.0", Run: cmdConfigRewrite, Complexity: "O(1)",
					Summary: "Writes the options in force to the configuration file, and keeps its comments."},
				{Name: "resetstat", Arity: 2, Flags: admin | AtOnce, Since: "2.0.0", Run: cmdConfigResetStat, Complexity: "O(1)",
					Summary: "Sets what INFO counts to zero."},
				execute.HelpRow("config", "5.0.0", Loading|Stale, 0,
					"GET <pattern>",
					"    Return parameters matching the glob-like <pattern> and their values.",
					"SET <directive> <value>",
					"    Set the configuration <directive> to <value>.",
					"RESETSTAT",
					"    Reset statistics reported by the INFO command.",
					"REWRITE",
					"    Rewrite the configuration file."),
			}},
	}}
}

func cmdConfigGet(c *Invocation) error {
	pairs := c.Engine.Config.Match(c.Args[2:]...)
	c.Reply.Map(len(pairs))
	for _, pair := range pairs {
		c.Reply.BulkString(pair.Name)
		c.Reply.BulkString(pair.Value)
	}
	return nil
}

func cmdConfigSet(c *Invocation) error {
	if len(c.Args)%2 != 0 {
		return ErrSyntax
	}
	var pairs [][2]string
	for i := 2; i < len(c.Args); i += 2 {
		pairs = append(pairs, [2]string{string(c.Args[i]), string(c.Args[i+1])})
		if c.Engine.Config.Sensitive(string(c.Args[i])) {
			c.Redact(i + 1)
		}
	}
	set := c.Engine.Config.Set
	if c.Session.AdmittedAs(c.Engine.Config.EnableProtectedConfigs.Get()) {
		set = c.Engine.Config.SetProtected
	}
	if err := set(pairs); err != nil {
		return configError(err)
	}
	c.Reply.OK()
	return nil
}

// configError gives a refusal its code.
func configError(err error) error {
	var refusal config.Refusal
	if errors.As(err, &refusal) {
		return Error("ERR " + string(refusal))
	}
	return err
}

func cmdConfigRewrite(c *Invocation) error {
	if err := c.Engine.Config.Rewrite(); err != nil {
		return configError(err)
	}
	c.Reply.OK()
	return nil
}

func cmdConfigResetStat(c *Invocation) error {
	c.Engine.ResetStatistics()
	c.Reply.OK()
	return nil
}
