package access

import (
	"strconv"
	"strings"
)

// Flags lists what a user is.
func (r *Rules) Flags() []string {
	flags := []string{"off"}
	if r.enabled {
		flags[0] = "on"
	}
	if r.noPassword {
		flags = append(flags, "nopass")
	}
	switch r.payloads {
	case payloadsSkipped:
		flags = append(flags, "skip-sanitize-payload")
	case payloadsSanitized:
		flags = append(flags, "sanitize-payload")
	}
	return flags
}

// Passwords lists the SHA-256 of each password, in hexadecimal digits.
func (r *Rules) Passwords() []string {
	hashes := make([]string, len(r.passwords))
	for i, p := range r.passwords {
		hashes[i] = p.String()
	}
	return hashes
}

// Rates are how many requests, and bytes of requests and replies, the user may ask for in a second;
// 0 is any number.
func (r *Rules) Rates() (requests, traffic int64) { return r.rates.requests, r.rates.traffic }

// rateRules are empty for what a new user has.
func (r *Rules) rateRules() (rules []string) {
	if r.rates.requests > 0 {
		rules = append(rules, "requests="+strconv.FormatInt(r.rates.requests, 10))
	}
	if r.rates.traffic > 0 {
		rules = append(rules, "traffic="+strconv.FormatInt(r.rates.traffic, 10))
	}
	return rules
}

// Selector describes a set of rules.
type Selector struct {
	Commands, Keys, Channels string
	Databases                string // empty: all
}

// Selectors describes the user's own rules, and those in parentheses.
func (r *Rules) Selectors() (own Selector, others []Selector) {
	for i := range r.selectors[1:] {
		others = append(others, r.selectors[i+1].describe())
	}
	return r.selectors[0].describe(), others
}

func (s *selector) describe() Selector {
	return Selector{strings.Join(s.commandRules(), " "), strings.Join(s.keyRules(), " "), strings.Join(s.channelRules(), " "), s.databaseRule()}
}

func (s *selector) commandRules() []string {
	if s.fromAll {
		return append([]string{"+@all"}, s.said...)
	}
	return append([]string{"-@all"}, s.said...)
}

func (s *selector) keyRules() (rules []string) {
	if s.allKeys {
		return []string{"~*"}
	}
	prefixes := map[Permission]string{Read: "%R~", Write: "%W~", Read | Write: "~"}
	for _, k := range s.keys {
		rules = append(rules, prefixes[k.allows]+k.text)
	}
	return rules
}

func (s *selector) channelRules() (rules []string) {
	if s.allChannels {
		return []string{"&*"}
	}
	for _, c := range s.channels {
		rules = append(rules, "&"+c.text)
	}
	return rules
}

// databaseRule is empty for what a new selector has.
func (s *selector) databaseRule() string {
	switch {
	case s.allDatabases:
		return ""
	case len(s.databases) == 0:
		return "resetdbs"
	}
	var numbers []string
	for _, number := range s.databases {
		numbers = append(numbers, strconv.Itoa(number))
	}
	return "db=" + strings.Join(numbers, ",")
}

func (s *selector) String() string {
	rules := s.keyRules()
	if !s.allChannels {
		rules = append(rules, "resetchannels")
	}
	rules = append(rules, s.channelRules()...)
	if rule := s.databaseRule(); rule != "" {
		rules = append(rules, rule)
	}
	return strings.Join(append(rules, s.commandRules()...), " ")
}

// String is the rules that make such a user of a new one.
func (r *Rules) String() string {
	rules := r.Flags()
	for _, hash := range r.Passwords() {
		rules = append(rules, "#"+hash)
	}
	rules = append(append(rules, r.rateRules()...), r.selectors[0].String())
	for i := range r.selectors[1:] {
		rules = append(rules, "("+r.selectors[i+1].String()+")")
	}
	return strings.Join(rules, " ")
}
