package server

import (
	"container/heap"
	"slices"
	"time"

	"kedis/server/execute"
)

// waits are the connections of a reactor whose requests wait. Whatever a request waits for, it
// takes the same way: it is noted, begins to wait when what was executed before it is committed,
// and goes on when the wait has ended. Nothing but the connection waits: no goroutine does.
type waits struct {
	noted     []*connection                // who begins to wait with the commit
	shared    map[sharedWait][]*connection // who waits for what many can wait for; with nobody: all of them are gone
	deadlines deadlines
	alarm     *alarm // set for the first deadline, or for an earlier one that was removed
}

// sharedWait is a wait whose end is the end for all of a reactor. It is waited for once.
type sharedWait struct {
	cause  execute.Cause
	stripe uint32
}

// wait parks a connection with a request that can't be executed now. What it waits for may be held
// by this reactor, so all but those who wait for a worker or for other clients have the reactor
// commit.
func (r *reactor) wait(c *connection, request *execute.Request) {
	c.park(request)
	wait := c.session.Wait()
	if wait.Blocked != nil { // nothing that the client has sent before waits for a commit
		r.beginWait(c, wait)
		r.schedule()
		return
	}
	r.waits.noted = append(r.waits.noted, c)
	if wait.Shared() {
		r.commit()
	} else {
		r.schedule()
	}
}

// beginWaits has those wait who were noted.
func (r *reactor) beginWaits() {
	if len(r.waits.noted) == 0 {
		return
	}
	noted := r.waits.noted
	r.waits.noted = nil
	for _, c := range noted {
		switch wait := c.session.Wait(); {
		case c.closed || c.pending == nil: // it comes behind what a failed commit has taken back
			r.resume(c)
		case c.held && wait.Cause == execute.ForWorker: // a worker writes to the session's replies: only when those have left
			r.resume(c)
		default:
			c.working = wait.Cause == execute.ForWorker
			r.beginWait(c, wait)
		}
	}
}

func (r *reactor) beginWait(c *connection, wait *execute.Wait) {
	if wait.Cause == execute.ForPause && c.ended { // see halfClose
		c.drop()
		return
	}
	if !c.composing() { // what was pushed behind a reply that doesn't come yet
		c.writePushed()
	}
	r.server.engine.BeginWait(c.session)
	if wait.Shared() {
		key := sharedWait{wait.Cause, wait.Stripe}
		others, begun := r.waits.shared[key]
		r.waits.shared[key] = append(others, c)
		if !begun {
			wait.Begin(func() { r.post(func() { r.endShared(key) }) })
		}
		return
	}
	if blocked := wait.Blocked; blocked != nil {
		blocked.HeapIndex = -1
		r.waits.add(r, c, blocked)
		if blocked.Ended() { // while a worker had the session
			r.post(func() { r.unblock(c, blocked) })
		}
		return
	}
	ended := r.workDone
	if wait.Cause == execute.ForDisk {
		ended = r.resume
	}
	if !wait.Begin(func() { r.post(func() { ended(c) }) }) {
		r.resume(c)
	}
}

// endShared goes on with all connections that have waited for the same.
func (r *reactor) endShared(key sharedWait) {
	if key.cause == execute.ForLock {
		r.batch.Adopt(key.stripe)
		r.schedule()
	}
	waiting := r.waits.shared[key]
	delete(r.waits.shared, key)
	r.tryAgain(waiting)
}

// tryAgain goes on with connections that have waited for what many can wait for.
func (r *reactor) tryAgain(waiting []*connection) {
	for _, c := range waiting {
		c.session.EndWait()
		r.resume(c)
	}
}

// giveUpScripts has those try again who wait for a script that takes too long: they are answered
// BUSY. The reactor keeps its place in the queue.
func (r *reactor) giveUpScripts() {
	for key, waiting := range r.waits.shared {
		if len(waiting) > 0 && r.server.engine.Overdue(key.cause, key.stripe) {
			r.waits.shared[key] = nil
			r.tryAgain(waiting)
		}
	}
}

// load has a connection wait for records that are on the disk.
func (r *reactor) load(c *connection, wait *execute.Wait) {
	c.waits++
	if !wait.Begin(func() { r.post(func() { r.resume(c) }) }) {
		c.waits--
	}
}

// resume goes on with a connection when nothing is left that it waits for.
func (r *reactor) resume(c *connection) {
	if c.waits--; c.waits == 0 {
		r.process(c)
	}
}

// unblock goes on with a client whose wait for others was claimed: with its answer, or with its
// request. When the claim was taken back, the client goes on waiting.
func (r *reactor) unblock(c *connection, blocked *execute.Blocked) {
	switch {
	case c.working: // which notes the wait, and looks for its end then
		return
	case c.session.Wait().Blocked != blocked || c.pending == nil || c.closed:
		return // it was abandoned
	case !blocked.Ended():
		r.waits.add(r, c, blocked)
		return
	}
	r.waits.remove(blocked)
	c.session.EndWait()
	if request := c.pending; r.batch.Answered(c.session, request, blocked) {
		c.pending = nil
		c.flush()
	}
	r.resume(c)
}

// abandon ends the wait of a connection that is closed. While a worker has the session, nobody
// serves it any more, the worker ends what only reads, or doesn't begin, and what is left is done
// when the worker is.
func (r *reactor) abandon(c *connection) {
	if c.working {
		c.session.Abandon()
		r.server.engine.LeaveWorkers(c.session)
		return
	}
	if c.held {
		r.awaited.leave(c)
	}
	switch wait := c.session.Wait(); {
	case !c.parked():
	case wait.Blocked != nil:
		r.waits.remove(wait.Blocked)
		wait.Blocked.Abandon()
	case wait.Shared():
		r.waits.leave(sharedWait{wait.Cause, wait.Stripe}, c)
	}
}

// leave has a connection wait no longer for what many wait for, which may last: what the client has
// sent would stay in memory.
func (w *waits) leave(key sharedWait, c *connection) {
	if at := slices.Index(w.shared[key], c); at >= 0 {
		w.shared[key] = slices.Delete(w.shared[key], at, at+1)
	}
}

// expire ends the waits whose deadlines have come.
func (r *reactor) expire(now time.Duration) {
	for len(r.waits.deadlines) > 0 && r.waits.deadlines[0].blocked.Until() <= now {
		first := r.waits.deadlines[0]
		r.waits.remove(first.blocked)
		if first.blocked.Expire() {
			r.unblock(first.connection, first.blocked)
		}
	}
	if r.waits.due(now) {
		r.waits.alarm.rings = 0
	}
	r.waits.setAlarm(r)
}

// deadline is when a client's wait ends by itself.
type deadline struct {
	blocked    *execute.Blocked
	connection *connection
}

// deadlines is a heap of them, the first at its top; each Blocked knows its place.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].blocked.Until() < d[j].blocked.Until() }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].blocked.HeapIndex, d[j].blocked.HeapIndex = i, j
}

func (d *deadlines) Push(x any) {
	added := x.(deadline)
	added.blocked.HeapIndex = len(*d)
	*d = append(*d, added)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	removed := (*d)[last]
	(*d)[last] = deadline{}
	*d = (*d)[:last]
	removed.blocked.HeapIndex = -1
	return removed
}

// add takes up a client's deadline, if it has one.
func (w *waits) add(r *reactor, c *connection, blocked *execute.Blocked) {
	if blocked.Until() == 0 || blocked.HeapIndex >= 0 {
		return
	}
	heap.Push(&w.deadlines, deadline{blocked, c})
	w.setAlarm(r)
}

// remove forgets a client's deadline.
func (w *waits) remove(blocked *execute.Blocked) {
	if blocked.HeapIndex >= 0 && blocked.HeapIndex < len(w.deadlines) && w.deadlines[blocked.HeapIndex].blocked == blocked {
		heap.Remove(&w.deadlines, blocked.HeapIndex)
	}
}

// setAlarm has the reactor woken at the first deadline. It is woken too soon when that one was
// removed, and looks again.
func (w *waits) setAlarm(r *reactor) {
	if len(w.deadlines) == 0 {
		return
	}
	first := w.deadlines[0].blocked.Until()
	if w.alarm.rings == 0 || w.alarm.rings > first {
		w.alarm.set(first, r.server.engine.Elapsed())
	}
}

// due reports whether the alarm should have gone off.
func (w *waits) due(now time.Duration) bool { return w.alarm.rings != 0 && now >= w.alarm.rings }

// ring is called when the alarm goes off.
func (r *reactor) ring() {
	r.waits.alarm.rings = 0
	r.expire(r.server.engine.Elapsed())
}
