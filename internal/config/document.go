package config

import (
	"fmt"
	"strings"
)

const confWidth = 98 // columns of the shipped file

// usage is the option's line in the command line's help.
func (o *option) usage() string {
	first, _, _ := strings.Cut(o.doc, ". ")
	return fmt.Sprintf("%s (%s)", strings.TrimSuffix(first, "."), o.expects())
}

// Sample returns the kedis.conf that is shipped: every option that has an effect, with its
// documentation and default.
func (c *Config) Sample() string {
	var out strings.Builder
	comment(&out, sampleIntroduction)
	for _, group := range c.groups {
		if group.options[0].inert {
			continue
		}
		fmt.Fprintf(&out, "\n%s %s %s\n", "####", group.title, strings.Repeat("#", confWidth-6-len(group.title)))
		for _, o := range group.options {
			out.WriteByte('\n')
			comment(&out, o.doc)
			comment(&out, o.facts())
			for _, line := range o.fileLines() {
				out.WriteString(line + "\n")
			}
		}
	}
	return out.String()
}

const sampleIntroduction = `Kedis: configuration.

Start the server with this file: kedis serve kedis.conf
Every option is also a flag, which takes precedence: kedis serve kedis.conf --port 7000

All lines below are the defaults. A line is an option's name and its value; a value that holds spaces or is empty stands between quotes ("a b", 'a b'), and between double quotes \n, \r, \t, \b, \a, \xHH, \\ and \" are escapes. Names and keywords may be written in either case. Lines that begin with # are comments.

Sizes are in bytes, or have a unit: 1k is 1000 bytes, 1kb is 1024; likewise m, mb, g and gb.

Further files are read where an include line names them, relative to this file; what comes later wins:
include /etc/kedis/local.conf
include conf.d/*.conf

Options that take effect live can be changed by CONFIG SET, and CONFIG REWRITE writes them to this file.

This file is generated from the table in internal/config.`

// facts says what is accepted, what the default is, and when a change takes effect.
func (o *option) facts() string {
	facts := fmt.Sprintf("Expects %s. Default: %s.", o.expects(), quoteEmpty(o.initial))
	if o.alias != "" {
		facts += " Also known as " + o.alias + "."
	}
	if o.when == atStart {
		facts += " Read at start only."
	}
	return facts
}

// comment writes text as comment lines, broken at confWidth.
func comment(out *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := "#"
		for word := range strings.FieldsSeq(paragraph) {
			if len(line)+1+len(word) > confWidth {
				out.WriteString(line + "\n")
				line = "#"
			}
			line += " " + word
		}
		out.WriteString(line + "\n")
	}
}

// Markdown returns docs/configuration.md.
func (c *Config) Markdown() string {
	var out strings.Builder
	out.WriteString(markdownIntroduction)
	for _, group := range c.groups {
		fmt.Fprintf(&out, "\n## %s\n\n", group.title)
		if group.options[0].inert {
			out.WriteString(withoutEffectIntroduction)
		}
		out.WriteString("| Option | Default | Expects | Live | |\n|---|---|---|---|---|\n")
		for _, o := range group.options {
			out.WriteString(o.markdown())
		}
	}
	return out.String()
}

const markdownIntroduction = `# Configuration

<!-- Generated from the table in internal/config; go test ./internal/config -rewrite writes it anew. -->

"kedis serve" needs no configuration. Options are given in a file, on the command line, which takes precedence
over the file, or while the server runs:

    kedis serve kedis.conf --port 7000 --appendfsync always
    redis-cli CONFIG SET maxclients 20000
    redis-cli CONFIG REWRITE

The file has Redis's format: a name and a value on each line, quotes around values that hold spaces or are
empty, comments after #, and include lines, whose paths are relative to the file that they stand in. A mistake
is reported with its line and with what was expected; the server doesn't start. The file that is shipped,
kedis.conf, holds every option that has an effect, with its default.

- **Live**: yes if CONFIG SET can change it, no if it is read at start only.
- **Sizes** are in bytes or have a unit, as in Redis: 1k is 1000 bytes, 1kb is 1024; likewise m, mb, g and gb.
- **Percentages of memory** are of what the process may use: the machine's memory, or its container's limit.
- Names in parentheses are older ones, which do the same.
`

const withoutEffectIntroduction = `A file that was written for Redis may have these. They are checked as Redis checks them, CONFIG GET, SET and
REWRITE know them, and they change nothing here. Those that a file or the command line gives are named in one
warning at the start. Options that promise what Kedis doesn't hold are refused: those above with all values but
one, and loadmodule.

`

func (o *option) markdown() string {
	name, shown, live := "`"+o.name+"`", "`"+o.initial+"`", "yes"
	if o.alias != "" {
		name += " (`" + o.alias + "`)"
	}
	if o.initial == "" {
		shown = "empty"
	}
	if o.when == atStart {
		live = "no"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, shown, o.expects(), live, o.doc)
}
