package command

import (
	"strings"

	"kedis/storage"
)

// prefetch says what a command looks for first, as far as its words tell.
type prefetch struct {
	access  storage.Access
	element int // the place of the element; -1: the last word
	step    int // with AccessEach: another key comes so many words behind each
}

// any reports whether a command looks for a key that stands behind its name.
func (p *prefetch) any() bool { return p.access != storage.AccessNothing }

// choosePrefetch derives what is prefetched from the command's keys and syntax, unless its row says it.
func (c *Command) choosePrefetch() {
	p := &c.prefetch
	switch {
	case c.parent != nil || len(c.Keys) == 0 || c.Keys[0].Index != 1 || c.Keys[0].Keyword != "":
		p.access = storage.AccessNothing
	case p.access != storage.AccessNothing:
	case strings.HasPrefix(c.Syntax, "key field"), strings.HasSuffix(c.Syntax, "member"), strings.Contains(c.Syntax, " member "):
		p.access, p.element = storage.AccessElement, 2
		if c.Group == "sorted-set" {
			p.element = -1 // behind scores
		}
	case c.Keys[0].Last == -1:
		p.access, p.step = storage.AccessEach, c.Keys[0].Step
	default:
		p.access = storage.AccessKey
	}
}

// of returns what a request looks for, whose words are of a valid arity.
func (p *prefetch) of(database int, args [][]byte) storage.Prefetch {
	looked := storage.Prefetch{Database: database, Access: p.access, Key: args[1]}
	switch p.access {
	case storage.AccessElement:
		last := len(args) - 1
		looked.Element = args[last]
		if p.element > 0 {
			looked.Element = args[min(p.element, last)]
		}
	case storage.AccessEach:
		looked.Others, looked.Step = args[min(1+p.step, len(args)):], p.step
	case storage.AccessFirst, storage.AccessLast:
		if len(args) > 2 {
			looked.Access = storage.AccessKey // it takes out more than one
		}
	}
	return looked
}
