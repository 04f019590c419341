package execute

import (
	"slices"
	"time"

	"kedis/internal/resp"
	"kedis/storage"
)

// Invocation is one run of a request inside of a transaction. A command's function works with it,
// and may run other requests in it, as EXEC does with its queue.
type Invocation struct {
	*Request
	Engine  *Engine
	Session *Session
	Reply   *resp.Writer // where the reply goes
	Txn     *storage.Txn
	DB      storage.DB // the selected database
	Now     int64      // Unix ms at which the outermost request began

	batch    *Batch
	level    int // 0: it is the outermost
	before   before
	selected int  // the database of DB
	effected bool // the effect is other than the request itself
	redacted redaction
	shown    bool   // to monitors, when it began
	failure  string // the error reply
	told     bool   // it was counted when it was another one's
}

// before is what an invocation is taken back to.
type before struct {
	txn    storage.Savepoint
	reply  int
	outbox outboxMark
}

// begin makes the invocation ready to run, again if it has run before.
func (c *Invocation) begin(now int64) {
	c.effected, c.redacted, c.shown, c.failure, c.told = false, 0, false, "", false
	c.Now = now
	c.choose(c.Session.Database)
}

// choose makes a database the one that the command works in; one that isn't configured is none, and
// the command doesn't run.
func (c *Invocation) choose(number int) {
	if c.selected, c.DB = number, (storage.DB{}); c.batch.repeat.applying && number >= c.Engine.Store.Databases() {
		return
	}
	c.DB = c.Txn.DB(number)
}

// mark notes where the invocation begins.
func (c *Invocation) mark() {
	c.Txn.Mark(&c.before.txn)
	c.before.reply = c.Reply.Mark()
	c.batch.running.outbox.mark(&c.before.outbox)
}

// takeBack takes back what the invocation, and those in it, have done since mark.
func (c *Invocation) takeBack() {
	c.Txn.Rollback(&c.before.txn)
	c.Reply.Rewind(c.before.reply)
	c.batch.running.outbox.rewind(c.before.outbox)
	if undo := c.batch.running.undo; c.level == 0 && undo != nil {
		c.batch.running.undo = nil
		undo()
	}
}

// WhenTakenBack has f called when the outermost request, which this is, is taken back.
func (c *Invocation) WhenTakenBack(f func()) { c.batch.running.undo = f }

// Effect says how the command is to be repeated elsewhere, instead of as it was given. It may be
// called several times; all or none are repeated. A long word has to stay as it is: see
// storage.Txn.
func (c *Invocation) Effect(args ...[]byte) {
	c.effected = true
	c.Txn.Effect(c.selected, c.effectWords(args)...)
}

// BeginEffect is Effect for a command that adds the words behind the first ones by EffectWord.
// words is how many there are in all.
func (c *Invocation) BeginEffect(words int, first ...[]byte) {
	c.effected = true
	c.Txn.BeginEffect(c.selected, words)
	for _, word := range first {
		c.Txn.EffectWord(word)
	}
}

// EffectWord adds a word to the effect that has begun.
func (c *Invocation) EffectWord(word []byte) { c.Txn.EffectWord(word) }

// EffectNumber adds a number or an id to the effect that has begun.
func (c *Invocation) EffectNumber(word []byte) { c.Txn.EffectNumber(word) }

// AfterCommit has f called when what the command did is committed, and not at all if that fails or
// the command is taken back. It is called by the goroutine that commits, and must not wait.
func (c *Invocation) AfterCommit(f func()) {
	outbox := &c.batch.running.outbox
	outbox.after = append(outbox.after, afterCommit{f, c.Txn.Notifications().Len()})
}

// Deferred is how much of the command waits for the commit, such as messages that it has published.
func (c *Invocation) Deferred() int {
	return len(c.batch.running.outbox.after) - c.before.outbox.after
}

// Tells is how many bytes wait for the commit, to tell others of what has happened: the log, those
// who are notified of keys, and those who get messages.
func (c *Invocation) Tells() int { return c.Txn.Tells() + c.batch.running.outbox.published }

// Gathered is how many bytes wait for the commit in all: records, those that were written ahead of
// it, and what Tells counts.
func (c *Invocation) Gathered() int { return c.Txn.Gathered() + int(c.Txn.Staged()) + c.Tells() }

// ChangeLibraries notes what the libraries of functions are from here on in the transaction: the
// family that has them says what that is.
func (c *Invocation) ChangeLibraries(libraries any) { c.batch.running.outbox.libraries = libraries }

// ChangedLibraries returns what ChangeLibraries has noted in the transaction; nil if it wasn't
// called.
func (c *Invocation) ChangedLibraries() any { return c.batch.running.outbox.libraries }

// Unwanted reports whether nobody waits for what the command reads any more.
func (c *Invocation) Unwanted() bool { return c.batch.unwanted != nil && c.batch.unwanted.Load() }

// Push sends the client something that is no reply. It comes behind the reply to the outermost
// request, in the client's protocol: a script that has called the command may be replied to in
// another one.
func (c *Invocation) Push(write func(w *resp.Writer)) {
	w := resp.NewWriter(c.Session.Protocol)
	write(w)
	outbox := &c.batch.running.outbox
	outbox.pushed = append(outbox.pushed, w.Bytes()...)
}

// Unsay takes back the replies to the session's requests in front of this one, but for what was
// sent and what a commit may yet change.
func (c *Invocation) Unsay() {
	if at := c.Session.member; at > 0 && c.Txn.Empty() {
		c.Reply.Rewind(c.batch.members.list[at-1].mark)
	}
}

// NoEffect says that what the command changed needs no repeating.
func (c *Invocation) NoEffect() { c.effected = true }

// redaction is a set of words. The last bit stands for all words from there on.
type redaction uint64

const lastRedacted = 63

// Has reports whether a word is kept back.
func (r redaction) Has(word int) bool { return r&(1<<min(word, lastRedacted)) != 0 }

// Redact keeps a word, such as a password, out of the slow log and of what monitors see.
func (c *Invocation) Redact(word int) { c.redacted |= 1 << min(word, lastRedacted) }

// InDatabase returns another database.
func (c *Invocation) InDatabase(number int) storage.DB { return c.Txn.DB(number) }

// Select makes another database the selected one.
func (c *Invocation) Select(number int) {
	c.Session.SetDatabase(number)
	c.choose(number)
}

// Applying reports whether the command is repeated from the log: time and chance have no part in
// it.
func (c *Invocation) Applying() bool { return c.Txn.Mode().Applying }

// Nested reports whether the request runs inside of another one. What was done before it can't be
// committed first, so it can't wait.
func (c *Invocation) Nested() bool { return c.level > 0 }

// InScript reports whether a script or a function has called the request.
func (c *Invocation) InScript() bool {
	return slices.ContainsFunc(c.batch.running.stack[:c.level], func(outer *Invocation) bool { return outer.Command.RunsScript })
}

// Alone reports whether the gate is closed for the command: nothing runs beside it.
func (c *Invocation) Alone() bool { return c.batch.locks.reopen != nil }

// Writable is nil, or why writes are refused now.
func (c *Invocation) Writable() error { return c.batch.writable(c.Session) }

// CountLookups makes what the batch has counted up to now visible.
func (c *Invocation) CountLookups() { c.batch.countLookups() }

// OnReactor reports whether other connections wait until the command is done.
func (c *Invocation) OnReactor() bool { return c.batch.budget > 0 }

// Offload, returned by a command on a reactor, runs the outermost request again on a worker.
func (c *Invocation) Offload() error { return storage.ErrBudget }

// Invoke runs a request inside of this one; its locks are held, and its budget is what is left of
// this one's. Its reply goes to the writer. When it fails, only what it has done itself is taken
// back, and the error is its reply. An error that Invoke returns takes back the outermost request:
// it is to be returned.
func (c *Invocation) Invoke(r *Request, reply *resp.Writer) error {
	b := c.batch
	inner := b.invocation(c.level+1, c.Session, r, reply)
	start := b.clock.last
	err := b.call(inner, c.Now, b.txn.Budget())
	if b.takesBack(err) {
		return err
	}
	b.Tick()
	if ran := &b.running.outbox.ran; !b.repeat.starting() {
		*ran = append(*ran, inner.execution(time.Duration(b.clock.last-start)))
	}
	b.txn.Begin(b.mode(c), c.Now, b.txn.Budget())
	return nil
}

// running is what a batch runs now, and what it has run since the last commit.
type running struct {
	stack    []*Invocation // the outermost first, and memory for more
	outbox   outbox
	undo     func()   // takes back what the outermost has done outside of the transaction
	request  *Request // the outermost
	erred    bool     // an error of it was counted
	underway bool     // the outermost runs
	noted    bool     // that its client reads what is queued: it is EXEC, and reads from a view
	wrote    bool     // it has left effects
	counting bool     // it is to be run again, to count on
	sealed   bool     // by a NoBatch command, or by Seal: nothing joins it
	marked   int      // the key events whose watchers were told
	loops    []change
	reads    map[reading]lateRead
	unnoted  map[string]*Session // what was read from a view, and by whom, though it had not been noted

	serving  serving
	shown    Execution // memory for what the observer is shown
	replaced []int     // databases that the outermost has replaced as a whole
	lacking  uint32    // the lock that the outermost was taken back for
	denials  int32     // that the outermost has met

	began    int64    // when the outermost began, as the engine's clock says
	inner    Request  // the one that Call runs; see Inner
	plan     Plan     // of it
	room     room     // for its words
	turnedUp []uint32 // locks that the outermost has turned out to need, and got
	readMore bool     // it has read what its plan doesn't lock
}

// begin says that a request is the outermost.
func (r *running) begin(request *Request) { r.request, r.erred = request, false }

// abandon takes back what runs.
func (r *running) abandon() {
	if r.underway {
		r.stack[0].takeBack()
		r.underway = false
	}
}

// reset forgets what has run. What a worker's request has pushed goes behind its reply, which is
// finished when it is committed.
func (r *running) reset() {
	r.outbox.rewind(outboxMark{pushed: len(r.outbox.pushed)})
	r.sealed, r.marked = false, 0
	clear(r.loops)
	r.loops, r.reads, r.unnoted = r.loops[:0], nil, nil
}

// prepare returns the outermost invocation of a request.
func (b *Batch) prepare(s *Session, r *Request) *Invocation { return b.invocation(0, s, r, s.Reply) }

// invocation returns an invocation at a level of nesting, where none runs.
func (b *Batch) invocation(level int, s *Session, r *Request, reply *resp.Writer) *Invocation {
	for level >= len(b.running.stack) { // a waiting client is served inside of what is no invocation when its key expires
		b.running.stack = append(b.running.stack, &Invocation{Engine: b.engine, Txn: b.txn, batch: b, level: len(b.running.stack)})
	}
	c := b.running.stack[level]
	c.Request, c.Session, c.Reply = r, s, reply
	c.selected, c.failure, c.told = s.Database, "", false
	return c
}

// outbox has what leaves the transaction, until it is known that it may: what an invocation that is
// taken back has put there is thrown away.
type outbox struct {
	after  []afterCommit // what waits for the commit
	served []served      // to be told when the commit has succeeded
	ran    []Execution   // to be counted and shown when the outermost request has run
	called []called      // likewise, of those that Call has run or that were refused: to be counted only
	grown  growths       // to be counted, too
	pushed []byte        // to the client, for behind the reply to the outermost request

	messages  []Message // what was published, when the commit has succeeded
	published int       // bytes of the messages that are to be published

	libraries any // of functions, as the transaction leaves them; nil: as they are
}

// afterCommit is to be called when the commit has succeeded, behind the first notifications.
type afterCommit struct {
	call          func()
	notifications int
}

// outboxMark is what rewind goes back to.
type outboxMark struct {
	after, served, ran, called, grown, pushed, published int
	libraries                                            any
}

func (o *outbox) mark(m *outboxMark) {
	m.after, m.served, m.ran, m.called = len(o.after), len(o.served), len(o.ran), len(o.called)
	m.grown, m.pushed, m.published, m.libraries = len(o.grown), len(o.pushed), o.published, o.libraries
}

func (o *outbox) rewind(to outboxMark) {
	for i := len(o.served) - 1; i >= to.served; i-- {
		o.served[i].blocked.release()
	}
	o.forgetServed(to.served)
	clear(o.after[to.after:])
	ran, called := min(to.ran, len(o.ran)), min(to.called, len(o.called)) // some were counted ahead
	clear(o.ran[ran:])
	clear(o.called[called:])
	o.after, o.ran, o.called = o.after[:to.after], o.ran[:ran], o.called[:called]
	o.grown, o.pushed, o.published, o.libraries = o.grown[:to.grown], o.pushed[:to.pushed], to.published, to.libraries
}

func (o *outbox) forgetServed(first int) {
	clear(o.served[first:])
	o.served = o.served[:first]
}

// tellServed tells those who were served, when the log holds that up to a position.
func (o *outbox) tellServed(position int64) {
	for i := range o.served {
		o.served[i].tell(position)
	}
	o.forgetServed(0)
}
