package config

import (
	"fmt"
	"slices"
	"strings"
)

// userOption is the name of the lines that say what a user may do. There is one for each user, and
// CONFIG GET and SET don't know them.
const userOption = "user"

// UserLine is such a line.
type UserLine struct {
	Place string   // where it stands, as "kedis.conf:12"
	Words []string // the name and the rules, which the server checks

	included bool // stands in an included file, which Rewrite leaves alone
}

// userLines are those of a configuration. They are an option's value, so that they are documented
// and rewritten as others are.
type userLines struct {
	given    []UserLine
	repeated bool              // some user has several
	now      func() []string   // what is in force, for Rewrite; nil: what was given
	began    map[string]string // what was so at first, by name
}

// UserLines returns the lines that say what users may do, in their order.
func (c *Config) UserLines() []UserLine { return c.users.given }

// KeepUsers has Rewrite write lines that are made when it is called: each is a name and rules, with
// a space between two.
func (c *Config) KeepUsers(lines func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users.now = lines
	c.users.began = c.users.inForce()
}

// inForce are the lines that are in force, by name.
func (u *userLines) inForce() map[string]string {
	lines := map[string]string{}
	for _, line := range u.now() {
		name, _, _ := strings.Cut(line, " ")
		lines[name] = line
	}
	return lines
}

// include notes that the lines from a number on stand in included files.
func (u *userLines) include(from int) {
	for i := range u.given[from:] {
		u.given[from+i].included = true
	}
}

// isIncluded reports whether a user's line stands in an included file.
func (u *userLines) isIncluded(name string) bool {
	return slices.ContainsFunc(u.given, func(line UserLine) bool { return line.included && line.Words[0] == name })
}

// comesBack returns a user who is gone since the start, and would come back with the next one, of
// which the lines are: he stands in an included file.
func (u *userLines) comesBack(next *userLines) (name string, is bool) {
	if u.now == nil {
		return "", false
	}
	now := u.inForce()
	for name := range u.began {
		if now[name] == "" && next.isIncluded(name) {
			return name, true
		}
	}
	return "", false
}

func (c *Config) userOption() *option {
	o := &option{setting: &c.users, name: userOption, when: atStart, fileOnly: true, hidden: true, addLine: c.users.add, addFlag: c.users.addFlag}
	o.doc = "What a user may do, as ACL SETUSER takes it: user alice on >password ~cached:* +get. There is a line for each user."
	return o.unsaid()
}

// add takes a line's words.
func (u *userLines) add(place string, words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("expected %s, got nothing", u.expects())
	}
	if slices.ContainsFunc(u.given, func(other UserLine) bool { return other.Words[0] == words[0] }) {
		u.repeated = true
		return fmt.Errorf("%s: Duplicate user found. A user can only be defined once in config files", words[0])
	}
	u.given = append(u.given, UserLine{Place: place, Words: slices.Clone(words)})
	return nil
}

// addFlag takes a flag's value, without quotes. It stands for the line that a file has for the
// user: Rewrite writes down what flags have said, but for lines of included files, beside which it
// would be an error.
func (u *userLines) addFlag(text string) error {
	if text == "" {
		return nil
	}
	const place = "--" + userOption
	words := strings.FieldsFunc(text, isBlank)
	included := len(words) > 0 && u.isIncluded(words[0])
	u.given = slices.DeleteFunc(u.given, func(former UserLine) bool {
		return former.Place != place && len(words) > 0 && former.Words[0] == words[0]
	})
	if err := u.add(place, words); err != nil {
		return err
	}
	u.given[len(u.given)-1].included = included
	return nil
}

func isBlank(r rune) bool { return strings.ContainsRune(" \t\r\n\v\f", r) }

// prepare is for the default, which is no user: lines are added by add.
func (u *userLines) prepare(string) (change, error) {
	nothing := func() {}
	return change{store: nothing, undo: nothing}, nil
}

func (u *userLines) String() string { return strings.Join(u.lines(), "\n") }

// lines are as a file has them, for rules may hold quotes, but for those that stand in included
// files and are in force as they were.
func (u *userLines) lines() (lines []string) {
	if u.now != nil {
		for _, line := range u.now() {
			if name, _, _ := strings.Cut(line, " "); !u.isIncluded(name) || line != u.began[name] {
				lines = append(lines, quotedLine(strings.Split(line, " ")))
			}
		}
		return lines
	}
	for _, line := range u.given {
		if !line.included {
			lines = append(lines, quotedLine(line.Words))
		}
	}
	return lines
}

func quotedLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = bareOrQuoted(word)
	}
	return strings.Join(quoted, " ")
}

func (u *userLines) expects() string { return "a user's name and rules" }

func (u *userLines) isList() bool { return true }
