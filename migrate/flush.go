package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// whole says that databases of the target have nothing but what is moved, as far as a FLUSHDB goes.
func (p *port) whole() bool {
	return p.Filter.AllKeys() && len(p.Filter.Rewrites) == 0 && (p.conflicts == nil || len(p.conflicts.own) == 0) && !p.target.IsCluster()
}

// addFlush puts a FLUSHDB or FLUSHALL into the group: as it is where the databases are wholly the
// source's, else as the removal of the keys that are moved.
func (s *stream) addFlush(name string) error {
	databases := []int{s.read.Database}
	switch {
	case name == "FLUSHALL" && len(s.Filter.Databases) == 0 && s.whole():
		s.group = append(s.group, Command{Args: [][]byte{[]byte(name)}})
		return nil
	case name == "FLUSHALL" && len(s.Filter.Databases) == 0:
		if err := s.target.Flush(); err != nil { // else databases would be missing
			return err
		}
		var err error
		if databases, err = s.target.databases(s.Filter); err != nil {
			return err
		}
		for _, c := range s.group {
			if !slices.Contains(databases, c.Database) {
				databases = append(databases, c.Database)
			}
		}
	case name == "FLUSHALL":
		databases = nil
		for database := range s.Filter.Databases {
			databases = append(databases, database)
		}
	}
	for _, database := range databases {
		to, ok := s.Filter.Database(database)
		if !ok {
			continue
		}
		if err := s.flushDatabase(to); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) flushDatabase(database int) error {
	if s.whole() {
		s.group = append(s.group, Command{Database: database, Args: [][]byte{[]byte("FLUSHDB")}})
		return nil
	}
	// What the transaction has done in the database before is gone, too.
	for _, c := range s.group {
		if name := strings.ToUpper(string(c.Args[0])); c.Database == database && (name == "MOVE" || name == "COPY") {
			return failure(ExitUnsupported, "a transaction has %s and then empties the database", brief(c.Args))
		}
	}
	s.group = slices.DeleteFunc(s.group, func(c Command) bool { return c.Database == database })
	s.emptied = append(s.emptied, database)
	return nil
}

// clearDatabases removes the keys that are moved. To do it again after a crash changes nothing, for
// nothing behind it was done by then.
func (s *stream) clearDatabases(databases []int) error {
	if err := s.noteUnmarked(); err != nil {
		return err
	}
	if err := s.target.Flush(); err != nil {
		return err
	}
	return s.target.clear(s.Filter, databases)
}

// addSwap puts a SWAPDB into the group.
func (s *stream) addSwap(args [][]byte) error {
	if len(args) != 3 {
		return fmt.Errorf("%s is no command", brief(args))
	}
	var numbers [2]int
	moved := true
	for i, word := range args[1:3] {
		number, err := strconv.Atoi(string(word))
		if err != nil {
			return err
		}
		var ok bool
		numbers[i], ok = s.Filter.Database(number)
		moved = moved && ok
	}
	if !moved || !s.whole() {
		return failure(ExitUnsupported, "%s can't be carried over: it needs all keys of both databases to be moved, to databases that had none", brief(args))
	}
	a, b := numbers[0], numbers[1]
	words := [][]byte{[]byte("SWAPDB"), strconv.AppendInt(nil, int64(a), 10), strconv.AppendInt(nil, int64(b), 10)}
	s.group = append(s.group, Command{Args: words})
	if a == 0 || b == 0 { // the marker went along, and is written anew in database 0
		marker := [][]byte{[]byte("DEL"), []byte(s.target.marker.key())}
		s.group = append(s.group, Command{Database: a + b, Args: marker, Keys: []KeyPosition{{Index: 1}}})
	}
	return nil
}

// Clear removes from the target what the filter may have written to it, but not what it had before.
func (t *Target) Clear(filter *Filter) error {
	if filter.Libraries() {
		if err := t.clearLibraries(); err != nil {
			return err
		}
	}
	databases, err := t.databases(filter)
	if err != nil {
		return err
	}
	return t.clear(filter, databases)
}

func (t *Target) clear(filter *Filter, databases []int) error {
	return t.walkDatabases(filter, databases, func(client *redis.Client, database int, keys [][]byte) error {
		pipeline := client.Pipeline()
		for _, key := range keys {
			if !t.options.Conflicts.has(database, key) {
				pipeline.Del(t.ctx, string(key))
			}
		}
		_, err := pipeline.Exec(t.ctx)
		return targetSide.explain(t.options.address(), err)
	})
}
