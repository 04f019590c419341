package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/resp"
)

// mostShown is how many keys a failure lists.
const mostShown = 10

// differences lists keys that the members hold differently, and how many each holds that have expired: nobody lists these, and a Redis has
// them in its digest until they are removed.
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
		for _, key := range slices.Sorted(maps.Keys(all)) { // of either
			if reference[key] != held[key] {
				lines = append(lines, fmt.Sprintf("%s: %q on %s, %q on %s", key, reference[key], c.primary.name, held[key], m.name))
			}
		}
	}
	if len(lines) > mostShown {
		lines = append(lines[:mostShown], fmt.Sprintf("… and %d more", len(lines)-mostShown))
	}
	return strings.Join(lines, "\n")
}

// databases is how many a member has.
const databases = 16

// keys are a member's keys with a description of what they hold.
func (m *Member) keys() (map[string]string, error) {
	c, err := m.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	held := map[string]string{}
	for database := range databases {
		if _, err := c.Must("select", strconv.Itoa(database)); err != nil {
			return nil, err
		}
		size, err := c.Must("dbsize") // with keys that have expired and are not removed
		if err != nil {
			return nil, err
		}
		names, err := c.Must("keys", "*")
		if err != nil {
			return nil, err
		}
		held[fmt.Sprintf("%d", database)] = size.String() + " keys"
		if count, _ := size.Integer(); int(count) > len(names.Elements) {
			held[fmt.Sprintf("%d on %s", database, m.name)] = fmt.Sprintf("%d keys that have expired", int(count)-len(names.Elements))
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
			content, err := m.content(c, strings.TrimPrefix(words[0], "+"), name)
			if err != nil {
				return nil, err
			}
			held[fmt.Sprintf("%d/%q", database, name)] = strings.Join(words, " ") + " " + content
		}
	}
	return held, nil
}

// longestContent is how much of a value is shown.
const longestContent = 2000

// content shows what a key holds. Hashes and sets come in any order.
func (m *Member) content(c *resp.Connection, kind, key string) (string, error) {
	line, step := []string{"get", key}, 0
	switch kind {
	case "list":
		line = []string{"lrange", key, "0", "-1"}
	case "zset":
		line = []string{"zrange", key, "0", "-1", "withscores"}
	case "set":
		line, step = []string{"smembers", key}, 1
	case "hash":
		line, step = []string{"hgetall", key}, 2
	case "stream":
		line = []string{"xrange", key, "-", "+"}
	}
	reply, err := c.Must(line...)
	if err != nil {
		return "", err
	}
	if step > 0 {
		reply = resp.Sorted(reply, step)
	}
	text := reply.String()
	return text[:min(len(text), longestContent)], nil
}
