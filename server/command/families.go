// Package command is what clients can ask for: one file for each family of commands, with their
// rows, their functions and their help. Package execute runs them.
//
// A command's row in the table and its function stand together. Everything else that depends on a
// command (COMMAND, ACL categories, key locking, replication, the documentation) reads the table.
package command

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/internal/config"
	"kedis/server/execute"
	"kedis/server/observe"
	"kedis/server/script"
	"kedis/storage"
)

// NewTable builds the table of all commands.
func NewTable() *Table {
	t := execute.NewTable(families())
	remember(t)
	return t
}

// kept is what commands keep between two requests, for one engine.
type kept struct {
	cursors      cursors
	payloads     payloads
	combinations combinations
	places       geoSearches
	targets      targets
	scripts      scripts

	functions functions
}

// Stop ends scripts, and every MIGRATE, which may wait for what a script holds.
func (k *kept) Stop() {
	k.scripts.stop()
	k.targets.stop()
}

// Ended waits for the MIGRATEs, which may be on no worker.
func (k *kept) Ended(within time.Duration) bool { return k.targets.ended(within) }

// KeptConnections is the number of connections to other servers that wait for the next MIGRATE.
func (k *kept) KeptConnections() int { return k.targets.kept() }

// Scripts is how many scripts are kept, and how many bytes their texts and the idle interpreters
// take.
func (k *kept) Scripts() (number int, texts, interpreters int64) {
	number, texts = k.scripts.count()
	return number, texts, k.scripts.pool.Used()
}

// keptBy returns what commands keep for an engine.
func keptBy(e *Engine) *kept { return e.Families.(*kept) }

// NewEngine makes an engine for a number of reactors, with all commands.
func NewEngine(store *storage.Store, c *config.Config, log execute.Log, logger hclog.Logger, reactors int) *Engine {
	k := &kept{}
	k.cursors.init()
	k.targets.init()
	o := script.Options{Memory: c.ScriptMemory.Get(), Version: execute.RedisVersion, Number: execute.RedisVersionNumber}
	k.scripts.init(o)
	k.functions.init(k.scripts.pool, o)
	e := execute.NewEngine(store, c, log, logger, reactors, NewTable(), k)
	e.Observer = observe.New(e)
	e.Describe = func(s *Session, args [][]byte) string { return string(describeRunning(nil, s, args)) }
	return e
}

// families lists the files of commands.
func families() []Family {
	return []Family{
		connectionFamily(),
		stringFamily(),
		bitmapFamily(),
		hyperLogLogFamily(),
		hashFamily(),
		setFamily(),
		listFamily(),
		zsetFamily(),
		streamFamily(),
		blockingFamily(),
		geoFamily(),
		genericFamily(),
		expireFamily(),
		objectFamily(),
		scanFamily(),
		dumpFamily(),
		migrateFamily(),
		sortFamily(),
		databaseFamily(),
		transactionFamily(),
		replicationFamily(),
		pubSubFamily(),
		scriptFamily(),
		functionFamily(),
		debugFamily(),
		configFamily(),
		aclFamily(),
		moduleFamily(),
		clusterFamily(),
		serverFamily(),
	}
}
