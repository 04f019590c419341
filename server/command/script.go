package command

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/number"
	"kedis/internal/resp"
	"kedis/server/execute"
	"kedis/server/script"
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
	flags := NoScript | SkipMonitor | Stale | NoMandatoryKeys | MovableKeys
	if readOnly {
		flags |= ReadOnly
	} else {
		flags |= MayReplicate
	}
	spec := countedKeys(2, keys)
	spec.Notes = notes
	return Command{Name: name, Arity: -3, Flags: flags, Categories: CategoryScripting, Run: run, Plan: planScript, RunsScript: true, Keys: []KeySpec{spec},
		Prefetch: execute.PrefetchNothing, Group: "scripting", Since: since, Complexity: "Depends on the script that is executed.",
		Syntax: what + " numkeys [key [key ...]] [arg [arg ...]]", Summary: summary}
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
			{Name: "flush", Arity: -2, Flags: NoScript, Categories: CategoryScripting, Run: cmdScriptFlush, Tips: oneOf, Since: "2.6.0",
				Complexity: "O(N) with N being the number of scripts in cache", Syntax: "[ASYNC | SYNC]", Summary: "Forgets all scripts."},
			{Name: "kill", Arity: 2, Flags: NoScript | AllowBusy, Categories: CategoryScripting, Run: cmdScriptKill,
				Tips:  []string{"request_policy:all_shards", "response_policy:one_succeeded"},
				Since: "2.6.0", Complexity: "O(1)", Summary: "Ends the script that runs."},
			{Name: "load", Arity: 3, Flags: NoScript | Stale, Categories: CategoryScripting, Run: cmdScriptLoad, Tips: oneOf, Since: "2.6.0",
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

// planScript takes up the declared keys. What a script needed when it ran last, it needs again.
func planScript(c *Invocation, p *execute.Plan) error {
	p.Add(c.Request)
	if known := keptBy(c.Engine).scripts.peek(c); known != nil {
		p.Worker = p.Worker || known.long.Load()
		p.Everything = p.Everything || known.whole.Load()
	}
	if c.Command.Flags&ReadOnly != 0 && !c.OnReactor() {
		p.Walk = true // what it reads needn't be declared: it reads from a view
	}
	return nil
}

func cmdEval(c *Invocation) error { return runScript(c, true) }

func cmdEvalSHA(c *Invocation) error { return runScript(c, false) }

func runScript(c *Invocation, byText bool) error {
	count, err := parseInteger(c.Args[2])
	switch {
	case err != nil:
		return err
	case count > int64(len(c.Args)-3):
		return Error("ERR Number of keys can't be greater than number of args")
	case count < 0:
		return Error("ERR Number of keys can't be negative")
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
	r := scriptRun{c: c, known: known, readOnly: c.Command.Flags&ReadOnly != 0 || known.flags.noWrites}
	if err := r.admit(); err != nil {
		return err
	}
	return r.run(s, c.Args[3:3+count], c.Args[3+count:])
}

// scriptRun is one run of a script. It is the script's host.
type scriptRun struct {
	c        *Invocation
	known    *knownScript
	readOnly bool
	reply    *resp.Writer
	err      error // what has ended the run
	long     *longScript
}

// admit refuses a script that says more of itself than it may do now.
func (r *scriptRun) admit() error {
	if !r.known.flags.declared || r.known.flags.noWrites {
		return nil
	}
	switch {
	case r.c.Engine.IsReplica():
		return Error("READONLY You can not run script with write flag on readonly replica.")
	case r.c.Command.Flags&ReadOnly != 0:
		return Error("ERR Can not execute a script with write flag using *_ro command.")
	}
	if err := r.c.Writable(); err != nil {
		return Errorf("MISCONF Errors writing to the log: %v", err)
	}
	return nil
}

const (
	// scriptTime is how long a script may run on a reactor before a worker runs it instead.
	scriptTime = 3 * time.Millisecond
	// shortScript is how short a script has to be, on a worker, to begin on a reactor the next time.
	shortScript = time.Millisecond
)

func (r *scriptRun) run(s *scripts, keys, arguments [][]byte) error {
	c := r.c
	state, err := s.pool.Get()
	if err != nil {
		return err
	}
	defer s.pool.Put(state)
	if err := state.Compile(r.known.sha, r.known.text); err != nil {
		return compileError(err)
	}
	database := c.Session.Database
	r.reply = resp.NewWriter(2)
	what := script.Run{SHA: r.known.sha, Keys: keys, Arguments: arguments, Protocol: c.Reply.Protocol()}
	if c.OnReactor() {
		what.Within = scriptTime
	} else {
		r.long = s.running.enter(state, r.known)
		defer s.running.leave(r.long)
	}
	began := time.Now()
	result := state.Run(r, &what)
	if !c.OnReactor() && time.Since(began) < shortScript {
		r.known.long.Store(false)
	}
	c.NoEffect()
	c.Session.SetDatabase(database)
	return r.conclude(&result)
}

// mark notes what was found out of the script, for when it runs again.
func (r *scriptRun) mark(what *atomic.Bool) {
	what.Store(true)
	keptBy(r.c.Engine).scripts.marked.Store(true)
}

// conclude replies with what a run has come to. What the script has written before an error stays, as in Redis.
func (r *scriptRun) conclude(result *script.Result) error {
	c := r.c
	switch result.End {
	case script.TakenBack:
		return r.err
	case script.Late:
		r.mark(&r.known.long)
		return c.Offload()
	case script.Killed:
		c.Fail(Errorf("ERR Script killed by user with SCRIPT KILL... script: %s, on @user_script:1.", r.known.sha))
	case script.Failed:
		text := string(result.Output) + " script: " + r.known.sha
		if result.Source != "" {
			text += ", on " + result.Source + ":" + string(number.AppendInt(nil, int64(result.Line))) + "."
		}
		c.Fail(Error(text))
	default:
		if len(result.Output) > 0 && result.Output[0] == '-' {
			c.Fail(Error(bytes.TrimSuffix(result.Output[1:], []byte("\r\n"))))
		} else {
			c.Reply.Raw(result.Output)
		}
	}
	return nil
}

// Call runs a command for the script.
func (r *scriptRun) Call(words [][]byte, protocol int) (reply []byte, ok bool) {
	r.reply.Reset()
	r.reply.SetProtocol(protocol)
	request := r.c.Inner(words)
	if err := r.refusal(request); err != nil {
		r.reply.Error(err.Error())
		return r.reply.Bytes(), true
	}
	if r.err = r.c.Call(request, r.reply); r.err != nil {
		if r.c.NeedsEverything() {
			r.mark(&r.known.whole)
		}
		return nil, false
	}
	if r.long != nil && !r.readOnly && r.c.Written() > 0 {
		r.long.wrote.Store(true)
	}
	if most := r.c.Engine.Config.ScriptWriteLimit.Get(); most > 0 && int64(r.c.Written()) > most {
		r.err = Errorf("ERR the script has written more than %d records (script-write-limit); nothing of it is kept", most)
		return nil, false
	}
	return r.reply.Bytes(), true
}

// refusal is why a script may not call a command, in Redis's order and words.
func (r *scriptRun) refusal(request *Request) error {
	command := request.Command
	switch {
	case command == nil:
		return Error("ERR Unknown Redis command called from script")
	case !command.Accepts(len(request.Args)) || command.Run == nil:
		return Error("ERR Wrong number of args calling Redis command from script")
	case command.Flags&(NoScript|NoBatch) != 0:
		return Error("ERR This Redis command is not allowed from script")
	}
	if err := r.c.PermitCall(request); err != nil {
		return err
	}
	if r.readOnly && request.Writes() {
		return Error("ERR Write commands are not allowed from read-only scripts.")
	}
	return r.c.Refusal(request)
}

// May reports whether the user may run a request.
func (r *scriptRun) May(words [][]byte) (may, known bool) {
	request := r.c.Inner(words)
	known = request.Command != nil && request.Command.Run != nil && request.Command.Accepts(len(words))
	return known && r.c.MayCall(request), known
}

// Log writes what a script has to say, when what it did is committed.
func (r *scriptRun) Log(level int, message string) {
	logger := r.c.Engine.Logger
	r.c.AfterCommit(func() {
		switch level {
		case 0:
			logger.Trace(message)
		case 1:
			logger.Debug(message)
		case 2:
			logger.Info(message)
		default:
			logger.Warn(message)
		}
	})
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
	known, err := keptBy(c.Engine).scripts.load(c.Args[2])
	if err != nil {
		return err
	}
	c.Reply.BulkString(known.sha)
	return nil
}

func cmdScriptKill(c *Invocation) error {
	if err := keptBy(c.Engine).scripts.running.kill(); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

// longScripts are the scripts that workers run.
type longScripts struct {
	mu       sync.Mutex
	scripts  map[*longScript]struct{}
	stopping bool
}

const (
	errNotBusy    = Error("NOTBUSY No scripts in execution right now.")
	errUnkillable = Error("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script " +
		"termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.")
)

func (l *longScripts) enter(state *script.State, known *knownScript) *longScript {
	long := &longScript{state: state, known: known, began: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scripts == nil {
		l.scripts = map[*longScript]struct{}{}
	}
	l.scripts[long] = struct{}{}
	if l.stopping {
		state.Kill()
	}
	return long
}

func (l *longScripts) leave(long *longScript) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.scripts, long)
}

// kill ends all scripts that have not written.
func (l *longScripts) kill() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := error(errNotBusy)
	for long := range l.scripts {
		switch {
		case !long.wrote.Load():
			long.state.Kill()
			err = nil
		case err != nil:
			err = errUnkillable
		}
	}
	return err
}

// stop ends all scripts, and those that begin.
func (l *longScripts) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	for long := range l.scripts {
		long.state.Kill()
	}
}
