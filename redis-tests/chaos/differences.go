package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// mostShown is how many keys a failure lists.
const mostShown = 10

// differences lists keys that the members hold differently.
func (c *Cluster) differences() string {
	reference, err := c.primary.keys()
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, m := range c.replicas() {
		held, err := m.keys()
		if err != nil {
			return err.Error()
		}
		all := maps.Clone(reference)
		maps.Copy(all, held)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if reference[key] != held[key] {
				lines = append(lines, fmt.Sprintf("%s: %s %q on %s, %q on %s", key, all[key], reference[key], c.primary.name, held[key], m.name))
			}
		}
	}
	if len(lines) > mostShown {
		lines = append(lines[:mostShown], fmt.Sprintf("… and %d more", len(lines)-mostShown))
	}
	return strings.Join(lines, "\n")
}

// keys are a member's keys with a description of what they hold.
func (m *Member) keys() (map[string]string, error) {
	c, err := m.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	held := map[string]string{}
	for database := range 16 {
		if _, err := c.Must("select", strconv.Itoa(database)); err != nil {
			return nil, err
		}
		names, err := c.Must("keys", "*")
		if err != nil {
			return nil, err
		}
		for _, name := range names.Strings() {
			var words []string
			for _, line := range [][]string{{"type", name}, {"pexpiretime", name}, {"debug", "digest-value", name}} {
				reply, err := c.Must(line...)
				if err != nil {
					return nil, err
				}
				words = append(words, reply.String())
			}
			held[fmt.Sprintf("%d/%q", database, name)] = strings.Join(words, " ")
		}
	}
	return held, nil
}
