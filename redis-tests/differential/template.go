package differential

import (
	"fmt"
	"strings"
)

// A template says what a command may look like, in one line:
//
//	zadd {zset} [nx|xx] [ch] <{score} {member}>+
//
// Words stand for themselves; {name} for what the generator's source of that name makes, which may
// be several words; (a|b) for one of the alternatives; [a|b] for one of them or nothing; <a>+ for
// one to four repetitions and <a>+N for one to N.
type template struct {
	command string
	body    node
}

// node is a part of a template.
type node interface {
	expand(g *Generator, line []string) []string
}

type (
	word     string
	source   string
	sequence []node
	choice   struct {
		alternatives []node
		optional     bool
	}
	repetition struct {
		part    node
		maximum int
	}
)

func (w word) expand(_ *Generator, line []string) []string { return append(line, string(w)) }

func (s source) expand(g *Generator, line []string) []string {
	return append(line, sources[string(s)](g)...)
}

func (s sequence) expand(g *Generator, line []string) []string {
	for _, part := range s {
		line = part.expand(g, line)
	}
	return line
}

func (c choice) expand(g *Generator, line []string) []string {
	if c.optional && g.chance(0.6) {
		return line
	}
	return c.alternatives[g.below(len(c.alternatives))].expand(g, line)
}

func (r repetition) expand(g *Generator, line []string) []string {
	for range 1 + g.below(r.maximum) {
		line = r.part.expand(g, line)
	}
	return line
}

// parseTemplate reads a template; the table of templates is fixed, so a mistake in it is a panic.
func parseTemplate(text string) template {
	p := templateParser{rest: text}
	body := p.sequence("")
	if p.rest != "" || len(body) == 0 {
		panic(fmt.Sprintf("differential: template %q: what follows %q isn't understood", text, text[:len(text)-len(p.rest)]))
	}
	return template{command: strings.Fields(text)[0], body: body}
}

type templateParser struct{ rest string }

// sequence reads parts up to one of the characters in end, which it leaves.
func (p *templateParser) sequence(end string) sequence {
	var parts sequence
	for {
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.rest == "" || strings.IndexByte(end, p.rest[0]) >= 0 {
			return parts
		}
		parts = append(parts, p.part())
	}
}

func (p *templateParser) part() node {
	opening := p.rest[0]
	switch opening {
	case '{':
		p.rest = p.rest[1:]
		name := p.until('}')
		if sources[name] == nil {
			panic(fmt.Sprintf("differential: no source of %q", name))
		}
		return source(name)
	case '[':
		return choice{alternatives: p.alternatives(']'), optional: true}
	case '(':
		return choice{alternatives: p.alternatives(')')}
	case '<':
		part := p.alternatives('>')
		return repetition{part: choice{alternatives: part}, maximum: p.maximum()}
	}
	end := strings.IndexAny(p.rest, " |])>")
	if end < 0 {
		end = len(p.rest)
	}
	if end == 0 {
		panic(fmt.Sprintf("differential: a template has %q where nothing is open", opening))
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	return word(text)
}

func (p *templateParser) alternatives(closing byte) []node {
	p.rest = p.rest[1:]
	var all []node
	for {
		all = append(all, p.sequence("|"+string(closing)))
		if p.rest == "" {
			panic(fmt.Sprintf("differential: a template lacks %q", closing))
		}
		last := p.rest[0] == closing
		p.rest = p.rest[1:]
		if last {
			return all
		}
	}
}

func (p *templateParser) until(closing byte) string {
	before, after, found := strings.Cut(p.rest, string(closing))
	if !found {
		panic(fmt.Sprintf("differential: a template lacks %q", closing))
	}
	p.rest = after
	return before
}

// maximum reads the + behind a repetition, with or without a number.
func (p *templateParser) maximum() int {
	p.rest = strings.TrimPrefix(p.rest, "+")
	number := 0
	for p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '9' {
		number = number*10 + int(p.rest[0]-'0')
		p.rest = p.rest[1:]
	}
	if number == 0 {
		number = 4
	}
	return number
}
