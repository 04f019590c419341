package differential

import (
	"flag"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

func TestEqualSeedsMakeEqualSteps(t *testing.T) {
	one, same, other := NewGenerator(1, 2), NewGenerator(1, 2), NewGenerator(1, 3)
	differs := false
	for range 5000 {
		step := one.Next()
		if again := same.Next(); !reflect.DeepEqual(step, again) {
			t.Fatalf("%v and %v from the same seed", step, again)
		}
		differs = differs || !reflect.DeepEqual(step, other.Next())
	}
	if !differs {
		t.Error("another epoch made the same steps")
	}
}

func TestTemplates(t *testing.T) {
	g := NewGenerator(1, 1)
	seen := map[string]bool{}
	parsed := parseTemplate("set (a|b c) [x] <{small} y>+2")
	for range 1000 {
		seen[strings.Join(parsed.body.expand(g, nil), " ")] = true
	}
	for text := range seen {
		words := strings.Fields(text)
		if words[0] != "set" || words[len(words)-1] != "y" || len(words) < 4 || len(words) > 8 {
			t.Errorf("made %q", text)
		}
	}
	if len(seen) < 2*2*8 {
		t.Errorf("only %d different lines", len(seen))
	}
	for _, bad := range []string{"", "set {nothing}", "set (a", "set [a", "set a)"} {
		if !panics(func() { parseTemplate(bad) }) {
			t.Errorf("template %q was accepted", bad)
		}
	}
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// outOfReach are commands of the groups below that the generator leaves out, and why.
var outOfReach = map[string]string{
	"blpop": "blocks", "brpop": "blocks", "blmove": "blocks", "brpoplpush": "blocks", "blmpop": "blocks", "bzpopmin": "blocks", "bzpopmax": "blocks",
	"bzmpop": "blocks", "migrate": "needs another server", "restore-asking": "cluster", "pfselftest": "takes seconds and says nothing of data",
	"quit": "closes the connection", "asking": "cluster", "readonly": "cluster", "readwrite": "cluster",
}

// TestTheGeneratorReachesEveryCommand asks the oracle which commands there are in the groups that
// the generator is for.
func TestTheGeneratorReachesEveryCommand(t *testing.T) {
	made := map[string]bool{}
	g := NewGenerator(7, 0)
	for range 60_000 {
		step := g.Next()
		made[strings.TrimPrefix(strings.ToLower(step.Line[0]), "@")] = true
	}
	connection := launch.ForTest(t, launch.MustOracle(t)).MustDial(t)
	for _, category := range []string{"string", "bitmap", "hyperloglog", "hash", "list", "set", "sortedset", "geo", "keyspace", "transaction", "connection"} {
		reply, err := connection.Must("command", "list", "filterby", "aclcat", category)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range reply.Strings() {
			name, _, _ = strings.Cut(name, "|")
			switch {
			case outOfReach[name] != "" && made[name]:
				t.Errorf("%s is listed as out of reach, and was made", name)
			case outOfReach[name] == "" && !made[name]:
				t.Errorf("%s (%s) was never made", name, category)
			}
		}
	}
}

// TestNothingHarmful checks what must not be sent: times within a run's reach, gigabytes, and
// endless picks.
func TestNothingHarmful(t *testing.T) {
	g := NewGenerator(1, 0)
	for _, example := range []struct{ line, want string }{
		{"expire k 5", "expire k 200005"},
		{"EXPIRE k -1", "EXPIRE k -1"},
		{"set k v EX 7", "set k v EX 200007"},
		{"set k v px 200000000", "set k v px 200000000"},
		{"getex k exat 2000000000", "getex k exat 4200000000"},
		{"pexpireat k 1", "pexpireat k 1"},
		{"setrange k 500000000 x", "setrange k 0 x"},
		{"setrange k 536870912 x", "setrange k 536870912 x"},
		{"setbit k 4000000001 1", "setbit k 1 1"},
		{"bitfield k get u8 #99999", "bitfield k get u8 #99"},
		{"srandmember k -9223372036854775807", "srandmember k -7"},
		{"srandmember k -9223372036854775808", "srandmember k -9223372036854775808"},
		{"config set port 1", "config set nothing 1"},
		{"config set set-max-intset-entries abc", "config set set-max-intset-entries abc"},
		{"command getkeys expire k 5", "command getkeys expire k 200005"},
		{"wait 1 0", "wait 0 0"},
		{"hello 3 setname x auth default y", "hello 3 setname x"},
		{"client kill id 7", "client kill id 999999"},
		{"client pause 100 all", "client pause 0 all"},
		{"client list id 0", "client list id 0"},
		{"debug set-active-expire 0", "debug set-active-expire 1"},
		{"sort l by w_* alpha store d", "sort l by w_* store d"},
		{"scan +0", "scan abc"},
	} {
		if got := strings.Join(g.harmless(strings.Fields(example.line)), " "); got != example.want {
			t.Errorf("%s became %s, want %s", example.line, got, example.want)
		}
	}
}

// TestEveryTierCrashes: the short form kills the server in each tier.
func TestEveryTierCrashes(t *testing.T) {
	short, err := strconv.Atoi(flag.Lookup("commands").DefValue)
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range tiers {
		steps := makeSteps(1, 0, short/tier.share, true, tier.large)
		if !slices.ContainsFunc(steps, func(s Step) bool { return s.Line[0] == "@crash" }) {
			t.Errorf("none of %d steps of %s is a crash", len(steps), tier.name)
		}
	}
}
