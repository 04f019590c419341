package execute

import "time"

// stopwatch says how long commands took. It is read once between two commands: one begins when the
// one before it ended.
type stopwatch struct {
	*clock
	last int64 // when the last command ended, as the engine's clock says
	lane int   // of what is counted

	began    int64 // when the first command of the pass did
	commands int64 // ns that commands have taken since
}

func (w *stopwatch) beginPass() { w.began, w.commands = w.last, 0 }

// countPass counts a reactor's pass, which its commit has ended. Passes in which nothing was
// executed don't count.
func (b *Batch) countPass() {
	if len(b.members.list) == 0 || b.budget == 0 {
		return
	}
	s, w := &b.engine.Statistics, &b.clock
	now, _ := w.now()
	s.Passes.Add(w.lane, 1)
	s.PassTime.Add(w.lane, now-w.began)
	s.PassedCommands.Add(w.lane, w.commands)
}

// tick reads the clock, and returns how long ago it was last read.
func (w *stopwatch) tick() time.Duration {
	now, _ := w.now()
	passed := time.Duration(now - w.last)
	w.last = now
	return passed
}

// Execution is a request that has run, as statistics and observers see it.
type Execution struct {
	*Request
	Session  *Session
	Database int
	Redacted redaction
	Began    int64 // Unix ms
	Took     time.Duration
	Begun    bool   // monitors have seen it when it began, or began to wait
	Script   bool   // a script has called it
	seen     bool   // it is for monitors only
	failure  string // the error reply; "" if it succeeded
	told     bool   // the error was counted when it was another one's
}

func (c *Invocation) execution(took time.Duration) Execution {
	return Execution{Request: c.Request, Session: c.Session, Database: c.selected, Redacted: c.redacted, Began: c.Now, Took: took,
		Begun: c.Session.waited || c.shown, failure: c.failure, told: c.told}
}

// ShowScript shows a script to monitors ahead of what it calls.
func (c *Invocation) ShowScript() {
	if b := c.batch; b.engine.inUse.any(monitoring) && !b.repeat.starting() && !b.running.request.counted {
		c.shown = true
		b.showLater(Execution{Request: c.Request, Session: c.Session, Database: c.selected, seen: true})
	}
}

// showCall shows what a script has called to those who want to know of it.
func (b *Batch) showCall(c *Invocation, took time.Duration) {
	if b.shows(took) {
		x := c.execution(took)
		x.Request, x.Script, x.Begun = c.Request.Clone(), true, false
		b.showLater(x)
	}
}

// showLater shows a request when the outermost one can't be taken back any more, or has called very
// many.
func (b *Batch) showLater(x Execution) {
	ran := &b.running.outbox.ran
	if *ran = append(*ran, x); len(*ran) >= mostCalled {
		b.accountRan()
	}
}

// accountAll counts the requests that an outermost one has run, and itself.
func (b *Batch) accountAll(c *Invocation, took time.Duration) {
	if len(b.running.outbox.called) > 0 {
		b.countCalls()
	}
	if len(b.running.outbox.ran) > 0 {
		b.accountRan()
	}
	b.count(c.Command, took, c.failure, c.told)
	if b.shows(took) {
		shown := &b.running.shown
		*shown = c.execution(took)
		b.engine.Observer.Observe(shown)
		*shown = Execution{}
	}
	b.noteCounted(c.Request)
}

func (b *Batch) accountRan() {
	ran := b.running.outbox.ran
	for i := range ran {
		switch x := &ran[i]; {
		case x.seen:
			b.engine.Observer.Begin(x)
		case x.Script: // it was counted apart
			b.engine.Observer.Observe(x)
		default:
			b.account(x)
		}
	}
	clear(ran)
	b.running.outbox.ran = ran[:0]
}

// account counts a request that has run, and shows it to those who want to know of it.
func (b *Batch) account(ran *Execution) {
	b.count(ran.Command, ran.Took, ran.failure, ran.told)
	if b.shows(ran.Took) {
		b.engine.Observer.Observe(ran)
	}
}

// count counts a call of a command, and the error, unless it was told of before. What a start
// repeats from the log was counted when it ran first, and so was what is executed again.
func (b *Batch) count(command *Command, took time.Duration, failure string, told bool) {
	if failure != "" && !told {
		b.countError(failure)
	}
	if b.repeat.starting() || b.running.request.counted {
		return
	}
	command.Measures.Record(b.clock.lane, took, failure != "")
	if b.engine.inUse.any(measuring) {
		command.Measures.Latency.Record(b.clock.lane, took)
	}
}

// countRefused counts a request that doesn't run.
func (b *Batch) countRefused(command *Command, failure string) {
	if command != nil && !b.running.request.counted {
		command.Measures.Reject(b.clock.lane)
	}
	b.countError(failure)
}

// countError counts an error reply of the running request, or inside of it. One that is executed
// again has errors that count only when it had none before: a write had been done then.
func (b *Batch) countError(text string) {
	if !b.running.request.failed {
		b.running.erred = true
		b.engine.CountError(text)
	}
}

// noteCounted notes that a request was counted, should it be executed again.
func (b *Batch) noteCounted(r *Request) {
	r.counted, r.failed = true, r.failed || b.running.erred
}

// shows reports whether a request that took so long is shown to the observer.
func (b *Batch) shows(took time.Duration) bool {
	return int64(took) >= b.engine.ObserveFrom.Load() && !b.repeat.starting() && !b.running.request.counted
}

// countLookups takes up what the transaction has counted.
func (b *Batch) countLookups() {
	hits, misses := b.txn.Lookups()
	if hits > 0 {
		b.engine.Statistics.Hits.Add(b.clock.lane, hits)
	}
	if misses > 0 {
		b.engine.Statistics.Misses.Add(b.clock.lane, misses)
	}
}
