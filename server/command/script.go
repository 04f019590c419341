package command

import (
	"errors"

	"kedis/server/execute"
)

func scriptFamily() Family {
	notes := "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
	readNotes := "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
	return Family{Commands: []Command{
		evaluate("eval", "2.6.0", "script", false, RW|Access|Update, notes, cmdEval, "Runs a script in Lua."),
		evaluate("evalsha", "2.6.0", "sha1", false, RW|Access|Update, "", cmdEvalSHA, "Runs a script in Lua that was run or loaded before, named by its SHA-1."),
		evaluate("eval_ro", "7.0.0", "script", true, RO|Access, readNotes, cmdEval, "Runs a script in Lua that only reads."),
		evaluate("evalsha_ro", "7.0.0", "sha1", true, RO|Access, "", cmdEvalSHA, "Runs a script in Lua that only reads, named by its SHA-1."),
		scriptContainer(),
	}}
}

// evaluate is the row of a command that runs a script.
func evaluate(name, since, what string, readOnly bool, keys KeyFlags, notes string, run func(*Invocation) error, summary string) Command {
	row := runsProgram(name, since, readOnly, keys, notes)
	row.Run, row.Plan, row.Complexity, row.Summary = run, planScript, "Depends on the script that is executed.", summary
	flags := row.Flags
	row.Declared = func(e *execute.Engine, args [][]byte) Flags {
		declared := keptBy(e).scripts.declared(args[1], what == "script")
		return declared.of(flags)
	}
	row.Syntax = what + row.Syntax
	return row
}

// runsProgram is what the rows of commands that run scripts or functions have in common.
func runsProgram(name, since string, readOnly bool, keys KeyFlags, notes string) Command {
	flags := NoScript | SkipMonitor | Stale | NoMandatoryKeys | MovableKeys
	if readOnly {
		flags |= ReadOnly
	} else {
		flags |= MayReplicate
	}
	spec := countedKeys(2, keys)
	spec.Notes = notes
	return Command{Name: name, Arity: -3, Flags: flags, Categories: CategoryScripting, RunsScript: true, Keys: []KeySpec{spec},
		Prefetch: execute.PrefetchNothing, Group: "scripting", Since: since, Syntax: " numkeys [key [key ...]] [arg [arg ...]]"}
}

func scriptContainer() Command {
	oneOf := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return Command{Name: "script", Arity: -2, Group: "scripting", Since: "2.6.0", Complexity: "Depends on subcommand.",
		Summary: "A container for commands on scripts.",
		Subcommands: []Command{
			{Name: "debug", Arity: 3, Flags: NoScript, Categories: CategoryScripting, Run: cmdScriptDebug, Since: "3.2.0", Complexity: "O(1)",
				Syntax: "<YES | SYNC | NO>", Summary: "Chooses how scripts are debugged: there is no debugger."},
			{Name: "exists", Arity: -3, Flags: NoScript, Categories: CategoryScripting, Run: cmdScriptExists, Since: "2.6.0",
				Tips:       []string{"request_policy:all_shards", "response_policy:agg_logical_and"},
				Complexity: "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
				Syntax:     "sha1 [sha1 ...]", Summary: "Tells which scripts are kept."},
			{Name: "flush", Arity: -2, Flags: NoScript | AtOnce, Categories: CategoryScripting, Run: cmdScriptFlush, Tips: oneOf, Since: "2.6.0",
				Complexity: "O(N) with N being the number of scripts in cache", Syntax: "[ASYNC | SYNC]", Summary: "Forgets all scripts."},
			{Name: "kill", Arity: 2, Flags: NoScript | AllowBusy, Categories: CategoryScripting, Run: cmdScriptKill,
				Tips:  []string{"request_policy:all_shards", "response_policy:one_succeeded"},
				Since: "2.6.0", Complexity: "O(1)", Summary: "Ends the script that runs."},
			{Name: "load", Arity: 3, Flags: NoScript | Stale, Categories: CategoryScripting, Plan: planScriptLoad, Run: cmdScriptLoad, Tips: oneOf, Since: "2.6.0",
				Complexity: "O(N) with N being the length in bytes of the script body.", Syntax: "script", Summary: "Keeps a script, to be run by its SHA-1."},
			execute.HelpRow("script", "5.0.0", Loading|Stale, CategoryScripting, scriptHelp...),
		}}
}

var scriptHelp = []string{
	"DEBUG (YES|SYNC|NO)",
	"    Set the debug mode for subsequent scripts executed.",
	"EXISTS <sha1> [<sha1> ...]",
	"    Return information about the existence of the scripts in the script cache.",
	"FLUSH [ASYNC|SYNC]",
	"    Flush the Lua scripts cache. Very dangerous on replicas.",
	"    When called without the optional mode argument, the behavior is determined by the",
	"    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
	"    * ASYNC: Asynchronously flush the scripts cache.",
	"    * SYNC: Synchronously flush the scripts cache.",
	"KILL",
	"    Kill the currently executing Lua script.",
	"LOAD <script>",
	"    Load a script into the scripts cache without executing it.",
}

const errNoScript = Error("NOSCRIPT No matching script. Please use EVAL.")

// longText is how many bytes of a script a worker compiles: that takes some milliseconds.
const longText = 32 << 10

// planScript takes up the declared keys. What a script needed when it ran last, it needs again.
func planScript(c *Invocation, p *execute.Plan) error {
	p.Add(c.Request)
	planCompiling(c.Args[1], p)
	if known := keptBy(c.Engine).scripts.peek(c); known != nil {
		known.plan(p)
	}
	if c.Command.Flags&ReadOnly != 0 && !c.OnReactor() {
		p.Walk = true // what it reads needn't be declared: it reads from a view
	}
	return nil
}

func planCompiling(text []byte, p *execute.Plan) { p.Worker = p.Worker || len(text) > longText }

func planScriptLoad(c *Invocation, p *execute.Plan) error {
	planCompiling(c.Args[2], p)
	return nil
}

// keepReactor is nil if a reactor may run a script, and compile it if its text is given. Within
// EXEC nobody has planned for it.
func keepReactor(c *Invocation, byText bool, script []byte) error {
	if byText && c.OnReactor() && len(script) > longText {
		return c.Offload()
	}
	return c.KeepReactor()
}

func cmdEval(c *Invocation) error { return runScript(c, true) }

func cmdEvalSHA(c *Invocation) error { return runScript(c, false) }

func runScript(c *Invocation, byText bool) error {
	count, err := parseInteger(c.Args[2])
	if err == nil {
		err = checkKeyCount(c, count)
	}
	if err != nil {
		return err
	}
	if err := keepReactor(c, byText, c.Args[1]); err != nil {
		return err
	}
	s := &keptBy(c.Engine).scripts
	var known *knownScript
	if byText {
		if known, err = s.evaluated(c.Args[1]); err != nil {
			return err
		}
	} else if known = s.find(c.Args[1]); known == nil {
		return errNoScript
	}
	return s.run(scriptRun{c: c, program: &known.program, script: known}, int(count))
}

func checkKeyCount(c *Invocation, count int64) error {
	switch {
	case count > int64(len(c.Args)-3):
		return Error("ERR Number of keys can't be greater than number of args")
	case count < 0:
		return Error("ERR Number of keys can't be negative")
	}
	return nil
}

func compileError(err error) error {
	return Errorf("ERR Error compiling script (new function): %v", err)
}

func cmdScriptDebug(c *Invocation) error {
	switch mode := c.Args[2]; {
	case equalFold(mode, "no"):
		c.Reply.OK()
		return nil
	case equalFold(mode, "yes"), equalFold(mode, "sync"):
		return Error("ERR Kedis has no debugger for scripts")
	}
	return Error("ERR Use SCRIPT DEBUG YES/SYNC/NO")
}

func cmdScriptExists(c *Invocation) error {
	s := &keptBy(c.Engine).scripts
	c.Reply.Array(len(c.Args) - 2)
	for _, sha := range c.Args[2:] {
		if s.find(sha) != nil {
			c.Reply.Integer(1)
		} else {
			c.Reply.Integer(0)
		}
	}
	return nil
}

func cmdScriptFlush(c *Invocation) error {
	if len(c.Args) > 3 || len(c.Args) == 3 && !equalFold(c.Args[2], "async") && !equalFold(c.Args[2], "sync") {
		return Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	keptBy(c.Engine).scripts.flush()
	c.Reply.OK()
	return nil
}

func cmdScriptLoad(c *Invocation) error {
	if err := keepReactor(c, true, c.Args[2]); err != nil {
		return err
	}
	known, err := keptBy(c.Engine).scripts.load(c.Args[2])
	if refused := Error(""); errors.As(err, &refused) && c.Applying() {
		passOverScript(c, refused)
		return nil
	}
	if err != nil {
		return err
	}
	c.Reply.BulkString(known.name)
	return nil
}

// passOverScript passes over a primary's script that can't be loaded: that changes no data, and
// what runs it is refused. A Redis before 7.0 puts scripts into functions, so it takes other texts.
func passOverScript(c *Invocation, reason error) {
	logger, sha := c.Engine.Logger, scriptDigest(c.Args[2])
	c.AfterCommit(func() {
		logger.Warn("a script of the primary can't be loaded, and is passed over", "sha1", string(sha[:]), "error", reason)
	})
	c.Reply.OK()
}

func cmdScriptKill(c *Invocation) error {
	if err := keptBy(c.Engine).scripts.running.kill(false); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}
