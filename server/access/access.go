// Package access says who may do what: users, the rules that make them, the compiled form that
// requests are checked against, the log of what was denied, and files of users. It means what
// Redis's ACL means (https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/);
// access to databases is Valkey 9.1's.
//
// It knows commands only as names with categories and numbers (Vocabulary), and requests only
// through an interface (Request), and imports the standard library, server/quota, internal/glob,
// internal/number and internal/quotes. What becomes of clients whose user has changed is up to who
// changes the user.
package access

import (
	"strings"
)

// Command is what rules know of a command.
type Command struct {
	Name       string // as rules name it, in lower case: "get", "config|get"
	Categories uint32 // bits by the numbers of the vocabulary's categories
}

// Vocabulary is the commands and the categories that rules can name. It doesn't change.
type Vocabulary struct {
	categories []string
	commands   []Command
	byName     map[string]int
	children   map[int][]int // of containers
}

// NewVocabulary makes a vocabulary. A command's number is its place in the list.
func NewVocabulary(categories []string, commands []Command) *Vocabulary {
	v := &Vocabulary{categories: categories, commands: commands, byName: map[string]int{}, children: map[int][]int{}}
	for number, c := range commands {
		v.byName[c.Name] = number
	}
	for number, c := range commands {
		if container, _, found := strings.Cut(c.Name, "|"); found {
			parent := v.byName[container]
			v.children[parent] = append(v.children[parent], number)
		}
	}
	return v
}

// command finds a command by its name, in any case.
func (v *Vocabulary) command(name string) (number int, ok bool) {
	number, ok = v.byName[strings.ToLower(name)]
	return number, ok
}

// category finds a category by its name, in any case.
func (v *Vocabulary) category(name string) (bit uint32, ok bool) {
	for number, category := range v.categories {
		if strings.EqualFold(name, category) {
			return 1 << number, true
		}
	}
	return 0, false
}
