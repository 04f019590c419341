package migrate

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Conflicts says what happens to keys that are at the target before anything is moved. A nil
// Conflicts replaces them by values that come whole.
//
// The keys are listed once, when a move begins, and kept in memory: so a key that the move itself
// has written is never taken for one of them, and a stream's commands on such a key are told, too.
type Conflicts struct {
	Fail    bool // instead of leaving the target's key as it is
	Replace bool // removes the target's key before the first command on it, which may build on what was there

	own map[ownKey]struct{}
}

type ownKey struct {
	database int
	name     string
}

// ParseConflicts reads --on-conflict.
func ParseConflicts(text string) (*Conflicts, error) {
	switch strings.ToLower(text) {
	case "", "replace":
		return nil, nil
	case "skip":
		return &Conflicts{own: map[ownKey]struct{}{}}, nil
	case "fail":
		return &Conflicts{Fail: true, own: map[ownKey]struct{}{}}, nil
	}
	return nil, failure(ExitUsage, "--on-conflict: expected replace, skip or fail, got %q", text)
}

// Survey lists the keys of the target that something that the filter lets through would be written
// to.
func (t *Target) Survey(filter *Filter) error {
	c := t.options.Conflicts
	if c == nil {
		return nil
	}
	if filter.Libraries() && !c.Replace {
		if err := t.surveyLibraries(); err != nil {
			return err
		}
	}
	databases, err := t.databases(filter)
	if err != nil {
		return err
	}
	return t.walkDatabases(filter, databases, func(_ *redis.Client, database int, keys [][]byte) error {
		for _, key := range keys {
			c.own[ownKey{database, string(key)}] = struct{}{}
		}
		return nil
	})
}

// walkDatabases visits the keys that the filter may write to, in pieces.
func (t *Target) walkDatabases(filter *Filter, databases []int, visit func(client *redis.Client, database int, keys [][]byte) error) error {
	if err := t.expect(databases); err != nil {
		return err
	}
	if t.options.Progress != nil {
		defer t.options.Progress.Expected.Store(0)
	}
	for _, database := range databases {
		err := t.scan(database, "*", func(client *redis.Client, keys []string) error {
			var some [][]byte
			t.seen(len(keys))
			for _, key := range keys {
				if len(filter.Origins([]byte(key))) > 0 && !strings.HasPrefix(key, markerPrefix) {
					some = append(some, []byte(key))
				}
			}
			return visit(client, database, some)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// expect tells the progress how many keys there are in databases. In a cluster that isn't asked.
func (t *Target) expect(databases []int) error {
	if t.cluster != nil || t.options.Progress == nil {
		return nil
	}
	keyspace, err := ask(t.ctx, t.client, "keyspace")
	if err != nil {
		return targetSide.explain(t.options.address(), err)
	}
	t.options.Progress.Expected.Store(keyspace.keys(func(database int) bool { return slices.Contains(databases, database) }))
	return nil
}

func (t *Target) seen(keys int) {
	if t.options.Progress != nil {
		t.options.Progress.Seen.Add(int64(keys))
	}
}

// scan visits the keys of a database that fit a pattern, on every server that has some.
func (t *Target) scan(database int, pattern string, visit func(client *redis.Client, keys []string) error) error {
	each := func(ctx context.Context, client *redis.Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := client.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return targetSide.explain(t.options.address(), err)
			}
			if err := visit(client, keys); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if t.cluster == nil {
		return each(t.ctx, t.database(database))
	}
	return t.eachMaster(each)
}

// eachServer visits the server that was named, or the masters of its cluster.
func (t *Target) eachServer(visit func(context.Context, *redis.Client) error) error {
	if t.cluster == nil {
		return visit(t.ctx, t.client)
	}
	return t.eachMaster(visit)
}

// eachMaster visits a cluster's masters one after the other.
func (t *Target) eachMaster(visit func(context.Context, *redis.Client) error) error {
	turn := make(chan struct{}, 1)
	return t.cluster.ForEachMaster(t.ctx, func(ctx context.Context, client *redis.Client) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return visit(ctx, client)
	})
}

// databases lists the databases of the target that the filter may write to and that have keys.
func (t *Target) databases(filter *Filter) (list []int, err error) {
	if t.cluster != nil {
		return []int{0}, nil
	}
	numbers, err := ask(t.ctx, t.client, "keyspace")
	if err != nil {
		return nil, targetSide.explain(t.options.address(), err)
	}
	for name := range numbers {
		var number int
		if _, err := fmt.Sscanf(name, "db%d", &number); err == nil && filter.reaches(number) {
			list = append(list, number)
		}
	}
	return list, nil
}

// has says whether a key is the target's own.
func (c *Conflicts) has(database int, key []byte) bool {
	if c == nil {
		return false
	}
	_, own := c.own[ownKey{database, string(key)}]
	return own
}

// ReplaceBefore has the target's keys that the filter may write to removed one by one before the
// first command on each. It is for commands from a file, which build on nothing but what was
// written before them. Unless keys are replaced it does nothing.
func (t *Target) ReplaceBefore(filter *Filter) error {
	if t.options.Conflicts != nil {
		return nil
	}
	t.options.Conflicts = &Conflicts{Replace: true, own: map[ownKey]struct{}{}}
	return t.Survey(filter)
}

// clearBefore lists the commands that remove the target's own keys that a command touches.
func (c *Conflicts) clearBefore(command *Command) (removals []Command, err error) {
	if c == nil || !c.Replace || len(c.own) == 0 {
		return nil, nil
	}
	if command.isFunction() {
		return nil, nil
	}
	if command.Wide || len(command.Keys) == 0 && !bytes.HasPrefix(bytes.ToUpper(command.Args[0]), []byte("FLUSH")) {
		return nil, failure(ExitUnsupported, "%s may read or move keys that the target had before: begin with an empty target", brief(command.Args))
	}
	remove := func(database int, key []byte) {
		if !c.has(database, key) {
			return
		}
		delete(c.own, ownKey{database, string(key)})
		removals = append(removals, Command{Database: database, Args: [][]byte{[]byte("DEL"), key}, Keys: []KeyPosition{{Index: 1}}})
	}
	for _, key := range command.Keys {
		remove(command.Database, command.Args[key.Index])
	}
	if at := otherDatabaseAt(command.Args); at > 0 {
		if database, err := strconv.Atoi(string(command.Args[at])); err == nil {
			remove(database, command.Args[command.Keys[len(command.Keys)-1].Index])
		}
	}
	return removals, nil
}

// keeps says whether a key is the target's own, or fails if that must not be.
func (c *Conflicts) keeps(database int, key []byte) (bool, error) {
	if !c.has(database, key) {
		return false, nil
	}
	if c.Replace { // by what is written now
		delete(c.own, ownKey{database, string(key)})
		return false, nil
	}
	if c.Fail {
		return false, failure(ExitConflict, "key %.200q is in database %d of the target already (--on-conflict fail)", key, database)
	}
	return true, nil
}

// resolve is what is left of a command when the target's own keys are kept; nil if that is nothing.
func (c *Conflicts) resolve(command *Command) (*Command, error) {
	if c == nil || c.Replace || len(c.own) == 0 {
		return command, nil
	}
	if command.Wide {
		return nil, failure(ExitUnsupported, "%s may read keys that the target had", brief(command.Args))
	}
	if at := otherDatabaseAt(command.Args); at > 0 {
		return c.resolveAcross(command, at)
	}
	var conflict error
	kept, err := command.within(func(key []byte) bool {
		own, err := c.keeps(command.Database, key)
		if err != nil {
			conflict = err
		}
		return !own
	})
	if conflict != nil {
		return nil, conflict
	}
	return kept, err
}

// resolveAcross is resolve for a MOVE, or a COPY with DB: its first key is in the command's
// database, its last one in that which the word at an index names.
func (c *Conflicts) resolveAcross(command *Command, at int) (*Command, error) {
	other, err := strconv.Atoi(string(command.Args[at]))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", brief(command.Args), err)
	}
	from, err := c.keeps(command.Database, command.Args[command.Keys[0].Index])
	if err != nil {
		return nil, err
	}
	to, err := c.keeps(other, command.Args[command.Keys[len(command.Keys)-1].Index])
	switch {
	case err != nil:
		return nil, err
	case to:
		return nil, failure(ExitConflict, "%s brings a key to one that the target had", brief(command.Args))
	case from:
		return nil, failure(ExitUnsupported, "%s brings a value to another database, and the target has kept its own key instead of that value", brief(command.Args))
	}
	return command, nil
}
