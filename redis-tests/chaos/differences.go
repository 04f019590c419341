package chaos

import (
	"crypto/sha1"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// mostShown is how many keys a failure lists.
const mostShown = 10

// differences lists keys, and libraries of functions, that the members hold differently.
func (c *Cluster) differences() string {
	whole := !slices.ContainsFunc(c.members, (*Member).isRedis)
	reference, err := c.primary.keys(whole)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, m := range c.replicas() {
		held, err := m.keys(whole)
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

// expired counts the expired keys that each member still holds. No command lists them, but a Redis
// has them in its digest until it removes them.
func (c *Cluster) expired() string {
	var lines []string
	for _, m := range c.members {
		for database := range databases {
			total, listed, err := m.count(database)
			if err != nil {
				return err.Error()
			}
			if total > listed {
				lines = append(lines, fmt.Sprintf("%s: of %d keys of database %d %d have expired", m.name, total, database, total-listed))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// count is how many keys a member's database has, and how many it lists.
func (m *Member) count(database int) (total, listed int, err error) {
	c, err := m.dial()
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	if _, err := c.Must("select", strconv.Itoa(database)); err != nil {
		return 0, 0, err
	}
	size, err := c.Must("dbsize")
	if err != nil {
		return 0, 0, err
	}
	names, err := c.Must("keys", "*")
	if err != nil {
		return 0, 0, err
	}
	count, ok := size.Integer()
	if !ok {
		return 0, 0, fmt.Errorf("DBSIZE answers %s", size)
	}
	return int(count), len(names.Elements), nil
}

// databases is how many a member has.
const databases = 16

// keys are a member's keys with a description of what they hold, and its libraries. A Redis doesn't
// tell its replicas of all that belongs to groups, as how many entries they have read and consumers
// that were given none, so only the whole of a Kedis's data is compared with these.
func (m *Member) keys(whole bool) (map[string]string, error) {
	c, err := m.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	held := map[string]string{}
	if held["libraries"], err = launch.ListLibraries(c); err != nil {
		return nil, err
	}
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
			if words[0] == "+zset" { // see hasNewerRedis
				words = words[:2]
			}
			more := ""
			if whole {
				if more, err = describe(c, words[0], name); err != nil {
					return nil, err
				}
			}
			held[fmt.Sprintf("%d/%q", database, name)] = strings.Join(words, " ") + " " + content + " " + more
		}
	}
	return held, nil
}

// hasNewerRedis tells whether there is a Redis that isn't 7.0. Its digest of a score is that of the
// fewest digits that tell it, and not of 17 as Kedis's, so what keys hold is compared instead. And
// it asks for all data when a link breaks before its PSYNC is answered (8.0.6).
func (c *Cluster) hasNewerRedis() bool {
	return c.timed && slices.ContainsFunc(c.members, (*Member).isRedis)
}

// longestContent is how much of a value is shown; a hash stands for the rest.
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
	for i := 1; kind == "zset" && i < len(reply.Elements); i += 2 { // Redis from 7.2 on writes some with more digits than they need
		if score, err := strconv.ParseFloat(string(reply.Elements[i].Text), 64); err == nil {
			reply.Elements[i].Text = strconv.AppendFloat(nil, score, 'g', -1, 64)
		}
	}
	text := reply.String()
	if len(text) <= longestContent {
		return text, nil
	}
	return fmt.Sprintf("%s… %x", text[:longestContent], sha1.Sum([]byte(text))), nil
}

// describe returns what a key has besides its elements: times of fields, or a stream's groups.
func describe(c *resp.Connection, kind, key string) (string, error) {
	switch kind {
	case "+hash":
		return launch.DescribeTimes(c, key)
	case "+stream":
		return launch.DescribeStream(c, key)
	}
	return "", nil
}
