package server

import (
	"math"
	"time"

	"kedis/internal/config"
	"kedis/server/execute"
)

const (
	// unlimitedBelow is how much may always wait to be sent. A client that has to authenticate gets
	// no more.
	unlimitedBelow = 16 << 10
	// pushLimit bounds what waits for a client whose class has no limit, and who is pushed what it
	// hasn't asked for: MONITOR's lines, messages, or keys to forget. Replies are bounded by not
	// executing any further request.
	pushLimit = 256 << 20
	// reservedDescriptors are not given to clients: files of RocksDB and the log need some too.
	reservedDescriptors = 32
)

// configuredLimit is that of the connection's class.
func (c *connection) configuredLimit() config.OutputLimit {
	limits := c.server.config.OutputLimits.Get()
	switch {
	case c.session.Is(execute.KindReplica):
		return limits.Replica
	case c.session.Is(execute.KindPubSub):
		return limits.PubSub
	}
	return limits.Normal
}

// pauseAt is how much may wait to be sent before no further request is executed. Where a limit says
// when the connection is to be closed, that much can come to wait.
func (c *connection) pauseAt() int {
	limit := c.configuredLimit()
	most := limit.Hard
	if most == 0 {
		most = limit.Soft
	}
	return max(c.server.outboundPause, int(min(most, math.MaxInt)))
}

// exceeds tells whether so many bytes are too much to wait to be sent. The connection is closed
// then.
func (c *connection) exceeds(waiting int) bool {
	if waiting <= unlimitedBelow {
		if !c.softSince.IsZero() {
			c.softSince = time.Time{}
		}
		return false
	}
	limit := c.configuredLimit()
	soft := limit.Soft > 0 && uint64(waiting) > limit.Soft
	now := time.Now()
	switch {
	case limit.Hard > 0 && uint64(waiting) > limit.Hard:
	case !c.working && c.server.engine.AuthenticationRequired(c.session): // as Redis has it
	case !soft:
		c.softSince = time.Time{}
		return false
	case c.softSince.IsZero():
		c.softSince = now
		return false
	case now.Sub(c.softSince) <= time.Duration(limit.Seconds)*time.Second:
		return false
	}
	c.dropUnread(waiting)
	return true
}

// exceedsPushed is exceeds for a client that is about to be pushed something. One long reply, which
// the client has asked for, isn't too much.
func (c *connection) exceedsPushed(waiting int) bool {
	if min(waiting, c.unasked) > pushLimit && c.configuredLimit().Hard == 0 {
		c.dropUnread(waiting)
		return true
	}
	return c.exceeds(waiting)
}

// composed has a worker end what it does for a client whose reply, as far as it is composed, is
// more than may wait to be sent: the connection will be closed. It is the worker that calls it.
func (c *connection) composed(length int) {
	limit := c.configuredLimit().Hard
	if !c.working || c.session.ReplyMode != execute.ReplyOn || limit == 0 || uint64(length) <= limit {
		return
	}
	if !c.session.Killed() {
		c.noteExceeded("closing a connection that asks for more than may wait to be sent to it", length)
		c.server.engine.Dismiss(c.session, nil)
	}
}

func (c *connection) dropUnread(waiting int) {
	c.noteExceeded("closing a connection that does not read what it is sent", waiting)
	c.drop()
}

func (c *connection) noteExceeded(text string, bytes int) {
	c.server.logger.Warn(text, "client", c.remote, "waiting", bytes)
	c.server.engine.Statistics.OutputBufferExceeded.Add(1)
}

const (
	looksPerSecond = int(time.Second / tickInterval)
	// slimAfter is how long a client has to be silent until memory for its next request is given
	// back.
	slimAfter = 2 * time.Second
)

// lookAfter looks after some of the reactor's connections, so that each has its turn once a second.
func (r *reactor) lookAfter(now time.Time) {
	for range min(len(r.connections), len(r.connections)/looksPerSecond+1) {
		if len(r.connections) == 0 {
			return // those that were looked at are closed now
		}
		r.lookedAfter = (r.lookedAfter + 1) % len(r.connections)
		r.connections[r.lookedAfter].lookAfter(now)
	}
}

// lookAfter closes the connection when it is due, and gives back memory that it doesn't need.
func (c *connection) lookAfter(now time.Time) {
	// Who waits for a command's end or takes what was sent isn't silent.
	taken := int64(c.waiting()) != c.outputBytes.Load()
	if c.traffic || c.parked() || taken {
		c.traffic, c.slim, c.seen = false, false, now
	}
	c.publish()
	c.doubt(now)
	if c.dropped || c.exceeds(c.waiting()) || c.parked() {
		return
	}
	silent := now.Sub(c.seen)
	timeout := time.Duration(c.server.config.Timeout.Get()) * time.Second
	const keptAlive = execute.KindMonitor | execute.KindReplica | execute.KindPrimary | execute.KindPubSub
	if timeout > 0 && silent > timeout && !c.session.Is(keptAlive) {
		c.server.logger.Debug("closing an idle connection", "client", c.remote)
		c.drop()
		return
	}
	if !c.slim && silent >= slimAfter && !c.reactor.batch.Has(c.session) {
		c.shrink()
		c.session.Idle()
		c.slim = true
	}
}

// mostDescriptor is the highest number that a client's socket may have: descriptors are the lowest
// that are free, so one above it says that they run out.
func mostDescriptor() int { return descriptorLimit() - reservedDescriptors }
