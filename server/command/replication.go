package command

import (
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"kedis/internal/metrics"
	"kedis/internal/number"
	"kedis/internal/psync"
	"kedis/internal/resp"
)

// Replication is what commands ask of the server's part in replication. All methods may be called from
// any goroutine.
type Replication interface {
	// Follow makes the server a replica; it returns before there is a connection. changed is false when
	// it follows that primary already.
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

	// Acknowledged tells who has everything up to a position of the log. Each of the channels is closed when that
	// may have changed: by what replicas say, and by what this server has forced to its disk.
	Acknowledged(position int64) (a psync.Acknowledged, said, synced <-chan struct{})
	// AskReplicas has them say how far they are.
	AskReplicas() error
}

// handshake is what a session has told by REPLCONF.
type handshake struct{ client psync.Replica }

// role is what every command has to know of replication.
type role struct {
	part    Replication
	replica atomic.Bool
	stale   atomic.Bool  // a replica without its primary
	good    atomic.Int32 // replicas that keep up
}

// SetReplication names the server's part in replication, before anything is executed.
func (e *Engine) SetReplication(r Replication) { e.role.part = r }

// SetReplica says whether the server is a replica, and whether it lacks its primary.
func (e *Engine) SetReplica(replica, stale bool) {
	e.role.replica.Store(replica)
	e.role.stale.Store(stale)
}

// SetGoodReplicas says how many replicas keep up.
func (e *Engine) SetGoodReplicas(n int) { e.role.good.Store(int32(n)) }

// hasReplicas reports whether somebody follows the server.
func (r *role) hasReplicas() bool { return r.part != nil && r.part.HasReplicas() }

// ChangesData reports whether a command of a stream may change data. Those that don't write and have no keys can't: PING, PUBLISH, SELECT,
// REPLCONF, MULTI and EXEC.
func (e *Engine) ChangesData(args [][]byte) bool {
	command, _ := e.Table.Lookup(args)
	return command == nil || command.Run == nil || command.flagsWith(args)&Write != 0 || len(command.Keys) > 0 || command.GetKeys != nil
}

// IsReplica tells whether the server is a replica: it takes no writes but its primary's.
func (e *Engine) IsReplica() bool { return e.role.replica.Load() }

// Exclude waits until no command runs, and keeps all out until the returned function is called. It is
// not for the goroutine of a command.
func (e *Engine) Exclude() (admit func()) {
	return e.Gate.Close(runtime.Gosched)
}

// ForgetWatches makes the next EXEC of all who watch keys fail: the data is another.
func (e *Engine) ForgetWatches() { e.watches.everythingChanged() }

func (w *watches) everythingChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sessions := range w.byKey {
		for s := range sessions {
			s.dirty.Store(true)
		}
	}
}

// Detacher is a peer whose connection can be given away: once the replies so far have been sent, serve
// gets it, on a goroutine of its own, and the session ends when serve returns.
type Detacher interface {
	Detach(serve func(conn net.Conn))
}

func replicationFamily() Family {
	admin := Admin | NoScript | NoAsyncLoading
	return Family{Commands: []Command{
		{Name: "replicaof", Arity: 3, Flags: admin | Stale | Walk, Run: cmdReplicaOf,
			Group: "server", Since: "5.0.0", Complexity: "O(1)", Syntax: "<host port | NO ONE>",
			Summary: "Makes the server a replica of another one, or a primary."},
		{Name: "slaveof", Arity: 3, Flags: admin | Stale | Walk, Run: cmdReplicaOf,
			Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "<host port | NO ONE>",
			Summary: "Does what REPLICAOF does, under its former name."},
		{Name: "failover", Arity: -1, Flags: Admin | NoScript | Stale | Walk, Run: cmdFailover,
			Group: "server", Since: "6.2.0", Complexity: "O(1)",
			Syntax:  "[TO <host port [FORCE]>] [ABORT] [TIMEOUT milliseconds]",
			Summary: "Changes roles with a replica, without losing a write."},
		{Name: "psync", Arity: -3, Flags: admin | NoMulti, Run: cmdPSync, adapt: takingOver,
			Group: "server", Since: "2.8.0", Complexity: "O(1)", Syntax: "replicationid offset",
			Summary: "Asks for the stream of writes from a position on; replicas use it."},
		{Name: "sync", Arity: 1, Flags: admin | NoMulti, Run: cmdSync,
			Group: "server", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Asks for all data and the writes after it; replicas used it before PSYNC."},
		{Name: "replconf", Arity: -1, Flags: Admin | NoScript | Loading | Stale | AllowBusy, Run: cmdReplConf,
			Group: "server", Since: "3.0.0", Complexity: "O(1)", Syntax: "[option value [option value ...]]",
			Summary: "Tells a primary of the replica that is about to ask for its stream."},
		{Name: "wait", Arity: 3, Flags: NoScript | Worker, Categories: CategoryConnection, Run: cmdWait,
			Tips:  []string{"request_policy:all_shards", "response_policy:agg_min"},
			Group: "generic", Since: "3.0.0", Complexity: "O(1)", Syntax: "numreplicas timeout",
			Summary: "Waits until so many replicas have what was written, or the time in milliseconds is over."},
		{Name: "waitaof", Arity: 4, Flags: NoScript | Worker, Categories: CategoryConnection, Run: cmdWaitAOF,
			Tips:  []string{"request_policy:all_shards", "response_policy:agg_min"},
			Group: "generic", Since: "7.2.0", Complexity: "O(1)", Syntax: "numlocal numreplicas timeout",
			Summary: "Waits until what was written is on this server's disk and on those of so many replicas, or the time in milliseconds is over."},
		{Name: "role", Arity: 1, Flags: NoScript | Loading | Stale | Fast, Categories: CategoryAdmin | CategoryDangerous, Run: cmdRole,
			Group: "server", Since: "2.8.12", Complexity: "O(1)",
			Summary: "Tells whether the server is a primary or a replica, of which, and how far it is."},
	}}
}

func cmdReplicaOf(c *Context) error {
	host, port := string(c.Args[1]), c.Args[2]
	if strings.EqualFold(host, "no") && equalFold(port, "one") {
		if err := c.Engine.role.part.Promote(); err != nil {
			return err
		}
		c.Reply.OK()
		return nil
	}
	n, ok := number.ParseInt(port)
	if !ok || n < 0 || n > 65535 {
		return Error("ERR Invalid master port")
	}
	if len(strings.Fields(host)) != 1 || strings.Fields(host)[0] != host { // Redis takes it, and never connects
		return Error("ERR Invalid master host")
	}
	changed, err := c.Engine.role.part.Follow(host, int(n))
	if err != nil {
		return err
	}
	if !changed {
		c.Reply.SimpleString("OK Already connected to specified master")
		return nil
	}
	c.Reply.OK()
	return nil
}

func cmdFailover(c *Context) error {
	if len(c.Args) == 2 && equalFold(c.Args[1], "abort") {
		if err := c.Engine.role.part.AbortFailover(); err != nil {
			return err
		}
		c.Reply.OK()
		return nil
	}
	o, err := parseFailover(c.Args[1:])
	if err != nil {
		return err
	}
	if err := c.Engine.role.part.FailOver(o); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func parseFailover(words [][]byte) (o psync.Failover, err error) {
	to := false
	for len(words) > 0 {
		taken := 1
		switch word := words[0]; {
		case equalFold(word, "timeout") && len(words) > 1 && o.Timeout == 0:
			milliseconds, ok := number.ParseInt(words[1])
			switch {
			case !ok || milliseconds > math.MaxInt64/int64(time.Millisecond):
				return o, ErrNotInteger
			case milliseconds <= 0:
				return o, Error("ERR FAILOVER timeout must be greater than 0")
			}
			o.Timeout, taken = time.Duration(milliseconds)*time.Millisecond, 2
		case equalFold(word, "to") && len(words) > 2 && !to:
			port, ok := number.ParseInt(words[2])
			if !ok {
				return o, ErrNotInteger
			}
			o.Host, o.Port, to, taken = string(words[1]), int(port), true, 3
		case equalFold(word, "force") && !o.Force:
			o.Force = true
		default:
			return o, ErrSyntax
		}
		words = words[taken:]
	}
	return o, nil
}

// asksToTakeOver tells whether a PSYNC comes from a primary that wants to be its replica's replica.
func asksToTakeOver(args [][]byte) bool { return len(args) > 3 && equalFold(args[3], "failover") }

// takingOver keeps what waits for the disk off the reactors.
func takingOver(flags Flags, args [][]byte) Flags {
	if asksToTakeOver(args) {
		flags |= Walk
	}
	return flags
}

func cmdPSync(c *Context) error {
	from, ok := number.ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	if asksToTakeOver(c.Args) {
		if err := c.Engine.role.part.TakeOver(string(c.Args[1])); err != nil {
			return err
		}
	}
	client := c.Session.replica.client
	client.ID, client.From = string(c.Args[1]), from
	return c.detach(client)
}

func cmdSync(c *Context) error {
	client := c.Session.replica.client
	client.Old = true
	return c.detach(client)
}

// detach gives the client's connection to replication.
func (c *Context) detach(client psync.Replica) error {
	peer, ok := c.Session.Peer.(Detacher)
	if !ok {
		return Error("ERR this connection can't be a replica's")
	}
	part := c.Engine.role.part
	if err := part.Sendable(); err != nil {
		return err
	}
	client.Address = c.Session.Peer.RemoteAddress()
	session, spoken := c.Session, c.Engine.Table.Named([]byte("replconf"))
	client.Heard = func() {
		session.LastCommand.Store(spoken)
		session.LastActive.Store(time.Now().UnixMilli())
	}
	c.Session.kind.Store(int32(KindReplica))
	peer.Detach(func(conn net.Conn) { part.Serve(conn, client) })
	return nil
}

// cmdReplConf takes what a replica tells of itself. In a stream, GETACK asks the one that follows it,
// not the data, for an answer.
func cmdReplConf(c *Context) error {
	if len(c.Args)%2 == 0 {
		return ErrSyntax
	}
	if len(c.Args) == 3 && equalFold(c.Args[1], "kedis-histories") {
		c.Reply.SimpleString(c.Engine.role.part.Histories())
		return nil
	}
	for i := 1; i < len(c.Args); i += 2 {
		if err := c.Session.replica.take(c.Args[i], c.Args[i+1]); err != nil {
			return err
		}
	}
	if !c.Applying() {
		c.Reply.OK()
	}
	return nil
}

func (h *handshake) take(option, value []byte) error {
	switch {
	case equalFold(option, "listening-port"):
		port, ok := number.ParseInt(value)
		if !ok {
			return ErrNotInteger
		}
		h.client.Port = int(port)
	case equalFold(option, "ip-address"):
		if len(value) > longestAddress {
			return Errorf("ERR REPLCONF ip-address provided by replica instance is too long: %d bytes", len(value))
		}
		h.client.Announce = string(value)
	case equalFold(option, "capa"):
		h.client.EOF = h.client.EOF || equalFold(value, "eof")
		h.client.Resumes = h.client.Resumes || equalFold(value, "psync2")
		h.client.Commands = h.client.Commands || equalFold(value, "kedis-snapshot")
	case equalFold(option, "rdb-only"):
		return flagOf(value, &h.client.OnlyRDB)
	case equalFold(option, "rdb-filter-only"):
		h.client.NoKeys = true // functions, or nothing: there are none
	case equalFold(option, "ack"), equalFold(option, "getack"):
	default:
		return Errorf("ERR Unrecognized REPLCONF option: %s", clip(option, 128))
	}
	return nil
}

// longestAddress is the most that Redis takes for a host's name.
const longestAddress = 255

func flagOf(value []byte, flag *bool) error {
	n, ok := number.ParseInt(value)
	if !ok || n < 0 || n > 1 {
		return ErrNotInteger
	}
	*flag = n == 1
	return nil
}

func cmdRole(c *Context) error {
	c.Engine.role.part.Role(c.Reply)
	return nil
}

// writesNow tells whether a command, or the transaction that it runs, writes.
func writesNow(s *Session, c *Command) bool { return flagsNow(s, c)&Write != 0 }

// flagsNow returns the flags of a command, or, of EXEC, those of all that it runs.
func flagsNow(s *Session, c *Command) Flags {
	flags := c.Flags
	if c.runsQueue {
		flags |= s.Transaction.flags
	}
	return flags
}

// requireReplicas keeps writes out while too few replicas keep up.
func requireReplicas(b *Batch, s *Session, c *Command) error {
	least := b.engine.Config.MinReplicasToWrite.Get()
	if least == 0 || b.applying || b.engine.IsReplica() || b.engine.Config.MinReplicasMaxLag.Get() == 0 {
		return nil
	}
	if int64(b.engine.role.good.Load()) < least && writesNow(s, c) {
		return Error("NOREPLICAS Not enough good replicas to write.")
	}
	return nil
}

const errReadOnly = Error("READONLY You can't write against a read only replica.")

func refuseWritesOnReplica(b *Batch, s *Session, c *Command) error {
	if !b.engine.IsReplica() || b.applying || !writesNow(s, c) {
		return nil
	}
	return errReadOnly
}

// refuseStaleData keeps a replica that has lost its primary from answering with what may be old, if it
// is configured so. The link may have gone since the commands of a transaction were queued.
func refuseStaleData(b *Batch, s *Session, c *Command) error {
	if c.runsQueue && s.Transaction.lacked&Stale == 0 {
		return nil
	}
	if !b.engine.role.stale.Load() || b.applying || b.engine.Config.ReplicaServeStaleData.Get() {
		return nil
	}
	return Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
}
