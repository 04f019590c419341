package command

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Argument is a word, or several, that a command takes, as COMMAND DOCS tells of it.
type Argument struct {
	Name  string
	Type  ArgumentType
	Token string // the word that stands before it; of a PureToken, the word itself
	Key   int    // of a key: the specification that finds it, from 1 on; 0 is none

	Optional, Multiple bool
	MultipleToken      bool // the token is repeated as well

	Arguments []Argument // of a OneOf and a Block
}

// ArgumentType is what an argument is, in the words of COMMAND DOCS.
type ArgumentType string

// The types of Redis's documentation.
const (
	KeyArgument     ArgumentType = "key"
	StringArgument  ArgumentType = "string"
	IntegerArgument ArgumentType = "integer"
	DoubleArgument  ArgumentType = "double"
	PatternArgument ArgumentType = "pattern"
	UnixTime        ArgumentType = "unix-time"
	PureToken       ArgumentType = "pure-token"
	OneOf           ArgumentType = "oneof"
	Block           ArgumentType = "block"
)

// Arguments reads the command's Syntax. It has this grammar, where words in capitals, and words
// that begin with no letter, stand for themselves:
//
//	alternatives  sequence | sequence …      one of them
//	sequence      item item …
//	item          word, <alternatives>, or [alternatives], which may be left out
//	repetition    [sequence ...] behind the same sequence: it may come again
//	word          name, or name:type where the name doesn't tell the type
func Arguments(c *Command) ([]Argument, error) {
	p := syntaxParser{words: splitSyntax(c.Syntax)}
	arguments, err := p.sequence()
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("%q is not expected", p.words[0])
	}
	if err != nil {
		return nil, fmt.Errorf("command: syntax of %s: %w", c.FullName(), err)
	}
	f := keyFinder{command: c, position: 1, fixed: true}
	if c.Parent() != nil {
		f.position = 2
	}
	f.find(arguments)
	return arguments, nil
}

// splitSyntax takes a text apart: brackets are words of their own.
func splitSyntax(text string) []string {
	for _, bracket := range []string{"[", "]", "<", ">"} {
		text = strings.ReplaceAll(text, bracket, " "+bracket+" ")
	}
	return strings.Fields(text)
}

type syntaxParser struct{ words []string }

func (p *syntaxParser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *syntaxParser) next() string {
	word := p.peek()
	p.words = p.words[1:]
	return word
}

func (p *syntaxParser) expect(word string) error {
	if p.peek() != word {
		return fmt.Errorf("%q is expected, not %q", word, p.peek())
	}
	p.next()
	return nil
}

// alternatives reads what stands between brackets, as one argument.
func (p *syntaxParser) alternatives() (Argument, error) {
	var choices []Argument
	var again *Argument
	for {
		sequence, err := p.sequence()
		if err != nil {
			return Argument{}, err
		}
		if n := len(sequence); n > 1 && sequence[n-1].Type == repetition {
			again = &sequence[n-1].Arguments[0]
			sequence = sequence[:n-1]
		}
		if len(sequence) == 0 {
			return Argument{}, fmt.Errorf("nothing stands before %q", p.peek())
		}
		choices = append(choices, enclose(sequence))
		if p.peek() != "|" {
			break
		}
		p.next()
	}
	one := choices[0]
	if len(choices) > 1 {
		one = Argument{Name: joinNames(choices), Type: OneOf, Arguments: choices}
	}
	if again == nil {
		return one, nil
	}
	if !reflect.DeepEqual(one, *again) {
		return one, fmt.Errorf("%q is repeated and does not stand before", again.Name)
	}
	one.Multiple = true
	return one, nil
}

// repetition is the type of what says that the alternatives around it may come again.
const repetition ArgumentType = "..."

// enclose makes one argument of several.
func enclose(sequence []Argument) Argument {
	if len(sequence) == 1 {
		return sequence[0]
	}
	return Argument{Name: joinNames(sequence), Type: Block, Arguments: sequence}
}

func joinNames(arguments []Argument) string {
	names := make([]string, len(arguments))
	for i := range arguments {
		names[i] = arguments[i].Name
	}
	return strings.Join(names, "_")
}

// sequence reads items up to a bracket that closes, a bar or the end.
func (p *syntaxParser) sequence() (items []Argument, err error) {
	for len(p.words) > 0 && p.peek() != "]" && p.peek() != ">" && p.peek() != "|" {
		switch word := p.next(); {
		case word == "[":
			items, err = p.optional(items)
		case word == "<":
			var one Argument
			one, err = p.enclosed(">")
			items = append(items, one)
		case word == "...":
			err = fmt.Errorf("%q stands outside of a repetition", word)
		case isToken(word):
			var one Argument
			one, err = p.token(word)
			items = append(items, one)
		default:
			items = append(items, named(word))
		}
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (p *syntaxParser) enclosed(closing string) (Argument, error) {
	one, err := p.alternatives()
	if err == nil {
		err = p.expect(closing)
	}
	return one, err
}

// optional reads what stands in square brackets, which may be a repetition of what comes before it,
// or of the alternatives around it.
func (p *syntaxParser) optional(before []Argument) ([]Argument, error) {
	end := p.closing()
	if end == 0 || p.words[end-1] != "..." {
		one, err := p.enclosed("]")
		one.Optional = true
		return append(before, one), err
	}
	inner := syntaxParser{words: slices.Clone(p.words[:end-1])}
	p.words = p.words[end+1:]
	if !inner.branches() {
		again, err := inner.sequence()
		if err != nil {
			return nil, err
		}
		return repeat(before, again)
	}
	one, err := inner.alternatives()
	return append(before, Argument{Type: repetition, Arguments: []Argument{one}}), err
}

// branches tells whether there is a bar outside of brackets.
func (p *syntaxParser) branches() bool {
	depth := 0
	for _, word := range p.words {
		switch word {
		case "[", "<":
			depth++
		case "]", ">":
			depth--
		case "|":
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

// closing finds the bracket that closes the one that was read last; 0 is none.
func (p *syntaxParser) closing() int {
	depth := 1
	for i, word := range p.words {
		switch word {
		case "[":
			depth++
		case "]":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

// repeat marks the last of the arguments as one that may come several times.
func repeat(before, again []Argument) ([]Argument, error) {
	if len(again) > len(before) || !reflect.DeepEqual(before[len(before)-len(again):], again) {
		return nil, fmt.Errorf("%q is repeated and does not stand before", joinNames(again))
	}
	first := before[:len(before)-len(again)]
	whole := enclose(slices.Clone(before[len(before)-len(again):]))
	whole.Multiple = true
	whole.MultipleToken = whole.Token != ""
	return append(first, whole), nil
}

// token reads a word that stands for itself, and the arguments that belong to it: those up to the
// end of what surrounds them, or to something that stands for itself or may be left out.
func (p *syntaxParser) token(word string) (Argument, error) {
	var own []Argument
	for len(p.words) > 0 && !isToken(p.peek()) && !slices.Contains([]string{"]", ">", "|"}, p.peek()) {
		if p.peek() == "[" && !p.repeats() {
			break
		}
		if p.peek() == "<" && len(own) > 0 {
			break
		}
		item := syntaxParser{words: p.words}
		read, err := item.one(own)
		if err != nil {
			return Argument{}, err
		}
		own, p.words = read, item.words
	}
	if len(own) == 0 {
		return Argument{Name: strings.ToLower(word), Type: PureToken, Token: word}, nil
	}
	whole := enclose(own)
	if whole.Token != "" || whole.Type == PureToken {
		whole = Argument{Name: whole.Name, Type: Block, Arguments: own}
	}
	whole.Token = word
	return whole, nil
}

// one reads one item behind others.
func (p *syntaxParser) one(before []Argument) ([]Argument, error) {
	switch word := p.next(); word {
	case "[":
		return p.optional(before)
	case "<":
		one, err := p.enclosed(">")
		return append(before, one), err
	default:
		return append(before, named(word)), nil
	}
}

// repeats tells whether the bracket that comes next holds a repetition without a token.
func (p *syntaxParser) repeats() bool {
	inner := syntaxParser{words: p.words[1:]}
	end := inner.closing()
	return end > 0 && inner.words[end-1] == "..." && !isToken(inner.words[0])
}

func isToken(word string) bool {
	if slices.Contains([]string{"[", "]", "<", ">", "|", "..."}, word) {
		return false
	}
	return word == strings.ToUpper(word)
}

// argumentTypes are the types of arguments whose names tell. All others are strings.
var argumentTypes = map[ArgumentType][]string{
	KeyArgument: {"key", "key1", "key2", "source", "destination", "destkey", "sourcekey", "newkey", "dst", "src"},
	IntegerArgument: {"bit", "bits", "client-id", "count", "cursor", "db", "decrement", "destination-db", "end", "frequency",
		"increment", "index", "index1", "index2", "len", "limit", "maxage", "milliseconds", "min-match-len", "ms", "num-matches",
		"numkeys", "numreplicas", "offset", "port", "protover", "rank", "seconds", "start", "stop", "timeout", "ttl", "version", "weight"},
	DoubleArgument:  {"height", "latitude", "longitude", "max", "min", "radius", "score", "width"},
	PatternArgument: {"pattern"},
	UnixTime:        {"unix-time-seconds", "unix-time-milliseconds"},
}

// named makes an argument of a word.
func named(word string) Argument {
	if at := strings.LastIndexByte(word, ':'); at > 0 {
		if t := ArgumentType(word[at+1:]); t == StringArgument || argumentTypes[t] != nil {
			return Argument{Name: word[:at], Type: t}
		}
	}
	return Argument{Name: word, Type: typeOf(word)}
}

func typeOf(name string) ArgumentType {
	for t, names := range argumentTypes {
		if slices.Contains(names, name) {
			return t
		}
	}
	return StringArgument
}

// keyFinder tells which specification finds each of the keys.
type keyFinder struct {
	command  *Command
	position int  // of the next argument among the words
	fixed    bool // no argument before it may be left out, come again, or take more or fewer words
	unknown  int  // the last specification of an unknown place that was given out
}

func (f *keyFinder) find(arguments []Argument) {
	for i := range arguments {
		a := &arguments[i]
		start, fixed := f.position, f.fixed
		if a.Token != "" && a.Type != PureToken {
			f.position++
		}
		switch a.Type {
		case KeyArgument, PatternArgument:
			if a.Key = f.specification(a); a.Key == 0 && a.Type == KeyArgument {
				a.Type = StringArgument
			}
		case Block:
			f.find(a.Arguments)
		case OneOf:
			for j := range a.Arguments {
				f.position, f.fixed = start, fixed
				f.find(a.Arguments[j : j+1])
			}
		}
		width, constant := a.width()
		f.position, f.fixed = start+width, fixed && constant
	}
}

// width is how many words an argument takes at least, and whether it never takes more or fewer.
func (a *Argument) width() (words int, constant bool) {
	constant = true
	switch a.Type {
	case Block:
		for i := range a.Arguments {
			n, same := a.Arguments[i].width()
			words += n
			constant = constant && same
		}
	case OneOf:
		words, constant = a.Arguments[0].width()
		for i := range a.Arguments {
			n, same := a.Arguments[i].width()
			constant = constant && same && n == words
			words = min(words, n)
		}
	default:
		words = 1
	}
	if a.Token != "" && a.Type != PureToken {
		words++
	}
	if a.Optional {
		return 0, false
	}
	return words, constant && !a.Multiple
}

// specification is the number of the specification that finds a key, from 1 on.
func (f *keyFinder) specification(a *Argument) int {
	for i := range f.command.Keys {
		if k := &f.command.Keys[i]; isRange(k) || k.Counted {
			if a.Type == KeyArgument && a.Token == "" && f.covers(k) {
				return i + 1
			}
		} else if a.Token != "" && f.behindToken(k, a) && i+1 > f.unknown {
			if a.Type == KeyArgument {
				f.unknown = i + 1 // each key has a specification of its own, patterns share one
			}
			return i + 1
		}
	}
	return 0
}

func (f *keyFinder) behindToken(k *KeySpec, a *Argument) bool {
	if k.Keyword != "" {
		return strings.EqualFold(k.Keyword, a.Token)
	}
	return k.Unknown && strings.Contains(k.Notes, a.Token)
}

// covers tells whether a specification finds a key at the place that was reached, or at a later one
// if the place isn't fixed.
func (f *keyFinder) covers(k *KeySpec) bool {
	first := k.Index
	if k.Counted {
		first += k.First
	}
	last := first + k.Last
	if k.Last < 0 || k.Counted || !f.fixed {
		last = max(first, f.position)
	}
	return first <= f.position && f.position <= last
}
