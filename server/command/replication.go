package command

import (
	"net"
	"strconv"
	"strings"
	"time"

	"kedis/internal/number"
	"kedis/internal/psync"
	"kedis/server/execute"
)

// Detacher is a peer whose connection can be given away: once the replies so far have been sent,
// serve gets it, on a goroutine of its own, and the session ends when serve returns.
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
		{Name: "psync", Arity: -3, Flags: admin | NoMulti, Run: cmdPSync, Adapt: takingOver,
			Group: "server", Since: "2.8.0", Complexity: "O(1)", Syntax: "replicationid offset",
			Summary: "Asks for the stream of writes from a position on; replicas use it."},
		{Name: "sync", Arity: 1, Flags: admin | NoMulti, Run: cmdSync,
			Group: "server", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Asks for all data and the writes after it; replicas used it before PSYNC."},
		{Name: "replconf", Arity: -1, Flags: Admin | NoScript | Loading | Stale | AllowBusy, Run: cmdReplConf,
			Group: "server", Since: "3.0.0", Complexity: "O(1)", Syntax: "[option value [option value ...]]",
			Summary: "Tells a primary of the replica that is about to ask for its stream."},
		{Name: "wait", Arity: 3, Flags: Worker | Blocking, Categories: CategoryConnection, Run: cmdWait,
			Tips:  []string{"request_policy:all_shards", "response_policy:agg_min"},
			Group: "generic", Since: "3.0.0", Complexity: "O(1)", Syntax: "numreplicas timeout",
			Summary: "Waits until so many replicas have what was written, or the time in milliseconds is over."},
		{Name: "waitaof", Arity: 4, Flags: Worker | Blocking, Categories: CategoryConnection, Run: cmdWaitAOF,
			Tips:  []string{"request_policy:all_shards", "response_policy:agg_min"},
			Group: "generic", Since: "7.2.0", Complexity: "O(1)", Syntax: "numlocal numreplicas timeout",
			Summary: "Waits until what was written is on this server's disk and on those of so many replicas, or the time in milliseconds is over."},
		{Name: "role", Arity: 1, Flags: NoScript | Loading | Stale | Fast, Categories: CategoryAdmin | CategoryDangerous, Run: cmdRole,
			Group: "server", Since: "2.8.12", Complexity: "O(1)",
			Summary: "Tells whether the server is a primary or a replica, of which, and how far it is."},
	}}
}

func cmdReplicaOf(c *Invocation) error {
	host, port := string(c.Args[1]), c.Args[2]
	if strings.EqualFold(host, "no") && equalFold(port, "one") {
		if err := c.Engine.Replication().Promote(); err != nil {
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
	changed, err := c.Engine.Replication().Follow(host, int(n))
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

func cmdFailover(c *Invocation) error {
	if len(c.Args) == 2 && equalFold(c.Args[1], "abort") {
		if err := c.Engine.Replication().AbortFailover(); err != nil {
			return err
		}
		c.Reply.OK()
		return nil
	}
	o, err := parseFailover(c.Args[1:])
	if err != nil {
		return err
	}
	if err := c.Engine.Replication().FailOver(o); err != nil {
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
			timeout, ok := number.ParseInt(words[1])
			switch {
			case !ok:
				return o, ErrNotInteger
			case timeout <= 0:
				return o, Error("ERR FAILOVER timeout must be greater than 0")
			}
			o.Timeout, taken = milliseconds(timeout), 2
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

func cmdPSync(c *Invocation) error {
	if c.Session.Is(execute.KindMonitor) {
		return nil // Redis doesn't answer it, either
	}
	if err := settleOthers(c); err != nil {
		return err
	}
	if asksToTakeOver(c.Args) {
		if err := c.Engine.Replication().TakeOver(string(c.Args[1])); err != nil {
			return err
		}
	}
	if err := mayFollow(c); err != nil {
		return err
	}
	from, ok := number.ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	client := c.Session.Replica
	client.ID, client.From = string(c.Args[1]), from
	return detach(c, client)
}

func cmdSync(c *Invocation) error {
	if c.Session.Is(execute.KindMonitor) {
		return nil
	}
	if err := settleOthers(c); err != nil {
		return err
	}
	if err := mayFollow(c); err != nil {
		return err
	}
	client := c.Session.Replica
	client.Old = true
	return detach(c, client)
}

// settleOthers has committed what others have sent before: the connection is given away outside of
// the transaction, so that a commit which fails couldn't take it back. The client's own replies
// stay, for mayFollow.
func settleOthers(c *Invocation) error {
	if c.Reply.Len() == 0 && !c.Settled() {
		return c.Settle()
	}
	return nil
}

// mayFollow is nil, or why the client can't be a replica now.
func mayFollow(c *Invocation) error {
	if err := c.Engine.Replication().Sendable(); err != nil {
		return err
	}
	if c.Reply.Len() > 0 {
		return Error("ERR SYNC and PSYNC are invalid with pending output")
	}
	return nil
}

// detach gives the client's connection to replication.
func detach(c *Invocation, client psync.Replica) error {
	peer, ok := c.Session.Peer.(Detacher)
	if !ok {
		return Error("ERR this connection can't be a replica's")
	}
	part := c.Engine.Replication()
	client.Address = c.Session.Peer.RemoteAddress()
	session := c.Session
	spoken, _ := c.Engine.Table.LookupEffect([][]byte{[]byte("replconf")})
	client.Heard = func() {
		session.LastCommand.Store(spoken)
		session.LastActive.Store(time.Now().UnixMilli())
	}
	c.Session.Become(execute.KindReplica)
	peer.Detach(func(conn net.Conn) { part.Serve(conn, client) })
	c.Seal() // a commit that fails behind it would have it executed again, by a connection that executes nothing any more
	c.Engine.CheckBegun(c.Session)
	return nil
}

// cmdReplConf takes what a replica tells of itself. In a stream, GETACK asks the one that follows
// it, not the data, for an answer. Neither it nor ACK is answered to who is no replica, and what
// stands behind it is passed over.
func cmdReplConf(c *Invocation) error {
	if len(c.Args)%2 == 0 {
		return ErrSyntax
	}
	if len(c.Args) == 3 && equalFold(c.Args[1], "kedis-histories") {
		c.Reply.SimpleString(c.Engine.Replication().Histories())
		return nil
	}
	for i := 1; i < len(c.Args); i += 2 {
		if equalFold(c.Args[i], "ack") || equalFold(c.Args[i], "getack") {
			return nil
		}
		if err := takeReplicaOption(&c.Session.Replica, c.Args[i], c.Args[i+1]); err != nil {
			return err
		}
	}
	if !c.Applying() {
		c.Reply.OK()
	}
	return nil
}

func takeReplicaOption(r *psync.Replica, option, value []byte) error {
	switch {
	case equalFold(option, "listening-port"):
		port, ok := number.ParseInt(value)
		if !ok {
			return ErrNotInteger
		}
		r.Port = int(port)
	case equalFold(option, "ip-address"):
		if len(value) > longestAddress {
			return Errorf("ERR REPLCONF ip-address provided by replica instance is too long: %d bytes", len(value))
		}
		r.Announce = string(value)
	case equalFold(option, "capa"):
		r.EOF = r.EOF || equalFold(value, "eof")
		r.Resumes = r.Resumes || equalFold(value, "psync2")
		r.Commands = r.Commands || equalFold(value, "kedis-snapshot")
		r.Acknowledges = r.Acknowledges || equalFold(value, "kedis-acknowledges")
	case equalFold(option, "version"):
		return takeVersion(r, value)
	case equalFold(option, "rdb-only"):
		return flagOf(value, &r.OnlyRDB)
	case equalFold(option, "rdb-filter-only"):
		return takeFilter(r, string(value))
	default:
		return Errorf("ERR Unrecognized REPLCONF option: %s", execute.Clip(option, 128))
	}
	return nil
}

// takeFilter takes what a snapshot is to have: nothing, or functions.
func takeFilter(r *psync.Replica, only string) error {
	r.NoKeys, r.NoFunctions = true, true
	for _, what := range strings.Fields(only) {
		if !strings.EqualFold(what, "functions") {
			return Errorf("ERR Unsupported rdb-filter-only option: %s", what)
		}
		r.NoFunctions = false
	}
	return nil
}

// takeVersion reads the version that a Valkey tells: from 9.0 on its RDB files have a form of their
// own.
func takeVersion(r *psync.Replica, value []byte) error {
	numbers := strings.Split(string(value), ".")
	major, err := strconv.ParseUint(numbers[0], 10, 8)
	if err != nil || len(numbers) != 3 {
		return Errorf("ERR Unrecognized version format: %s", execute.Clip(value, 128))
	}
	r.Valkey = major >= 9
	return nil
}

// longestAddress is the most that Redis takes for a host's name.
const longestAddress = 255

const errNoFlag = Error("ERR value is out of range, value must between 0 and 1")

func flagOf(value []byte, flag *bool) error {
	n, ok := number.ParseInt(value)
	switch {
	case !ok:
		return ErrNotInteger
	case n < 0 || n > 1:
		return errNoFlag
	}
	*flag = n == 1
	return nil
}

func cmdRole(c *Invocation) error {
	c.Engine.Replication().Role(c.Reply)
	return nil
}
