package config

import (
	"slices"
	"strings"
)

// without are options of Redis that are refused. A name that ends with * stands for all that begin
// with it.
type without struct {
	why   string
	names string
}

// withoutList is for those who start Kedis with Redis's configuration file.
var withoutList = []without{
	{"there is no TLS", "tls-*"},
	{"there are no modules", "loadmodule"},
	{"there is no user but default, whose password is requirepass", "user"},
	{"commands can't be renamed", "rename-command"},
}

// defaultUser are the rules of a user who may do everything without a password; those in one place
// mean the same.
var defaultUser = [][]string{{"on"}, {"nopass"}, {"~*", "allkeys"}, {"&*", "allchannels"}, {"+@all", "allcommands"}}

// isDefaultUser reports whether a line says of the user default what is so without it. Redis writes
// such a line with CONFIG REWRITE.
func isDefaultUser(words []string) bool {
	if len(words) < 2 || !strings.EqualFold(words[0], "user") || words[1] != "default" {
		return false
	}
	given := make([]bool, len(defaultUser))
	for _, rule := range words[2:] {
		i := slices.IndexFunc(defaultUser, func(same []string) bool { return slices.Contains(same, strings.ToLower(rule)) })
		if i >= 0 {
			given[i] = true
		} else if !strings.EqualFold(rule, "sanitize-payload") {
			return false
		}
	}
	return !slices.Contains(given, false)
}

// whyWithout tells why an option of Redis is none here; empty for other names.
func whyWithout(name string) string {
	name = strings.ToLower(name)
	for _, w := range withoutList {
		for other := range strings.FieldsSeq(w.names) {
			prefix, many := strings.CutSuffix(other, "*")
			if name == other || many && strings.HasPrefix(name, prefix) {
				return w.why
			}
		}
	}
	return ""
}
