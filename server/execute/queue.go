package execute

import (
	"math"

	"kedis/internal/number"
)

// Transaction is what MULTI began.
type Transaction struct {
	Active  bool
	Aborted bool  // a command could not be queued
	flags   Flags // that any of the queued commands has
	lacked  Flags // that any of them lacks
	bytes   int   // of the words that are queued
	selects int   // the database that the last SELECT among them selects, plus 1; 0: there is none
	Queue   []*Request
}

// enqueue keeps a request for EXEC, unless EXEC is going to refuse all of them.
func (s *Session) enqueue(r *Request, flags Flags) {
	t := &s.Transaction
	if t.Aborted || s.Dirty() {
		s.Reply.SimpleString("QUEUED")
		return
	}
	t.Queue = append(t.Queue, r.Clone())
	t.flags |= flags
	t.lacked |= ^flags
	t.bytes += WordBytes(r.Args)
	if n, ok := selectedBy(r); ok {
		t.selects = int(n) + 1
	}
	s.PublishQueue()
	s.Reply.SimpleString("QUEUED")
}

// selectedBy returns the database that a request selects, if it is a SELECT and there can be such a
// database.
func selectedBy(r *Request) (database int64, ok bool) {
	if !r.Command.Selects {
		return 0, false
	}
	n, ok := number.ParseInt(r.Args[1])
	return n, ok && n >= 0 && n < math.MaxInt32
}

// EndTransaction forgets what MULTI began.
func (s *Session) EndTransaction() {
	s.Transaction = Transaction{}
	s.PublishQueue()
}

// longQueue is how many queued requests take a reactor too long, whatever they do.
const longQueue = 8192

// PlanExec adds up what the queued commands need. Watched keys are locked too, so that nobody
// changes them between the look at them and the commit.
func PlanExec(c *Invocation, p *Plan) error {
	s := c.Session
	if !s.Transaction.Active || s.Transaction.Aborted {
		return nil
	}
	database, reads := s.Database, false
	p.Worker = p.Worker || len(s.Transaction.Queue) > longQueue
	for _, r := range s.Transaction.Queue {
		r.locate(c.Engine.Store, database)
		p.add(r)
		reads = reads || r.Command.RunsScript && r.Command.Flags&ReadOnly != 0
		if n, ok := selectedBy(r); ok && n < int64(c.Engine.Store.Databases()) {
			database = int(n)
		}
	}
	if reads && !p.Writes && !c.OnReactor() {
		p.Walk = true // what a script reads needn't be declared: it reads from a view
	}
	for i := range s.entries {
		w := &s.entries[i].watchedKey // the rest may change until the keys are locked
		p.Lock(c.Engine.Store.Stripe(w.database, []byte(w.key)), false)
	}
	return nil
}
