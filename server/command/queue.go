package command

import "kedis/internal/number"

// transaction is what MULTI began.
type transaction struct {
	active  bool
	aborted bool  // a command could not be queued
	flags   Flags // of all that is queued
	bytes   int   // of the words that are queued
	queue   []*Request
}

// enqueue keeps a request for EXEC.
func (s *Session) enqueue(r *Request) {
	t := &s.Transaction
	t.queue = append(t.queue, r.Clone())
	t.flags |= r.Command.Flags
	t.bytes += wordBytes(r.Args)
	s.publishQueue()
	s.Reply.SimpleString("QUEUED")
}

func (s *Session) endTransaction() {
	s.Transaction = transaction{}
	s.publishQueue()
}

// planExec adds up what the queued commands need. Watched keys are locked too, so that nobody
// changes them between the look at them and the commit.
func planExec(c *Context, p *plan) error {
	s := c.Session
	if !s.Transaction.active || s.Transaction.aborted {
		return nil
	}
	database := s.Database
	for _, r := range s.Transaction.queue {
		r.locate(c.Engine.Store, database)
		p.add(r)
		if r.Command.selects {
			if n, ok := number.ParseInt(r.Args[1]); ok && n >= 0 && n < int64(c.Engine.Store.Databases()) {
				database = int(n)
			}
		}
	}
	for _, w := range s.watched {
		p.lock(c.Engine.Store.Stripe(w.database, []byte(w.key)), false)
	}
	return nil
}
