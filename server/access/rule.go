package access

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"kedis/internal/number"
	"kedis/internal/quotes"
)

// RuleError is why a rule is refused, in Redis's words.
type RuleError string

func (e RuleError) Error() string { return string(e) }

const (
	errUnknown = RuleError("Unknown command or category name in ACL")
	errSyntax  = RuleError("Syntax error")
	errAllKeys = RuleError("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any " +
		"effect. Try 'resetkeys' to start with an empty list of patterns")
	errAllChannels = RuleError("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any " +
		"effect. Try 'resetchannels' to start with an empty list of channels")
	errNoSuchPassword = RuleError("The password you are trying to remove from the user does not exist")
	errPasswordHash   = RuleError("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errFirstArgument  = RuleError("Allowing first-arg of a subcommand is not supported")
	errRate           = RuleError("A rate must be a number, with a unit if need be, and 0 for none")
	errDatabases      = RuleError("The databases must be numbers of databases, with commas between them")
)

// Rules are what a user may do: what the rules have said, in the form that requests are checked
// against. Once a user has them they don't change; other rules are applied to a copy.
type Rules struct {
	enabled    bool
	noPassword bool // any password is right
	payloads   payloads
	passwords  []password
	selectors  []selector // the first is the user's own, the others stood in parentheses

	rates        rates
	unrestricted bool // see Unrestricted
}

// rates are how much a user may ask for in a second; 0 is everything.
type rates struct{ requests, traffic int64 }

// payloads says whether what RESTORE brings is to be looked at. Here it always is.
type payloads uint8

const (
	payloadsUnsaid payloads = iota
	payloadsSkipped
	payloadsSanitized
)

// password is the SHA-256 of one.
type password [sha256.Size]byte

func (p password) String() string { return hex.EncodeToString(p[:]) }

// author applies rules to Rules.
type author struct {
	vocabulary  *Vocabulary
	allChannels bool // may a new selector listen to everything
	databases   int  // how many there are
}

// blank is what a user may do who was just made: nothing.
func (a *author) blank() *Rules { return &Rules{selectors: []selector{a.newSelector()}} }

func (a *author) newSelector() selector {
	return selector{commands: make(bits, (len(a.vocabulary.commands)+63)/64), allChannels: a.allChannels, allDatabases: true}
}

// clone returns a copy that shares nothing that rules change.
func (r *Rules) clone() *Rules {
	copied := *r
	copied.passwords = slices.Clone(r.passwords)
	copied.selectors = slices.Clone(r.selectors)
	for i := range copied.selectors {
		copied.selectors[i] = copied.selectors[i].clone()
	}
	return &copied
}

// apply applies a rule to a user.
func (a *author) apply(r *Rules, rule string) error {
	if rule == "" {
		return nil
	}
	if flag := userFlags[strings.ToLower(rule)]; flag != nil {
		flag(a, r)
		return nil
	}
	switch {
	case rule[0] == '>', rule[0] == '#':
		return r.addPassword(rule)
	case rule[0] == '<', rule[0] == '!':
		return r.removePassword(rule)
	case rule[0] == '(' && rule[len(rule)-1] == ')':
		return a.addSelector(r, rule[1:len(rule)-1])
	}
	if name, amount, found := strings.Cut(rule, "="); found {
		if rate := r.rates.named(name); rate != nil {
			return setRate(rate, amount)
		}
	}
	return a.applyTo(&r.selectors[0], rule)
}

// userFlags are the rules that are a word and concern the user as a whole.
var userFlags = map[string]func(*author, *Rules){
	"on":                    func(_ *author, r *Rules) { r.enabled = true },
	"off":                   func(_ *author, r *Rules) { r.enabled = false },
	"nopass":                func(_ *author, r *Rules) { r.noPassword, r.passwords = true, nil },
	"resetpass":             func(_ *author, r *Rules) { r.noPassword, r.passwords = false, nil },
	"skip-sanitize-payload": func(_ *author, r *Rules) { r.payloads = payloadsSkipped },
	"sanitize-payload":      func(_ *author, r *Rules) { r.payloads = payloadsSanitized },
	"resetrates":            func(_ *author, r *Rules) { r.rates = rates{} },
	"clearselectors":        func(_ *author, r *Rules) { r.selectors = r.selectors[:1] },
	"reset":                 func(a *author, r *Rules) { *r = *a.blank(); r.payloads = payloadsSanitized },
}

// named returns the rate that a rule calls so; nil if there is none.
func (r *rates) named(name string) *int64 {
	switch strings.ToLower(name) {
	case "requests":
		return &r.requests
	case "traffic":
		return &r.traffic
	}
	return nil
}

func setRate(rate *int64, text string) error {
	amount, ok := number.ParseSize(text)
	if !ok || text == "" || text[0] < '0' || text[0] > '9' || amount > 1<<62 {
		return errRate
	}
	*rate = int64(amount)
	return nil
}

func (a *author) addSelector(r *Rules, rules string) error {
	added := a.newSelector()
	words, _ := quotes.Split(nil, []byte(rules)) // as in Redis there are none where quotes don't match
	for _, rule := range words {
		if err := a.applyTo(&added, string(rule)); err != nil {
			return err
		}
	}
	r.selectors = append(r.selectors, added)
	return nil
}

// readPassword reads a password, behind > or <, or the hash of one.
func readPassword(rule string) (p password, err error) {
	if rule[0] == '>' || rule[0] == '<' {
		return sha256.Sum256([]byte(rule[1:])), nil
	}
	hash := rule[1:]
	n, err := hex.Decode(p[:], []byte(hash[:min(len(hash), 2*len(p))]))
	if err != nil || n < len(p) || len(hash) > 2*len(p) || hash != strings.ToLower(hash) {
		return p, errPasswordHash
	}
	return p, nil
}

func (r *Rules) addPassword(rule string) error {
	p, err := readPassword(rule)
	if err != nil {
		return err
	}
	if !slices.Contains(r.passwords, p) {
		r.passwords = append(r.passwords, p)
	}
	r.noPassword = false
	return nil
}

func (r *Rules) removePassword(rule string) error {
	p, err := readPassword(rule)
	if err != nil {
		return err
	}
	i := slices.Index(r.passwords, p)
	if i < 0 {
		return errNoSuchPassword
	}
	r.passwords = slices.Delete(r.passwords, i, i+1)
	return nil
}

// joinSelectors makes one word of those from an opening parenthesis to the closing one. What opens
// inside of that begins anew, as in Redis. Where the closing one is missing, unmatched is the first
// of them.
func joinSelectors(words []string) (joined []string, unmatched string) {
	open := -1
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "(") && !strings.HasSuffix(word, ")"):
			open = i
		case open < 0:
			joined = append(joined, word)
		case strings.HasSuffix(word, ")"):
			joined = append(joined, strings.Join(words[open:i+1], " "))
			open = -1
		}
	}
	if open >= 0 {
		return nil, words[open]
	}
	return joined, ""
}
