package command

import (
	"errors"
	"slices"
	"time"

	"kedis/internal/glob"
	"kedis/server/execute"
	"kedis/server/script"
	"kedis/storage/rdb"
)

func functionFamily() Family {
	notes := "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
	readNotes := "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
	return Family{Commands: []Command{
		callsFunction("fcall", false, RW|Access|Update, notes, "Runs a function."),
		callsFunction("fcall_ro", true, RO|Access, readNotes, "Runs a function that only reads."),
		functionContainer(),
	}}
}

func callsFunction(name string, readOnly bool, keys KeyFlags, notes, summary string) Command {
	row := runsProgram(name, "7.0.0", readOnly, keys, notes)
	row.Run, row.Plan, row.Functions, row.Summary = cmdFCall, planFunction, true, summary
	row.Complexity, row.Syntax = "Depends on the function that is executed.", "function"+row.Syntax
	flags := row.Flags
	row.Declared = func(e *execute.Engine, args [][]byte) Flags {
		if f := keptBy(e).functions.current.Load().function(args[1]); f != nil {
			return f.flags.of(flags)
		}
		return flags
	}
	return row
}

func functionContainer() Command {
	const perFunction = "O(1) (considering compilation time is redundant)"
	everywhere := []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	change := func(name string, arity int, flags Flags, run func(*Invocation) error, complexity, syntax, summary string) Command {
		return Command{Name: name, Arity: arity, Flags: flags | NoScript | Write | Exclusive, Categories: CategoryScripting, Run: run, Tips: everywhere,
			Since: "7.0.0", Complexity: complexity, Syntax: syntax, Summary: summary}
	}
	look := func(name string, arity int, flags Flags, run func(*Invocation) error, complexity, syntax, summary string, tips ...string) Command {
		return Command{Name: name, Arity: arity, Flags: flags | NoScript, Categories: CategoryScripting, Run: run, Tips: tips,
			Since: "7.0.0", Complexity: complexity, Syntax: syntax, Summary: summary}
	}
	return Command{Name: "function", Arity: -2, Group: "scripting", Since: "7.0.0", Complexity: "Depends on subcommand.",
		Summary: "A container for commands on libraries of functions.",
		Subcommands: []Command{
			change("delete", 3, 0, cmdFunctionDelete, "O(1)", "library-name", "Deletes a library and its functions."),
			look("dump", 2, 0, cmdFunctionDump, "O(N) where N is the number of functions", "", "Returns all libraries in a form that FUNCTION RESTORE takes."),
			change("flush", -2, 0, cmdFunctionFlush, "O(N) where N is the number of functions deleted", "[ASYNC | SYNC]", "Deletes all libraries and functions."),
			look("kill", 2, AllowBusy, cmdFunctionKill, "O(1)", "", "Ends the function that runs.",
				"request_policy:all_shards", "response_policy:one_succeeded"),
			look("list", -2, 0, cmdFunctionList, "O(N) where N is the number of functions", "[LIBRARYNAME library-name-pattern] [WITHCODE]",
				"Tells which libraries there are.", "nondeterministic_output_order"),
			change("load", -3, DenyOOM, cmdFunctionLoad, perFunction, "[REPLACE] function-code", "Makes a library of functions."),
			change("restore", -3, DenyOOM, cmdFunctionRestore, "O(N) where N is the number of functions on the payload",
				"serialized-value [FLUSH | APPEND | REPLACE]", "Makes libraries of what FUNCTION DUMP returned."),
			look("stats", 2, AllowBusy, cmdFunctionStats, "O(1)", "", "Tells which function runs, and how many there are.",
				"nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
			execute.HelpRow("function", "7.0.0", Loading|Stale, CategoryScripting, functionHelp...),
		}}
}

var functionHelp = []string{
	"LOAD [REPLACE] <FUNCTION CODE>",
	"    Create a new library with the given library name and code.",
	"DELETE <LIBRARY NAME>",
	"    Delete the given library.",
	"LIST [LIBRARYNAME PATTERN] [WITHCODE]",
	"    Return general information on all the libraries:",
	"    * Library name",
	"    * The engine used to run the Library",
	"    * Library description",
	"    * Functions list",
	"    * Library code (if WITHCODE is given)",
	"    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
	"STATS",
	"    Return information about the current function running:",
	"    * Function name",
	"    * Command used to run the function",
	"    * Duration in MS that the function is running",
	"    If no function is running, return nil",
	"    In addition, returns a list of available engines.",
	"KILL",
	"    Kill the current running function.",
	"FLUSH [ASYNC|SYNC]",
	"    Delete all the libraries.",
	"    When called without the optional mode argument, the behavior is determined by the",
	"    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
	"    * ASYNC: Asynchronously flush the libraries.",
	"    * SYNC: Synchronously flush the libraries.",
	"DUMP",
	"    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
	"RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
	"    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
	"    control how to handle existing libraries (default APPEND):",
	"    * FLUSH: delete all existing libraries.",
	"    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
	"    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
	"      libraries with the new libraries (notice that even on this option there is a chance of failure",
	"      in case of functions name collision with another library).",
}

// planFunction takes up the declared keys. What a function needed when it ran last, it needs again.
// One whose library keeps something holds the library's lock, or runs alone if that can't be taken
// back.
func planFunction(c *Invocation, p *execute.Plan) error {
	p.Add(c.Request)
	f := librariesFor(c).function(c.Args[1])
	if f == nil {
		return nil
	}
	f.plan(p)
	switch {
	case f.library.alone.Load():
		p.Everything = true
	case f.library.pinned:
		p.Lock(f.library.stripe(c), true)
		p.Writes = true // it doesn't read from a view, for which locks are given up
	case c.Command.Flags&ReadOnly != 0 && !c.OnReactor():
		p.Walk = true // what it reads needn't be declared: it reads from a view
	}
	return nil
}

func cmdFCall(c *Invocation) error {
	f := librariesFor(c).function(c.Args[1])
	if f == nil {
		return Error("ERR Function not found")
	}
	count, err := parseInteger(c.Args[2])
	if err != nil {
		return Error("ERR Bad number of keys provided")
	}
	if err := checkKeyCount(c, count); err != nil {
		return err
	}
	if err := c.KeepReactor(); err != nil {
		return err
	}
	return keptBy(c.Engine).scripts.run(scriptRun{c: c, program: &f.program, function: f}, int(count))
}

// prepareFunction is prepare for a function.
func (r *scriptRun) prepareFunction(what *script.Run) (*script.State, error) {
	c, l := r.c, r.function.library
	what.Library, what.Function = l.number, r.function.index
	if l.pinned {
		if err := l.take(c); err != nil {
			return nil, err
		}
	}
	within := time.Duration(0)
	if c.OnReactor() {
		within = scriptTime
	}
	state, err := keptBy(c.Engine).functions.ready(l, within)
	if errors.Is(err, script.ErrLoadLate) {
		return nil, c.Offload()
	}
	if err == nil && l.pinned && !c.Alone() {
		err = r.prepareTakingBack(state)
	}
	return state, err
}

// take keeps others from running functions of a library that is pinned. Within EXEC, what was done
// may be taken back when the function has ended, unless nothing else runs. Who reads a view has
// left the gate: the library has come since it was planned, and might go while the function runs.
func (l *library) take(c *Invocation) error {
	if c.Nested() || l.alone.Load() || c.ReadsView() {
		return c.RequireAlone()
	}
	return c.LockKey(c.Engine.Store.Libraries(), []byte(l.name))
}

// prepareTakingBack has what a library keeps taken back with the run. What can't be, mustn't: then
// the function runs alone.
func (r *scriptRun) prepareTakingBack(state *script.State) error {
	c, l := r.c, r.function.library
	if !state.Snapshot(l.number, r.function.index) {
		l.alone.Store(true)
		return c.RequireAlone()
	}
	c.WhenTakenBack(func() {
		if !state.Restore() {
			keptBy(c.Engine).functions.drop(l)
		}
	})
	return nil
}

func cmdFunctionLoad(c *Invocation) error {
	replace, last := false, len(c.Args)-1
	for _, option := range c.Args[2:last] {
		if !equalFold(option, "replace") {
			return Errorf("ERR Unknown option given: %s", execute.UntilZero(option))
		}
		replace = true
	}
	now := librariesFor(c)
	l, next, err := keptBy(c.Engine).functions.load(now, c.Args[last], loading{replace: replace, within: loadTime(c), log: logOf(c)})
	if err != nil {
		return err
	}
	if err := c.Txn.PutLibrary(l.name, l.source); err != nil {
		return err
	}
	changeLibraries(c, next, c.Args)
	c.Reply.BulkString(l.name)
	return nil
}

// loadTime is how long the source of a library may run. What is repeated has run before.
func loadTime(c *Invocation) time.Duration {
	if c.Applying() {
		return 0
	}
	return 500 * time.Millisecond
}

func cmdFunctionDelete(c *Invocation) error {
	now := librariesFor(c)
	l := now.named(string(c.Args[2]))
	if l == nil {
		return Error("ERR Library not found")
	}
	if err := c.Txn.DeleteLibrary(l.name); err != nil {
		return err
	}
	changeLibraries(c, now.without(l.name), c.Args)
	c.Reply.OK()
	return nil
}

func cmdFunctionFlush(c *Invocation) error {
	if len(c.Args) > 3 {
		return c.Misused()
	}
	if len(c.Args) == 3 && !equalFold(c.Args[2], "async") && !equalFold(c.Args[2], "sync") {
		return Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	c.Txn.FlushLibraries()
	changeLibraries(c, &libraries{}, c.Args)
	c.Reply.OK()
	return nil
}

// changeLibraries makes what a command has made of the libraries what the transaction goes on with,
// and everybody when it is committed. The effect is how others come to them.
func changeLibraries(c *Invocation, next *libraries, effect [][]byte) {
	c.ChangeLibraries(next)
	c.AfterCommit(func() { keptBy(c.Engine).functions.publish(next) })
	c.Effect(effect...)
}

func cmdFunctionDump(c *Invocation) error {
	tools := keptBy(c.Engine).payloads.borrow()
	defer keptBy(c.Engine).payloads.giveBack(tools)
	payload, err := librariesFor(c).dump(tools.buffer, tools.writer)
	if err != nil {
		return err
	}
	tools.buffer = payload
	c.Reply.Bulk(payload)
	return nil
}

// dump returns the libraries as a payload, in the memory of dst.
func (l *libraries) dump(dst []byte, writer *rdb.PayloadWriter) ([]byte, error) {
	writer.Begin(dst)
	for _, one := range l.list {
		writer.Function(one.source)
	}
	return writer.Finish()
}

// The policies of FUNCTION RESTORE.
type restorePolicy struct{ flush, replace bool }

func parseRestorePolicy(words [][]byte) (p restorePolicy, err error) {
	if len(words) == 0 || equalFold(words[0], "append") {
		return p, nil
	}
	switch {
	case equalFold(words[0], "flush"):
		p.flush = true
	case equalFold(words[0], "replace"):
		p.replace = true
	default:
		return p, Error("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
	}
	return p, nil
}

func cmdFunctionRestore(c *Invocation) error {
	if len(c.Args) > 4 {
		return c.Misused()
	}
	policy, err := parseRestorePolicy(c.Args[3:])
	if err != nil {
		return err
	}
	restored, err := restoreLibraries(c, c.Args[2])
	if err != nil {
		return err
	}
	next := librariesFor(c)
	if policy.flush {
		c.Txn.FlushLibraries()
		next = &libraries{}
	}
	if next, err = next.join(restored, policy.replace); err != nil {
		return err
	}
	for _, l := range restored.list {
		if err := c.Txn.PutLibrary(l.name, l.source); err != nil {
			return err
		}
	}
	effect, err := effectOfRestore(c, restored)
	if err != nil {
		return err
	}
	changeLibraries(c, next, effect)
	c.Reply.OK()
	return nil
}

// effectOfRestore is how a FUNCTION RESTORE is repeated elsewhere. A payload that a Redis 7.0 can't
// read goes on as one of the same libraries that it can.
func effectOfRestore(c *Invocation, restored *libraries) ([][]byte, error) {
	if c.Applying() || !rdb.IsNewerPayload(c.Args[2]) {
		return c.Args, nil
	}
	payload, err := restored.dump(nil, rdb.NewPayloadWriter())
	words := slices.Clone(c.Args)
	words[2] = payload
	return words, err
}

// restoreLibraries loads the libraries of a payload.
func restoreLibraries(c *Invocation, payload []byte) (*libraries, error) {
	tools := keptBy(c.Engine).payloads.borrow()
	defer keptBy(c.Engine).payloads.giveBack(tools)
	restored := &libraries{}
	err := tools.decoder.Functions(payload, func(source []byte) (err error) {
		_, restored, err = keptBy(c.Engine).functions.load(restored, source, loading{within: loadTime(c), log: logOf(c)})
		return err
	})
	var reply Error
	switch {
	case err == nil:
		return restored, nil
	case errors.As(err, &reply):
		return nil, reply
	case errors.Is(err, rdb.ErrPayloadVersion), errors.Is(err, rdb.ErrPayloadChecksum):
		return nil, errPayloadFooter
	case errors.Is(err, rdb.ErrNotFunction):
		return nil, Error("ERR given type is not a function")
	}
	return nil, Error("ERR failed loading the given functions payload")
}

func cmdFunctionList(c *Invocation) error {
	withCode := false
	var pattern *glob.Pattern
	for words := c.Args[2:]; len(words) > 0; words = words[1:] {
		switch {
		case !withCode && equalFold(words[0], "withcode"):
			withCode = true
		case pattern == nil && equalFold(words[0], "libraryname"):
			if len(words) == 1 {
				return Error("ERR library name argument was not given")
			}
			words = words[1:]
			pattern = glob.CompileFold(words[0])
		default:
			return Errorf("ERR Unknown argument %s", execute.UntilZero(words[0]))
		}
	}
	begun, count := c.Reply.BeginArray(), 0
	for _, l := range librariesFor(c).list {
		if pattern == nil || pattern.Match([]byte(l.name)) {
			l.show(c, withCode)
			count++
		}
	}
	c.Reply.EndArray(begun, count)
	return nil
}

func (l *library) show(c *Invocation, withCode bool) {
	w, fields := c.Reply, 3
	if withCode {
		fields++
	}
	w.Map(fields)
	w.BulkString("library_name")
	w.BulkString(l.name)
	w.BulkString("engine")
	w.BulkString(luaEngine)
	w.BulkString("functions")
	w.Array(len(l.functions))
	for _, f := range l.functions {
		w.Map(3)
		w.BulkString("name")
		w.BulkString(f.name)
		w.BulkString("description")
		if f.described {
			w.BulkString(f.description)
		} else {
			w.Null()
		}
		w.BulkString("flags")
		f.showFlags(c)
	}
	if withCode {
		w.BulkString("library_code")
		w.Bulk(l.source)
	}
}

func (f *function) showFlags(c *Invocation) {
	begun, count := c.Reply.BeginSet(), 0
	for bit, name := range script.FunctionFlagNames {
		if f.all&(1<<bit) != 0 {
			c.Reply.SimpleString(name)
			count++
		}
	}
	c.Reply.EndSet(begun, count)
}

func cmdFunctionStats(c *Invocation) error {
	w := c.Reply
	w.Map(2)
	w.BulkString("running_script")
	runs := keptBy(c.Engine).scripts.running.function(func(long *longScript) {
		w.Map(3)
		w.BulkString("name")
		w.BulkString(long.name)
		w.BulkString("command")
		w.Array(len(long.words))
		for _, word := range long.words {
			w.Bulk(word)
		}
		w.BulkString("duration_ms")
		w.Integer(time.Since(long.began).Milliseconds())
	})
	if !runs {
		w.Null()
	}
	now := librariesFor(c)
	w.BulkString("engines")
	w.Map(1)
	w.BulkString(luaEngine)
	w.Map(2)
	w.BulkString("libraries_count")
	w.Integer(int64(len(now.list)))
	w.BulkString("functions_count")
	w.Integer(int64(now.count))
	return nil
}

func cmdFunctionKill(c *Invocation) error {
	if err := keptBy(c.Engine).scripts.running.kill(true); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}
