package command

import (
	"math"

	"kedis/internal/number"
	"kedis/server/access"
	"kedis/server/execute"
)

const (
	errWrongPassword = Error("WRONGPASS invalid username-password pair or user is disabled.")
	errNoPassword    = Error("ERR AUTH <password> called without any password configured for the default user. " +
		"Are you sure your configuration is correct?")
	errProtocolNumber  = Error("ERR Protocol version is not an integer or out of range")
	errProtocolVersion = Error("NOPROTO unsupported protocol version")
	errHelloFirst      = Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
		"HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol " +
		"version at the same time")
	errClientName = Error("ERR Client names cannot contain spaces, newlines or special characters.")
)

func connectionFamily() Family {
	atAnyTime := NoScript | Loading | Stale | Fast | NoAuth | AllowBusy
	return Family{Commands: []Command{
		{Name: "auth", Arity: -2, Flags: atAnyTime, Categories: CategoryConnection, Run: cmdAuth,
			Group: "connection", Since: "1.0.0", Complexity: "O(N) where N is the number of passwords defined for the user",
			Syntax: "[username] password", Summary: "Tells who the client is, by a user name and a password."},
		{Name: "hello", Arity: -1, Flags: atAnyTime | AtOnce, Categories: CategoryConnection, Run: cmdHello,
			Group: "connection", Since: "6.0.0", Complexity: "O(1)",
			Syntax:  "[protover [AUTH username password] [SETNAME clientname]]",
			Summary: "Chooses the version of the protocol, and tells of the server and the connection."},
		{Name: "ping", Arity: -1, Flags: Fast, Categories: CategoryConnection, Run: cmdPing, Subscribed: true,
			Tips:  []string{"request_policy:all_shards", "response_policy:all_succeeded"},
			Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "[message]",
			Summary: "Answers PONG, or the message."},
		{Name: "echo", Arity: 2, Flags: Loading | Stale | Fast, Categories: CategoryConnection, Run: cmdEcho,
			Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "message",
			Summary: "Answers the message."},
		{Name: "quit", Arity: -1, Flags: atAnyTime, Categories: CategoryConnection, Run: cmdQuit, Immediate: true, Subscribed: true,
			Group: "connection", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Closes the connection when everything was answered."},
		{Name: "reset", Arity: 1, Flags: atAnyTime | AtOnce, Categories: CategoryConnection, Run: cmdReset, Immediate: true, Subscribed: true,
			Group: "connection", Since: "6.2.0", Complexity: "O(1)",
			Summary: "Makes the connection what it was when it began."},
		{Name: "select", Arity: 2, Flags: Loading | Stale | Fast, Categories: CategoryConnection, Run: cmdSelect, Selects: true, Databases: databasesIn(1),
			Group: "connection", Since: "1.0.0", Complexity: "O(1)", Syntax: "index",
			Summary: "Changes the selected database."},
		clientCommand(),
		webRequest("post"),
		webRequest("host:"),
	}}
}

// webRequest is a line of HTTP: a web page makes its reader's browser send it, and commands behind
// it.
func webRequest(name string) Command {
	return Command{Name: name, Arity: -1, Flags: NoScript | Loading | Stale | Fast | NoAuth | AllowBusy | SkipMonitor | SkipSlowlog,
		Run: cmdWebRequest, Unlisted: true, Immediate: true, Group: "connection", Since: "3.2.7",
		Summary: "Closes the connection."}
}

func cmdWebRequest(c *Invocation) error {
	c.Engine.Logger.Warn("closing a connection that speaks HTTP: a web page may be misused to reach this server",
		"client", c.Session.Peer.RemoteAddress())
	c.Unsay()
	c.Session.CloseAfterReply()
	return nil
}

// authenticate makes the session a user's.
func authenticate(c *Invocation, user, password []byte) error {
	if !c.Engine.SignIn(c.Session, user, password) {
		c.DenyAuthentication(user)
		return errWrongPassword
	}
	return nil
}

func cmdAuth(c *Invocation) error {
	for i := 1; i < len(c.Args); i++ {
		c.Redact(i)
	}
	user, password := []byte(access.DefaultName), c.Args[1]
	switch {
	case len(c.Args) > 3:
		return ErrSyntax
	case len(c.Args) == 3:
		user, password = c.Args[1], c.Args[2]
	case c.Engine.Users.Default().NeedsNoPassword():
		return errNoPassword
	}
	if err := authenticate(c, user, password); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

// greeting is what HELLO asks for.
type greeting struct {
	protocol       int64 // 0: as it is
	user, password []byte
	name           []byte
}

func cmdHello(c *Invocation) error {
	g, err := parseGreeting(c)
	if err != nil {
		return err
	}
	if g.user != nil {
		if err := authenticate(c, g.user, g.password); err != nil {
			return err
		}
	}
	if c.Engine.AuthenticationRequired(c.Session) {
		return errHelloFirst
	}
	if g.name != nil {
		c.Session.SetName(string(g.name))
	}
	if g.protocol != 0 {
		c.Session.SetProtocol(int(g.protocol))
	}
	replyGreeting(c)
	return nil
}

func parseGreeting(c *Invocation) (g greeting, err error) {
	if len(c.Args) < 2 {
		return g, nil
	}
	var ok bool
	if g.protocol, ok = number.ParseInt(c.Args[1]); !ok {
		return g, errProtocolNumber
	}
	if g.protocol < 2 || g.protocol > 3 {
		return g, errProtocolVersion
	}
	for a := (arguments{words: c.Args[2:]}); a.more(); {
		at := len(c.Args) - len(a.words)
		switch {
		case len(a.words) > 2 && a.flag("auth"):
			c.Redact(at + 1)
			c.Redact(at + 2)
			g.user, g.password = a.next(), a.next()
		case len(a.words) > 1 && a.flag("setname"):
			if g.name = a.next(); !printableWord(g.name) {
				return g, errClientName
			}
		default:
			return g, Errorf("ERR Syntax error in HELLO option '%s'", execute.UntilZero(a.words[0]))
		}
	}
	return g, nil
}

func replyGreeting(c *Invocation) {
	r := c.Reply
	r.Map(7)
	r.BulkString("server")
	r.BulkString("redis")
	r.BulkString("version")
	r.BulkString(execute.RedisVersion)
	r.BulkString("proto")
	r.Integer(int64(r.Protocol()))
	r.BulkString("id")
	r.Integer(c.Session.ID)
	r.BulkString("mode")
	r.BulkString("standalone")
	r.BulkString("role")
	r.BulkString(roleName(c.Engine))
	r.BulkString("modules")
	r.Array(0)
}

// roleName is what HELLO calls the server's part in replication.
func roleName(e *Engine) string {
	if e.IsReplica() {
		return "replica"
	}
	return "master"
}

// printableWord tells whether a client's name or library may be this: what stands in CLIENT LIST is
// separated by spaces and line ends.
func printableWord(word []byte) bool {
	for _, b := range word {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}

func cmdPing(c *Invocation) error {
	switch {
	case len(c.Args) > 2:
		return execute.WrongArity("ping")
	case c.Session.Reply.Protocol() == 2 && c.Session.Listens(): // a script of a client with RESP3 is another matter
		c.Reply.Array(2) // so that it looks like a message
		c.Reply.BulkString("pong")
		c.Reply.Bulk(append([]byte(nil), wordOr(c, 1, "")...))
	case len(c.Args) == 2:
		c.Reply.Bulk(c.Args[1])
	default:
		c.Reply.SimpleString("PONG")
	}
	return nil
}

// wordOr returns a word, or something else where there is none.
func wordOr(c *Invocation, index int, otherwise string) []byte {
	if index < len(c.Args) {
		return c.Args[index]
	}
	return []byte(otherwise)
}

func cmdEcho(c *Invocation) error {
	c.Reply.Bulk(c.Args[1])
	return nil
}

func cmdQuit(c *Invocation) error {
	c.Reply.OK()
	c.Session.CloseAfterReply()
	return nil
}

func cmdReset(c *Invocation) error {
	s := c.Session
	if err := c.WaitForReplicas(execute.ConfiguredReplicas); err != nil {
		return err
	}
	s.EndTransaction()
	c.Engine.Watches.Forget(s)
	c.Engine.Observer.Forget(s)
	c.Engine.Listeners.Forget(s)
	c.Engine.Caching.Stop(s)
	s.Mark(execute.KindMonitor, false)
	c.Select(0)
	s.SetProtocol(2)
	s.SetName("")
	s.NoEvict.Store(false)
	s.NoTouch.Store(false)
	c.Engine.SignOut(s)
	if s.ReplyMode != execute.ReplySkip { // as in Redis: behind SKIP its own reply is left out, too
		s.SetReplyMode(execute.ReplyOn)
	}
	c.Reply.SimpleString("RESET")
	return nil
}

func cmdSelect(c *Invocation) error {
	index, ok := number.ParseInt(c.Args[1])
	if !ok {
		return Error("ERR value is not an integer or out of range")
	}
	switch {
	case index < math.MinInt32 || index > math.MaxInt32:
		return Error("ERR value is out of range, value must between -2147483648 and 2147483647")
	case index < 0 || index >= int64(c.Engine.Store.Databases()):
		return ErrDBIndex
	}
	c.Select(int(index))
	c.Reply.OK()
	return nil
}
