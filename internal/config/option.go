package config

import "strings"

// when says how an option changes.
type when int

const (
	atStart when = iota // immutable: CONFIG SET refuses it
	live                // whoever uses the value reads it at each use
	byHook              // a hook puts it into effect; immutable as long as there is none
)

// option is a row of the table.
type option struct {
	setting
	name     string
	alias    string // Redis's older name, or empty
	initial  string // the default, as a file would have it
	when     when
	doc      string // a few sentences, the first of which can stand alone
	hooks    []func() error
	goes     bool // without a value Rewrite writes no line
	hidden   bool // is not to be shown in logs
	password bool // may be read from a file of its own
	guarded  bool // CONFIG SET is for clients whom enable-protected-configs names
	inert    bool // has no effect
	refers   bool // CONFIG SET runs the hooks for the same value, too
	gathers  bool // lines of a file add to each other
	given    bool // in the file or as a flag
	flagged  bool // as a flag, which goes before the file

	// Lines of the kind of which there may be many, of users and of renamed commands, are given
	// word by word. They are nothing that CONFIG GET and SET know.
	addLine  func(place string, words []string) error
	addFlag  func(text string) error
	fileOnly bool

	configured *configured // what stood there before Fit; nil: it is in force

	file     *option // of a password: names the file that it may stand in
	supplied string  // the password that stood there, or in the environment

	initialShown string // the default as CONFIG GET answers it
}

// configured is a value that isn't in force, since another one fits the process.
type configured struct {
	shown string   // as CONFIG GET would answer it
	lines []string // as a file has it
}

// group is a part of the table, with a heading.
type group struct {
	title   string
	options []*option
}

// row makes an option of a field of Config.
func row[T any](name string, v *Value[T], k kind[T], initial string, when when, doc string) *option {
	v.kind = k
	return &option{setting: v, name: name, initial: initial, when: when, doc: strings.Join(strings.Fields(doc), " ")}
}

// fixed makes an option that has one value only, and no field: for tools that ask.
func fixed(name, value, why, doc string) *option {
	return row(name, new(String), only(value, why), value, live, doc)
}

// fixedAtStart is fixed for an option that CONFIG SET refuses in Redis.
func fixedAtStart(name, value, why, doc string) *option {
	o := fixed(name, value, why, doc)
	o.when = atStart
	return o
}

// or gives the option its alias.
func (o *option) or(alias string) *option {
	o.alias = alias
	return o
}

// unsaid has Rewrite remove the option's line when its value is empty, as Redis does with
// replicaof.
func (o *option) unsaid() *option {
	o.goes = true
	return o
}

// unlogged keeps the option's value out of logs.
func (o *option) unlogged() *option {
	o.hidden = true
	return o
}

// secret is unlogged for a password, which may stand outside of the configuration.
func (o *option) secret() *option {
	o.password = true
	return o.unlogged()
}

// ofFile has CONFIG SET put the value into effect although it is the old one: what it names may
// have changed.
func (o *option) ofFile() *option {
	o.refers = true
	return o
}

// gather has each line of a file, or flag, add to those before it, until an empty one.
func (o *option) gather() *option {
	o.gathers = true
	return o
}

// protected leaves CONFIG SET to clients whom enable-protected-configs names.
func (o *option) protected() *option {
	o.guarded = true
	return o
}

func (o *option) is(name string) bool {
	return strings.EqualFold(name, o.name) || o.alias != "" && strings.EqualFold(name, o.alias)
}

func (o *option) mutable() bool { return o.when == live || len(o.hooks) > 0 }
