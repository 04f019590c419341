package command

import (
	"math"
	"strconv"
	"time"

	"kedis/internal/number"
	"kedis/server/access"
	"kedis/server/execute"
)

func databaseFamily() Family {
	tips := []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	return Family{Commands: []Command{
		{Name: "flushdb", Arity: -1, Flags: Write | Exclusive, Categories: CategoryKeyspace | CategoryDangerous, Tips: tips, Run: cmdFlushDB,
			Group: "server", Since: "1.0.0", Complexity: "O(1)", Syntax: "[ASYNC | SYNC]",
			Summary: "Removes all keys of the database. Their space is given back in the background either way."},
		{Name: "flushall", Arity: -1, Flags: Write | Exclusive, Categories: CategoryKeyspace | CategoryDangerous, Tips: tips, Run: cmdFlushAll,
			Databases: func(_ [][]byte, number int) (int, bool) { return access.AllDatabases, number == 0 },
			Group:     "server", Since: "1.0.0", Complexity: "O(N) where N is the number of databases", Syntax: "[ASYNC | SYNC]",
			Summary: "Removes all keys of all databases. Their space is given back in the background either way."},
		{Name: "swapdb", Arity: 3, Flags: Write | Fast | Exclusive, Categories: CategoryKeyspace | CategoryDangerous, Run: cmdSwapDB, Databases: databasesIn(1, 2),
			Group: "server", Since: "4.0.0", Complexity: "O(N) where N is the number of keys that clients watch in both databases",
			Syntax: "index1 index2", Summary: "Exchanges two databases."},
		{Name: "dbsize", Arity: 1, Flags: ReadOnly | Fast, Categories: CategoryKeyspace, Run: cmdDBSize,
			Tips:  []string{"request_policy:all_shards", "response_policy:agg_sum"},
			Group: "server", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the number of keys in the database."},
		{Name: "time", Arity: 1, Flags: Loading | Stale | Fast, Run: cmdTime,
			Tips:  []string{"nondeterministic_output"},
			Group: "server", Since: "2.6.0", Complexity: "O(1)",
			Summary: "Returns the server's time: Unix time in seconds, and the microseconds of the running one."},
	}}
}

// databasesIn finds the databases that stand at some words, as far as there are so many.
func databasesIn(words ...int) func(args [][]byte, number int) (database int, ok bool) {
	return func(args [][]byte, number int) (int, bool) {
		if number >= len(words) || words[number] >= len(args) {
			return 0, false
		}
		database, err := parseDatabase(args[words[number]], math.MaxInt32)
		return database, err == nil
	}
}

// parseFlushMode takes ASYNC or SYNC, which make no difference.
func parseFlushMode(words [][]byte) error {
	if len(words) == 0 || len(words) == 1 && (equalFold(words[0], "ASYNC") || equalFold(words[0], "SYNC")) {
		return nil
	}
	return ErrSyntax
}

func cmdFlushDB(c *Invocation) error {
	if err := parseFlushMode(c.Args[1:]); err != nil {
		return err
	}
	if err := flush(c, c.DB.Number()); err != nil {
		return err
	}
	c.AfterCommit(c.Engine.InvalidateAll)
	c.Effect(c.Args...) // of an empty database, too, as Redis tells its replicas
	c.Reply.OK()
	return nil
}

func cmdFlushAll(c *Invocation) error {
	if err := parseFlushMode(c.Args[1:]); err != nil {
		return err
	}
	for database := range c.Engine.Store.Databases() {
		if err := flush(c, database); err != nil {
			return err
		}
	}
	c.AfterCommit(c.Engine.InvalidateAll)
	c.Effect(c.Args...)
	c.Reply.OK()
	return nil
}

// flush empties a database, and tells those who watch keys of it.
func flush(c *Invocation, database int) error {
	if err := c.Engine.Watches.DatabaseChanged(database, execute.PresenceIn(c.InDatabase(database), c.Now), execute.PresentNowhere); err != nil {
		return err
	}
	c.Txn.Flush(database)
	c.Replaced(database)
	return nil
}

func cmdSwapDB(c *Invocation) error {
	one, other, err := parseDatabases(c)
	if err != nil {
		return err
	}
	if one == other {
		c.NoEffect()
		c.Reply.OK()
		return nil
	}
	ofOne, ofOther := execute.PresenceIn(c.InDatabase(one), c.Now), execute.PresenceIn(c.InDatabase(other), c.Now)
	if err := c.Engine.Watches.DatabaseChanged(one, ofOne, ofOther); err != nil {
		return err
	}
	if err := c.Engine.Watches.DatabaseChanged(other, ofOther, ofOne); err != nil {
		return err
	}
	c.Txn.Swap(one, other)
	c.Replaced(one)
	c.Replaced(other)
	c.AfterCommit(c.Engine.InvalidateAll) // Redis leaves clients with what they have of the other database
	c.Reply.OK()
	return nil
}

func parseDatabases(c *Invocation) (one, other int, err error) {
	numbers := [2]int64{}
	for i, which := range []string{"first", "second"} {
		n, ok := number.ParseInt(c.Args[1+i])
		if !ok || n > math.MaxInt32 || n < math.MinInt32 {
			return 0, 0, Errorf("ERR invalid %s DB index", which)
		}
		numbers[i] = n
	}
	for _, n := range numbers {
		if n < 0 || n >= int64(c.Engine.Store.Databases()) {
			return 0, 0, ErrDBIndex
		}
	}
	return int(numbers[0]), int(numbers[1]), nil
}

func cmdDBSize(c *Invocation) error {
	c.Reply.Integer(c.DB.Size())
	return nil
}

func cmdTime(c *Invocation) error {
	now := time.Now()
	c.Reply.Array(2)
	c.Reply.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.Reply.BulkString(strconv.Itoa(now.Nanosecond() / 1000))
	return nil
}
