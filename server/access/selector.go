package access

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"kedis/internal/glob"
)

// Permission is what may be done with a key's value. A command that does neither, as EXISTS, needs
// any of the two.
type Permission uint8

// The permissions.
const (
	Read Permission = 1 << iota
	Write
)

// selector is a set of rules. A user may do what one of his selectors allows as a whole.
type selector struct {
	allCommands  bool // each command and its subcommands
	allKeys      bool
	allChannels  bool
	allDatabases bool

	commands       bits             // by their numbers
	firstArguments map[int][]string // words that are allowed behind the name of a command that isn't
	keys           []keyPattern
	channels       []channelPattern
	databases      []int // in order

	fromAll bool     // commands is +@all and said, not -@all and said
	said    []string // rules on commands and categories, in their order, but for those that later ones replaced
}

type keyPattern struct {
	text     string
	compiled *glob.Pattern
	allows   Permission
}

type channelPattern struct {
	text     string
	compiled *glob.Pattern
}

// bits are a set of commands.
type bits []uint64

func (b bits) has(number int) bool { return b[number>>6]&(1<<(number&63)) != 0 }

func (b bits) set(number int, on bool) {
	if on {
		b[number>>6] |= 1 << (number & 63)
	} else {
		b[number>>6] &^= 1 << (number & 63)
	}
}

func (b bits) fill(word uint64) {
	for i := range b {
		b[i] = word
	}
}

func (s *selector) clone() selector {
	copied := *s
	copied.commands, copied.said = slices.Clone(s.commands), slices.Clone(s.said)
	copied.keys, copied.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	copied.firstArguments = maps.Clone(s.firstArguments)
	return copied
}

// unrestricted reports whether the selector allows everything.
func (s *selector) unrestricted() bool {
	return s.allCommands && s.allKeys && s.allChannels && s.allDatabases
}

// applyTo applies a rule to a selector.
func (a *author) applyTo(s *selector, rule string) error {
	if flag := selectorFlags[strings.ToLower(rule)]; flag != nil {
		flag(s)
		return nil
	}
	switch {
	case rule == "": // in quotes
		return errSyntax
	case rule[0] == '~', rule[0] == '%':
		return s.addKeys(rule)
	case rule[0] == '&':
		return s.addChannels(rule[1:])
	case rule[0] == '+' || rule[0] == '-':
		return a.addCommands(s, rule)
	case len(rule) >= len("db=") && strings.EqualFold(rule[:len("db=")], "db="):
		return a.setDatabases(s, rule[len("db="):])
	}
	return errSyntax
}

// selectorFlags are the rules that are a word.
var selectorFlags = map[string]func(*selector){
	"allkeys":       (*selector).allowKeys,
	"~*":            (*selector).allowKeys,
	"resetkeys":     func(s *selector) { s.allKeys, s.keys = false, nil },
	"allchannels":   (*selector).allowChannels,
	"&*":            (*selector).allowChannels,
	"resetchannels": func(s *selector) { s.allChannels, s.channels = false, nil },
	"allcommands":   func(s *selector) { s.setAllCommands(true) },
	"+@all":         func(s *selector) { s.setAllCommands(true) },
	"nocommands":    func(s *selector) { s.setAllCommands(false) },
	"-@all":         func(s *selector) { s.setAllCommands(false) },
	"alldbs":        func(s *selector) { s.allDatabases, s.databases = true, nil },
	"resetdbs":      func(s *selector) { s.allDatabases, s.databases = false, nil },
}

func (s *selector) allowKeys() { s.allKeys, s.keys = true, nil }

func (s *selector) allowChannels() { s.allChannels, s.channels = true, nil }

func (s *selector) setAllCommands(allowed bool) {
	s.allCommands, s.fromAll, s.said, s.firstArguments = allowed, allowed, nil, nil
	s.commands.fill(0)
	if allowed {
		s.commands.fill(^uint64(0))
	}
}

// addKeys adds a pattern of keys: ~pattern, or %R~pattern, %W~pattern, %RW~pattern.
func (s *selector) addKeys(rule string) error {
	if s.allKeys {
		return errAllKeys
	}
	allows, text := Read|Write, rule[1:]
	if rule[0] == '%' {
		var ok bool
		if allows, text, ok = readPermissions(text); !ok {
			return errSyntax
		}
	}
	if hasSpaces(text) {
		return errSyntax
	}
	same := func(k keyPattern) bool { return k.text == text }
	if i := slices.IndexFunc(s.keys, same); i >= 0 {
		s.keys[i].allows |= allows
	} else {
		s.keys = append(s.keys, keyPattern{text, glob.Compile([]byte(text)), allows})
	}
	return nil
}

// readPermissions reads what stands between % and ~.
func readPermissions(text string) (allows Permission, rest string, ok bool) {
	letters := map[byte]Permission{'r': Read, 'R': Read, 'w': Write, 'W': Write}
	for text != "" && text[0] != '~' {
		permission := letters[text[0]]
		if permission == 0 || allows&permission != 0 {
			return 0, "", false
		}
		allows, text = allows|permission, text[1:]
	}
	return allows, strings.TrimPrefix(text, "~"), allows != 0
}

func (s *selector) addChannels(text string) error {
	if s.allChannels {
		return errAllChannels
	}
	if hasSpaces(text) {
		return errSyntax
	}
	if !slices.ContainsFunc(s.channels, func(c channelPattern) bool { return c.text == text }) {
		s.channels = append(s.channels, channelPattern{text, glob.Compile([]byte(text))})
	}
	return nil
}

// hasSpaces reports whether a text has what stands between rules, or a zero byte.
func hasSpaces(text string) bool { return strings.ContainsAny(text, " \t\n\v\f\r\x00") }

// setDatabases reads numbers of databases.
func (a *author) setDatabases(s *selector, text string) error {
	var databases []int
	for word := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(word)
		if err != nil || number < 0 || number >= a.databases || strconv.Itoa(number) != word {
			return errDatabases
		}
		databases = append(databases, number)
	}
	slices.Sort(databases)
	s.allDatabases, s.databases = false, slices.Compact(databases)
	return nil
}

// addCommands applies a rule that begins with + or -.
func (a *author) addCommands(s *selector, rule string) error {
	allowed, name := rule[0] == '+', rule[1:]
	if category, found := strings.CutPrefix(name, "@"); found {
		bit, ok := a.vocabulary.category(category)
		if !ok {
			return errUnknown
		}
		for number, c := range a.vocabulary.commands {
			if c.Categories&bit != 0 {
				a.setCommand(s, number, allowed)
			}
		}
		s.say(rule)
		return nil
	}
	if bar := strings.LastIndexByte(name, '|'); bar >= 0 && allowed {
		return a.allowPart(s, name, name[:bar], name[bar+1:])
	}
	number, ok := a.vocabulary.command(name)
	if !ok {
		return errUnknown
	}
	a.setCommand(s, number, allowed)
	s.say(rule)
	return nil
}

// allowPart allows a subcommand, or a command with a certain word behind its name.
func (a *author) allowPart(s *selector, name, container, part string) error {
	number, ok := a.vocabulary.command(container)
	switch {
	case !ok:
		return errUnknown
	case strings.Contains(container, "|"):
		return errFirstArgument
	case part == "":
		return errSyntax
	}
	if len(a.vocabulary.children[number]) > 0 {
		sub, ok := a.vocabulary.command(name)
		if !ok {
			return errUnknown
		}
		a.setCommand(s, sub, true)
	} else {
		s.allowFirstArgument(number, part)
	}
	s.say("+" + name)
	return nil
}

func (s *selector) allowFirstArgument(number int, word string) {
	already := s.firstArguments[number]
	if slices.ContainsFunc(already, func(other string) bool { return strings.EqualFold(other, word) }) {
		return
	}
	if s.firstArguments == nil {
		s.firstArguments = map[int][]string{}
	}
	s.firstArguments[number] = append(slices.Clip(already), word)
}

// setCommand allows or denies a command, and its subcommands with it.
func (a *author) setCommand(s *selector, number int, allowed bool) {
	s.commands.set(number, allowed)
	for _, sub := range a.vocabulary.children[number] {
		s.commands.set(sub, allowed)
	}
	s.allCommands = s.allCommands && allowed
	delete(s.firstArguments, number)
}

// say notes a rule on commands, instead of one on the same command or its parts, so that the order
// of rules is kept. It is what Redis 7.2 does; 7.0 makes rules up from what is allowed.
func (s *selector) say(rule string) {
	rule = strings.ToLower(rule)
	s.said = slices.DeleteFunc(s.said, func(other string) bool {
		rest, same := strings.CutPrefix(other[1:], rule[1:])
		return same && (rest == "" || rest[0] == '|')
	})
	s.said = append(s.said, rule)
}
