package command

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"kedis/internal/metrics"
	"kedis/internal/number"
	"kedis/server/execute"
)

func aclFamily() Family {
	anybody := NoScript | Loading | Stale
	admin := anybody | Admin
	const each = "O(N) where N is the number of users"
	return Family{Commands: []Command{
		{Name: "acl", Arity: -2, Group: "server", Since: "6.0.0", Complexity: "Depends on subcommand.",
			Summary: "A container for commands on users. There is one, default, who may do everything.",
			Subcommands: []Command{
				{Name: "cat", Arity: -2, Flags: anybody, Run: cmdACLCat, Since: "6.0.0", Complexity: "O(N) where N is the number of commands",
					Syntax: "[categoryname]", Summary: "Lists the categories of commands, or the commands of a category."},
				{Name: "whoami", Arity: 2, Flags: anybody, Run: cmdACLWhoAmI, Since: "6.0.0", Complexity: "O(1)",
					Summary: "Returns the connection's user."},
				{Name: "genpass", Arity: -2, Flags: anybody, Run: cmdACLGenPass, Since: "6.0.0", Complexity: "O(1)", Syntax: "[bits:integer]",
					Summary: "Makes a password by chance."},
				{Name: "users", Arity: 2, Flags: admin, Run: cmdACLUsers, Since: "6.0.0", Complexity: each, Summary: "Lists the users: default."},
				{Name: "list", Arity: 2, Flags: admin, Run: cmdACLList, Since: "6.0.0", Complexity: each,
					Summary: "Lists the users with what they may do."},
				{Name: "getuser", Arity: 3, Flags: admin, Run: cmdACLGetUser, Since: "6.0.0", Complexity: "O(1)", Syntax: "username",
					Summary: "Tells what a user may do."},
				{Name: "dryrun", Arity: -4, Flags: admin, Run: cmdACLDryRun, Since: "7.0.0", Complexity: "O(1).",
					Syntax: "username command [arg [arg ...]]", Summary: "Tells whether a user may execute a command."},
				{Name: "log", Arity: -2, Flags: admin, Run: cmdACLLog, Since: "6.0.0", Complexity: "O(N) with N being the number of entries shown.",
					Syntax: "[count | RESET]", Summary: "Lists the latest attempts to authenticate that were refused, or forgets them."},
				refusal("setuser", -3, admin, "6.0.0", "username [rule [rule ...]]", errOneUser),
				refusal("deluser", -3, admin, "6.0.0", "username [username ...]", errOneUser),
				refusal("load", 2, admin, "6.0.0", "", errOneUser),
				refusal("save", 2, admin, "6.0.0", "", errOneUser),
				execute.HelpRow("acl", "6.0.0", Loading|Stale, 0,
					"CAT [<category>]",
					"    List the categories of commands, or the commands of a category.",
					"DRYRUN <username> <command> [<arg> ...]",
					"    Tell whether a user may execute a command.",
					"GENPASS [<bits>]",
					"    Make a password of 256 or so many random bits.",
					"GETUSER <username>",
					"    Tell what a user may do.",
					"LIST",
					"    List the users with what they may do.",
					"LOG [<count> | RESET]",
					"    List the latest attempts to authenticate that were refused (default: 10),",
					"    or forget them.",
					"USERS",
					"    List the users.",
					"WHOAMI",
					"    Return the connection's user."),
			}},
	}}
}

const errOneUser = Error("ERR Kedis has no users but 'default', whose password is the option requirepass")

// refusal is a subcommand that exists only to say why it doesn't.
func refusal(name string, arity int, flags Flags, since, syntax string, why Error) Command {
	return Command{Name: name, Arity: arity, Flags: flags, Since: since, Complexity: "O(1)", Syntax: syntax,
		Summary: "Is refused: " + string(why[len("ERR "):]) + ".",
		Run:     func(*Invocation) error { return why }}
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
	c.Reply.BulkString(defaultUser)
	return nil
}

func cmdACLUsers(c *Invocation) error {
	c.Reply.Array(1)
	c.Reply.BulkString(defaultUser)
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

// passwordHash is the default user's password as ACL shows it; empty if there is none.
func passwordHash(e *Engine) string {
	password := e.Config.RequirePass.Get()
	if password == "" {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(password)))
}

func cmdACLList(c *Invocation) error {
	password := "nopass"
	if hash := passwordHash(c.Engine); hash != "" {
		password = "#" + hash
	}
	c.Reply.Array(1)
	c.Reply.BulkString("user " + defaultUser + " on " + password + " ~* &* +@all")
	return nil
}

func cmdACLGetUser(c *Invocation) error {
	if string(c.Args[2]) != defaultUser {
		c.Reply.Null()
		return nil
	}
	flags, passwords := []string{"on", "nopass"}, []string(nil)
	if hash := passwordHash(c.Engine); hash != "" {
		flags, passwords = flags[:1], []string{hash}
	}
	c.Reply.Map(6)
	c.Reply.BulkString("flags")
	c.Reply.Set(len(flags))
	for _, flag := range flags {
		c.Reply.BulkString(flag)
	}
	c.Reply.BulkString("passwords")
	c.Reply.Array(len(passwords))
	for _, password := range passwords {
		c.Reply.BulkString(password)
	}
	for _, rule := range [][2]string{{"commands", "+@all"}, {"keys", "~*"}, {"channels", "&*"}} {
		c.Reply.BulkString(rule[0])
		c.Reply.BulkString(rule[1])
	}
	c.Reply.BulkString("selectors")
	c.Reply.Array(0)
	return nil
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
	for _, e := range entries {
		replyDenial(c, e, now)
	}
	return nil
}

func replyDenial(c *Invocation, e metrics.Denial, now time.Time) {
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
	text("reason", "auth")
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

// noteDenial notes that a client could not become a user.
func noteDenial(c *Invocation, user []byte) {
	kind := "toplevel"
	if c.Nested() {
		kind = "multi"
	}
	c.Engine.Denials.Add(metrics.Denial{Context: kind, Object: string(c.Args[0]), Username: string(user),
		Client: string(describe(c, nil, c.Session))}, time.Now())
}

func cmdACLDryRun(c *Invocation) error {
	if string(c.Args[2]) != defaultUser {
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
	c.Reply.OK()
	return nil
}
