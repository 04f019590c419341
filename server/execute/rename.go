package execute

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// RenameCommands gives commands the names that the configuration has for them, or takes them away
// from clients, scripts included. Rules of users and the log go by the command's own name. It is
// called before anybody can connect.
func (e *Engine) RenameCommands() error {
	for _, rename := range e.Config.Renames() {
		if err := e.Table.rename(strings.ToLower(rename.Command), strings.ToLower(rename.Name)); err != nil {
			return fmt.Errorf("%s: rename-command %s: %w", rename.Place, rename.Command, err)
		}
	}
	return nil
}

func (t *Table) rename(from, to string) error {
	c := t.offered[from]
	switch {
	case c == nil || c.Unlisted:
		return errors.New("there is no such command")
	case t.offered[to] != nil:
		return fmt.Errorf("there is a command %s already", to)
	case len(to) >= longestName:
		return fmt.Errorf("a name has less than %d bytes", longestName)
	}
	t.offered = maps.Clone(t.offered)
	delete(t.offered, from)
	if to == "" {
		t.takenAway = append(t.takenAway, c)
	} else {
		t.offered[to] = c
	}
	c.ownName = []byte(strings.ToUpper(c.Name))
	for i := range c.Subcommands {
		c.Subcommands[i].ownName = c.ownName
	}
	return nil
}

// effectWords are the words of an effect, with the command's own name in the place of the one that
// the client has used.
func (c *Invocation) effectWords(args [][]byte) [][]byte {
	if c.Command.ownName == nil || len(c.Args[0]) == 0 || &args[0][0] != &c.Args[0][0] {
		return args
	}
	args = slices.Clone(args)
	args[0] = c.Command.ownName
	return args
}
