package command

import (
	"flag"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/commands.md anew")

func TestMarkdown(t *testing.T) {
	const path = "../../docs/commands.md"
	got := Markdown(NewTable())
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is not what the table says; go test ./server/command -run TestMarkdown -args -rewrite writes it anew", path)
	}
}

func TestShownSyntax(t *testing.T) {
	for syntax, want := range map[string]string{
		"key increment:double":              "key increment",
		"key [min:string max:string]":       "key [min max]",
		"[size:integer [size:integer ...]]": "[size [size ...]]",
		"<ip:port | [ADDR ip:port]>":        "<ip:port | [ADDR ip:port]>",
	} {
		if got := shownSyntax(syntax); got != want {
			t.Errorf("%q is shown as %q, not %q", syntax, got, want)
		}
	}
}
