package command

import (
	"fmt"
	"strings"

	"kedis/server/execute"
)

const markdownIntroduction = `# Commands

<!-- Generated from the table in server/command; go test ./server/command -args -rewrite writes it anew. -->

These are the commands that Kedis has, %d with their subcommands. They do what they do in Redis %s, down to the
words of their errors, unless something else is said. In the syntax, words in capitals stand for themselves, what is
in square brackets may be left out, a bar stands between alternatives, and dots say that something may come again.
COMMAND DOCS tells the same to clients. "Since" is the version of Redis that brought a command, or of Valkey where it says so; what versions
from 7.4 on have added to older commands is said behind them.

Not served, beside clusters and modules:

| From | What |
|---|---|
| Redis 8.0 | vector sets: VADD, VSIM and the other commands that begin with V, and files and payloads with them |
| Redis 8.6 | IDMP and IDMPAUTO of XADD, XCFGSET: what producers have sent would have to reach replicas and files of every version. Files and payloads of 8.6 and later, whose RDB version is 13 or more and whose streams are of RDB types 26 and 27, are refused |
| Redis 8.8 | XNACK: no version before has pending entries that belong to no consumer, so neither DUMP nor a replica could have them. Arrays, GCRA |
| Valkey | CLIENT CAPA and IMPORT-SOURCE, CLUSTERSCAN, COMMANDLOG (there is SLOWLOG), SCRIPT SHOW |
`

// Markdown is docs/commands.md.
func Markdown(t *Table) string {
	var groups []string
	rows := map[string][]*Command{}
	count := 0
	t.Each(func(c *Command) {
		if c.Run == nil {
			return
		}
		count++
		if rows[c.Group] == nil {
			groups = append(groups, c.Group)
		}
		rows[c.Group] = append(rows[c.Group], c)
	})
	var out strings.Builder
	fmt.Fprintf(&out, markdownIntroduction, count, execute.RedisVersion[:strings.LastIndexByte(execute.RedisVersion, '.')])
	for _, group := range groups {
		fmt.Fprintf(&out, "\n## %s\n\n| Command | Since | Time | |\n|---|---|---|---|\n", groupTitle(group))
		for _, c := range rows[group] {
			out.WriteString(markdown(c))
		}
	}
	return out.String()
}

// groupTitle makes a heading of a group's name: "Sorted set" of "sorted-set".
func groupTitle(group string) string {
	return strings.ToUpper(group[:1]) + strings.ReplaceAll(group[1:], "-", " ")
}

// markdown is the command's row.
func markdown(c *Command) string {
	words := strings.ToUpper(strings.ReplaceAll(c.FullName(), "|", " "))
	if c.Syntax != "" {
		words += " " + shownSyntax(c.Syntax)
	}
	cell := strings.NewReplacer("|", `\|`).Replace
	summary := c.Summary
	if c.History.Deprecated != "" {
		summary += fmt.Sprintf(" Deprecated since %s; instead there is %s.", c.History.Deprecated, c.History.ReplacedBy)
	}
	since := c.Since
	if c.Valkey {
		since = "Valkey " + since
	}
	for _, change := range c.History.Changes {
		if recent(change.Version) {
			summary += fmt.Sprintf(" %s: %s", change.Version, change.Text)
		}
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", cell(words), since, cell(c.Complexity), cell(summary))
}

// recent tells whether a version is younger than the one that Kedis says it is.
func recent(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	return major > "7" || major == "7" && rest >= "4"
}

// shownSyntax is a Syntax without the types of words.
func shownSyntax(syntax string) string {
	words := strings.Split(syntax, " ")
	for i, word := range words {
		bare := strings.TrimRight(word, "]>")
		words[i] = named(bare).Name + word[len(bare):]
	}
	return strings.Join(words, " ")
}
