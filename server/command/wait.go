package command

import (
	"math"
	"time"

	"kedis/internal/number"
	"kedis/internal/psync"
	"kedis/internal/resp"
	"kedis/server/execute"
)

const errUnblocked = Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")

func cmdWait(c *Invocation) error {
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
	return await(c, timeout, acknowledgement{
		enough: func(a psync.Acknowledged) bool { return int64(a.Replicas) >= wanted },
		write:  func(reply *resp.Writer, a psync.Acknowledged) { reply.Integer(int64(a.Replicas)) },
	})
}

// cmdWaitAOF waits for disks, where WAIT waits for memory. With appendfsync no, nothing is on the
// disk until RocksDB gets it, or the time is over.
func cmdWaitAOF(c *Invocation) error {
	local, ok := number.ParseInt(c.Args[1])
	switch {
	case !ok:
		return ErrNotInteger
	case local < 0 || local > 1:
		return errNoFlag
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
	return await(c, timeout, acknowledgement{
		enough: func(a psync.Acknowledged) bool { return int64(a.Synced) >= replicas && (a.Here || local == 0) },
		write: func(reply *resp.Writer, a psync.Acknowledged) {
			reply.Array(2)
			reply.Integer(bit(a.Here))
			reply.Integer(int64(a.Synced))
		},
	})
}

// parseTimeout reads milliseconds; 0 is for ever, and so are three centuries.
func parseTimeout(word []byte) (time.Duration, error) {
	timeout, ok := number.ParseInt(word)
	switch {
	case !ok:
		return 0, errTimeout
	case timeout < 0:
		return 0, errNegative
	}
	return milliseconds(timeout), nil
}

// milliseconds is a duration of n ms, or the longest that there is.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// acknowledgement is what a client waits for, and what it is answered.
type acknowledgement struct {
	enough func(psync.Acknowledged) bool
	write  func(*resp.Writer, psync.Acknowledged)
}

// await answers when enough acknowledge what the session has written, or the time is over. Where
// the request can't wait it only looks.
func await(c *Invocation, timeout time.Duration, wanted acknowledgement) error {
	if c.MayBlock() && !c.Settled() {
		return c.Settle()
	}
	part, position := c.Engine.Replication(), c.Session.Written
	if have := part.Acknowledged(position); !c.MayBlock() || wanted.enough(have) {
		wanted.write(c.Reply, have)
		return nil
	}
	blocked := &execute.Blocked{Expired: func(reply *resp.Writer) { wanted.write(reply, part.Acknowledged(position)) }}
	if timeout > 0 {
		blocked.Deadline = c.Engine.After(timeout)
	}
	var cancel func()
	blocked.Register = func() {
		cancel = part.WhenAcknowledged(position, wanted.enough, func(have psync.Acknowledged) {
			blocked.End(func(reply *resp.Writer) { wanted.write(reply, have) })
		})
	}
	blocked.Cancel = func() { cancel() }
	return c.Block(blocked)
}
