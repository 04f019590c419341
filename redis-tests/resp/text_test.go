package resp

import (
	"slices"
	"strings"
	"testing"
)

func TestLinesReadBack(t *testing.T) {
	for _, arguments := range [][]string{
		{"set", "key", ""},
		{"set", "a b", "\x00\xff\r\n\t\"\\'"},
		{"set", "k", strings.Repeat("x", 1000), strings.Repeat("\x00", 64), strings.Repeat(`"`, 48)},
		{"get", "$name", "@at", "#comment"},
	} {
		line := Line(arguments)
		if got, err := SplitLine(line); err != nil || !slices.Equal(got, arguments) {
			t.Errorf("%s: read back as %q (%v)", line, got, err)
		}
		if strings.ContainsAny(line, "\r\n") || len(line) > 200 {
			t.Errorf("%q isn't one readable line", line)
		}
	}
}

func TestSplitLineQuoting(t *testing.T) {
	got, err := SplitLine(`a  "b c\x41\n" 'd\'\n' "xy"*3` + "\t" + `e"f`)
	want := []string{"a", "b cA\n", `d'\n`, "xyxyxy", `e"f`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	for _, bad := range []string{`"open`, `'open`, `"a"b`, `"a"*`, `"a"*99999999999`, `"\xzz"`} {
		if got, err := SplitLine(bad); err == nil {
			t.Errorf("%s was read as %q", bad, got)
		}
	}
}

func TestLongRepliesAreSpreadOverLines(t *testing.T) {
	element := Reply{Kind: BulkString, Text: []byte(strings.Repeat("ab", 30))}
	list := Reply{Kind: Array, Elements: []Reply{element, {Kind: Array, Elements: []Reply{element, element}}}}
	want := strings.ReplaceAll("[\n  X\n  [\n    X\n    X\n  ]\n]", "X", element.String())
	if got := list.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLongStringsAreToldApart(t *testing.T) {
	one := Reply{Kind: BulkString, Text: []byte(strings.Repeat("ab", 1000))}
	other := Reply{Kind: BulkString, Text: []byte(strings.Repeat("ab", 999) + "aB")}
	if one.String() == other.String() || len(one.String()) > 200 {
		t.Errorf("%s and %s", one, other)
	}
}
