package command

import (
	"math"
	"slices"
	"strings"

	"kedis/internal/glob"
	"kedis/internal/resp"
	"kedis/server/execute"
)

func commandCommand() Command {
	anyTime := Loading | Stale
	unordered := []string{"nondeterministic_output_order"}
	return Command{Name: "command", Arity: -1, Flags: anyTime, Categories: CategoryConnection, Tips: unordered, Run: cmdCommand,
		Group: "server", Since: "2.8.13", Complexity: "O(N) where N is the total number of Redis commands",
		Summary: "Tells of all commands what a client has to know.",
		Subcommands: []Command{
			{Name: "count", Arity: 2, Flags: anyTime, Categories: CategoryConnection, Run: cmdCommandCount,
				Since: "2.8.13", Complexity: "O(1)", Summary: "Counts the commands."},
			{Name: "info", Arity: -2, Flags: anyTime, Categories: CategoryConnection, Tips: unordered, Run: cmdCommandInfo,
				Since: "2.8.13", Complexity: "O(N) where N is the number of commands to look up",
				Syntax: "[command-name [command-name ...]]", Summary: "Tells of some commands, or all, what a client has to know."},
			{Name: "docs", Arity: -2, Flags: anyTime, Categories: CategoryConnection, Tips: unordered, Run: cmdCommandDocs,
				Since: "7.0.0", Complexity: "O(N) where N is the number of commands to look up",
				Syntax: "[command-name [command-name ...]]", Summary: "Describes some commands, or all, for people."},
			{Name: "list", Arity: -2, Flags: anyTime, Categories: CategoryConnection, Tips: unordered, Run: cmdCommandList,
				Since: "7.0.0", Complexity: "O(N) where N is the total number of Redis commands",
				Syntax:  "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
				Summary: "Lists the names of all commands, or of those of a category or with a name of some form."},
			{Name: "getkeys", Arity: -3, Flags: anyTime, Categories: CategoryConnection, Run: cmdCommandGetKeys,
				Since: "2.8.13", Complexity: "O(N) where N is the number of arguments to the command",
				Syntax: "command [arg [arg ...]]", Summary: "Finds the keys among the words of a command."},
			{Name: "getkeysandflags", Arity: -3, Flags: anyTime, Categories: CategoryConnection, Run: cmdCommandGetKeysAndFlags,
				Since: "7.0.0", Complexity: "O(N) where N is the number of arguments to the command",
				Syntax:  "command [arg [arg ...]]",
				Summary: "Finds the keys among the words of a command, and tells what it does with them."},
			execute.HelpRow("command", "5.0.0", anyTime, CategoryConnection, commandHelp...),
		}}
}

var commandHelp = []string{
	"(no subcommand)",
	"    Tell of all commands what a client has to know.",
	"COUNT",
	"    Count the commands.",
	"LIST",
	"    List the names of all commands.",
	"INFO [<command-name> ...]",
	"    Tell of some commands, or all, what a client has to know.",
	"DOCS [<command-name> ...]",
	"    Describe some commands, or all.",
	"GETKEYS <full-command>",
	"    Find the keys among the words of a command.",
	"GETKEYSANDFLAGS <full-command>",
	"    Find the keys, and what the command does with them.",
}

func cmdCommand(c *Invocation) error {
	replyCommands(c, c.Engine.Table.Commands())
	return nil
}

func replyCommands(c *Invocation, commands []*Command) {
	c.Reply.Array(len(commands))
	for _, command := range commands {
		writeInfo(command, c.Reply)
	}
}

func cmdCommandCount(c *Invocation) error {
	c.Reply.Integer(int64(len(c.Engine.Table.Commands())))
	return nil
}

func cmdCommandInfo(c *Invocation) error {
	if len(c.Args) == 2 {
		replyCommands(c, c.Engine.Table.Commands())
		return nil
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		if command := c.Engine.Table.Named(name); command != nil {
			writeInfo(command, c.Reply)
		} else {
			c.Reply.Null()
		}
	}
	return nil
}

// writeInfo writes what COMMAND INFO tells of a command.
func writeInfo(c *Command, w *resp.Writer) {
	first, last, step := legacyKeys(c)
	w.Array(10)
	w.BulkString(c.FullName())
	w.Integer(int64(c.Arity))
	writeNames(w, "", c.Flags.Names())
	w.Integer(int64(first))
	w.Integer(int64(last))
	w.Integer(int64(step))
	writeNames(w, "@", c.Categories.Names())
	w.Set(len(c.Tips))
	for _, tip := range c.Tips {
		w.BulkString(tip)
	}
	w.Set(len(c.Keys))
	for i := range c.Keys {
		writeKeySpec(&c.Keys[i], w)
	}
	if len(c.Subcommands) == 0 {
		w.Set(0) // as Redis: some are an array, none a set
		return
	}
	w.Array(len(c.Subcommands))
	for i := range c.Subcommands {
		writeInfo(&c.Subcommands[i], w)
	}
}

// writeNames writes names as a set of simple strings.
func writeNames(w *resp.Writer, prefix string, names []string) {
	w.Set(len(names))
	for _, name := range names {
		w.SimpleString(prefix + name)
	}
}

// legacyKeys are the keys as clients older than key specifications know them: the first and the
// last, which counts from the end if it is negative, and the step between two. All are 0 if that
// can't be said.
func legacyKeys(c *Command) (first, last, step int) {
	if len(c.Keys) == 1 {
		if k := &c.Keys[0]; isRange(k) {
			return k.Index, lastWord(k), k.Step
		}
		return 0, 0, 0
	}
	first = math.MaxInt
	for i := range c.Keys {
		k := &c.Keys[i]
		if !isRange(k) || k.Step != 1 || last != 0 && last != k.Index-1 {
			continue
		}
		first = min(first, k.Index)
		if last = lastWord(k); last < 0 {
			break // up to the end: no other is farther
		}
	}
	if first == math.MaxInt {
		return 0, 0, 0
	}
	return first, last, 1
}

func isRange(k *KeySpec) bool {
	return k.Keyword == "" && !k.Unknown && !k.Counted && !k.FindKeysUnspecified
}

// lastWord is the last key's word, from the end if it is negative.
func lastWord(k *KeySpec) int {
	if k.Last < 0 {
		return k.Last
	}
	return k.Index + k.Last
}

// writeKeySpec writes a key specification.
func writeKeySpec(k *KeySpec, w *resp.Writer) {
	fields := 3
	if k.Notes != "" {
		fields++
	}
	w.Map(fields)
	if k.Notes != "" {
		w.BulkString("notes")
		w.BulkString(k.Notes)
	}
	w.BulkString("flags")
	writeNames(w, "", k.Flags.Names())
	w.BulkString("begin_search")
	switch {
	case k.Unknown:
		writeSpec(w, "unknown")
	case k.Keyword != "":
		writeSpec(w, "keyword", specField{"keyword", k.Keyword}, specField{"startfrom", k.From})
	default:
		writeSpec(w, "index", specField{"index", k.Index})
	}
	w.BulkString("find_keys")
	switch {
	case k.Unknown || k.FindKeysUnspecified:
		writeSpec(w, "unknown")
	case k.Counted:
		writeSpec(w, "keynum", specField{"keynumidx", k.Count}, specField{"firstkey", k.First}, specField{"keystep", k.Step})
	default:
		writeSpec(w, "range", specField{"lastkey", k.Last}, specField{"keystep", k.Step}, specField{"limit", k.Limit})
	}
}

// specField is a field of a specification: a string or an int.
type specField struct {
	name  string
	value any
}

func writeSpec(w *resp.Writer, kind string, fields ...specField) {
	w.Map(2)
	w.BulkString("type")
	w.BulkString(kind)
	w.BulkString("spec")
	w.Map(len(fields))
	for _, field := range fields {
		w.BulkString(field.name)
		switch value := field.value.(type) {
		case string:
			w.BulkString(value)
		case int:
			w.Integer(int64(value))
		}
	}
}

func cmdCommandDocs(c *Invocation) error {
	commands := c.Engine.Table.Commands()
	if len(c.Args) > 2 {
		commands = nil
		for _, name := range c.Args[2:] {
			if command := c.Engine.Table.Named(name); command != nil {
				commands = append(commands, command)
			}
		}
	}
	c.Reply.Map(len(commands))
	for _, command := range commands {
		if err := writeDocs(command, c.Reply); err != nil {
			return err
		}
	}
	return nil
}

// writeDocs writes a command's name and what COMMAND DOCS tells of it.
func writeDocs(c *Command, w *resp.Writer) error {
	arguments, err := Arguments(c)
	if err != nil {
		return err
	}
	w.BulkString(c.FullName())
	fields := 0
	handle := w.BeginMap()
	text := func(name, value string) {
		if value != "" {
			w.BulkString(name)
			w.BulkString(value)
			fields++
		}
	}
	text("summary", c.Summary)
	text("since", c.Since)
	text("group", c.Group)
	text("complexity", c.Complexity)
	fields += writeHistory(&c.History, w)
	if len(arguments) > 0 {
		w.BulkString("arguments")
		writeArguments(w, arguments)
		fields++
	}
	if len(c.Subcommands) > 0 {
		w.BulkString("subcommands")
		w.Map(len(c.Subcommands))
		for i := range c.Subcommands {
			if err := writeDocs(&c.Subcommands[i], w); err != nil {
				return err
			}
		}
		fields++
	}
	w.EndMap(handle, fields)
	return nil
}

func writeArguments(w *resp.Writer, arguments []Argument) {
	w.Array(len(arguments))
	for i := range arguments {
		arguments[i].write(w)
	}
}

func (a *Argument) write(w *resp.Writer) {
	fields := 0
	handle := w.BeginMap()
	text := func(name, value string) {
		w.BulkString(name)
		w.BulkString(value)
		fields++
	}
	text("name", a.Name)
	text("type", string(a.Type))
	if a.Type != OneOf && a.Type != Block {
		text("display_text", a.Name)
	}
	if a.Key > 0 {
		w.BulkString("key_spec_index")
		w.Integer(int64(a.Key - 1))
		fields++
	}
	if a.Token != "" {
		text("token", a.Token)
	}
	if flags := a.flags(); len(flags) > 0 {
		w.BulkString("flags")
		writeNames(w, "", flags)
		fields++
	}
	if len(a.Arguments) > 0 {
		w.BulkString("arguments")
		writeArguments(w, a.Arguments)
		fields++
	}
	w.EndMap(handle, fields)
}

func (a *Argument) flags() []string {
	var flags []string
	for _, flag := range []struct {
		name string
		set  bool
	}{{"optional", a.Optional}, {"multiple", a.Multiple}, {"multiple_token", a.MultipleToken}} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	return flags
}

func cmdCommandList(c *Invocation) error {
	wanted := func(*Command) bool { return true }
	if len(c.Args) > 2 {
		if len(c.Args) != 5 || !equalFold(c.Args[2], "filterby") {
			return ErrSyntax
		}
		if wanted = commandFilter(strings.ToLower(string(c.Args[3])), c.Args[4]); wanted == nil {
			return ErrSyntax
		}
	}
	handle, count := c.Reply.BeginArray(), 0
	c.Engine.Table.Each(func(command *Command) {
		if wanted(command) && !c.Engine.Table.TakenAway(command) {
			c.Reply.BulkString(command.FullName())
			count++
		}
	})
	c.Reply.EndArray(handle, count)
	return nil
}

// commandFilter says which commands COMMAND LIST lists; nil for what can't be filtered by.
func commandFilter(by string, value []byte) func(*Command) bool {
	switch by {
	case "module":
		return func(*Command) bool { return false }
	case "aclcat":
		category := slices.Index(execute.CategoryNames, strings.ToLower(string(value)))
		return func(c *Command) bool { return category >= 0 && c.Categories&(1<<category) != 0 }
	case "pattern":
		pattern := glob.CompileFold(value)
		return func(c *Command) bool { return pattern.Match([]byte(c.FullName())) }
	}
	return nil
}

func cmdCommandGetKeys(c *Invocation) error {
	keys, err := keysOfWords(c)
	if err != nil {
		return err
	}
	c.Reply.Array(len(keys))
	for _, key := range keys {
		c.Reply.Bulk(c.Args[2+key.Index])
	}
	return nil
}

func cmdCommandGetKeysAndFlags(c *Invocation) error {
	keys, err := keysOfWords(c)
	if err != nil {
		return err
	}
	c.Reply.Array(len(keys))
	for _, key := range keys {
		c.Reply.Array(2)
		c.Reply.Bulk(c.Args[2+key.Index])
		writeNames(c.Reply, "", keyFlags(c.Engine.Table, key.Flags, c.Args[2:]).Names())
	}
	return nil
}

// keyFlags are the flags of a key of the command that words are, where they depend on the words.
func keyFlags(t *Table, flags KeyFlags, words [][]byte) KeyFlags {
	command, _ := t.Lookup(words)
	if flags&VariableFlags == 0 || command.KeyFlags == nil {
		return flags
	}
	return command.KeyFlags(words)
}

// keysOfWords finds the keys of the command that the words behind the first two are.
func keysOfWords(c *Invocation) ([]KeyReference, error) {
	words := c.Args[2:]
	command, _ := c.Engine.Table.Lookup(words)
	switch {
	case command == nil || command.Unlisted:
		return nil, Error("ERR Invalid command specified")
	case !slices.ContainsFunc(command.Keys, func(k KeySpec) bool { return k.Flags&NotKey == 0 }) && command.GetKeys == nil:
		return nil, Error("ERR The command has no key arguments")
	case !command.Accepts(len(words)):
		return nil, Error("ERR Invalid number of arguments specified for command")
	}
	keys, err := command.KeysOf(nil, words)
	if command.Flags&NoMandatoryKeys == 0 && (err != nil || len(keys) == 0) {
		return nil, execute.ErrInvalidKeys
	}
	return keys, nil // none, where words that are wrong name none that there needn't be
}
