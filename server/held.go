package server

import (
	"slices"
	"time"

	"kedis/internal/psync"
)

// awaited are the connections of a reactor whose composed replies wait for replicas
// (synchronous-replicas). Each queue asks for the acknowledgement of its first reply only: the
// replicas say then how far they are, and all that they have may leave.
type awaited map[int]*heldQueue // by the number of replicas

type heldQueue struct {
	replies []heldReply // in the order in which they came
	cancel  func()      // the asking; nil: nobody has been asked
	overdue *time.Timer
	rings   time.Duration // when overdue does: at the first deadline, which any reply may have; 0: never
}

type heldReply struct {
	connection *connection
	position   int64         // that the replicas have to have
	deadline   time.Duration // as Engine.Elapsed tells the time; 0: none
	unknown    bool          // it is given up, by who looks at the queue
}

// holdBack keeps the composed replies of a connection until replicas have what they depend on. It
// returns false when they may leave.
func (r *reactor) holdBack(c *connection) bool {
	replicas, position := r.server.engine.Held(c.session)
	switch {
	case replicas == 0 || c.closed:
		return false
	case c.held:
		return true
	case r.server.engine.IsReplica(): // since it was executed
		r.server.engine.GiveUp(c.session)
		c.pushed, c.sent = nil, 0
		return false
	}
	c.held = true
	c.waits++
	reply := heldReply{connection: c, position: position}
	if timeout := r.server.engine.SynchronousTimeout(); timeout > 0 {
		reply.deadline = r.server.engine.After(timeout)
	}
	r.await(replicas, reply)
	return true
}

// await queues a reply behind those that wait for as many replicas.
func (r *reactor) await(replicas int, reply heldReply) {
	q := r.awaited[replicas]
	if q == nil {
		q = &heldQueue{}
		r.awaited[replicas] = q
	}
	q.replies = append(q.replies, reply)
	if q.cancel == nil {
		r.askReplicas(q, replicas)
	}
	if reply.deadline != 0 && (q.rings == 0 || reply.deadline < q.rings) {
		r.setOverdue(q, reply.deadline)
	}
}

// leave forgets a connection that is closed, since its reply may be waited for without end.
func (a awaited) leave(c *connection) {
	for _, q := range a {
		q.replies = slices.DeleteFunc(q.replies, func(reply heldReply) bool { return reply.connection == c })
	}
}

// askReplicas has the replicas say whether they have what the first reply of a queue depends on.
func (r *reactor) askReplicas(q *heldQueue, replicas int) {
	first := q.replies[0]
	q.cancel = r.server.engine.Replication().WhenAcknowledged(first.position,
		func(a psync.Acknowledged) bool { return a.Replicas >= replicas },
		func(psync.Acknowledged) { r.post(func() { r.acknowledged(q, replicas) }) })
}

// setOverdue has a queue looked at when a deadline has come.
func (r *reactor) setOverdue(q *heldQueue, deadline time.Duration) {
	q.rings = deadline
	until := deadline - r.server.engine.Elapsed()
	if q.overdue == nil {
		q.overdue = time.AfterFunc(until, func() { r.post(func() { r.endHeld(q) }) })
	} else {
		q.overdue.Reset(until)
	}
}

// acknowledged sends what the replicas have acknowledged.
func (r *reactor) acknowledged(q *heldQueue, replicas int) {
	r.server.engine.Reached(replicas)
	r.endHeld(q)
}

// endHeld sends the replies of a queue that may leave, gives up those that are overdue, and has the
// rest wait anew, for as many replicas as they are to wait for by now.
func (r *reactor) endHeld(q *heldQueue) {
	if q.cancel == nil {
		return // it has ended meanwhile
	}
	q.cancel()
	if q.overdue != nil {
		q.overdue.Stop()
	}
	e, now := r.server.engine, r.server.engine.Elapsed()
	replies := q.replies
	q.replies, q.cancel, q.rings = nil, nil, 0
	lost := e.IsReplica()
	leaving := replies[:0]
	for _, reply := range replies {
		wanted, _ := e.Held(reply.connection.session)
		overdue := lost || reply.deadline != 0 && reply.deadline <= now
		reply.unknown = wanted > 0 && overdue && !reply.connection.closed
		if wanted == 0 || overdue || reply.connection.closed {
			leaving = append(leaving, reply)
		} else {
			r.await(wanted, reply)
		}
	}
	// Only now: what is composed behind one that leaves may be held back, and is the newest.
	for _, reply := range leaving {
		if reply.unknown {
			r.giveUp(reply.connection)
		} else {
			r.release(reply.connection)
		}
	}
}

// reconsider looks at all replies that are held back, since the role or the number of replicas is
// another.
func (r *reactor) reconsider() {
	for _, q := range r.awaited {
		r.endHeld(q)
	}
}

// release sends what was held back, a large reply in pieces, and goes on with the connection.
func (r *reactor) release(c *connection) {
	if c.sendPiece(r.release) {
		return
	}
	c.held = false
	c.flush()
	r.resume(c)
}

// giveUp answers that the outcome is unknown, and closes the connection.
func (r *reactor) giveUp(c *connection) {
	r.server.engine.GiveUp(c.session)
	c.pushed, c.sent = nil, 0
	r.release(c)
}
