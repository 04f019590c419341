package execute

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"

	"kedis/internal/metrics"
	"kedis/internal/psync"
	"kedis/internal/resp"
)

// Replication is what commands ask of the server's part in replication. All methods may be called
// from any goroutine.
type Replication interface {
	// Follow makes the server a replica; it returns before there is a connection. changed is false
	// when it follows that primary already.
	Follow(host string, port int) (changed bool, err error)
	// Promote makes the server a primary again: when it returns, it takes writes.
	Promote() error
	// FailOver begins to change roles with a replica; it returns before there is one that is ready.
	FailOver(o psync.Failover) error
	// AbortFailover ends that: the server is the primary that it was.
	AbortFailover() error
	// TakeOver makes a replica of the history with an id the primary, as the primary asks it to do.
	TakeOver(id string) error
	// BeginHistory gives what is written from now on another history's id.
	BeginHistory() error
	// HasReplicas reports whether a replica gets the stream, or a snapshot before it.
	HasReplicas() bool
	// Histories are the ids of the histories that the server has been in, and up to where.
	Histories() string
	// Sendable is nil, or why a replica of this server has to come back later.
	Sendable() error
	// Serve feeds a replica over a connection that is its own from now on, until it ends.
	Serve(conn net.Conn, client psync.Replica)
	// Role writes the reply to ROLE.
	Role(reply *resp.Writer)
	// Info writes the fields of INFO replication.
	Info(fields *metrics.Fields)
	// Counts are what INFO stats tells; ResetCounts begins to count anew.
	Counts() psync.Counts
	ResetCounts()

	// HeardSentinel takes what an authenticated client has published on the channel of Sentinels'
	// hellos.
	HeardSentinel(client int64, hello []byte)
	// Online is how many replicas get the stream.
	Online() int
	// Reached is the position up to which so many replicas have acknowledged everything.
	Reached(replicas int) int64
	// Acknowledged tells who has everything up to a position of the log.
	Acknowledged(position int64) psync.Acknowledged
	// WhenAcknowledged calls done once, from any goroutine, when enough have everything up to a
	// position, and has replicas asked how far they are. cancel may be called at any time and more
	// than once.
	WhenAcknowledged(position int64, enough func(psync.Acknowledged) bool, done func(psync.Acknowledged)) (cancel func())
}

// role is what every command has to know of replication.
type role struct {
	part    Replication
	replica condition
	changes atomic.Int64 // how often it began to follow another server
	stale   condition    // a replica without its primary
	good    atomic.Int32 // replicas that keep up
}

// SetReplication names the server's part in replication, before anything is executed.
func (e *Engine) SetReplication(r Replication) { e.role.part = r }

// Replication is the server's part in replication; nil if it has none.
func (e *Engine) Replication() Replication { return e.role.part }

// errRoleChanged ends the waits of clients when the server begins to follow another one.
const errRoleChanged = Error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")

// SetReplica says whether the server is a replica, and whether it lacks its primary.
func (e *Engine) SetReplica(replica, stale bool) {
	was := e.role.replica.Load()
	if was && !replica {
		e.beginSynchronous()
	}
	e.role.replica.Store(replica)
	e.role.stale.Store(stale)
	if was || !replica {
		return
	}
	e.leaveSynchronous()
	e.ChangePrimary()
}

// ChangePrimary says that the server begins to follow another one, also when it was a replica
// before. Clients that wait for others are told so and disconnected, as Redis does it: they have to
// look for the primary, and what they wait behind, such as a stream's last id, may be other data's.
func (e *Engine) ChangePrimary() {
	e.role.changes.Add(1)
	for _, s := range e.Clients.All() {
		e.role.disconnect(s)
	}
}

// disconnect ends a session that waits for others. It closes with its reply, which may leave before
// this returns.
func (*role) disconnect(s *Session) {
	if blocked := s.blocked.Load(); blocked != nil && blocked.refusal == "" {
		blocked.end(func(reply *resp.Writer) {
			reply.Error(string(errRoleChanged))
			s.CloseAfterReply()
		}, string(errRoleChanged))
	}
}

// SetGoodReplicas says how many replicas keep up.
func (e *Engine) SetGoodReplicas(n int) { e.role.good.Store(int32(n)) }

// HasReplicas reports whether somebody follows the server.
func (e *Engine) HasReplicas() bool { return e.role.part != nil && e.role.part.HasReplicas() }

// ChangesData reports whether a command of a stream may change data. Those that don't write and
// have no keys can't: PING, PUBLISH, SPUBLISH, SELECT, REPLCONF, MULTI and EXEC.
func (e *Engine) ChangesData(args [][]byte) bool {
	command, _ := e.Table.LookupEffect(args)
	return command == nil || command.Run == nil || command.flagsWith(args)&Write != 0 || command.hasKeys() && !command.namesChannels()
}

// IsReplica tells whether the server is a replica: it takes no writes but its primary's.
func (e *Engine) IsReplica() bool { return e.role.replica.Load() }

// ReplicationCounts are the counts of the server's part in replication.
func (e *Engine) ReplicationCounts() (counts psync.Counts) {
	if e.role.part != nil {
		counts = e.role.part.Counts()
	}
	return counts
}

// Exclude waits until no command runs, and keeps all out until the returned function is called.
// While a script runs, others go on; when ctx is done by then, it returns nil. It is not for the
// goroutine of a command.
func (e *Engine) Exclude(ctx context.Context) (admit func()) {
	if !e.long.excludePatiently(ctx) {
		return nil
	}
	open := e.Gate.Close(runtime.Gosched)
	return func() {
		open()
		e.long.readmit()
	}
}

// writesNow reports whether a request writes; for EXEC, whether its transaction does.
func (e *Engine) writesNow(s *Session, r *Request) bool { return e.flagsNow(s, r)&Write != 0 }

// flagsNow returns the flags of a request, or, of EXEC, those of all that it runs.
func (e *Engine) flagsNow(s *Session, r *Request) Flags {
	flags := e.flagsOf(r)
	if r.Command.RunsQueue {
		flags |= s.Transaction.flags
	}
	return flags
}

// requireReplicas keeps writes out while too few replicas keep up.
func requireReplicas(b *Batch, s *Session, r *Request) error {
	if err := b.enoughReplicas(); err != nil && b.engine.writesNow(s, r) {
		return err
	}
	return nil
}

func (b *Batch) enoughReplicas() error {
	least := b.engine.Config.MinReplicasToWrite.Get()
	if least == 0 || b.repeat.applying || b.engine.IsReplica() || b.engine.Config.MinReplicasMaxLag.Get() == 0 {
		return nil
	}
	if int64(b.goodThen) < least {
		return Error("NOREPLICAS Not enough good replicas to write.")
	}
	return nil
}

// ErrReadOnly refuses writes on a replica.
const ErrReadOnly = Error("READONLY You can't write against a read only replica.")

// ErrStale refuses commands that show data which may be old.
const ErrStale = Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")

func refuseWritesOnReplica(b *Batch, s *Session, r *Request) error {
	if !b.engine.IsReplica() || b.repeat.applying || !b.engine.writesNow(s, r) {
		return nil
	}
	return ErrReadOnly
}

// refuseStaleData keeps a replica that has lost its primary from answering with what may be old, if
// it is configured so. The link may have gone since the commands of a transaction were queued.
func refuseStaleData(b *Batch, s *Session, r *Request) error {
	lacked := ^b.engine.flagsOf(r)
	if r.Command.RunsQueue {
		lacked = s.Transaction.lacked
	}
	if lacked&Stale == 0 {
		return nil
	}
	if !b.engine.role.stale.Load() || b.repeat.applying || b.engine.Config.ReplicaServeStaleData.Get() {
		return nil
	}
	return ErrStale
}
