package config

import "strings"

// without are options of Redis that are refused. A name that ends with * stands for all that begin
// with it.
type without struct {
	why   string
	names string
}

// withoutList is for those who start Kedis with Redis's configuration file.
var withoutList = []without{
	{"there are no modules", "loadmodule"},
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
