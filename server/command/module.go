package command

import "kedis/server/execute"

// moduleFamily has what is asked of a server that loads no modules.
func moduleFamily() Family {
	admin := Admin | NoScript
	const why = Error("ERR Kedis loads no modules")
	return Family{Commands: []Command{
		{Name: "module", Arity: -2, Group: "server", Since: "4.0.0", Complexity: "Depends on subcommand.",
			Summary: "A container for commands on modules, which Kedis doesn't have.",
			Subcommands: []Command{
				{Name: "list", Arity: 2, Flags: admin, Run: cmdModuleList, Tips: []string{"nondeterministic_output_order"},
					Since: "4.0.0", Complexity: "O(1)", Summary: "Lists the modules: there are none."},
				refusal("load", -3, admin|NoAsyncLoading, "4.0.0", "path [arg [arg ...]]", why),
				refusal("loadex", -3, admin|NoAsyncLoading, "7.0.0",
					"path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]", why),
				refusal("unload", 3, admin|NoAsyncLoading, "4.0.0", "name", why),
				execute.HelpRow("module", "5.0.0", Loading|Stale, 0,
					"LIST",
					"    List the modules: there are none."),
			}},
	}}
}

func cmdModuleList(c *Invocation) error {
	c.Reply.Array(0)
	return nil
}

// refusal is a subcommand that exists only to say why it doesn't.
func refusal(name string, arity int, flags Flags, since, syntax string, why Error) Command {
	return Command{Name: name, Arity: arity, Flags: flags, Since: since, Complexity: "O(1)", Syntax: syntax,
		Summary: "Is refused: " + string(why[len("ERR "):]) + ".",
		Run:     func(*Invocation) error { return why }}
}
