// Package commands holds what COMMAND and COMMAND DOCS tell of each command against what
// redis-server tells: clients route requests, find keys and check permissions by it. Kedis behaves
// as Redis 7.2 and the oracle is Redis 7.0; each field that differs for that reason stands in
// differs, and is a mistake again when it no longer does.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package commands

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// differs are the fields, as "command field", that Redis 7.2 or Kedis has otherwise, and why.
var differs = map[string]string{
	"command|getkeys arity":         "7.2 takes commands without arguments",
	"command|getkeysandflags arity": "7.2 takes commands without arguments",
	"zrank arity":                   "7.2 has WITHSCORE",
	"zrevrank arity":                "7.2 has WITHSCORE",
	"zrank history":                 "7.2 has WITHSCORE",
	"zrevrank history":              "7.2 has WITHSCORE",
	"client|kill history":           "7.4 has MAXAGE",
	"acl|log history":               "7.2 tells more",
	"xread history":                 "7.4 takes +",
	"xinfo|consumers history":       "7.2 tells more",
	"xinfo|stream history":          "7.2 tells more",
	"randomkey tips":                "7.2 tells more",
	"scan tips":                     "7.2 tells more",
	"client|pause since":            "7.2 names the version that was released",
	"blmove flags":                  "7.2 lets scripts call it",
	"blpop flags":                   "7.2 lets scripts call it",
	"brpop flags":                   "7.2 lets scripts call it",
	"brpoplpush flags":              "7.2 lets scripts call it",
	"bzpopmax flags":                "7.2 lets scripts call it",
	"bzpopmin flags":                "7.2 lets scripts call it",
	"wait flags":                    "7.2 lets scripts call it",
	"wait categories":               "8.0 has it among those that block",
	"psetex deprecated":             "7.2 tells of SET",
	"setex deprecated":              "7.2 tells of SET",
	"setnx deprecated":              "7.2 tells of SET",
	"quit deprecated":               "7.2 wants clients to close",
	"zinter history":                "8.8 has COUNT",
	"zinterstore history":           "8.8 has COUNT",
	"zunion history":                "8.8 has COUNT",
	"zunionstore history":           "8.8 has COUNT",
	"set history":                   "8.4 has IFEQ and its kin",
	"bitop history":                 "8.2 has DIFF and its kin",
	"geosearch history":             "Valkey 9.0 has BYPOLYGON",
	"geosearchstore history":        "Valkey 9.0 has BYPOLYGON",
	"xadd history":                  "8.2 has KEEPREF and its kin",
	"xtrim history":                 "8.2 has KEEPREF and its kin",
	"xreadgroup history":            "8.4 has CLAIM",
}

// onlyHere are the commands that the oracle doesn't have.
var onlyHere = map[string]string{
	"client|no-touch":   "7.2",
	"cluster|myshardid": "7.2",
	"client|setinfo":    "7.2",
	"waitaof":           "7.2",
	"client|replicas":   "is Kedis's own",
	"hexpire":           "7.4",
	"hexpireat":         "7.4",
	"hexpiretime":       "7.4",
	"hpersist":          "7.4",
	"hpexpire":          "7.4",
	"hpexpireat":        "7.4",
	"hpexpiretime":      "7.4",
	"hpttl":             "7.4",
	"httl":              "7.4",
	"hgetdel":           "8.0",
	"hgetex":            "8.0",
	"hsetex":            "8.0",
	"digest":            "8.4",
	"xdelex":            "8.2",
	"xackdel":           "8.2",
	"delex":             "8.4",
	"increx":            "8.8",
	"delifeq":           "Valkey 9.0",
	"msetex":            "8.4, Valkey 9.1",
}

// The fields of a reply to COMMAND INFO, in order (redis.io/commands/command).
var infoFields = []string{"name", "arity", "flags", "first key", "last key", "step", "categories", "tips", "key specifications"}

// described is what a server tells of its commands: for each full name, the value of each field.
type described map[string]map[string]string

func (d described) set(name, field, value string) {
	if d[name] == nil {
		d[name] = map[string]string{}
	}
	d[name][field] = value
}

func (d described) addInfo(command resp.Reply) {
	name := string(command.Elements[0].Text)
	for i, field := range infoFields {
		d.set(name, field, value(command.Elements[i]))
	}
	for _, subcommand := range command.Elements[len(infoFields)].Elements {
		d.addInfo(subcommand)
	}
}

// addDocs adds what is a fact and no wording.
func (d described) addDocs(docs resp.Reply) {
	for name, fields := range pairs(docs) {
		for field, told := range pairs(fields) {
			switch field {
			case "since", "group":
				d.set(name, field, value(told))
			case "doc_flags", "deprecated_since", "replaced_by":
				d.set(name, "deprecated", d[name]["deprecated"]+field+" "+value(told)+"; ")
			case "history":
				d.set(name, field, versions(told))
			case "subcommands":
				d.addDocs(told)
			}
		}
	}
}

// pairs walks through a map, which is an array in RESP2.
func pairs(reply resp.Reply) func(yield func(string, resp.Reply) bool) {
	return func(yield func(string, resp.Reply) bool) {
		for i := 0; i+1 < len(reply.Elements); i += 2 {
			if !yield(string(reply.Elements[i].Text), reply.Elements[i+1]) {
				return
			}
		}
	}
}

// value is a reply as a text in which the order of sets doesn't matter.
func value(reply resp.Reply) string {
	if reply.Elements == nil {
		return string(reply.Text)
	}
	var texts []string
	for _, element := range reply.Elements {
		texts = append(texts, value(element))
	}
	if reply.Kind == resp.Set {
		slices.Sort(texts)
	}
	return "[" + strings.Join(texts, " ") + "]"
}

func versions(history resp.Reply) string {
	var versions []string
	for _, change := range history.Elements {
		versions = append(versions, string(change.Elements[0].Text))
	}
	slices.Sort(versions)
	return strings.Join(versions, " ")
}

func describe(t *testing.T, server *launch.Server) described {
	connection := server.MustDial(t)
	d := described{}
	must := func(words ...string) resp.Reply {
		reply, err := connection.Must(words...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	must("hello", "3") // sets are told from arrays
	for _, command := range must("command").Elements {
		d.addInfo(command)
	}
	d.addDocs(must("command", "docs"))
	return d
}

func TestCommandsAsRedis(t *testing.T) {
	oracle, underTest := launch.Pair(t)
	want, got := describe(t, oracle), describe(t, underTest)
	if len(got) < 200 {
		t.Fatalf("only %d commands are described", len(got))
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			if onlyHere[name] == "" {
				t.Errorf("redis-server has no %s", name)
			}
			continue
		}
		for _, field := range fieldsOf(want[name], got[name]) {
			compare(t, name+" "+field, want[name][field], got[name][field])
		}
	}
	for name := range differs {
		if command, _, _ := strings.Cut(name, " "); got[command] == nil {
			t.Errorf("%q is no field of a command", name)
		}
	}
}

// notHere are the commands of newer servers that Kedis doesn't serve; docs/commands.md says why.
var notHere = map[string][]string{
	launch.Redis8: {"VADD", "VCARD", "VDIM", "VEMB", "VGETATTR", "VINFO", "VISMEMBER", "VLINKS", "VRANDMEMBER", "VREM", "VSETATTR", "VSIM"},
	launch.Valkey9: {"client|capa", "client|import-source", "clusterscan", "cluster|cancelslotmigrations", "cluster|flushslot",
		"cluster|getslotmigrations", "cluster|migrateslots", "cluster|slot-stats", "cluster|syncslots", "commandlog", "commandlog|get",
		"commandlog|help", "commandlog|len", "commandlog|reset", "script|show"},
}

// TestCommandsOfNewerServers: Kedis serves every command of Redis 8.0 and Valkey 9 but those.
func TestCommandsOfNewerServers(t *testing.T) {
	got := describe(t, launch.ForTest(t, launch.MustUnderTest(t)))
	for name, missing := range notHere {
		t.Run(name, func(t *testing.T) {
			newer := describe(t, launch.ForTest(t, launch.MustNewerOracle(t, name)))
			for _, command := range slices.Sorted(maps.Keys(newer)) {
				if (got[command] == nil) != slices.Contains(missing, command) {
					t.Errorf("%s: it is served: %v", command, got[command] != nil)
				}
			}
		})
	}
}

// compare expects equal values, and unequal ones where differs says so.
func compare(t *testing.T, name, want, got string) {
	if (want == got) == (differs[name] != "") {
		t.Errorf("%s (%s):\n  redis-server     %s\n  server under test %s", name, differs[name], want, got)
	}
}

func fieldsOf(a, b map[string]string) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// TestEqualAcrossProtocols asks for the same in RESP2: there sets and maps are arrays, with the
// same words in them.
func TestEqualAcrossProtocols(t *testing.T) {
	underTest := launch.ForTest(t, launch.MustUnderTest(t))
	for _, words := range [][]string{{"command"}, {"command", "docs"}} {
		connection := underTest.MustDial(t)
		second, err := connection.Must(words...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Must("hello", "3"); err != nil {
			t.Fatal(err)
		}
		third, err := connection.Must(words...)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := fmt.Sprint(flat(second)), fmt.Sprint(flat(third)); a != b {
			t.Errorf("%v answers other words in RESP2 than in RESP3", words)
		}
	}
}

func flat(reply resp.Reply) []string {
	if reply.Elements == nil {
		return []string{string(reply.Text)}
	}
	var texts []string
	for _, element := range reply.Elements {
		texts = append(texts, flat(element)...)
	}
	return texts
}
