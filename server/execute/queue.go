package execute

import "kedis/internal/number"

// Transaction is what MULTI began.
type Transaction struct {
	Active  bool
	Aborted bool  // a command could not be queued
	flags   Flags // that any of the queued commands has
	lacked  Flags // that any of them lacks
	bytes   int   // of the words that are queued
	Queue   []*Request
}

// enqueue keeps a request for EXEC.
func (s *Session) enqueue(r *Request) {
	t := &s.Transaction
	t.Queue = append(t.Queue, r.Clone())
	t.flags |= r.Command.Flags
	t.lacked |= ^r.Command.Flags
	t.bytes += WordBytes(r.Args)
	s.PublishQueue()
	s.Reply.SimpleString("QUEUED")
}

// EndTransaction forgets what MULTI began.
func (s *Session) EndTransaction() {
	s.Transaction = Transaction{}
	s.PublishQueue()
}

// PlanExec adds up what the queued commands need. Watched keys are locked too, so that nobody
// changes them between the look at them and the commit.
func PlanExec(c *Invocation, p *Plan) error {
	s := c.Session
	if !s.Transaction.Active || s.Transaction.Aborted {
		return nil
	}
	database := s.Database
	for _, r := range s.Transaction.Queue {
		r.locate(c.Engine.Store, database)
		p.add(r)
		if r.Command.Selects {
			if n, ok := number.ParseInt(r.Args[1]); ok && n >= 0 && n < int64(c.Engine.Store.Databases()) {
				database = int(n)
			}
		}
	}
	for _, w := range s.entries {
		p.Lock(c.Engine.Store.Stripe(w.database, []byte(w.key)), false)
	}
	return nil
}
