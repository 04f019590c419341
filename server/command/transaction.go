package command

import "kedis/server/execute"

func transactionFamily() Family {
	return Family{Commands: []Command{
		{Name: "multi", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Run: cmdMulti, Immediate: true,
			Group: "transactions", Since: "1.2.0", Complexity: "O(1)",
			Summary: "Begins a transaction: commands are queued until EXEC."},
		{Name: "exec", Arity: 1, Flags: NoScript | Loading | Stale | SkipSlowlog,
			Categories: CategoryTransaction, Run: cmdExec, Immediate: true, RunsQueue: true, Plan: execute.PlanExec,
			Group: "transactions", Since: "1.2.0", Complexity: "Depends on the commands in the transaction",
			Summary: "Runs all queued commands as one step, unless a watched key has changed."},
		{Name: "discard", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Run: cmdDiscard, Immediate: true,
			Group: "transactions", Since: "2.0.0", Complexity: "O(N), N being the number of queued commands",
			Summary: "Ends a transaction without running it."},
		{Name: "watch", Arity: -2, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Keys: []KeySpec{keyRange(1, -1, 1, RO)}, Run: cmdWatch, Immediate: true,
			Group: "transactions", Since: "2.2.0", Complexity: "O(1) for every key", Syntax: "key [key ...]",
			Summary: "Makes the next EXEC depend on the keys staying as they are."},
		{Name: "unwatch", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Run: cmdUnwatch,
			Group: "transactions", Since: "2.2.0", Complexity: "O(1)",
			Summary: "Forgets the watched keys."},
	}}
}

func cmdMulti(c *Invocation) error {
	if c.Session.Transaction.Active {
		return Error("ERR MULTI calls can not be nested")
	}
	c.Session.Transaction = execute.Transaction{Active: true}
	c.Session.PublishQueue()
	c.Reply.OK()
	return nil
}

func cmdDiscard(c *Invocation) error {
	if !c.Session.Transaction.Active {
		return Error("ERR DISCARD without MULTI")
	}
	c.Session.EndTransaction()
	c.Engine.Watches.Forget(c.Session)
	c.Reply.OK()
	return nil
}

// cmdExec leaves the keys watched: it may be taken back behind its end. The executor forgets them.
func cmdExec(c *Invocation) error {
	s := c.Session
	if !s.Transaction.Active {
		return Error("ERR EXEC without MULTI")
	}
	queue, aborted := s.Transaction.Queue, s.Transaction.Aborted
	s.EndTransaction()
	if aborted {
		return ErrExecAbort
	}
	expired, err := execute.WatchedExpired(c)
	if err != nil {
		return err
	}
	if expired || s.Dirty() {
		c.Reply.NullArray()
		return nil
	}
	return runQueue(c, queue)
}

// runQueue runs queued requests in the transaction that EXEC runs in. An error of one is its reply,
// and doesn't keep the others from running.
func runQueue(c *Invocation, queue []*Request) error {
	c.Reply.Array(len(queue))
	for _, r := range queue {
		if refusal := c.Permit(r); refusal != nil {
			if r.Command.Selects && !c.ReadsView() { // what follows has the locks of another database
				if err := c.RequireAlone(); err != nil {
					return err
				}
			}
			c.QueuedRefused(refusal)
			c.Reply.Error(refusal.Error())
			continue
		}
		if err := c.Invoke(r, c.Reply); err != nil {
			return err
		}
	}
	c.Select(c.Session.Database)
	c.NoEffect()
	return nil
}

func cmdWatch(c *Invocation) error {
	if c.Session.Transaction.Active {
		return Error("ERR WATCH inside MULTI is not allowed")
	}
	for _, key := range c.Args[1:] {
		k, err := c.DB.LookupAny(key)
		if err != nil {
			return err
		}
		c.Engine.Watches.Watch(c.Session, c.DB.Number(), key, k.Exists && c.DB.Expired(k))
	}
	c.Reply.OK()
	return nil
}

func cmdUnwatch(c *Invocation) error {
	if !c.Nested() { // EXEC, which may be taken back, ends all watching by itself
		c.Engine.Watches.Forget(c.Session)
	}
	c.Reply.OK()
	return nil
}
