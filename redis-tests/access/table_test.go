package access

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

// command is what the server under test tells of a command.
type command struct {
	name   []string // its words
	arity  int
	rights string   // the categories
	tokens []string // words of its syntax that aren't values
}

// commandsOf are the commands that both servers have alike, without containers. WAIT is among those
// that block from 8.0 on.
func commandsOf(t *testing.T, oracle, underTest *resp.Connection) map[string]command {
	t.Helper()
	theirs := map[string]command{}
	list(must(t, oracle, "command"), theirs)
	ours := map[string]command{}
	list(must(t, underTest, "command"), ours)
	maps.DeleteFunc(ours, func(name string, c command) bool {
		return theirs[name].arity != c.arity || theirs[name].rights != c.rights
	})
	if len(ours) < 200 {
		t.Fatalf("only %d commands", len(ours))
	}
	known := tokensOf(t, oracle) // words of later versions have other permissions
	for command, found := range tokensOf(t, underTest) {
		found = slices.DeleteFunc(found, func(token string) bool { return !slices.Contains(known[command], token) })
		for name, c := range ours {
			if c.name[0] == command {
				c.tokens = found
				ours[name] = c
			}
		}
	}
	return ours
}

// tokensOf are the tokens in a server's documentation of each command.
func tokensOf(t *testing.T, c *resp.Connection) map[string][]string {
	t.Helper()
	docs, found := must(t, c, "command", "docs"), map[string][]string{}
	for i := 0; i < len(docs.Elements); i += 2 {
		found[string(docs.Elements[i].Text)] = tokens(docs.Elements[i+1], nil)
	}
	return found
}

// categoriesOf are those in an element of a reply to COMMAND.
func categoriesOf(command resp.Reply) string {
	categories := command.Elements[6].Strings()
	slices.Sort(categories)
	return strings.Join(categories, " ")
}

func list(reply resp.Reply, into map[string]command) {
	for _, c := range reply.Elements {
		name := string(c.Elements[0].Text)
		arity, _ := c.Elements[1].Integer()
		if len(c.Elements[9].Elements) == 0 {
			into[name] = command{name: strings.Split(name, "|"), arity: int(arity), rights: categoriesOf(c)}
		}
		list(c.Elements[9], into)
	}
}

// tokens finds all values of fields named token.
func tokens(docs resp.Reply, found []string) []string {
	for i, element := range docs.Elements {
		if string(element.Text) == "token" && i+1 < len(docs.Elements) && len(docs.Elements[i+1].Text) > 0 {
			found = append(found, string(docs.Elements[i+1].Text))
		}
		found = tokens(element, found)
	}
	return found
}

func must(t *testing.T, c *resp.Connection, words ...string) resp.Reply {
	t.Helper()
	reply, err := c.Must(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return reply
}

func do(t *testing.T, c *resp.Connection, words ...string) resp.Reply {
	t.Helper()
	reply, err := c.Do(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return reply
}

// values are words that rules tell apart.
var values = []string{"r1", "r2", "w1", "w2", "b1", "b2", "x1", "c1", "c*", "0", "1", "2", "3"}

// words are a command's, by chance, as many as it takes.
func (c *command) words(random *rand.Rand) []string {
	count := c.arity
	if count < 0 {
		count = -count + random.IntN(6)
	}
	words := slices.Clone(c.name)
	for len(words) < count {
		if len(c.tokens) > 0 && random.IntN(3) == 0 {
			words = append(words, c.tokens[random.IntN(len(c.tokens))])
		} else {
			words = append(words, values[random.IntN(len(values))])
		}
	}
	return words
}

// wrong reports whether words are a syntax error in which Redis finds keys all the same, and Kedis
// doesn't.
func wrong(words []string) bool {
	switch words[0] {
	case "xread":
		return words[1] != "STREAMS" || len(words)%2 != 0
	case "xreadgroup":
		return words[1] != "GROUP" || words[4] != "STREAMS" || len(words)%2 == 0
	}
	first, last := slices.Index(words, "STORE"), len(words)-1-slices.Index(reversed(words), "STORE")
	return words[0] == "migrate" && words[3] != "" && slices.Contains(words, "KEYS") || words[0] == "sort" && first >= 0 && first != last
}

// TestEveryCommand tries every command of the table, with words by chance, as users who may read
// some keys and write others.
func TestEveryCommand(t *testing.T) {
	oracle, underTest := connected(t)
	random := rand.New(rand.NewPCG(seed.Of(t), 1))
	users := map[string][]string{
		"keys":      {"+@all", "%R~r*", "%W~w*", "~b*", "&c*"},
		"reader":    {"+@read", "+@connection", "~*", "-@dangerous", "+config|get"},
		"writer":    {"+@all", "-@read", "%W~*", "&c1"},
		"selectors": {"+@all", "~r*", "(+@write %W~w* ~b*)", "(-@all +@read ~w* &*)"},
		"nobody":    {},
	}
	for name, rules := range users {
		for _, c := range []*resp.Connection{oracle, underTest} {
			must(t, c, slices.Concat([]string{"acl", "setuser", name}, rules)...)
		}
	}
	try := func(words []string, valid bool) {
		for _, user := range slices.Sorted(maps.Keys(users)) {
			request := slices.Concat([]string{"acl", "dryrun", user}, words)
			want, got := do(t, oracle, request...), do(t, underTest, request...)
			if want.String() != got.String() && (valid || !wrong(words)) {
				t.Errorf("%s: %s, want %s", resp.Line(request), got, want)
			}
		}
	}
	commands := commandsOf(t, oracle, underTest)
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		c := commands[name]
		for range 60 * *scale {
			try(c.words(random), false)
		}
	}
	for _, unlikely := range []string{"xread COUNT 1 BLOCK 0 STREAMS r1 b1 0 0", "xread STREAMS r1 w1 0 0", "xreadgroup GROUP g c STREAMS r1 b1 > >",
		"xreadgroup GROUP g c COUNT 1 NOACK STREAMS w1 0", "migrate h 1 \"\" 0 1 KEYS r1 b1", "migrate h 1 \"\" 0 1 AUTH r1 KEYS w1 x1"} {
		words, err := resp.SplitLine(unlikely)
		if err != nil {
			t.Fatal(err)
		}
		try(words, true)
	}
}

func reversed(words []string) []string {
	words = slices.Clone(words)
	slices.Reverse(words)
	return words
}

func connected(t *testing.T) (oracle, underTest *resp.Connection) {
	first, second := launch.Pair(t)
	return first.MustDial(t), second.MustDial(t)
}

// TestRules gives users rules by chance. Both servers take and refuse the same, and allow the same
// commands afterwards.
func TestRules(t *testing.T) {
	oracle, underTest := connected(t)
	random := rand.New(rand.NewPCG(seed.Of(t), 1))
	commands := commandsOf(t, oracle, underTest)
	names := slices.Sorted(maps.Keys(commands))
	var categories []string
	for _, category := range must(t, oracle, "acl", "cat").Strings() {
		categories = append(categories, "@"+category)
	}
	for round := range 150 * *scale {
		user := "user" + strconv.Itoa(round%10)
		rules := make([]string, 1+random.IntN(6))
		for i := range rules {
			rules[i] = rule(random, 12, names, categories)
		}
		if random.IntN(20) == 0 {
			rules = append(rules, "(+get") // before another one 7.0 forgets it
		}
		request := slices.Concat([]string{"acl", "setuser", user}, rules)
		want, got := do(t, oracle, request...), do(t, underTest, request...)
		if want.String() != got.String() {
			t.Fatalf("round %d: %s: %s, want %s", round, resp.Line(request), got, want)
		}
		compareUser(t, oracle, underTest, user)
		for range 100 {
			c := commands[names[random.IntN(len(names))]]
			words := c.words(random)
			request := slices.Concat([]string{"acl", "dryrun", user}, words)
			want, got := do(t, oracle, request...), do(t, underTest, request...)
			if want.String() != got.String() && !wrong(words) {
				t.Fatalf("round %d: %s: %s, want %s; the user is %s", round, resp.Line(request), got, want, do(t, underTest, "acl", "getuser", user))
			}
		}
	}
}

// compareUser compares all that is told of a user but the rules on commands, which 7.0 makes up.
func compareUser(t *testing.T, oracle, underTest *resp.Connection, user string) {
	t.Helper()
	want, got := withoutCommands(do(t, oracle, "acl", "getuser", user)), withoutCommands(do(t, underTest, "acl", "getuser", user))
	if want.String() != got.String() {
		t.Fatalf("%s is %s, want %s", user, got, want)
	}
}

func withoutCommands(reply resp.Reply) resp.Reply {
	reply.Elements = slices.Clone(reply.Elements)
	for i, element := range reply.Elements {
		if i > 0 && string(reply.Elements[i-1].Text) == "commands" {
			element = resp.Reply{Kind: element.Kind, Text: []byte(strings.Fields(string(element.Text))[0])}
		}
		reply.Elements[i] = withoutCommands(element)
	}
	return reply
}

// rule is a rule, right or wrong, of one of some kinds.
func rule(random *rand.Rand, kinds int, commands, categories []string) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	sign := pick("+", "-")
	switch random.IntN(kinds) {
	case 0, 1:
		return sign + pick(commands...)
	case 2, 3, 4:
		return sign + pick(categories...)
	case 5:
		return pick("~", "%R~", "%W~", "%RW~", "%r~", "%X~", "%~", "%") + pick("r*", "w*", "b*", "x1", "*", "")
	case 6:
		return "&" + pick("c*", "c1", "*", "", "r?")
	case 7:
		return pick("on", "OFF", "nopass", "resetpass", "sanitize-payload", "skip-sanitize-payload", "clearselectors", "reset", "foo", "")
	case 8:
		return pick("allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands", "+@all", "-@all", "ALLKEYS")
	case 9:
		return pick(">", "<", "#", "!") + pick("one", "two", "", strings.Repeat("0a", 32), strings.Repeat("0A", 32))
	case 10:
		return sign + pick("select|1", "get|r1", "GET|x1", "config|get|x", "config", "client", "debug|", "nosuch", "config|nosuch", "@nosuch", "object|help", "acl|CAT")
	}
	var inner []string
	for range random.IntN(4) {
		inner = append(inner, rule(random, 11, commands, categories))
	}
	return "(" + strings.Join(inner, " ") + ")"
}
