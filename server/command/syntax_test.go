package command

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kedis/internal/oracle"
)

// format writes arguments in a form that is easy to read and compare.
func format(arguments []Argument) string {
	var words []string
	for i := range arguments {
		a := &arguments[i]
		text := a.Name + ":" + string(a.Type)
		if a.Token != "" {
			text = a.Token + " " + text
		}
		if a.Key > 0 {
			text += fmt.Sprintf("#%d", a.Key-1)
		}
		for _, flag := range a.flags() {
			text += "," + flag
		}
		if len(a.Arguments) > 0 {
			text += "(" + format(a.Arguments) + ")"
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

func TestArguments(t *testing.T) {
	oneKeyAt := func(index int) []KeySpec { return []KeySpec{oneKey(index, RW)} }
	for _, test := range []struct {
		syntax string
		keys   []KeySpec
		want   string
	}{
		{"", nil, ""},
		{"key", oneKeyAt(1), "key:key#0"},
		{"key value [key value ...]", []KeySpec{keyRange(1, -1, 2, OW)}, "key_value:block,multiple(key:key#0 value:string)"},
		{"key [key ...]", []KeySpec{keyRange(1, -1, 1, RO)}, "key:key#0,multiple"},
		{"[message]", nil, "message:string,optional"},
		{"[section [section ...]]", nil, "section:string,optional,multiple"},
		{"key [NX | XX] [GET]", oneKeyAt(1), "key:key#0 nx_xx:oneof,optional(NX nx:pure-token XX xx:pure-token) GET get:pure-token,optional"},
		{"key [EX seconds | PERSIST]", oneKeyAt(1), "key:key#0 seconds_persist:oneof,optional(EX seconds:integer PERSIST persist:pure-token)"},
		{"[LIMIT offset count]", nil, "LIMIT offset_count:block,optional(offset:integer count:integer)"},
		{"[GET pattern [GET pattern ...]]", nil, "GET pattern:pattern,optional,multiple,multiple_token"},
		{"[WEIGHTS weight [weight ...]]", nil, "WEIGHTS weight:integer,optional,multiple"},
		{"[AGGREGATE <SUM | MIN>]", nil, "AGGREGATE sum_min:oneof,optional(SUM sum:pure-token MIN min:pure-token)"},
		{"numkeys key [key ...] <LEFT | RIGHT> [COUNT count]", []KeySpec{countedKeys(1, RW)},
			"numkeys:integer key:key#0,multiple left_right:oneof(LEFT left:pure-token RIGHT right:pure-token) COUNT count:integer,optional"},
		{"<AND | OR> destkey key [key ...]", []KeySpec{oneKey(2, OW), keyRange(3, -1, 1, RO)},
			"and_or:oneof(AND and:pure-token OR or:pure-token) destkey:key#0 key:key#1,multiple"},
		{"key [GET a b | SET <C | D> [GET a b | SET <C | D> ...]]", oneKeyAt(1),
			"key:key#0 a_b_c_d:oneof,optional,multiple(GET a_b:block(a:string b:string) SET c_d:oneof(C c:pure-token D d:pure-token))"},
		{"source destination", []KeySpec{oneKey(1, RO), oneKey(2, OW)}, "source:key#0 destination:key#1"},
		{"[protover [AUTH username password]]", nil,
			"protover_username_password:block,optional(protover:integer AUTH username_password:block,optional(username:string password:string))"},
	} {
		c := &Command{Name: "test", Syntax: test.syntax, Keys: test.keys}
		arguments, err := Arguments(c)
		if err != nil {
			t.Errorf("%q: %v", test.syntax, err)
		} else if got := format(arguments); got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.syntax, got, test.want)
		}
	}
}

func TestBadSyntax(t *testing.T) {
	for _, syntax := range []string{"[key", "key]", "<key", "key ...", "[]", "| a", "[a | ]", "a [b ...]", "[a | b [a | c ...]]", "< >", "a > b"} {
		c := &Command{Name: "test", Syntax: syntax}
		if arguments, err := Arguments(c); err == nil {
			t.Errorf("%q is taken for %s", syntax, format(arguments))
		}
	}
}

// otherArity are commands that take fewer or more words than their syntax says, as in Redis: they
// find that out themselves.
var otherArity = map[string]bool{
	"quit":        true, // ignores all words
	"client|kill": true, // one of its options has to be there
	"psync":       true, // newer replicas say more
	"debug":       true, // documents itself in HELP
	"command":     true, // documents its subcommands
}

// TestEverySyntax holds each row's Syntax against its Arity.
func TestEverySyntax(t *testing.T) {
	NewTable().Each(func(c *Command) {
		arguments, err := Arguments(c)
		if err != nil {
			t.Error(err)
			return
		}
		all := Argument{Type: Block, Arguments: arguments}
		least, constant := all.width()
		least += len(strings.Split(c.FullName(), "|"))
		if c.Run == nil || otherArity[c.FullName()] {
			return
		}
		if arity := max(c.Arity, -c.Arity); least != arity || constant != (c.Arity > 0) {
			t.Errorf("%s has the arity %d, but its syntax %q says %d words", c.FullName(), c.Arity, c.Syntax, least)
		}
	})
}

// documented reads arguments out of a reply to COMMAND DOCS.
func documented(reply any) []Argument {
	var arguments []Argument
	for _, one := range reply.([]any) {
		a := Argument{}
		fields := one.([]any)
		for i := 0; i < len(fields); i += 2 {
			switch value := fields[i+1]; fields[i] {
			case "name":
				a.Name = value.(string)
			case "type":
				a.Type = ArgumentType(value.(string))
			case "token":
				a.Token = value.(string)
			case "key_spec_index":
				a.Key = int(value.(int64)) + 1
			case "arguments":
				a.Arguments = documented(value)
			case "flags":
				for _, flag := range value.([]any) {
					a.Optional = a.Optional || flag == "optional"
					a.Multiple = a.Multiple || flag == "multiple"
					a.MultipleToken = a.MultipleToken || flag == "multiple_token"
				}
			}
		}
		arguments = append(arguments, a)
	}
	return arguments
}

// derivable leaves out what a Syntax doesn't tell: the names of groups, and of what stands for
// itself.
func derivable(arguments []Argument) []Argument {
	kept := slices.Clone(arguments)
	for i := range kept {
		a := &kept[i]
		if a.Type == OneOf || a.Type == Block || a.Type == PureToken {
			a.Name = ""
		}
		a.Arguments = derivable(a.Arguments)
	}
	return kept
}

// documentedOtherwise are the commands whose documentation in Redis 7.0 differs, and why.
var documentedOtherwise = map[string]string{
	"zrank":                   "7.2 has WITHSCORE",
	"zrevrank":                "7.2 has WITHSCORE",
	"pfmerge":                 "7.2 takes no source too",
	"bitop":                   "7.2 names the operations; 8.2 has DIFF and its kin",
	"zunion":                  "8.8 has COUNT",
	"zinter":                  "8.8 has COUNT",
	"zunionstore":             "8.8 has COUNT",
	"zinterstore":             "8.8 has COUNT",
	"lcs":                     "7.2 names the length otherwise",
	"hscan":                   "7.4 has NOVALUES",
	"geohash":                 "7.2 takes no member too",
	"geopos":                  "7.2 takes no member too",
	"georadius":               "7.2 takes one of STORE and STOREDIST",
	"georadiusbymember":       "7.2 takes one of STORE and STOREDIST",
	"geosearch":               "BYBOX is the token of the width alone",
	"geosearchstore":          "BYBOX is the token of the width alone",
	"config|get":              "a block of one",
	"psubscribe":              "a block of one",
	"client|list":             "a block of one",
	"module|loadex":           "a block of one",
	"client|kill":             "7.2 lets options be combined; Kedis has MAXAGE",
	"command|getkeys":         "7.2 documents the words",
	"command|getkeysandflags": "7.2 documents the words",
	"migrate":                 "Kedis has USE_PREFIX",
	"lolwut":                  "the sizes of the picture",
	"replconf":                "is not documented",
	"set":                     "8.4 has IFEQ and its kin",
	"xread":                   "its keys stand in a block",
	"xreadgroup":              "its keys stand in a block",
	"xclaim":                  "7.2 names the last id otherwise",
	"xsetid":                  "7.2 names the numbers otherwise",
	"xgroup|create":           "7.2 names the group otherwise",
	"xgroup|setid":            "7.2 names the group otherwise",
	"xgroup|destroy":          "7.2 names the group otherwise",
	"xgroup|createconsumer":   "7.2 names the group otherwise",
	"xgroup|delconsumer":      "7.2 names the group otherwise",
	"xinfo|consumers":         "7.2 names the group otherwise",
	"xinfo|stream":            "a block of one",
	"xtrim":                   "a block of one; 8.2 has KEEPREF and its kin",
	"xadd":                    "8.2 has KEEPREF and its kin",
}

// TestDocsAsRedis compares the arguments with those that redis-server documents.
func TestDocsAsRedis(t *testing.T) {
	table := NewTable()
	reply := oracle.Start(t).Do("COMMAND", "DOCS").([]any)
	compared := 0
	var compare func(docs []any)
	compare = func(docs []any) {
		for i := 0; i < len(docs); i += 2 {
			name, fields := docs[i].(string), docs[i+1].([]any)
			var want []Argument
			for j := 0; j < len(fields); j += 2 {
				switch fields[j] {
				case "arguments":
					want = documented(fields[j+1])
				case "subcommands":
					compare(fields[j+1].([]any))
				}
			}
			c := table.Named([]byte(name))
			if c == nil {
				continue
			}
			arguments, err := Arguments(c)
			if err != nil {
				t.Fatal(err)
			}
			compared++
			got, want := arguments, want
			if reflect.DeepEqual(derivable(got), derivable(want)) == (documentedOtherwise[name] != "") {
				t.Errorf("%s %s:\n  got %s\nredis %s", name, c.Syntax, format(got), format(want))
			}
		}
	}
	compare(reply)
	if compared < 100 {
		t.Errorf("only %d commands were compared", compared)
	}
}
