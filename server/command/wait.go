package command

import (
	"math"
	"time"

	"kedis/internal/number"
	"kedis/internal/psync"
)

const (
	errUnblocked   = Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
	errRoleChanged = Error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
)

func cmdWait(c *Context) error {
	if c.Engine.IsReplica() {
		return Error("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica " +
			"is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.")
	}
	wanted, ok := number.ParseInt(c.Args[1])
	if !ok {
		return ErrNotInteger
	}
	timeout, err := parseTimeout(c.Args[2])
	if err != nil {
		return err
	}
	have, err := c.await(timeout, func(a psync.Acknowledged) bool { return int64(a.Replicas) >= wanted })
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(have.Replicas))
	return nil
}

// cmdWaitAOF waits for disks, where WAIT waits for memory. With appendfsync no, nothing is on the disk until RocksDB
// gets it, or the time is over.
func cmdWaitAOF(c *Context) error {
	local, ok := number.ParseInt(c.Args[1])
	switch {
	case !ok:
		return ErrNotInteger
	case local < 0 || local > 1:
		return Error("ERR value is out of range, value must between 0 and 1")
	}
	replicas, ok := number.ParseInt(c.Args[2])
	if !ok || replicas < 0 {
		return ErrNotReal
	}
	timeout, err := parseTimeout(c.Args[3])
	if err != nil {
		return err
	}
	if c.Engine.IsReplica() {
		return Error("ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are " +
			"just local and are not propagated.")
	}
	have, err := c.await(timeout, func(a psync.Acknowledged) bool { return int64(a.Synced) >= replicas && (a.Here || local == 0) })
	if err != nil {
		return err
	}
	c.Reply.Array(2)
	c.replyBit(have.Here)
	c.Reply.Integer(int64(have.Synced))
	return nil
}

// parseTimeout reads milliseconds; 0 is for ever.
func parseTimeout(word []byte) (time.Duration, error) {
	timeout, ok := number.ParseInt(word)
	switch {
	case !ok || timeout > math.MaxInt64/int64(time.Millisecond):
		return 0, errTimeout
	case timeout < 0:
		return 0, errNegative
	}
	return time.Duration(timeout) * time.Millisecond, nil
}

// await waits until enough acknowledge what the session has written, the time is over, or somebody ends it.
// Inside of MULTI it only looks.
func (c *Context) await(timeout time.Duration, enough func(psync.Acknowledged) bool) (have psync.Acknowledged, err error) {
	part, position := c.Engine.role.part, c.Session.written
	have, _, _ = part.Acknowledged(position)
	if c.queued || enough(have) {
		return have, nil
	}
	if err := part.AskReplicas(); err != nil {
		return have, err
	}
	c.batch.aside(func() { have, err = c.awaitAside(position, timeout, enough) })
	return have, err
}

func (c *Context) awaitAside(position int64, timeout time.Duration, enough func(psync.Acknowledged) bool) (psync.Acknowledged, error) {
	unblocked := c.Session.block()
	defer c.Session.unblocked()
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		have, said, synced := c.Engine.role.part.Acknowledged(position)
		switch {
		case enough(have) || c.Session.Closing() || c.Session.hungUp.Load():
			return have, nil
		case c.Engine.IsReplica():
			c.Session.CloseAfterReply()
			return have, errRoleChanged
		}
		select {
		case <-said:
		case <-synced:
		case <-look.C:
		case <-over:
			return have, nil
		case err := <-unblocked:
			return have, err
		}
	}
}

// block marks the session as one that waits. The channel brings the end of that: nil, as if the time were over, or
// the reply.
func (s *Session) block() <-chan error {
	ended := make(chan error, 1)
	s.blocked.Store(&ended)
	return ended
}

func (s *Session) unblocked() { s.blocked.Store(nil) }

// unblock ends a session's waiting; false says that it doesn't wait.
func (s *Session) unblock(reply error) bool {
	ended := s.blocked.Load()
	if ended == nil {
		return false
	}
	select {
	case *ended <- reply:
		return true
	default: // another was faster
		return false
	}
}

// aside runs what waits for others: neither the gate nor a worker's token is held meanwhile. The batch
// is a worker's and holds no locks.
func (b *Batch) aside(wait func()) {
	e := b.engine
	if b.inside {
		e.Gate.Leave(b.slot)
		b.inside = false
	}
	e.workers.tokens <- token{b.owner, b.slot}
	defer func() {
		t := <-e.workers.tokens
		b.owner, b.slot = t.owner, t.slot
	}()
	wait()
}
