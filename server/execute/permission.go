package execute

import (
	"strings"
	"time"

	"kedis/server/access"
)

// ChannelWords says which words of a command are channels: from First on, each if Several, as
// patterns if Patterns. First is 0 if none is.
type ChannelWords struct {
	First             int
	Several, Patterns bool
}

// number gives each command its number in the vocabulary of access.
func (t *Table) number() {
	var commands []access.Command
	add := func(c *Command) {
		c.number = len(commands)
		commands = append(commands, access.Command{Name: c.full, Categories: uint32(c.Categories)})
	}
	t.Each(add)
	for _, c := range t.byName {
		if c.Unlisted {
			add(c)
		}
	}
	t.Vocabulary = access.NewVocabulary(CategoryNames, commands)
}

// requirePermission keeps users from what they may not do.
func requirePermission(b *Batch, s *Session, r *Request) error {
	if s.User == nil || s.User.Unrestricted() || b.repeat.applying {
		return nil
	}
	s.takeRules()
	database := s.Database
	if t := &s.Transaction; t.Active && t.selects > 0 {
		database = t.selects - 1
	}
	context := atTop
	if s.Transaction.Active {
		context = inTransaction
	}
	r.locate(b.engine.Store, database)
	if why, index := s.rules.Check(r); why != access.Permitted {
		b.engine.deny(s, r, why, index, s.User.Name(), context)
		return refused(why, r)
	}
	return b.requireRates(s, r, database)
}

// refused is the reply to a request that isn't permitted.
func refused(why access.Reason, r *Request) error {
	return Error("NOPERM this user has no permissions to " + strings.Replace(denials[why].refused, "%s", r.Command.full, 1))
}

// Permit is nil, or why the session's user might not make a request inside of EXEC any longer when
// that began.
func (c *Invocation) Permit(r *Request) error {
	if c.mayAll(r) {
		return nil
	}
	if why := c.denied(r, inTransaction); why != access.Permitted {
		return Errorf("NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. "+
			"This command is no longer allowed for the following reason: %s", denials[why].since)
	}
	return nil
}

// PermitCall is nil, or why the session's user may not make a request inside of a script.
func (c *Invocation) PermitCall(r *Request) error {
	if c.mayAll(r) {
		return nil
	}
	if why := c.denied(r, inScript); why != access.Permitted {
		return Error("ERR The user executing the script can't " + denials[why].called)
	}
	return nil
}

// MayCall is PermitCall for a script that only asks. As in Redis the words may lack some.
func (c *Invocation) MayCall(r *Request) bool {
	if c.mayAll(r) {
		return true
	}
	r.presume()
	r.locate(c.Engine.Store, c.Session.Database)
	why, _ := c.Session.rules.Check(r)
	return why == access.Permitted
}

// mayAll reports whether a request inside of this one needs no permission.
func (c *Invocation) mayAll(r *Request) bool {
	return c.Session.User == nil || c.Session.rules.Unrestricted() || r.Command.Flags&NoAuth != 0 || c.Applying()
}

// The contexts of denials, as ACL LOG tells them.
const (
	atTop         = "toplevel"
	inTransaction = "multi"
	inScript      = "lua"
)

// denied is why the session's user may not make a request inside of this one, if so, and notes it.
func (c *Invocation) denied(r *Request, context string) access.Reason {
	s := c.Session
	r.locate(c.Engine.Store, s.Database)
	why, index := s.rules.Check(r)
	if why != access.Permitted {
		c.deny(r, why, index, s.User.Name(), context)
	}
	return why
}

// DenyAuthentication notes that a client could not become a user.
func (c *Invocation) DenyAuthentication(user []byte) {
	context := atTop
	if c.Nested() {
		context = inTransaction
	}
	c.deny(c.Request, access.DeniedAuthentication, 0, string(user), context)
}

// deny is Engine.deny for what runs. It isn't left to the outbox: an ACL LOG behind it in the same
// EXEC shows it. The outermost request knows how many have been noted when it runs again.
func (c *Invocation) deny(r *Request, why access.Reason, index int, user, context string) {
	running := &c.batch.running
	running.denials++
	if running.stack[0].meetsDenial(running.denials) {
		c.Engine.noteDenial(c.Session, r, why, index, user, context)
	}
}

// deny notes that a request was denied, once: it may be executed again.
func (e *Engine) deny(s *Session, r *Request, why access.Reason, index int, user, context string) {
	if r.meetsDenial(1) {
		e.noteDenial(s, r, why, index, user, context)
	}
}

func (e *Engine) noteDenial(s *Session, r *Request, why access.Reason, index int, user, context string) {
	object := r.Command.full
	if why != access.DeniedCommand && why != access.DeniedDatabase {
		object = string(r.Args[index])
	}
	e.Denials.Add(access.Entry{Reason: why, Context: context, Object: object, Username: user, Client: e.Describe(s, r.Args)}, time.Now())
}

// denials are what is said of what is denied: to who asks for it, by ACL DRYRUN, by EXEC when it
// was permitted before, and to a script. %s is the command, key or channel. The texts are Redis
// 7.0's, which knows nothing of databases.
var denials = [...]struct{ refused, tried, since, called string }{
	access.DeniedCommand: {"run the '%s' command", "run the '%s' command", "no permission to execute the command or subcommand",
		"run this command or subcommand"},
	access.DeniedKey: {"access one of the keys used as arguments", "access the '%s' key", "no permission to touch the specified keys",
		"access at least one of the keys mentioned in the command arguments"},
	access.DeniedChannel: {"access one of the channels used as arguments", "access the '%s' channel",
		"no permission to access one of the channels used as arguments", "publish to the channel mentioned in the command"},
	access.DeniedDatabase: {"access one of the databases used", "access one of the databases used",
		"no permission to access one of the databases used", "access one of the databases used by the command"},
}

// Try tells whether a user might make a request, in the words of ACL DRYRUN; empty if so.
func (e *Engine) Try(user *access.User, args [][]byte, database int) string {
	q := requestReader{table: e.Table, store: e.Store}
	r := q.read(database, args)
	why, index := user.Rules().Check(r)
	if why == access.Permitted || r.Command.Flags&NoAuth != 0 {
		return ""
	}
	object := r.Command.full
	if why != access.DeniedCommand {
		object = string(UntilZero(args[index]))
	}
	return "This user has no permissions to " + strings.Replace(denials[why].tried, "%s", object, 1)
}

// The methods below are how rules look at a request; see access.Request.

// CommandNumber is the command's number in the vocabulary.
func (r *Request) CommandNumber() int { return r.Command.number }

// Word returns a word; nil if there are not so many.
func (r *Request) Word(index int) []byte {
	if index >= len(r.Args) {
		return nil
	}
	return r.Args[index]
}

// Keys is how many keys there are among the words.
func (r *Request) Keys() int { return len(r.keys) }

// Key returns where a key stands, and what is done with it.
func (r *Request) Key(number int) (index int, needs access.Permission, ok bool) {
	key := &r.keys[number]
	flags := key.Flags
	if flags&VariableFlags != 0 && r.Command.KeyFlags != nil {
		flags = r.Command.KeyFlags(r.Args)
	}
	if flags&Access != 0 {
		needs |= access.Read
	}
	if flags&(Insert|Update|Delete) != 0 {
		needs |= access.Write
	}
	return key.Index, needs, flags&NotKey == 0
}

// Channel returns where a channel stands.
func (r *Request) Channel(number int) (index int, pattern, ok bool) {
	words := r.Command.Channels
	index = words.First + number
	ok = words.First > 0 && index < len(r.Args) && (words.Several || number == 0)
	return index, words.Patterns, ok
}

// Database returns a database that is used: the selected one, by a command on data, and those that
// the command names.
func (r *Request) Database(number int) (database int, ok bool) {
	if r.flags&(Write|ReadOnly) != 0 || len(r.keys) > 0 && r.keys[0].Flags&NotKey == 0 {
		if number == 0 {
			return r.database, true
		}
		number--
	}
	for i := range r.keys {
		if key := &r.keys[i]; key.elsewhere {
			if number == 0 {
				return int(key.database), true
			}
			number--
		}
	}
	if r.Command.Databases == nil {
		return 0, false
	}
	return r.Command.Databases(r.Args, number)
}

// MayUseEveryKey reports whether the session's user may do something with all keys by this request:
// which ones it will come to can't be told from its words.
func (c *Invocation) MayUseEveryKey(needs access.Permission) bool {
	s := c.Session
	return s.User == nil || s.rules.Unrestricted() || c.Applying() || s.rules.PermitsEveryKey(c.Request, needs)
}
