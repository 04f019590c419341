package server

import (
	"kedis/internal/resp"
	"kedis/server/execute"
	"kedis/storage"
)

// intake is what the client has sent and the reactor has not executed yet.
type intake struct {
	parser  *resp.Parser
	pending *execute.Request   // the one that waits
	retry   []*execute.Request // those that a failed commit has taken back
	parsed  []*execute.Request // those behind them
	memory  []*execute.Request // of parsed
	unread  bool               // nothing is read from the socket for the time being
}

// empty reports whether no request is left.
func (i *intake) empty() bool { return i.pending == nil && len(i.retry) == 0 && len(i.parsed) == 0 }

// again returns the next request that was begun before, nil if there is none.
func (i *intake) again() *execute.Request {
	if r := i.pending; r != nil {
		i.pending = nil
		return r
	}
	if len(i.retry) == 0 {
		return nil
	}
	r := i.retry[0]
	i.retry = i.retry[1:]
	return r
}

// repeat has requests executed again, before the one that waits.
func (c *connection) repeat(executed []execute.Executed) {
	again := make([]*execute.Request, 0, len(executed)+1)
	for _, e := range executed {
		again = append(again, c.reactor.batch.Again(c.session, e))
	}
	if c.pending != nil {
		again = append(again, c.pending)
		c.pending = nil
	}
	c.retry = append(again, c.retry...)
}

// shrink lets go of memory while no request is parsed.
func (i *intake) shrink() {
	i.parser.Idle()
	if len(i.parsed) == 0 {
		i.parsed, i.memory = nil, nil
	}
}

// nextRequest returns the request that is to be executed next; nil if there is none, or if it has
// to wait.
func (c *connection) nextRequest() (*execute.Request, error) {
	if r := c.again(); r != nil {
		return r, nil
	}
	c.session.Refuse = nil
	if len(c.parsed) == 0 {
		if err := c.parse(); err != nil {
			return nil, err
		}
		c.prefetch()
	}
	if len(c.parsed) == 0 || c.parked() {
		return nil, nil
	}
	r := c.parsed[0]
	c.parsed[0] = nil
	c.parsed = c.parsed[1:]
	return r, nil
}

// parse parses a few requests, so that memory is asked for all of them at once. An error of the
// parser comes when all before it is executed. Before AUTH only one request is parsed at a time,
// since the limits of the next depend on it. So it is while replies wait to be sent: the parser can
// only let go of what was executed when nothing is parsed.
func (c *connection) parse() error {
	if !c.session.Authenticated || c.parser.Unauthenticated {
		c.parser.Unauthenticated = c.server.engine.AuthenticationRequired(c.session)
	}
	first, err := c.parser.Next()
	if first == nil {
		return err
	}
	c.parsed = append(c.memory[:0], c.reactor.batch.Read(c.session, first))
	alone := c.parser.Unauthenticated || c.conn.OutboundBuffered() > 0
	for !alone && len(c.parsed) < storage.PrefetchBatch {
		args, err := c.parser.Next()
		if args == nil || err != nil {
			break // the parser says so again
		}
		c.parsed = append(c.parsed, c.reactor.batch.Read(c.session, args))
	}
	c.memory = c.parsed
	return nil
}

// prefetch has memory fetch what the parsed requests will look for. The connection waits while the
// disk has to.
func (c *connection) prefetch() {
	for _, r := range c.parsed {
		c.reactor.batch.QueuePrefetch(c.session, r)
	}
	c.reactor.warm()
}

// drained is called when no whole request is left.
func (c *connection) drained() {
	if c.parked() {
		return
	}
	c.readOn()
	if c.ended {
		c.endIfDone()
	}
}
