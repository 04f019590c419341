package command

import "kedis/server/execute"

// scriptFamily has what is asked of a server that runs no scripts: Sentinel ends the script of a server that
// doesn't answer, before it gives it up.
func scriptFamily() Family {
	help := execute.HelpRow("script", "5.0.0", Loading|Stale, CategoryScripting,
		"KILL",
		"    End the script that runs: there is none.")
	return Family{Commands: []Command{
		{Name: "script", Arity: -2, Group: "scripting", Since: "2.6.0", Complexity: "Depends on subcommand.",
			Summary: "A container for commands on scripts, which Kedis doesn't have.",
			Subcommands: []Command{
				{Name: "kill", Arity: 2, Flags: NoScript | AllowBusy, Categories: CategoryScripting, Run: cmdScriptKill,
					Tips:  []string{"request_policy:all_shards", "response_policy:one_succeeded"},
					Since: "2.6.0", Complexity: "O(1)", Summary: "Ends the script that runs: there is none."},
				help,
			}},
	}}
}

func cmdScriptKill(*Invocation) error { return Error("NOTBUSY No scripts in execution right now.") }
