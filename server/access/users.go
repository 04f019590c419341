package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"kedis/server/quota"
)

// DefaultName is the name of the user whom a connection belongs to that hasn't said who it is.
const DefaultName = "default"

// User is somebody who may do something. All methods may be called from any goroutine.
type User struct {
	name  string
	rules atomic.Pointer[Rules]
	gone  atomic.Bool

	// What the user has used of the rates that the rules have.
	Requests, Traffic quota.Rate
}

// take gives the user rules.
func (u *User) take(rules *Rules, limited bool) {
	u.Requests.SetPerSecond(rules.rates.requests)
	u.Traffic.SetPerSecond(rules.rates.traffic)
	u.rules.Store(rules.seal(limited))
}

// Name is the user's name.
func (u *User) Name() string { return u.name }

// Rules are what the user may do now.
func (u *User) Rules() *Rules { return u.rules.Load() }

// Unrestricted reports whether the user may do everything.
func (u *User) Unrestricted() bool { return u.rules.Load().unrestricted }

// Gone reports whether the user was deleted. Such a user may do nothing.
func (u *User) Gone() bool { return u.gone.Load() }

// Enabled reports whether somebody may be the user.
func (u *User) Enabled() bool { return u.rules.Load().enabled && !u.Gone() }

// Open reports whether somebody who says nothing is taken for the user, if that is the default one.
func (u *User) Open() bool {
	r := u.rules.Load()
	return r.enabled && r.noPassword
}

// NeedsNoPassword reports whether any password is right.
func (u *User) NeedsNoPassword() bool { return u.rules.Load().noPassword }

// is reports whether a password, given by its hash, is one of the user's.
func (u *User) is(given password) bool {
	r := u.rules.Load()
	if !r.enabled {
		return false
	}
	matches := 0
	for i := range r.passwords {
		matches |= subtle.ConstantTimeCompare(given[:], r.passwords[i][:])
	}
	return r.noPassword || matches == 1
}

// Users are all users of a server.
type Users struct {
	author      author
	allChannels func() bool
	fallback    *User // the default one

	mu       sync.Mutex // held while users change
	byName   map[string]*User
	password string // the default user's, as SetDefaultPassword was told
	limited  bool   // some database has limits

	saving sync.Mutex // a file of users is written; it is taken before mu
}

// NewUsers makes the default user, who may do everything. allChannels says whether a new user may
// listen to all channels; databases is how many there are.
func NewUsers(vocabulary *Vocabulary, allChannels func() bool, databases int) *Users {
	u := &Users{author: author{vocabulary: vocabulary, databases: databases}, allChannels: allChannels, byName: map[string]*User{}}
	u.fallback = u.add(DefaultName, u.builtIn())
	return u
}

// Default is the default user, who is always there and always the same.
func (u *Users) Default() *User { return u.fallback }

// builtIn is what the default user may do when nothing is said.
func (u *Users) builtIn() *Rules {
	rules := u.author.blank()
	rules.enabled, rules.noPassword = true, true
	own := &rules.selectors[0]
	own.setAllCommands(true)
	own.allowKeys()
	own.allowChannels()
	if u.password != "" {
		rules.passwords, rules.noPassword = []password{sha256.Sum256([]byte(u.password))}, false
	}
	return rules
}

func (u *Users) add(name string, rules *Rules) *User {
	user := &User{name: name}
	user.take(rules, u.limited)
	u.byName[name] = user
	return user
}

// Get returns a user; nil if there is none of that name.
func (u *Users) Get(name string) *User {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byName[name]
}

// Authenticate returns the user whose name and password are given; nil if that isn't so.
func (u *Users) Authenticate(name, given []byte) *User {
	hash := sha256.Sum256(given)
	if user := u.Get(string(name)); user != nil && user.is(hash) {
		return user
	}
	return nil
}

// Names lists the users, in order.
func (u *Users) Names() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.byName))
}

// Lines describes all users, in order: the name and the rules of each.
func (u *Users) Lines() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lines()
}

func (u *Users) lines() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(u.byName)) {
		lines = append(lines, name+" "+u.byName[name].Rules().String())
	}
	return lines
}

// SaidLines describes all users but the default one if nothing but his password, which is an
// option, was said of him.
func (u *Users) SaidLines() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	unsaid := DefaultName + " " + u.builtIn().String()
	return slices.DeleteFunc(u.lines(), func(line string) bool {
		return line == unsaid || line == strings.Replace(unsaid, " ~*", " sanitize-payload ~*", 1)
	})
}

// errUserName refuses a name.
//
//lint:ignore ST1005 it is Redis's text
var errUserName = errors.New("Usernames can't contain spaces or null characters")

// Set applies rules to a user, who is made if there is none. All are applied or none.
func (u *Users) Set(name string, words []string) (*User, error) {
	if hasSpaces(name) {
		return nil, errUserName
	}
	words, unmatched := joinSelectors(words)
	if unmatched != "" {
		//lint:ignore ST1005 it is Redis's text
		return nil, fmt.Errorf("Unmatched parenthesis in acl selector starting at '%s'.", unmatched)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	author, user := u.authorNow(), u.byName[name]
	rules := author.blank()
	if user != nil {
		rules = user.Rules().clone()
	}
	for _, word := range words {
		if err := author.apply(rules, word); err != nil {
			shown, _, _ := strings.Cut(word, "\x00")                                     // as C shows it
			return nil, fmt.Errorf("Error in ACL SETUSER modifier '%s': %w", shown, err) //nolint:staticcheck // Redis's text
		}
	}
	if user == nil {
		return u.add(name, rules), nil
	}
	user.take(rules, u.limited)
	return user, nil
}

// authorNow is the author with what a new selector may do now.
func (u *Users) authorNow() *author {
	now := u.author
	now.allChannels = u.allChannels()
	return &now
}

// Delete removes a user and returns who that was; nil if there is none of that name. The default
// one can't be removed.
func (u *Users) Delete(name string) *User {
	u.mu.Lock()
	defer u.mu.Unlock()
	user := u.byName[name]
	if user == nil || user == u.fallback {
		return nil
	}
	delete(u.byName, name)
	u.end(user)
	return user
}

// end takes everything from a user who is gone.
func (u *Users) end(user *User) {
	user.rules.Store(u.authorNow().nothing())
	user.gone.Store(true)
}

// nothing is what a user may do who is gone.
func (a *author) nothing() *Rules {
	rules := a.blank()
	rules.selectors[0].allChannels = false
	return rules
}

// SetDefaultPassword makes a password the default user's only one; with an empty one he needs none.
func (u *Users) SetDefaultPassword(given string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	rules := u.fallback.Rules().clone()
	rules.passwords, rules.noPassword = nil, given == ""
	if given != "" {
		rules.passwords = []password{sha256.Sum256([]byte(given))}
	}
	u.password = given
	u.fallback.take(rules, u.limited)
}

// SetLimited says whether some database has limits, so that requests of those who may do everything
// are looked at, too.
func (u *Users) SetLimited(limited bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.limited = limited
	for _, user := range u.byName {
		user.take(user.Rules().clone(), limited)
	}
}

// Each calls f with each user, in order.
func (u *Users) Each(f func(*User)) {
	u.mu.Lock()
	users := slices.SortedFunc(maps.Values(u.byName), func(a, b *User) int { return strings.Compare(a.name, b.name) })
	u.mu.Unlock()
	for _, user := range users {
		f(user)
	}
}

// Line is a line of a configuration file that says what a user may do.
type Line struct {
	Place string   // where it stands
	Words []string // the name and the rules
}

// Configure makes the users whom a configuration names. It returns those who can't authenticate,
// which may be a mistake.
func (u *Users) Configure(lines []Line) (disabled []string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, line := range lines {
		name := line.Words[0]
		rules, err := u.read(line.Words)
		if err != nil {
			return nil, fmt.Errorf("%s: user %s: %w", line.Place, name, err)
		}
		if name == DefaultName {
			u.fallback.take(rules, u.limited)
		} else {
			u.add(name, rules)
		}
		if !rules.enabled {
			disabled = append(disabled, name)
		}
	}
	return disabled, nil
}

// read makes the rules that a line's words are.
func (u *Users) read(words []string) (*Rules, error) {
	if hasSpaces(words[0]) {
		return nil, errUserName
	}
	author, rules := u.authorNow(), u.authorNow().blank()
	if words[0] == DefaultName {
		rules.payloads = payloadsSanitized // Redis resets the one that is there
	}
	joined, unmatched := joinSelectors(words[1:])
	if unmatched != "" {
		return nil, fmt.Errorf("unmatched parenthesis at %q", unmatched)
	}
	for _, word := range joined {
		if err := author.apply(rules, word); err != nil {
			return nil, fmt.Errorf("%q: %w", shownRule(word), err)
		}
	}
	return rules, nil
}

// shownRule is a rule without the password that it may be.
func shownRule(rule string) string {
	if strings.ContainsRune("<>#!", rune(rule[0])) {
		return rule[:1] + "(redacted)"
	}
	return rule
}
