package scripts

import (
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

const example = `# A comment.

@options --databases 4
set k v
[2] get k
# between requests
@between 1 5 strlen k
----
+OK
"v"
:1..5
---- known difference: an example
+OK
"other"
:1..5

@sleep 1ms

ping

# the end
`

func TestParseAndPrint(t *testing.T) {
	script, err := Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	if got := script.String(); got != example {
		t.Errorf("printed as\n%s", got)
	}
	if len(script.Blocks) != 3 || !slices.Equal(script.Options, []string{"--databases", "4"}) {
		t.Fatalf("%d blocks, options %q", len(script.Blocks), script.Options)
	}
	first := script.Blocks[0]
	if len(first.Requests) != 3 || first.Requests[1].Connection != 2 || first.Requests[2].High != 5 {
		t.Errorf("requests %+v", first.Requests)
	}
	if first.Expected(true)[1] != `"v"` || first.Expected(false)[1] != `"other"` || first.KnownReason != "an example" {
		t.Errorf("expected %q and %q", first.Expected(true), first.Expected(false))
	}
}

func TestRewritingAddsReplies(t *testing.T) {
	script, err := Parse("ping\n\n# end\n")
	if err != nil {
		t.Fatal(err)
	}
	script.Blocks[0].SetReplies([]string{"+PONG"})
	script.Blocks[0].SetKnown([]string{"+PING"})
	want := "ping\n----\n+PONG\n---- known difference: " + missingReason + "\n+PING\n\n# end\n"
	if got := script.String(); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestScriptsThatAreRefused(t *testing.T) {
	for _, bad := range []string{"@nothing x", "@sleep", "@sleep soon", "@find [", "@between 1 x get k", "[x] get k", `get "k`, "ping\n\n@options --a b",
		"@unordered", "@close now"} {
		if _, err := Parse(bad + "\n"); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestDirectives runs each directive once, and shows at the same time that a reply that isn't the
// expected one is seen.
func TestDirectives(t *testing.T) {
	runner := NewRunner(launch.ForTest(t, launch.MustOracle(t)))
	defer runner.Close()
	for _, step := range []struct{ requests, want string }{
		{"sadd s c b a", ":3"},
		{"@unordered smembers s", `["a" "b" "c"]`},
		{"@unordered-scan sscan s 0", `["0" ["a" "b" "c"]]`},
		{"hset h b 1 a 2", ":2"},
		{"@unordered-pairs hgetall h", `["a" "2" "b" "1"]`},
		{"@unordered-scan-pairs hscan h 0", `["0" ["a" "2" "b" "1"]]`},
		{"@shape hscan h 0", `*[$ *[$ $ $ $]]`},
		{"@shape get s", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"@find redis_mode:.* info server", "redis_mode:standalone"},
		{"@find no_such_field info server", "nothing"},
		{"@between 2 3 scard s", ":2..3"},
		{"@between 1 2 scard s", ":3"},
		{"set k v", "+OK"},
		{"@save payload dump k", "$"},
		{"restore k2 0 $payload", "+OK"},
		{"[2] get k2", `"v"`},
		{"@silent client reply skip\n@silent get k\nget k2", `"v"`},
		{"@resp 3\nhgetall h", `{"b": "1" "a": "2"}`},
		{"[2] get nothing", "null"},
		{"@resp 2\nget nothing", "nil"},
		{`@raw "*1\r\n$4\r\nPI" "NG\r\n"`, "+PONG"},
		{`@raw "*1\r\n$x\r\n"`, "-ERR Protocol error: invalid bulk length\nclosed"},
		{"select 1\n@close\nget k2", "+OK\n\"v\""},
		{"quit\nping", "+OK\nclosed"},
		{"[3] monitor\n[2] echo hello\n[3] @read '\"echo.*'", "+OK\n\"hello\"\n\"echo\" \"hello\""},
	} {
		script, err := Parse(step.requests + "\n")
		if err != nil {
			t.Fatalf("%s: %v", step.requests, err)
		}
		got, err := runner.Run(&script.Blocks[0])
		if err != nil || strings.Join(got.Lines, "\n") != step.want {
			t.Errorf("%s: got %s (%v), want %s", step.requests, strings.Join(got.Lines, "\n"), err, step.want)
		}
	}
}

func TestDifferenceNamesTheRequest(t *testing.T) {
	shown := Shown{Lines: []string{"+OK", `"v"`}, sources: []string{"set k v", "get k"}}
	if got := shown.Difference([]string{"+OK", `"v"`}); got != "" {
		t.Errorf("equal replies: %s", got)
	}
	if got := shown.Difference([]string{"+OK", `"w"`}); !strings.Contains(got, "get k") || !strings.Contains(got, `"w"`) {
		t.Errorf("another reply: %s", got)
	}
	if shown.Difference([]string{"+OK"}) == "" || shown.Difference([]string{"+OK", `"v"`, ":1"}) == "" {
		t.Error("a missing or additional line goes unnoticed")
	}
}
