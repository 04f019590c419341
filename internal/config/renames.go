package config

import (
	"fmt"
	"slices"
	"strings"
)

// renameOption is the name of the lines that give commands other names. There is one for each
// command, and CONFIG GET and SET don't know them.
const renameOption = "rename-command"

// Rename is such a line.
type Rename struct {
	Place   string // where it stands, as "kedis.conf:12"
	Command string
	Name    string // that it gets; empty: it is taken away

	included bool // stands in an included file, which Rewrite leaves alone
}

// renames are those of a configuration. They are an option's value, so that they are documented and
// rewritten as others are.
type renames struct {
	given []Rename
}

// Renames returns the other names of commands, in their order.
func (c *Config) Renames() []Rename { return c.renames.given }

func (c *Config) renameOption() *option {
	o := &option{setting: &c.renames, name: renameOption, when: atStart, fileOnly: true, addLine: c.renames.add, addFlag: c.renames.addFlag}
	o.doc = `Another name for a command, such as rename-command FLUSHALL b840fc02, or none at all: rename-command FLUSHALL "". ` +
		"There is a line for each command. Rules of users, the log and replicas go by the true name."
	return o.unsaid()
}

// add takes a line's words.
func (r *renames) add(place string, words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("expected %s, got %d words", r.expects(), len(words))
	}
	r.given = append(r.given, Rename{Place: place, Command: words[0], Name: words[1]})
	return nil
}

// include notes that the lines from a number on stand in included files.
func (r *renames) include(from int) {
	for i := range r.given[from:] {
		r.given[from+i].included = true
	}
}

// repeats returns a command that has a line both in the file itself and in an included one, which a
// start would refuse.
func (r *renames) repeats() (command string, is bool) {
	for _, own := range r.given {
		if !own.included && slices.ContainsFunc(r.given, func(other Rename) bool {
			return other.included && strings.EqualFold(other.Command, own.Command)
		}) {
			return own.Command, true
		}
	}
	return "", false
}

// addFlag takes a flag's value, in which nothing behind the space takes the command away. It stands
// for the line that a file has for the command: Rewrite writes down what flags have said, but for
// lines of included files, beside which it would be an error.
func (r *renames) addFlag(text string) error {
	if text == "" {
		return nil
	}
	const place = "--" + renameOption
	fromFile := len(r.given)
	if err := r.add(place, strings.Split(strings.TrimSuffix(text, `""`), " ")); err != nil {
		return err
	}
	added := r.given[fromFile]
	for i, former := range slices.Backward(r.given[:fromFile]) {
		if former.Place != place && strings.EqualFold(former.Command, added.Command) {
			added.included = former.included
			r.given[i], r.given = added, r.given[:fromFile]
			break
		}
	}
	return nil
}

// prepare is for the default, which is no line: lines are added by add.
func (r *renames) prepare(string) (change, error) {
	nothing := func() {}
	return change{store: nothing, undo: nothing}, nil
}

func (r *renames) String() string { return strings.Join(r.lines(), "\n") }

// lines are those that don't stand in included files.
func (r *renames) lines() (lines []string) {
	for _, rename := range r.given {
		if !rename.included {
			lines = append(lines, bareOrQuoted(rename.Command)+" "+bareOrQuoted(rename.Name))
		}
	}
	return lines
}

// bareOrQuoted writes a word without quotes where it may stand so.
func bareOrQuoted(word string) string {
	if quoted := quote(word); word == "" || quoted != `"`+word+`"` || strings.ContainsAny(word, "' ") {
		return quoted
	}
	return word
}

func (r *renames) expects() string { return `a command and its name, or "" for none` }

func (r *renames) isList() bool { return true }
