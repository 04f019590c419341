// Package execute runs requests: what a request is, the table of commands, admission, locks,
// invocations, commits and what they undo, workers, and the sessions and the engine that all of
// them share.
//
// It knows no command: package command fills the table. It knows nothing of connections either: the
// server tells it what it needs to know of them through Session and the interfaces in engine.go.
package execute

import (
	"fmt"
	"slices"
	"strings"

	"kedis/internal/metrics"
	"kedis/server/access"
	"kedis/storage"
)

// Command is a row of the table. Name, Arity, Flags, Categories and Keys mean what they mean in
// Redis's COMMAND reply.
type Command struct {
	Name       string // lower case
	Arity      int    // number of words; -n: at least n
	Flags      Flags
	Categories Categories // ACL categories besides those that follow from Flags
	Keys       []KeySpec
	Tips       []string

	// Run carries the command out: it writes a reply, or returns an error, which becomes the reply
	// while everything that the command wrote is taken back. Nil for a command that only has
	// subcommands.
	Run         func(*Invocation) error
	Subcommands []Command

	// GetKeys finds the keys where Keys can't tell. The words are of a valid arity.
	GetKeys func(args [][]byte) ([]KeyReference, error)

	Group      string // as in Redis's documentation: "string", "sorted-set" …
	Summary    string
	Since      string // the version of Redis that brought it
	Valkey     bool   // Since is a version of Valkey, which Redis hasn't followed
	Complexity string
	Syntax     string // the words behind the name, as in Redis's documentation; see syntax.go

	Prefetch Prefetch
	Touching Touching
	Channels ChannelWords // which of its words are channels
	// Databases returns a database that it uses besides the selected one, by its number from 0 on,
	// or access.AllDatabases. There may be too few words.
	Databases func(args [][]byte, number int) (database int, ok bool)

	Subscribed bool                           // is allowed in RESP2 while the session listens to channels
	Unlisted   bool                           // is no command, and looks like one
	Immediate  bool                           // runs at once inside of MULTI too
	RunsQueue  bool                           // is EXEC: it runs what is queued
	Selects    bool                           // is SELECT
	RunsScript bool                           // runs a script, or a function, which may call others
	Functions  bool                           // and that is a function
	Declared   func(*Engine, [][]byte) Flags  // of such a command: its flags as they follow from what the program says of itself
	Plan       func(*Invocation, *Plan) error // what it needs, when Keys and Flags don't tell

	// Adapt returns the flags that it has with certain words, when they can be others than Flags:
	// SORT without STORE only reads. The words are of a valid arity.
	Adapt func(flags Flags, args [][]byte) Flags
	// KeyFlags returns what it does with its key, where that depends on the words behind it: its
	// specification says VariableFlags. There may be too few words.
	KeyFlags func(args [][]byte) KeyFlags
	// Elsewhere finds its key in another database than the selected one. The words are of a valid
	// arity.
	Elsewhere func(args [][]byte) (key KeyReference, ok bool)
	// KeepsCaching: what CLIENT CACHING has chosen is still for the command after this one.
	KeepsCaching bool

	gates    conditions // those that concern it
	parent   *Command
	number   int // in the vocabulary of access
	History  History
	ownName  []byte   // not nil: clients call it, or its container, otherwise, or not at all
	outside  bool     // it touches no data, and has to be possible while a command has the databases to itself
	oneKey   *KeySpec // when not nil, its only key stands where this says, whatever the words are
	keyStep  int      // there are keys from its first one to its last word, so many words apart; 0: its keys stand otherwise
	full     string   // "config|get"
	index    map[string]*Command
	Measures *metrics.Command
}

// Prefetch says what a command looks up besides its keys. It is looked up ahead, for several
// requests at once.
type Prefetch uint8

const (
	// PrefetchKeys is for a command that looks up its keys first.
	PrefetchKeys Prefetch = iota
	// PrefetchNothing is for a command that doesn't look its keys up.
	PrefetchNothing
	// PrefetchElement is for a command that looks up the element behind its first key.
	PrefetchElement
	// PrefetchLastElement is for a command that looks up the element that is its last word.
	PrefetchLastElement
	// PrefetchLeft is for a command that takes an element off the left end of a list.
	PrefetchLeft
	// PrefetchRight is for a command that takes an element off the right end of a list.
	PrefetchRight
)

// Flags tell how a command behaves.
type Flags uint64

// The flags of Redis's COMMAND reply, and below them those that only the executor knows.
const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate
	NoMandatoryKeys
	NoAsyncLoading
	NoMulti
	MovableKeys
	AllowBusy

	// Exclusive commands change whole databases: nothing else runs beside them.
	Exclusive
	// Worker commands may take long whatever the data: they never run on a reactor.
	Worker
	// Walk commands look at whole databases: they run on a worker and read a view.
	Walk
	// Follow commands read keys whose names they find in others: by themselves from a view, in a
	// transaction that writes under the locks of these keys (Invocation.LockFound).
	Follow
	// NoBatch commands have effects outside of the transaction: what came before them in the
	// batch is committed first, and what comes behind them joins another one.
	NoBatch
	// AtOnce commands have effects outside of the transaction, too, but may be executed again by
	// themselves: what their client has sent before is committed first. Inside of another request
	// they, and NoBatch commands, run when that can't be taken back any more: see
	// Invocation.keepRunning.
	AtOnce
	// Protected commands are for those whom enable-debug-command names.
	Protected
)

// COMMAND does not show MayReplicate.
var flagNames = []string{"write", "readonly", "denyoom", "admin", "pubsub", "noscript", "blocking",
	"loading", "stale", "skip_monitor", "skip_slowlog", "asking", "fast", "no_auth", "",
	"no_mandatory_keys", "no_async_loading", "no_multi", "movablekeys", "allow_busy"}

// Names lists the flags as COMMAND shows them.
func (f Flags) Names() []string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Categories are ACL categories.
type Categories uint32

// The ACL categories of Redis.
const (
	CategoryKeyspace Categories = 1 << iota
	CategoryRead
	CategoryWrite
	CategorySet
	CategorySortedSet
	CategoryList
	CategoryHash
	CategoryString
	CategoryBitmap
	CategoryHyperLogLog
	CategoryGeo
	CategoryStream
	CategoryPubSub
	CategoryAdmin
	CategoryFast
	CategorySlow
	CategoryBlocking
	CategoryDangerous
	CategoryConnection
	CategoryTransaction
	CategoryScripting
)

var CategoryNames = []string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string",
	"bitmap", "hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous",
	"connection", "transaction", "scripting"}

// Names lists the categories as COMMAND shows them, without the "@".
func (c Categories) Names() []string {
	var names []string
	for i, name := range CategoryNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// implied are the categories that follow from flags.
func (c *Command) implied() Categories {
	var categories Categories
	if c.Flags&Write != 0 {
		categories |= CategoryWrite
	}
	if c.Flags&ReadOnly != 0 && c.Categories&CategoryScripting == 0 {
		categories |= CategoryRead
	}
	if c.Flags&Admin != 0 {
		categories |= CategoryAdmin | CategoryDangerous
	}
	if c.Flags&PubSub != 0 {
		categories |= CategoryPubSub
	}
	if c.Flags&Blocking != 0 {
		categories |= CategoryBlocking
	}
	if c.Flags&Fast != 0 {
		return categories | CategoryFast
	}
	return categories | CategorySlow
}

// flagsWith returns the flags that the command has with certain words.
func (c *Command) flagsWith(args [][]byte) Flags {
	if c.Adapt == nil {
		return c.Flags
	}
	return c.Adapt(c.Flags, args)
}

// hasKeys reports whether there may be keys among the command's words.
func (c *Command) hasKeys() bool { return len(c.Keys) > 0 || c.GetKeys != nil }

// namesChannels reports whether what stands where keys do is names of shard channels.
func (c *Command) namesChannels() bool { return c.Flags&PubSub != 0 }

// Parent is the container of a subcommand; nil for other commands.
func (c *Command) Parent() *Command { return c.parent }

// FullName is the name with its container's, as in "config|get".
func (c *Command) FullName() string { return c.full }

// Table finds commands by name.
type Table struct {
	Vocabulary *access.Vocabulary // of the rules that say who may do what

	commands []*Command
	byName   map[string]*Command // by their own names
	offered  map[string]*Command // as clients call them: byName, unless commands have other names
	errors   map[error]string

	takenAway []*Command // by the configuration
}

// Family is a group of commands that stand in one file, and the replies to the errors of storage
// that they bring up.
type Family struct {
	Commands []Command
	Errors   map[error]string
}

// NewTable builds the table of some families, and refuses rows that contradict themselves.
func NewTable(families []Family) *Table {
	t := &Table{byName: map[string]*Command{}, errors: map[error]string{storage.ErrUnwanted: string(errUnwanted)}}
	for _, family := range families {
		for i := range family.Commands {
			t.add(&family.Commands[i])
		}
		for err, text := range family.Errors {
			t.errors[err] = text
		}
	}
	t.offered = t.byName
	t.number()
	return t
}

func (t *Table) add(c *Command) {
	if t.byName[c.Name] != nil {
		panic("command: " + c.Name + " is declared twice")
	}
	c.prepare(nil)
	t.byName[c.Name] = c
	if !c.Unlisted {
		t.commands = append(t.commands, c)
	}
}

func (c *Command) prepare(parent *Command) {
	c.parent, c.full = parent, c.Name
	if parent != nil {
		c.full = parent.Name + "|" + c.Name
	}
	c.check()
	c.Categories |= c.implied()
	c.chooseGates()
	c.outside = !c.hasKeys() && c.Flags&(Exclusive|Worker|Walk|Follow) == 0 && (c.Flags&AllowBusy != 0 || c.Categories&CategoryConnection != 0 && c.Flags&NoBatch == 0)
	if len(c.Keys) == 1 && c.Keys[0].isOneKey() && c.GetKeys == nil && c.Elsewhere == nil {
		c.oneKey = &c.Keys[0]
	}
	if len(c.Keys) > 0 && c.Keys[0].Keyword == "" && c.Keys[0].Last == -1 {
		c.keyStep = c.Keys[0].Step
	}
	if len(c.Subcommands) > 0 {
		c.index = map[string]*Command{}
	}
	for i := range c.Subcommands {
		sub := &c.Subcommands[i]
		if sub.Group == "" {
			sub.Group = c.Group
		}
		sub.prepare(c)
		c.index[sub.Name] = sub
	}
}

// check refuses a row that contradicts itself.
func (c *Command) check() {
	switch {
	case c.Name == "" || c.Name != strings.ToLower(c.Name):
		panic(fmt.Sprintf("command: %q is not a name", c.Name))
	case c.Run == nil && len(c.Subcommands) == 0, c.Arity == 0, c.Summary == "", c.Group == "", c.Since == "":
		panic("command: " + c.full + " is incomplete")
	case c.Flags&Write != 0 && c.Flags&ReadOnly != 0:
		panic("command: " + c.full + " both reads only and writes")
	case c.hasKeys() && !c.namesChannels() && c.Flags&(Write|ReadOnly|MayReplicate) == 0 && c.Categories&CategoryTransaction == 0:
		panic("command: " + c.full + " has keys but neither reads nor writes")
	}
}

// longestName is longer than any command's name, the digits of a hash that it was given included.
const longestName = 72

// find looks a name up in any case. It doesn't allocate.
func find(index map[string]*Command, name []byte) *Command {
	if len(name) >= longestName {
		return nil
	}
	var lower [longestName]byte
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	return index[string(lower[:len(name)])]
}

// Lookup returns the command that words name, a subcommand where there is one; nil if there is no
// such command. The second result is the container when it exists but the subcommand does not.
func (t *Table) Lookup(args [][]byte) (found, container *Command) {
	return subcommandOf(find(t.offered, args[0]), args)
}

// LookupEffect is Lookup for the words of an effect, which have the command's own name. Those of a
// Redis that has renamed commands have the other name.
func (t *Table) LookupEffect(args [][]byte) (found, container *Command) {
	if c := find(t.byName, args[0]); c != nil {
		return subcommandOf(c, args)
	}
	return t.Lookup(args)
}

func subcommandOf(c *Command, args [][]byte) (found, container *Command) {
	if c == nil || len(c.Subcommands) == 0 || len(args) == 1 {
		return c, nil
	}
	if sub := find(c.index, args[1]); sub != nil {
		return sub, nil
	}
	return nil, c
}

// Commands lists the commands that clients can ask for, in the order of the table.
func (t *Table) Commands() []*Command {
	if len(t.takenAway) == 0 {
		return t.commands
	}
	return slices.DeleteFunc(slices.Clone(t.commands), t.TakenAway)
}

// TakenAway reports whether the configuration has taken a command away from clients.
func (t *Table) TakenAway(c *Command) bool {
	return slices.Contains(t.takenAway, c) || c.parent != nil && slices.Contains(t.takenAway, c.parent)
}

// Accepts tells whether a command takes that many words.
func (c *Command) Accepts(words int) bool {
	return words == c.Arity || c.Arity < 0 && words >= -c.Arity
}

// Named finds a command by its full name, such as "config|get", in any case; nil if there is none.
func (t *Table) Named(name []byte) *Command {
	words := splitName(name)
	c := find(t.offered, words[0])
	if c == nil || c.Unlisted {
		return nil
	}
	if len(words) > 1 {
		return find(c.index, words[1])
	}
	return c
}

func splitName(name []byte) [][]byte {
	if i := slices.Index(name, '|'); i >= 0 {
		return [][]byte{name[:i], name[i+1:]}
	}
	return [][]byte{name}
}

// History is what Redis's documentation says of a command's past, and of whom it is for.
type History struct {
	System     bool   // is for tests and other servers
	Deprecated string // the version from which on it should not be used any more
	ReplacedBy string // what to use instead
	Changes    []Change
}

// Change is what a version of Redis changed about a command.
type Change struct{ Version, Text string }
