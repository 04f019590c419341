package glob

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kedis/internal/oracle"
)

const seed = 20241

// pieces make patterns that hit every branch, the odd ones included.
var pieces = []string{
	"*", "*", "**", "?", "a", "b", "-", "^", "!", "A", "Z", "\x00", "\x7f", "\x80", "\xff", "[", "]", "\\", "[ab]", "[^a]",
	"[a-c]", "[c-a]", "[^a-b]", "[A-c]", "[Z-a]", "[a-\xff]", "[\xff-a]", "[\x80-\xff]", "[]", "[^]", "[^", "[a-]", "[a-", "[a",
	"[-a]", "[\\]]", "[\\", "[\\a-c]", "[a-\\]", "\\*", "\\?", "\\[", "\\a",
}

const letters = "aaabbbcABZz-^]\\[*?\x00\x7f\x80\xff"

func randomPattern(random *rand.Rand) string {
	var pattern strings.Builder
	for range 1 + random.IntN(6) {
		pattern.WriteString(pieces[random.IntN(len(pieces))])
	}
	return pattern.String()
}

func randomText(random *rand.Rand) string {
	text := make([]byte, random.IntN(7))
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// TestMatchAsRedis compares with KEYS.
func TestMatchAsRedis(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 0))
	server := oracle.Start(t)
	keys := map[string]bool{"": true, "a]": true}
	for len(keys) < 250 {
		keys[randomText(random)] = true
	}
	set := []any{"MSET"}
	for key := range keys {
		set = append(set, key, "")
	}
	server.Do(set...)

	var patterns []string
	for range 4000 {
		pattern := randomPattern(random)
		if pattern == "*" {
			continue // KEYS doesn't ask the matcher then
		}
		patterns = append(patterns, pattern)
		server.Send("KEYS", pattern)
	}
	matches := 0
	for _, pattern := range patterns {
		found := found(server.Receive(), 1)
		matches += len(found)
		for key := range keys {
			if got := Match([]byte(pattern), []byte(key)); got != found[key] {
				t.Errorf("seed %d: Match(%q, %q) = %v, Redis says %v", seed, pattern, key, got, found[key])
			}
			if got := Compile([]byte(pattern)).Match([]byte(key)); got != found[key] {
				t.Errorf("seed %d: %q, compiled, matches %q: %v, Redis says %v", seed, pattern, key, got, found[key])
			}
		}
	}
	if matches < len(patterns) {
		t.Errorf("seed %d: only %d matches of %d patterns: the comparison says little", seed, matches, len(patterns))
	}
}

// found returns every step'th element of an array.
func found(reply any, step int) map[string]bool {
	elements := map[string]bool{}
	for i, element := range reply.([]any) {
		if i%step == 0 {
			elements[element.(string)] = true
		}
	}
	return elements
}

// TestMatchEmptyAsRedis compares with PUBSUB CHANNELS, which asks the matcher about "*" too. Only
// within a transaction can the connection that subscribes go on asking.
func TestMatchEmptyAsRedis(t *testing.T) {
	server := oracle.Start(t)
	patterns := []string{"*", "**", "", "?", "[^a]", "\\"}
	server.Do("MULTI")
	server.Do("SUBSCRIBE", "")
	for _, pattern := range patterns {
		server.Do("PUBSUB", "CHANNELS", pattern)
	}
	replies := server.Do("EXEC").([]any)
	for i, pattern := range patterns {
		want := found(replies[i+1], 1)[""]
		if got := Match([]byte(pattern), nil); got != want {
			t.Errorf("Match(%q, \"\") = %v, Redis says %v", pattern, got, want)
		}
	}
}

// TestMatchFoldAsRedis compares with CONFIG GET, which looks at options without regard to case.
func TestMatchFoldAsRedis(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 1))
	server := oracle.Start(t)
	var options []string
	for option := range found(server.Do("CONFIG", "GET", "*"), 2) {
		options = append(options, option)
	}
	slices.Sort(options)
	var patterns []string
	for range 3000 {
		pattern := randomOptionPattern(random, options[random.IntN(len(options))])
		patterns = append(patterns, pattern)
		server.Send("CONFIG", "GET", pattern)
	}
	for _, pattern := range patterns {
		found := found(server.Receive(), 2)
		for _, option := range options {
			if got := MatchFold([]byte(pattern), []byte(option)); got != found[option] {
				t.Errorf("seed %d: MatchFold(%q, %q) = %v, Redis says %v", seed, pattern, option, got, found[option])
			}
			if got := CompileFold([]byte(pattern)).Match([]byte(option)); got != found[option] {
				t.Errorf("seed %d: %q, compiled, matches %q: %v, Redis says %v", seed, pattern, option, got, found[option])
			}
		}
	}
}

// randomOptionPattern replaces letters of an option's name. There is always a wildcard in it:
// without one CONFIG GET looks the name up.
func randomOptionPattern(random *rand.Rand, option string) string {
	var pattern strings.Builder
	for i, c := range []byte(option) {
		switch random.IntN(10) {
		case 0:
			fmt.Fprintf(&pattern, "[%c-%c]", random.IntN(26)+'A', c)
		case 1:
			fmt.Fprintf(&pattern, "[x%s]", strings.ToUpper(string(c)))
		case 2:
			fmt.Fprintf(&pattern, "[^%s]", strings.ToUpper(string(option[random.IntN(i+1)])))
		case 3:
			fmt.Fprintf(&pattern, "[\\%s%c]", strings.ToUpper(string(c)), c+byte(random.IntN(2)))
		case 4:
			pattern.WriteString("?")
		case 5:
			pattern.WriteString("*")
			return pattern.String()
		default:
			pattern.WriteString(strings.ToUpper(string(c)))
		}
	}
	return pattern.String() + "*"
}

func TestMatchFoldOfText(t *testing.T) {
	if !MatchFold([]byte("a[b-d]?"), []byte("ACX")) || Match([]byte("a[b-d]?"), []byte("ACX")) {
		t.Error("the case of the text counts with MatchFold, or doesn't with Match")
	}
}

// TestMatchSteps would not come back if stars were tried against each other.
func TestMatchSteps(t *testing.T) {
	pattern := strings.Repeat("a*", 200) + "b"
	text := strings.Repeat("a", 2000)
	if Match([]byte(pattern), []byte(text)) {
		t.Error("matched without a b")
	}
	if !Match([]byte(pattern), []byte(text+"b")) {
		t.Error("no match with a b")
	}
}

func TestPrefix(t *testing.T) {
	for _, c := range []struct{ pattern, prefix string }{
		{"", ""}, {"abc", "abc"}, {"abc*", "abc"}, {"ab?c", "ab"}, {"ab[c]", "ab"}, {"*", ""},
		{`a\*b*`, "a*b"}, {`a\`, `a\`}, {`\`, `\`}, {`a\\b\[c?d`, `a\b[c`}, {`a\bc`, "abc"}, {"a]b", "a]b"},
	} {
		if got := Prefix([]byte(c.pattern)); string(got) != c.prefix {
			t.Errorf("Prefix(%q) = %q, want %q", c.pattern, got, c.prefix)
		}
	}
}

// TestPrefixOfMatches checks that no match lacks the prefix, and that the pattern stays as it was.
func TestPrefixOfMatches(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 2))
	for range 20000 {
		pattern, text := []byte(randomPattern(random)), []byte(randomText(random))
		before := string(pattern)
		prefix := append(Prefix(pattern), "x"...)[:len(Prefix(pattern))]
		if Match(pattern, text) && !bytes.HasPrefix(text, prefix) {
			t.Errorf("seed %d: %q matches %q without the prefix %q", seed, pattern, text, prefix)
		}
		if string(pattern[:len(before)]) != before {
			t.Fatalf("Prefix(%q) changed its pattern", before)
		}
	}
}

func TestMatchAllocates(t *testing.T) {
	pattern, text := []byte("user:[0-9]*:*name?"), []byte("user:1234567:nickname1")
	if n := testing.AllocsPerRun(100, func() { Match(pattern, text) }); n > 0 {
		t.Errorf("Match allocates %v times", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	text := []byte("user:1234567:nickname")
	for _, pattern := range []string{"user:*", "*name", "*:[0-9]*:n*", "session:*"} {
		b.Run(pattern, func(b *testing.B) {
			for b.Loop() {
				Match([]byte(pattern), text)
			}
		})
	}
}
