package execute

import (
	"math/bits"
	"net/netip"
	"strings"

	"kedis/internal/config"
)

// gate is a condition that a command has to meet before it runs. The order of the list is Redis's,
// and the first refusal is the reply. Gates look at flags, never at names. Each has a condition
// without which everybody passes.
type gate struct {
	name     string
	concerns func(c *Command) bool // false: it never refuses the command, and isn't asked
	check    func(b *Batch, s *Session, r *Request) error
}

var gates = []gate{
	{"protected commands", func(c *Command) bool { return c.Flags&Protected != 0 }, protect},
	{"authentication", func(c *Command) bool { return c.Flags&NoAuth == 0 }, requireAuthentication},
	{"transaction", func(c *Command) bool { return c.Flags&NoMulti != 0 }, keepOutOfTransactions},
	{"permission", func(c *Command) bool { return c.Flags&NoAuth == 0 }, requirePermission},
	{"writable log", mayWrite, refuseWrites},
	{"enough replicas", mayWrite, requireReplicas},
	{"synchronous replicas", mayWrite, requireSynchronousReplicas},
	{"read only replica", mayWrite, refuseWritesOnReplica},
	{"listening", func(c *Command) bool { return !c.Subscribed }, onlyListen},
	{"stale data", func(c *Command) bool { return c.Flags&Stale == 0 || c.RunsQueue || c.RunsScript }, refuseStaleData},
	{"loading", func(c *Command) bool { return c.Flags&Loading == 0 }, refuseWhileLoading},
	{"monitor", func(c *Command) bool { return c.Flags&onKeyspace != 0 || c.RunsQueue }, keepOffKeyspace},
}

func mayWrite(c *Command) bool { return c.Flags&Write != 0 || c.RunsQueue || c.RunsScript }

// pass asks the gates that concern a request's command, in their order, as far as there is a reason
// to ask them.
func (r *Request) pass(b *Batch, s *Session) error {
	return r.passBut(0, b, s)
}

// passBut is pass without some of the gates.
func (r *Request) passBut(but conditions, b *Batch, s *Session) error {
	asked := r.Command.gates & (b.engine.inUse.bits.Load() | s.conditions()) &^ but
	for ; asked != 0; asked &= asked - 1 {
		if err := gates[bits.TrailingZeros32(asked)].check(b, s, r); err != nil {
			return err
		}
	}
	return nil
}

// chooseGates finds out which gates concern the command.
func (c *Command) chooseGates() {
	for i, g := range gates {
		if g.concerns(c) {
			c.gates |= 1 << i
		}
	}
}

const errDebug = Error("ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local " +
	"connection, otherwise you need to set this option in the configuration file, and then restart the server.")

func protect(b *Batch, s *Session, _ *Request) error {
	if s.AdmittedAs(b.engine.Config.EnableDebugCommand.Get()) {
		return nil
	}
	return errDebug
}

// AdmittedAs reports whether a session's client is one of those whom an option names.
func (s *Session) AdmittedAs(who config.DebugCommand) bool {
	switch who {
	case config.DebugYes:
		return true
	case config.DebugLocal:
		if s.Peer.OverUnixSocket() {
			return true
		}
		client, err := netip.ParseAddrPort(s.Peer.RemoteAddress())
		return err == nil && client.Addr().Unmap().IsLoopback()
	}
	return false
}

func requireAuthentication(b *Batch, s *Session, _ *Request) error {
	if s.Authenticated || !b.engine.AuthenticationRequired(s) {
		return nil
	}
	return ErrNoAuth
}

func keepOutOfTransactions(_ *Batch, s *Session, _ *Request) error {
	if s.Transaction.Active {
		return Error("ERR Command not allowed inside a transaction")
	}
	return nil
}

// refuseWrites keeps writes out while the log can't take them: before they take locks. On a full
// disk those that Redis lets run without memory, such as DEL and FLUSHALL, may still get through.
func refuseWrites(b *Batch, s *Session, r *Request) error {
	err := b.writable(s)
	if err == nil || !b.engine.writesNow(s, r) {
		return nil
	}
	if s.Refuse == nil && b.engine.flagsNow(s, r)&DenyOOM == 0 {
		err = b.engine.Log.ReadyForLess()
	}
	if err != nil {
		return logFailed(err)
	}
	return nil
}

// onlyListen keeps a session that listens to channels from all else: in RESP2 replies could not be
// told from messages.
func onlyListen(_ *Batch, s *Session, r *Request) error {
	if s.Reply.Protocol() > 2 || !s.Listens() {
		return nil
	}
	return Errorf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", r.Command.full)
}

// onKeyspace are the flags of commands that use the keyspace, or what replicas are told.
const onKeyspace = Write | ReadOnly | MayReplicate

// keepOffKeyspace keeps who watches all commands from it, as in Redis, which counts such a client
// as a replica: no pause holds it.
func keepOffKeyspace(b *Batch, s *Session, r *Request) error {
	if b.engine.flagsNow(s, r)&onKeyspace == 0 {
		return nil
	}
	return Error("ERR Replica can't interact with the keyspace")
}

// writable is nil, or why a session's writes are refused now.
func (b *Batch) writable(s *Session) error {
	switch {
	case b.repeat.applying:
		return nil
	case s.Refuse != nil:
		return s.Refuse
	}
	return b.engine.Log.Ready()
}

// refuse answers a request that was not admitted. Inside of MULTI nothing that follows can be
// executed then; EXEC itself ends the transaction.
func (b *Batch) refuse(s *Session, r *Request, err error) {
	switch {
	case r.Command != nil && r.Command.RunsQueue:
		s.EndTransaction()
		b.engine.Watches.Forget(s)
		err = Errorf("EXECABORT Transaction discarded because of: %s", strings.TrimPrefix(err.Error(), "ERR "))
	case s.Transaction.Active:
		s.Transaction.Aborted = true
	}
	b.countError(err.Error())
	s.Reply.Error(err.Error())
}

// finishReply leaves of the reply behind a mark what CLIENT REPLY asked for, and puts behind it
// what the request has pushed to its client. It returns where the reply ends.
func (b *Batch) finishReply(s *Session, mark int) (end int) {
	if s.ReplyMode != ReplyOn {
		s.applyReplyMode(mark)
	}
	end = s.Reply.Mark()
	if pushed := &b.running.outbox.pushed; len(*pushed) > 0 {
		s.Reply.Raw(*pushed)
		*pushed = (*pushed)[:0]
	}
	return end
}
