package command

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/internal/number"
	"kedis/server/access"
	"kedis/server/execute"
)

const (
	errNoSuchClient = Error("ERR No such client")
	errPauseMode    = Error("ERR CLIENT PAUSE mode must be WRITE or ALL")
	errTimeout      = Error("ERR timeout is not an integer or out of range")
	errNegative     = Error("ERR timeout is negative")
)

func clientCommand() Command {
	subcommands := slices.Concat(clientSelf(), clientOthers(), clientModes(), clientTracking())
	for i := range subcommands {
		subcommands[i].KeepsCaching = true
	}
	return Command{Name: "client", Arity: -2, Group: "connection", Since: "2.4.0", Complexity: "Depends on subcommand.",
		Summary: "A container for commands on client connections.", Subcommands: subcommands}
}

// clientSelf are the subcommands that tell and change what the connection itself is.
func clientSelf() []Command {
	own := NoScript | Loading | Stale
	return []Command{
		{Name: "id", Arity: 2, Flags: own, Categories: CategoryConnection, Run: cmdClientID,
			Since: "5.0.0", Complexity: "O(1)", Summary: "Returns the connection's id, which no other ever had."},
		{Name: "info", Arity: 2, Flags: own, Categories: CategoryConnection, Run: cmdClientInfo,
			Tips:  []string{"nondeterministic_output"},
			Since: "6.2.0", Complexity: "O(1)", Summary: "Tells of the connection what CLIENT LIST tells of all."},
		{Name: "getname", Arity: 2, Flags: own, Categories: CategoryConnection, Run: cmdClientGetName,
			Since: "2.6.9", Complexity: "O(1)", Summary: "Returns the connection's name."},
		{Name: "setname", Arity: 3, Flags: own | AtOnce, Categories: CategoryConnection, Run: cmdClientSetName,
			Since: "2.6.9", Complexity: "O(1)", Syntax: "connection-name", Summary: "Gives the connection a name."},
		{Name: "setinfo", Arity: 4, Flags: own | AtOnce, Categories: CategoryConnection, Run: cmdClientSetInfo,
			Tips:  []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
			Since: "7.2.0", Complexity: "O(1)", Syntax: "<LIB-NAME libname | LIB-VER libver>",
			Summary: "Tells the server which client library the connection is used by."},
		execute.HelpRow("client", "5.0.0", Loading|Stale, CategoryConnection, clientHelp...),
	}
}

// clientOthers are the subcommands that look at, end or stop other connections.
func clientOthers() []Command {
	admin := Admin | NoScript | Loading | Stale
	const each = "O(N) where N is the number of client connections"
	return []Command{
		{Name: "list", Arity: -2, Flags: admin, Categories: CategoryConnection, Run: cmdClientList,
			Tips:  []string{"nondeterministic_output"},
			Since: "2.4.0", Complexity: each,
			Syntax:  "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]] [USER username]",
			Summary: "Lists the connections, one to a line."},
		{Name: "kill", Arity: -3, Flags: admin | NoBatch, Categories: CategoryConnection, Run: cmdClientKill,
			Since: "2.4.0", Complexity: each,
			Syntax: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] [USER username] " +
				"[ADDR ip:port] [LADDR ip:port] [SKIPME yes/no] [MAXAGE maxage]>",
			Summary: "Closes connections."},
		{Name: "pause", Arity: -3, Flags: admin | NoBatch, Categories: CategoryConnection, Run: cmdClientPause,
			Since: "3.0.0", Complexity: "O(1)", Syntax: "timeout [WRITE | ALL]",
			Summary: "Lets commands that write, or all commands, wait for a while."},
		{Name: "unpause", Arity: 2, Flags: admin | NoBatch, Categories: CategoryConnection, Run: cmdClientUnpause,
			Since: "6.2.0", Complexity: "O(N) Where N is the number of paused clients", Summary: "Ends a pause before its time."},
		{Name: "unblock", Arity: -3, Flags: admin | NoBatch, Categories: CategoryConnection, Run: cmdClientUnblock,
			Since: "5.0.0", Complexity: "O(log N) where N is the number of client connections",
			Syntax: "client-id [TIMEOUT | ERROR]", Summary: "Ends the waiting of a connection in a blocking command."},
	}
}

// clientModes are the subcommands that change how the connection is answered.
func clientModes() []Command {
	own := NoScript | Loading | Stale
	return []Command{
		{Name: "reply", Arity: 3, Flags: own, Categories: CategoryConnection, Run: cmdClientReply,
			Since: "3.2.0", Complexity: "O(1)", Syntax: "<ON | OFF | SKIP>", Summary: "Says whether commands are answered."},
		{Name: "no-evict", Arity: 3, Flags: own | Admin | AtOnce, Categories: CategoryConnection, Run: cmdClientNoEvict,
			Since: "7.0.0", Complexity: "O(1)", Syntax: "<ON | OFF>",
			Summary: "Marks a connection as one not to be closed when clients take too much memory, which Kedis never does."},
		{Name: "replicas", Arity: 3, Flags: own | AtOnce, Categories: CategoryConnection, Run: cmdClientReplicas,
			Since: "7.2.0", Complexity: "O(1)", Syntax: "<number | DEFAULT>",
			Summary: "Says how many replicas have to have what the connection is told; only Kedis has this."},
		{Name: "no-touch", Arity: 3, Flags: own | AtOnce, Categories: CategoryConnection, Run: cmdClientNoTouch,
			Since: "7.2.0", Complexity: "O(1)", Syntax: "<ON | OFF>",
			Summary: "Says whether commands are accesses to their keys for OBJECT IDLETIME and OBJECT FREQ."},
	}
}

var clientHelp = []string{
	"GETREDIR",
	"    Return the id of the connection that is told for this one's cache: 0 is none, and -1 that it has no cache.",
	"GETNAME",
	"    Return the name of the connection.",
	"ID",
	"    Return the id of the connection.",
	"INFO",
	"    Tell of the connection what LIST tells of all.",
	"KILL <ip:port>",
	"    Close the connection from <ip:port>.",
	"KILL <option> <value> [<option> <value> [...]]",
	"    Close the connections that all options fit. Options are:",
	"    * ADDR <ip:port>",
	"      The address of the client.",
	"    * LADDR <ip:port>",
	"      The address that the client connected to.",
	"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
	"      The kind of client.",
	"    * USER <username>",
	"      The user of the connection.",
	"    * ID <client-id>",
	"      The id of the connection.",
	"    * MAXAGE <seconds>",
	"      The connection is at least so old.",
	"    * SKIPME (YES|NO)",
	"      Leave this connection alone (default: yes).",
	"LIST [options ...]",
	"    List the connections. Options are:",
	"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
	"      Only those of a kind.",
	"    * ID <client-id> [<client-id> ...]",
	"      Only those with these ids.",
	"    * USER <username>",
	"      Only those of a user.",
	"UNPAUSE",
	"    End a pause.",
	"PAUSE <timeout> [WRITE|ALL]",
	"    Let all commands, or those that write, wait for <timeout> milliseconds.",
	"REPLY (ON|OFF|SKIP)",
	"    Say whether commands are answered.",
	"SETNAME <name>",
	"    Give the connection a name.",
	"REPLICAS (<number>|DEFAULT)",
	"    Have so many replicas acknowledge what the connection is told, or as many as are configured.",
	"SETINFO <LIB-NAME|LIB-VER> <value>",
	"    Tell which client library uses the connection.",
	"UNBLOCK <clientid> [TIMEOUT|ERROR]",
	"    End the waiting of a connection in a blocking command.",
	"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
	"         [OPTIN] [OPTOUT] [NOLOOP]",
	"    Say whether the client keeps what it reads, and is to be told when that changes.",
	"CACHING (YES|NO)",
	"    Say whether the client keeps what the next command reads (OPTIN, OPTOUT).",
	"TRACKINGINFO",
	"    Tell how the connection tracks.",
	"NO-EVICT (ON|OFF)",
	"    Keep the connection from being closed for its memory.",
	"NO-TOUCH (ON|OFF)",
	"    Say whether commands change the times of access.",
}

func cmdClientID(c *Invocation) error {
	c.Reply.Integer(c.Session.ID)
	return nil
}

func cmdClientGetName(c *Invocation) error {
	if name := c.Session.Name(); name != "" {
		c.Reply.BulkString(name)
	} else {
		c.Reply.Null()
	}
	return nil
}

func cmdClientSetName(c *Invocation) error {
	if !printableWord(c.Args[2]) {
		return errClientName
	}
	c.Session.SetName(string(c.Args[2]))
	c.Reply.OK()
	return nil
}

func cmdClientSetInfo(c *Invocation) error {
	attributes := []struct {
		name string
		set  func(string)
	}{{"lib-name", c.Session.SetLibraryName}, {"lib-ver", c.Session.SetLibraryVersion}}
	for _, attribute := range attributes {
		if !equalFold(c.Args[2], attribute.name) {
			continue
		}
		if !printableWord(c.Args[3]) {
			return Errorf("ERR %s cannot contain spaces, newlines or special characters.", attribute.name)
		}
		attribute.set(string(c.Args[3]))
		c.Reply.OK()
		return nil
	}
	return Errorf("ERR Unrecognized option '%s'", execute.UntilZero(c.Args[2]))
}

func cmdClientInfo(c *Invocation) error {
	c.Reply.Verbatim("txt", string(append(describe(c, nil, c.Session), '\n')))
	return nil
}

// describedAtOnce is how many connections a reactor describes without keeping the others waiting
// for long.
const describedAtOnce = 1000

func cmdClientList(c *Invocation) error {
	wanted := func(*Session) bool { return true }
	switch {
	case len(c.Args) == 4 && equalFold(c.Args[2], "type"):
		kind, err := parseClientType(c.Args[3])
		if err != nil {
			return err
		}
		wanted = func(s *Session) bool { return clientTypeOf(s) == kind }
	case len(c.Args) == 4 && equalFold(c.Args[2], "user"):
		user, err := findUser(c, c.Args[3])
		if err != nil {
			return err
		}
		wanted = func(s *Session) bool { return s.ShownUser() == user }
	case len(c.Args) > 3 && equalFold(c.Args[2], "id"):
		return listClientsByID(c, c.Args[3:])
	case len(c.Args) > 2:
		return ErrSyntax
	}
	if c.OnReactor() && c.Engine.Clients.Count() > describedAtOnce {
		return c.Offload()
	}
	var text []byte
	for _, s := range c.Engine.Clients.All() {
		if wanted(s) {
			text = append(describe(c, text, s), '\n')
		}
	}
	c.Reply.Verbatim("txt", string(text))
	return nil
}

func listClientsByID(c *Invocation, words [][]byte) error {
	var text []byte
	for _, word := range words {
		id, ok := number.ParseInt(word)
		if !ok {
			return Error("ERR Invalid client ID")
		}
		if s := c.Engine.Clients.Get(id); s != nil {
			text = append(describe(c, text, s), '\n')
		}
	}
	c.Reply.Verbatim("txt", string(text))
	return nil
}

// clientType is what CLIENT LIST TYPE tells apart. A monitor is a normal client, as in Redis.
type clientType int

const (
	normalClient clientType = iota
	replicaClient
	pubSubClient
	primaryClient
)

func parseClientType(word []byte) (clientType, error) {
	switch strings.ToLower(string(word)) {
	case "normal":
		return normalClient, nil
	case "slave", "replica":
		return replicaClient, nil
	case "pubsub":
		return pubSubClient, nil
	case "master":
		return primaryClient, nil
	}
	return 0, Errorf("ERR Unknown client type '%s'", execute.UntilZero(word))
}

func clientTypeOf(s *Session) clientType {
	switch {
	case s.Is(execute.KindPrimary):
		return primaryClient
	case s.Is(execute.KindReplica):
		return replicaClient
	case s.Is(execute.KindPubSub):
		return pubSubClient
	}
	return normalClient
}

// describe appends a connection's line of CLIENT LIST, without the end of the line. What only the
// connection's own goroutine knows is as it was a moment ago.
func describe(c *Invocation, dst []byte, s *Session) []byte {
	if s == c.Session {
		return describeRunning(dst, s, c.Args)
	}
	return describeRunning(dst, s, nil)
}

// describeRunning describes a connection that runs a request of some words.
func describeRunning(dst []byte, s *Session, args [][]byte) []byte {
	now := time.Now()
	field := func(name string, value int64) {
		dst = strconv.AppendInt(append(append(append(dst, ' '), name...), '='), value, 10)
	}
	text := func(name, value string) {
		dst = append(append(append(append(dst, ' '), name...), '='), value...)
	}
	status := s.Status()
	query, output := s.Peer.Buffered()
	channels, patterns := s.Subscriptions()
	words, queued := execute.WordBytes(args), status.QueuedBytes
	dst = strconv.AppendInt(append(dst, "id="...), s.ID, 10)
	text("addr", s.Peer.RemoteAddress())
	text("laddr", s.Peer.LocalAddress())
	field("fd", int64(s.Peer.FileDescriptor()))
	text("name", status.Name)
	field("age", int64(now.Sub(s.Created)/time.Second))
	field("idle", max(0, now.UnixMilli()-s.LastActive.Load())/1000)
	text("flags", flagLetters(s, &status))
	field("db", int64(status.Database))
	field("sub", int64(channels))
	field("psub", int64(patterns))
	field("ssub", int64(s.ShardSubscriptions()))
	field("multi", int64(status.Queued))
	field("watch", int64(status.Watching))
	field("qbuf", int64(query))
	field("qbuf-free", 0)
	field("argv-mem", int64(words))
	field("multi-mem", int64(queued))
	field("rbs", 0)
	field("rbp", 0)
	field("obl", 0)
	field("oll", int64(min(output, 1)))
	field("omem", int64(output))
	field("tot-mem", int64(execute.SessionBytes+query+words+queued+output))
	text("events", events(output))
	text("cmd", lastCommandName(s))
	text("user", userOf(s))
	field("redir", redirection(s))
	field("resp", int64(status.Protocol))
	text("lib-name", status.LibraryName)
	text("lib-ver", status.LibraryVersion)
	return dst
}

// userOf is who the session belongs to. A primary may do everything.
func userOf(s *Session) string {
	if user := s.ShownUser(); user != nil {
		return user.Name()
	}
	return "(superuser)"
}

func events(output int) string {
	if output > 0 {
		return "rw"
	}
	return "r"
}

func lastCommandName(s *Session) string {
	if command := s.LastCommand.Load(); command != nil {
		return command.FullName()
	}
	return "NULL"
}

// flagLetters are the letters that stand for what a connection is and does.
func flagLetters(s *Session, status *execute.Status) string {
	var letters []byte
	tracking := s.Tracking()
	for _, flag := range []struct {
		letter byte
		set    bool
	}{
		{'O', s.Is(execute.KindMonitor)}, {'S', s.Is(execute.KindReplica)}, {'M', s.Is(execute.KindPrimary)}, {'P', s.Is(execute.KindPubSub)},
		{'x', status.Queued >= 0}, {'b', status.Blocked},
		{'t', tracking != nil}, {'R', s.TrackingBroken()}, {'B', tracking != nil && tracking.Broadcast}, {'d', status.Dirty}, {'c', s.Closing()},
		{'U', s.Peer.OverUnixSocket()}, {'e', status.NoEvict}, {'T', status.NoTouch},
	} {
		if flag.set {
			letters = append(letters, flag.letter)
		}
	}
	return cmp.Or(string(letters), "N")
}

// clientFilter says which connections CLIENT KILL closes.
type clientFilter struct {
	address, localAddress []byte
	id                    int64
	kind                  clientType
	byKind                bool
	user                  *access.User // nil is any
	maxAge                int64        // seconds; 0 is any
	spare                 *Session
}

func cmdClientKill(c *Invocation) error {
	if len(c.Args) == 3 {
		if killClients(c, &clientFilter{address: c.Args[2]}) == 0 {
			return errNoSuchClient
		}
		c.Reply.OK()
		return nil
	}
	filter, err := parseClientFilter(c)
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(killClients(c, filter)))
	return nil
}

func parseClientFilter(c *Invocation) (*clientFilter, error) {
	f := &clientFilter{spare: c.Session}
	for words := c.Args[2:]; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			return nil, ErrSyntax
		}
		if err := f.parse(c, strings.ToLower(string(words[0])), words[1]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *clientFilter) parse(c *Invocation, option string, value []byte) (err error) {
	switch option {
	case "id":
		if f.id, err = parseBetween(value, 1, math.MaxInt64); err != nil {
			return Error("ERR client-id should be greater than 0")
		}
	case "type":
		f.kind, err = parseClientType(value)
		f.byKind = true
		return err
	case "addr":
		f.address = value
	case "laddr":
		f.localAddress = value
	case "user":
		f.user, err = findUser(c, value)
		return err
	case "maxage":
		n, ok := number.ParseInt(value)
		if !ok {
			return Error("ERR maxage is not an integer or out of range")
		}
		if f.maxAge = n; n <= 0 {
			return Error("ERR maxage should be greater than 0")
		}
	case "skipme":
		return f.parseSkipMe(c, value)
	default:
		return ErrSyntax
	}
	return nil
}

// findUser finds a user by name.
func findUser(c *Invocation, name []byte) (*access.User, error) {
	user := c.Engine.Users.Get(string(name))
	if user == nil {
		return nil, Errorf("ERR No such user '%s'", execute.UntilZero(name))
	}
	return user, nil
}

func (f *clientFilter) parseSkipMe(c *Invocation, value []byte) error {
	switch {
	case equalFold(value, "yes"):
		f.spare = c.Session
	case equalFold(value, "no"):
		f.spare = nil
	default:
		return ErrSyntax
	}
	return nil
}

func parseBetween(word []byte, least, most int64) (int64, error) {
	n, err := parseInteger(word)
	if err == nil && (n < least || n > most) {
		err = ErrNotInteger
	}
	return n, err
}

// killClients closes the connections that fit, and returns how many they were. The connection that
// asks gets its reply first.
func killClients(c *Invocation, f *clientFilter) int {
	killed := 0
	for _, s := range c.Engine.Clients.All() {
		if !f.fits(s) {
			continue
		}
		killed++
		c.Engine.Dismiss(s, c.Session)
	}
	return killed
}

func (f *clientFilter) fits(s *Session) bool {
	switch {
	case s == f.spare, s.Killed(), f.id != 0 && s.ID != f.id, f.byKind && clientTypeOf(s) != f.kind, f.user != nil && s.ShownUser() != f.user:
		return false
	case f.address != nil && s.Peer.RemoteAddress() != string(f.address):
		return false
	case f.localAddress != nil && s.Peer.LocalAddress() != string(f.localAddress):
		return false
	}
	return f.maxAge == 0 || int64(time.Since(s.Created)/time.Second) >= f.maxAge
}

func cmdClientPause(c *Invocation) error {
	mode := execute.PauseEverything
	switch {
	case len(c.Args) > 4:
		return c.Misused()
	case len(c.Args) == 3 || equalFold(c.Args[3], "all"):
	case equalFold(c.Args[3], "write"):
		mode = execute.PauseWrites
	default:
		return errPauseMode
	}
	milliseconds, ok := number.ParseInt(c.Args[2])
	now := time.Now()
	switch {
	case !ok, milliseconds > math.MaxInt64-now.UnixMilli():
		return errTimeout
	case milliseconds < 0:
		return errNegative
	}
	c.Engine.Pause.Begin(mode, now.Add(time.Duration(min(milliseconds, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond))
	c.Reply.OK()
	return nil
}

func cmdClientUnpause(c *Invocation) error {
	c.Engine.Pause.Finish()
	c.Reply.OK()
	return nil
}

// cmdClientUnblock ends a client's wait for others.
func cmdClientUnblock(c *Invocation) error {
	var reply error
	switch {
	case len(c.Args) > 4:
		return c.Misused()
	case len(c.Args) == 4 && !equalFold(c.Args[3], "timeout") && !equalFold(c.Args[3], "error"):
		return Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	case len(c.Args) == 4 && equalFold(c.Args[3], "error"):
		reply = errUnblocked
	}
	id, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	other := c.Engine.Clients.Get(id)
	replyBit(c, other != nil && other.Unblock(reply))
	return nil
}

func cmdClientReply(c *Invocation) error {
	switch {
	case equalFold(c.Args[2], "on"):
		c.Session.SetReplyMode(execute.ReplyOn)
		c.Reply.OK()
	case equalFold(c.Args[2], "off"):
		c.Session.SetReplyMode(execute.ReplyOff)
	case equalFold(c.Args[2], "skip"):
		if c.Session.ReplyMode != execute.ReplyOff {
			c.Session.SetReplyMode(execute.ReplySkipNext)
		}
	default:
		return ErrSyntax
	}
	return nil
}

// parseSwitch reads ON or OFF.
func parseSwitch(word []byte) (on bool, err error) {
	switch {
	case equalFold(word, "on"):
		return true, nil
	case equalFold(word, "off"):
		return false, nil
	}
	return false, ErrSyntax
}

func cmdClientNoEvict(c *Invocation) error {
	on, err := parseSwitch(c.Args[2])
	if err != nil {
		return err
	}
	c.Session.NoEvict.Store(on)
	c.Reply.OK()
	return nil
}

// cmdClientReplicas sets synchronous-replicas for the connection.
func cmdClientReplicas(c *Invocation) error {
	replicas := execute.ConfiguredReplicas
	if word := c.Args[2]; !equalFold(word, "default") {
		n, ok := number.ParseInt(word)
		if !ok || n < 0 || n > mostSynchronousReplicas {
			return Error("ERR the number of replicas is not from 0 to 1000, nor DEFAULT")
		}
		replicas = int(n)
	}
	if err := c.WaitForReplicas(replicas); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

const mostSynchronousReplicas = 1000

func cmdClientNoTouch(c *Invocation) error {
	on, err := parseSwitch(c.Args[2])
	if err != nil {
		return err
	}
	c.Session.NoTouch.Store(on)
	c.Reply.OK()
	return nil
}
