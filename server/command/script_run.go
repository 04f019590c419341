package command

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/number"
	"kedis/internal/resp"
	"kedis/server/execute"
	"kedis/server/script"
	"kedis/storage"
)

// program is what a run runs: a script, or a function.
type program struct {
	name  string // the SHA-1 of a script
	flags scriptFlags

	long  atomic.Bool // it took too long for a reactor when it last ran
	whole atomic.Bool // it has needed whole databases
}

// plan takes up what is known of the program from when it ran before.
func (p *program) plan(to *execute.Plan) {
	to.Worker = to.Worker || p.long.Load()
	to.Everything = to.Everything || p.whole.Load()
}

// scriptRun is one run of a script or a function. It is the program's host.
type scriptRun struct {
	c        *Invocation
	program  *program
	script   *knownScript // one of these
	function *function
	readOnly bool
	reply    resp.Writer
	longest  int   // of the replies and the requests' words, in bytes
	tells    int   // bytes that calls which write no records have left, to tell others
	before   int   // bytes that waited for the commit when it began
	err      error // what has ended the run
	long     *longScript
	log      func(level int, message string) // nil: it has said nothing
}

// admit refuses a program that may do more than can be done now, in Redis's order. One that doesn't
// say what it may do is refused what it does.
func (r *scriptRun) admit() error {
	c, flags := r.c, &r.program.flags
	readOnly := c.Command.Flags&ReadOnly != 0
	r.readOnly = readOnly || flags.noWrites
	if c.Applying() {
		return nil
	}
	writes := flags.declared && !flags.noWrites
	if writes {
		if err := r.admitWrites(); err != nil {
			return err
		}
	}
	if c.Stale() && !flags.allowStale {
		return execute.ErrStale
	}
	if writes && readOnly {
		return Error("ERR Can not execute a script with write flag using *_ro command.")
	}
	return nil
}

func (r *scriptRun) admitWrites() error {
	if err := r.c.Writable(); err != nil {
		return Errorf("MISCONF Errors writing to the log: %v", err)
	}
	if err := r.c.EnoughReplicas(); err != nil {
		return err
	}
	if r.c.Engine.IsReplica() {
		return execute.ErrReadOnly
	}
	return nil
}

const (
	// scriptTime is how long a script may run on a reactor before a worker runs it instead.
	scriptTime = 3 * time.Millisecond
	// shortScript is how short a script has to be, on a worker, to begin on a reactor the next
	// time.
	shortScript = time.Millisecond
)

// run runs what a run says, in memory that was used before.
func (s *scripts) run(what scriptRun, keys int) error {
	r, ok := s.runs.Get().(*scriptRun)
	if !ok {
		r = &scriptRun{}
	}
	what.reply = r.reply
	*r = what
	err := r.run(keys)
	longest := r.longest
	*r = scriptRun{reply: r.reply}
	r.reply.Reset()
	s.runs.Put(r)
	what.c.Engine.Leave(longest)
	return err
}

// run runs the program with the request's words, of which some are keys.
func (r *scriptRun) run(keys int) error {
	if err := r.admit(); err != nil {
		return err
	}
	c := r.c
	what := script.Run{Keys: c.Args[3 : 3+keys], Arguments: c.Args[3+keys:], Protocol: c.Reply.Protocol()}
	state, err := r.prepare(&what)
	if err != nil {
		return err
	}
	defer r.giveBack(state)
	database := c.Session.Database
	r.before = c.Gathered()
	c.ShowScript()
	var result script.Result
	if c.OnReactor() {
		what.Within = scriptTime
		result = state.Run(r, &what)
	} else {
		result = r.runLong(state, &what)
	}
	c.NoEffect()
	c.Session.SetDatabase(database)
	return r.conclude(&result)
}

// runLong runs the program on a worker, where it can be killed.
func (r *scriptRun) runLong(state *script.State, what *script.Run) script.Result {
	running := &keptBy(r.c.Engine).scripts.running
	r.long = running.enter(state, r)
	defer running.leave(r.long)
	result := state.Run(r, what)
	if time.Since(r.long.began) < shortScript {
		r.program.long.Store(false)
	}
	return result
}

// Room returns memory for a request.
func (r *scriptRun) Room(bytes, words int) ([]byte, [][]byte) {
	r.longest = max(r.longest, bytes)
	return r.c.Room(bytes, words)
}

// prepare returns an interpreter that is ready to run the program, and says what it is to run.
func (r *scriptRun) prepare(what *script.Run) (*script.State, error) {
	if r.function != nil {
		return r.prepareFunction(what)
	}
	state, err := keptBy(r.c.Engine).scripts.pool.Get()
	if err != nil {
		return nil, err
	}
	if r.c.OnReactor() && len(r.script.text) > longText && !state.Compiled(r.script.name) {
		r.giveBack(state) // EVALSHA was planned without a look at the text
		return nil, r.c.Offload()
	}
	if what.Script, err = state.Compile(r.script.name, r.script.text); err != nil {
		r.giveBack(state)
		return nil, compileError(err)
	}
	return state, nil
}

func (r *scriptRun) giveBack(state *script.State) {
	if r.function != nil && r.function.library.pinned {
		r.function.library.used.Store(state.Used())
		return
	}
	keptBy(r.c.Engine).scripts.pool.Put(state)
}

// wasKilled reports whether somebody has killed the script, which has written nothing.
func (r *scriptRun) wasKilled() bool {
	return r.long != nil && r.long.course.Load() == isKilled && !keptBy(r.c.Engine).scripts.running.isStopping()
}

func (r *scriptRun) killed(source string, line int) error {
	if source == "" {
		source = "@user_script"
		if r.function != nil {
			source = "@user_function"
		}
	}
	return Errorf("ERR Script killed by user with SCRIPT KILL... script: %s, on %s:%d.", r.program.name, source, max(line, 1))
}

// mark notes what was found out of the program, for when it runs again.
func (r *scriptRun) mark(what *atomic.Bool) {
	what.Store(true)
	keptBy(r.c.Engine).scripts.marked.Store(true)
}

// conclude replies with what a run has come to. What the script has written before an error stays,
// as in Redis.
func (r *scriptRun) conclude(result *script.Result) error {
	c := r.c
	switch result.End {
	case script.TakenBack:
		if !r.wasKilled() {
			return r.err
		}
		c.Fail(r.killed("", 0)) // SCRIPT KILL was answered OK, so it doesn't run again
	case script.Late:
		r.mark(&r.program.long)
		return c.Offload()
	case script.Killed:
		if keptBy(c.Engine).scripts.running.isStopping() {
			return storage.ErrInterrupted // half of what it writes mustn't be committed
		}
		c.Fail(r.killed(result.Source, result.Line))
	case script.Failed:
		text := string(result.Output) + " script: " + r.program.name
		if result.Source != "" {
			text += ", on " + result.Source + ":" + string(number.AppendInt(nil, int64(result.Line))) + "."
		}
		r.fail(result, text)
	default:
		if len(result.Output) > 0 && result.Output[0] == '-' {
			r.fail(result, string(bytes.TrimSuffix(result.Output[1:], []byte("\r\n"))))
		} else {
			c.Reply.Raw(result.Output)
		}
	}
	return nil
}

// fail replies with an error, which counts once.
func (r *scriptRun) fail(result *script.Result, text string) {
	if result.Met {
		r.c.FailAgain(Error(text))
	} else {
		r.c.Fail(Error(text))
	}
}

// Call runs a command for the script.
func (r *scriptRun) Call(words [][]byte, protocol int) (reply []byte, ok bool) {
	r.reply.Reset()
	r.reply.SetProtocol(protocol)
	request := r.c.Inner(words)
	if err := r.refusal(request); err != nil {
		r.c.CallRefused(request, err)
		r.reply.Error(err.Error())
		return r.reply.Bytes(), true
	}
	if r.long != nil && request.Command.Flags&Write != 0 && !r.long.mayWrite() {
		r.reply.Error("ERR Script killed by user with SCRIPT KILL...") // the interpreter ends it in a moment
		return r.reply.Bytes(), true
	}
	written, tells := r.c.Written(), r.c.Tells()
	r.err = r.c.Call(request, &r.reply)
	r.longest = max(r.longest, r.reply.Len())
	if r.err != nil {
		if r.c.NeedsEverything() {
			r.mark(&r.program.whole)
		}
		return nil, false
	}
	if r.c.Written() == written {
		r.tells += r.c.Tells() - tells
	}
	if most := r.c.Engine.Config.ScriptWriteLimit.Get(); most > 0 && r.records() > most {
		r.err = Errorf("ERR the script has written more than %d records, or too long ones (script-write-limit); nothing of it is kept", most)
		return nil, false
	}
	return r.reply.Bytes(), true
}

const (
	// toldAsRecord is how many bytes that go to the log, or to who listens, count as one record
	// when none is written.
	toldAsRecord = 1 << 10
	// gatheredAsRecord is how many bytes of all that waits for the commit do. What is changed in
	// parts is written as a whole each time while it is short: a string has up to 16 KB then, and a
	// collection about half of that. So only long values count for more than themselves.
	gatheredAsRecord = 16 << 10
)

// records is how many records the script has written, or what takes as much memory.
func (r *scriptRun) records() int64 {
	return int64(max(r.c.Written()+r.c.Deferred(), r.tells/toldAsRecord, (r.c.Gathered()-r.before)/gatheredAsRecord))
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
	case command.Flags&Stale == 0 && r.c.Stale():
		return Error("ERR Can not execute the command on a stale replica")
	}
	if err := r.c.PermitCall(request); err != nil {
		return err
	}
	if r.readOnly && command.Flags&(Write|MayReplicate) != 0 { // whatever its words are, as in Redis
		return Error("ERR Write commands are not allowed from read-only scripts.")
	}
	return r.c.Refusal(request)
}

// May reports whether the user may run a request.
func (r *scriptRun) May(words [][]byte) (may, known bool) {
	request := r.c.Inner(words)
	known = request.Command != nil
	return known && r.c.MayCall(request), known
}

// Log writes what a script has to say.
func (r *scriptRun) Log(level int, message string) {
	if r.log == nil {
		r.log = logOf(r.c)
	}
	r.log(level, message)
}

// logOf returns what writes to the server's log, when what was done is committed: a script that is
// taken back runs again. One that goes on for long, on a worker, and says more than is worth
// keeping until then says it at once.
func logOf(c *Invocation) func(level int, message string) {
	l := &scriptLog{logger: c.Engine.Logger, brief: c.OnReactor()}
	return func(level int, message string) {
		if !l.logs(level) {
			return
		}
		if !l.kept {
			c.AfterCommit(l.write)
		}
		l.kept = true
		l.add(level, message)
	}
}

// Of what a script says so much is kept.
const (
	mostScriptLines = 1024
	mostScriptSaid  = 1 << 20
)

// scriptLog keeps what a script says.
type scriptLog struct {
	logger hclog.Logger
	lines  []scriptLine
	bytes  int
	kept   bool // until the commit
	brief  bool // it may say little, since it has little time
}

type scriptLine struct {
	level   int
	message string
}

// logs reports whether the log takes a level.
func (l *scriptLog) logs(level int) bool {
	switch level {
	case 0:
		return l.logger.IsTrace()
	case 1:
		return l.logger.IsDebug()
	case 2:
		return l.logger.IsInfo()
	}
	return l.logger.IsWarn()
}

func (l *scriptLog) add(level int, message string) {
	l.lines, l.bytes = append(l.lines, scriptLine{level, message}), l.bytes+len(message)
	if !l.brief && (len(l.lines) >= mostScriptLines || l.bytes >= mostScriptSaid) {
		l.write()
	}
}

func (l *scriptLog) write() {
	for _, line := range l.lines {
		switch line.level {
		case 0:
			l.logger.Trace(line.message)
		case 1:
			l.logger.Debug(line.message)
		case 2:
			l.logger.Info(line.message)
		default:
			l.logger.Warn(line.message)
		}
	}
	l.lines, l.bytes = nil, 0
}

// longScripts are the scripts and functions that workers run.
type longScripts struct {
	mu       sync.Mutex
	scripts  map[*longScript]struct{}
	stopping bool
}

// longScript is a script, or a function, that a worker runs.
type longScript struct {
	state    *script.State
	function bool
	name     string
	words    [][]byte // of the request
	began    time.Time
	course   atomic.Int32
}

// The courses of a longScript. One that is killed has written nothing, and one that has written
// isn't killed.
const (
	onlyReads int32 = iota
	mayHaveWritten
	isKilled
)

// mayWrite is called before each command that writes. It returns false when the script was killed.
func (l *longScript) mayWrite() bool {
	return l.course.CompareAndSwap(onlyReads, mayHaveWritten) || l.course.Load() == mayHaveWritten
}

// kill ends the script, unless it may have written.
func (l *longScript) kill() bool {
	if !l.course.CompareAndSwap(onlyReads, isKilled) && l.course.Load() != isKilled {
		return false
	}
	l.state.Kill()
	return true
}

const (
	errNotBusy    = Error("NOTBUSY No scripts in execution right now.")
	errUnkillable = Error("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script " +
		"termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.")
)

func (l *longScripts) enter(state *script.State, r *scriptRun) *longScript {
	long := &longScript{state: state, function: r.function != nil, name: r.program.name, words: r.c.Args, began: time.Now()}
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
	long.state.Spare()
}

// kill ends all scripts, or all functions, that have not written. Those that have are spoken of
// first, as in Redis, whichever is asked for.
func (l *longScripts) kill(functions bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	killed, unkillable, other := false, false, false
	for long := range l.scripts {
		switch {
		case long.function != functions:
			other, unkillable = true, unkillable || long.course.Load() == mayHaveWritten
		case long.kill():
			killed = true
		default:
			unkillable = true
		}
	}
	switch {
	case killed:
		return nil
	case unkillable:
		return errUnkillable
	case other && functions:
		return execute.ErrBusyScript
	case other:
		return execute.ErrBusyFunction
	}
	return errNotBusy
}

// function calls show with the function that has run for longest; it does so only if one runs.
func (l *longScripts) function(show func(*longScript)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first *longScript
	for long := range l.scripts {
		if long.function && (first == nil || long.began.Before(first.began)) {
			first = long
		}
	}
	if first == nil {
		return false
	}
	show(first)
	return true
}

// stop ends all scripts, and those that begin. What they have written is taken back.
func (l *longScripts) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	for long := range l.scripts {
		long.state.Kill()
	}
}

func (l *longScripts) isStopping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopping
}
