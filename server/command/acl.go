package command

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"kedis/internal/number"
	"kedis/server/access"
	"kedis/server/execute"
)

func aclFamily() Family {
	anybody := NoScript | Loading | Stale
	admin := anybody | Admin
	const each = "O(N) where N is the number of users"
	return Family{Commands: []Command{
		{Name: "acl", Arity: -2, Group: "server", Since: "6.0.0", Complexity: "Depends on subcommand.",
			Summary: "A container for commands on users and on what they may do.",
			Subcommands: []Command{
				{Name: "cat", Arity: -2, Flags: anybody, Run: cmdACLCat, Since: "6.0.0", Complexity: "O(N) where N is the number of commands",
					Syntax: "[categoryname]", Summary: "Lists the categories of commands, or the commands of a category."},
				{Name: "whoami", Arity: 2, Flags: anybody, Run: cmdACLWhoAmI, Since: "6.0.0", Complexity: "O(1)",
					Summary: "Returns the connection's user."},
				{Name: "genpass", Arity: -2, Flags: anybody, Run: cmdACLGenPass, Since: "6.0.0", Complexity: "O(1)", Syntax: "[bits:integer]",
					Summary: "Makes a password by chance."},
				{Name: "users", Arity: 2, Flags: admin, Run: cmdACLUsers, Since: "6.0.0", Complexity: each, Summary: "Lists the users."},
				{Name: "list", Arity: 2, Flags: admin, Run: cmdACLList, Since: "6.0.0", Complexity: each,
					Summary: "Lists the users with what they may do."},
				{Name: "getuser", Arity: 3, Flags: admin, Run: cmdACLGetUser, Since: "6.0.0", Syntax: "username",
					Complexity: "O(N). Where N is the number of password, command and pattern rules that the user has.",
					Summary:    "Tells what a user may do."},
				{Name: "setuser", Arity: -3, Flags: admin | Worker | AtOnce, Run: cmdACLSetUser, Since: "6.0.0", Syntax: "username [rule [rule ...]]",
					Complexity: "O(N). Where N is the number of rules provided.", Summary: "Makes a user, or changes what a user may do."},
				{Name: "deluser", Arity: -3, Flags: admin | Worker | AtOnce, Run: cmdACLDelUser, Since: "6.0.0", Syntax: "username [username ...]",
					Complexity: "O(1) amortized time considering the typical user.", Summary: "Deletes users, and ends their connections."},
				{Name: "dryrun", Arity: -4, Flags: admin, Run: cmdACLDryRun, Since: "7.0.0", Complexity: "O(1).",
					Syntax: "username command [arg [arg ...]]", Summary: "Tells whether a user may execute a command."},
				{Name: "log", Arity: -2, Flags: admin | AtOnce, Run: cmdACLLog, Since: "6.0.0", Complexity: "O(N) with N being the number of entries shown.",
					Syntax: "[count | RESET]", Summary: "Lists what was denied lately, or forgets it."},
				{Name: "load", Arity: 2, Flags: admin | Worker | AtOnce, Run: cmdACLLoad, Since: "6.0.0",
					Complexity: "O(N). Where N is the number of configured users.", Summary: "Reads the file of users again."},
				{Name: "save", Arity: 2, Flags: admin | Worker, Run: cmdACLSave, Since: "6.0.0",
					Complexity: "O(N). Where N is the number of configured users.", Summary: "Writes the users to their file."},
				execute.HelpRow("acl", "6.0.0", Loading|Stale, 0, aclHelp...),
			}},
	}}
}

var aclHelp = []string{
	"CAT [<category>]",
	"    List the categories of commands, or the commands of a category.",
	"DELUSER <username> [<username> ...]",
	"    Delete users, and end their connections.",
	"DRYRUN <username> <command> [<arg> ...]",
	"    Tell whether a user may execute a command.",
	"GETUSER <username>",
	"    Tell what a user may do.",
	"GENPASS [<bits>]",
	"    Make a password of 256 or so many random bits.",
	"LIST",
	"    List the users with what they may do.",
	"LOAD",
	"    Read the file of users again.",
	"LOG [<count> | RESET]",
	"    List what was denied lately (default: 10 entries), or forget it.",
	"SAVE",
	"    Write the users to their file.",
	"SETUSER <username> <rule> [<rule> ...]",
	"    Make a user, or change what a user may do.",
	"USERS",
	"    List the users.",
	"WHOAMI",
	"    Return the connection's user.",
}

func cmdACLCat(c *Invocation) error {
	if len(c.Args) > 3 {
		return c.Misused()
	}
	if len(c.Args) == 2 {
		c.Reply.Array(len(execute.CategoryNames))
		for _, name := range execute.CategoryNames {
			c.Reply.BulkString(name)
		}
		return nil
	}
	wanted := slices.IndexFunc(execute.CategoryNames, func(name string) bool { return equalFold(c.Args[2], name) })
	if wanted < 0 {
		return Errorf("ERR Unknown category '%s'", execute.UntilZero(c.Args[2]))
	}
	handle, count := c.Reply.BeginArray(), 0
	c.Engine.Table.Each(func(command *Command) {
		if command.Categories&(1<<wanted) != 0 {
			c.Reply.BulkString(command.FullName())
			count++
		}
	})
	c.Reply.EndArray(handle, count)
	return nil
}

func cmdACLWhoAmI(c *Invocation) error {
	if user := c.Session.User; user != nil {
		c.Reply.BulkString(user.Name())
	} else {
		c.Reply.Null()
	}
	return nil
}

func cmdACLUsers(c *Invocation) error {
	replyStrings(c, c.Engine.Users.Names())
	return nil
}

func replyStrings(c *Invocation, texts []string) {
	c.Reply.Array(len(texts))
	for _, text := range texts {
		c.Reply.BulkString(text)
	}
}

// redactRules keeps a user's name and rules out of logs: passwords may stand among them.
func redactRules(c *Invocation) {
	for i := 2; i < len(c.Args); i++ {
		c.Redact(i)
	}
}

func cmdACLSetUser(c *Invocation) error {
	redactRules(c)
	rules := make([]string, len(c.Args)-3)
	for i, word := range c.Args[3:] {
		rules[i] = string(word)
	}
	user, err := c.Engine.Users.Set(string(c.Args[2]), rules)
	if err != nil {
		return Errorf("ERR %s", execute.UntilZero([]byte(err.Error())))
	}
	c.Engine.UserChanged(user, c.Session)
	c.Reply.OK()
	return nil
}

func cmdACLDelUser(c *Invocation) error {
	redactRules(c)
	names := c.Args[2:]
	if slices.ContainsFunc(names, func(name []byte) bool { return string(name) == access.DefaultName }) {
		return Error("ERR The 'default' user cannot be removed")
	}
	deleted := int64(0)
	for _, name := range names {
		if user := c.Engine.Users.Delete(string(name)); user != nil {
			c.Engine.UserChanged(user, c.Session)
			deleted++
		}
	}
	c.Reply.Integer(deleted)
	return nil
}

const errNoUserFile = Error("ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER " +
	"command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis " +
	"configuration.")

func cmdACLLoad(c *Invocation) error {
	if c.Engine.Config.ACLFile.Get() == "" {
		return errNoUserFile
	}
	if err := c.Engine.LoadUsers(c.Session); err != nil {
		return Errorf("ERR %s", err)
	}
	c.Reply.OK()
	return nil
}

func cmdACLSave(c *Invocation) error {
	if c.Engine.Config.ACLFile.Get() == "" {
		return errNoUserFile
	}
	if err := c.Engine.SaveUsers(); err != nil {
		c.Engine.Logger.Error("saving users", "error", err)
		return Error("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
	}
	c.Reply.OK()
	return nil
}

const (
	defaultPasswordBits = 256
	mostPasswordBits    = 4096
)

func cmdACLGenPass(c *Invocation) error {
	bits := int64(defaultPasswordBits)
	switch {
	case len(c.Args) > 3:
		return c.Misused()
	case len(c.Args) == 3:
		var ok bool
		if bits, ok = number.ParseInt(c.Args[2]); !ok {
			return ErrNotInteger
		}
		if bits <= 0 || bits > mostPasswordBits {
			return Errorf("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to %d",
				mostPasswordBits)
		}
	}
	digits := int(bits+3) / 4
	password := make([]byte, (digits+1)/2)
	rand.Read(password) // never fails
	c.Reply.BulkString(hex.EncodeToString(password)[:digits])
	return nil
}

func cmdACLList(c *Invocation) error {
	lines := c.Engine.Users.Lines()
	for i := range lines {
		lines[i] = "user " + lines[i]
	}
	replyStrings(c, lines)
	return nil
}

func cmdACLGetUser(c *Invocation) error {
	c.Redact(2)
	user := c.Engine.Users.Get(string(c.Args[2]))
	if user == nil {
		c.Reply.Null()
		return nil
	}
	rules := user.Rules()
	own, others := rules.Selectors()
	fields := 6
	if own.Databases != "" {
		fields++
	}
	requests, traffic := rules.Rates()
	if requests > 0 {
		fields++
	}
	if traffic > 0 {
		fields++
	}
	c.Reply.Map(fields)
	c.Reply.BulkString("flags")
	flags := rules.Flags()
	c.Reply.Set(len(flags))
	for _, flag := range flags {
		c.Reply.BulkString(flag)
	}
	c.Reply.BulkString("passwords")
	replyStrings(c, rules.Passwords())
	replySelector(c, own)
	replyRate(c, "requests", requests)
	replyRate(c, "traffic", traffic)
	c.Reply.BulkString("selectors")
	c.Reply.Array(len(others))
	for _, selector := range others {
		if selector.Databases != "" {
			c.Reply.Map(4)
		} else {
			c.Reply.Map(3)
		}
		replySelector(c, selector)
	}
	return nil
}

// replySelector replies the fields of a selector. That of databases, which Redis doesn't have, is
// there if not all are allowed.
func replySelector(c *Invocation, selector access.Selector) {
	for _, field := range [][2]string{{"commands", selector.Commands}, {"keys", selector.Keys}, {"channels", selector.Channels}} {
		c.Reply.BulkString(field[0])
		c.Reply.BulkString(field[1])
	}
	if selector.Databases != "" {
		c.Reply.BulkString("databases")
		c.Reply.BulkString(selector.Databases)
	}
}

// replyRate replies a field that Redis doesn't have, and that is there if there is a rate.
func replyRate(c *Invocation, name string, perSecond int64) {
	if perSecond > 0 {
		c.Reply.BulkString(name)
		c.Reply.Integer(perSecond)
	}
}

const deniedEntries = 10

func cmdACLLog(c *Invocation) error {
	count := int64(deniedEntries)
	switch {
	case len(c.Args) > 3:
		return c.Misused()
	case len(c.Args) == 3 && equalFold(c.Args[2], "reset"):
		c.Engine.Denials.Reset()
		c.Reply.OK()
		return nil
	case len(c.Args) == 3:
		var err error
		if count, err = parseInteger(c.Args[2]); err != nil {
			return err
		}
	}
	entries, now := c.Engine.Denials.Latest(max(count, 0)), time.Now()
	c.Reply.Array(len(entries))
	for i := range entries {
		replyDenial(c, &entries[i], now)
	}
	return nil
}

var denialReasons = [...]string{access.DeniedCommand: "command", access.DeniedKey: "key", access.DeniedAuthentication: "auth",
	access.DeniedChannel: "channel", access.DeniedDatabase: "database", access.DeniedCertificate: "tls-cert"}

func replyDenial(c *Invocation, e *access.Entry, now time.Time) {
	r := c.Reply
	integer := func(name string, value int64) {
		r.BulkString(name)
		r.Integer(value)
	}
	text := func(name, value string) {
		r.BulkString(name)
		r.BulkString(value)
	}
	r.Map(10)
	integer("count", e.Count)
	text("reason", denialReasons[e.Reason])
	text("context", e.Context)
	text("object", e.Object)
	text("username", e.Username)
	r.BulkString("age-seconds")
	r.Double(float64(now.Sub(e.Updated).Milliseconds()) / 1000)
	text("client-info", e.Client)
	integer("entry-id", e.ID)
	integer("timestamp-created", e.Created.UnixMilli())
	integer("timestamp-last-updated", e.Updated.UnixMilli())
}

func cmdACLDryRun(c *Invocation) error {
	user := c.Engine.Users.Get(string(c.Args[2]))
	if user == nil {
		return Errorf("ERR User '%s' not found", execute.UntilZero(c.Args[2]))
	}
	words := c.Args[3:]
	command, _ := c.Engine.Table.Lookup(words)
	switch {
	case command == nil || command.Unlisted:
		return Errorf("ERR Command '%s' not found", execute.UntilZero(words[0]))
	case !command.Accepts(len(words)):
		return execute.WrongArity(command.FullName())
	}
	if refusal := c.Engine.Try(user, words, c.Session.Database); refusal != "" {
		c.Reply.BulkString(refusal)
	} else {
		c.Reply.OK()
	}
	return nil
}
