package command

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/digest"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

func debugFamily() Family {
	return Family{Commands: []Command{
		{Name: "debug", Arity: -2, Flags: Admin | NoScript | Loading | Stale | Protected, Run: cmdDebug, Plan: planDebug, Touching: execute.LooksAtKeys,
			Group: "server", Since: "1.0.0", Complexity: "Depends on the subcommand",
			Summary: "A container for commands that tests and maintainers need."},
	}}
}

// debugCommand is one of DEBUG's words, which Redis doesn't have in its table either.
type debugCommand struct {
	name        string
	least, most int // words
	plan        func(c *Invocation, p *execute.Plan)
	run         func(c *Invocation) error
	help        []string
}

func debugCommands() []debugCommand {
	return []debugCommand{
		{"CHANGE-REPL-ID", 2, 2, planWorker, debugChangeHistory,
			[]string{"CHANGE-REPL-ID", "    Begin a new history, as a start after a crash does. Replicas go on in it."}},
		{"DIGEST", 2, 2, planWalk, debugDigest,
			[]string{"DIGEST", "    Output a hex signature representing the current DB content."}},
		{"DIGEST-VALUE", 2, math.MaxInt, planKeys, debugDigestValue,
			[]string{"DIGEST-VALUE <key> [<key> ...]", "    Output a hex signature of the values of all the specified keys."}},
		{"ERROR", 3, 3, nil, debugError,
			[]string{"ERROR <string>", "    Return a Redis protocol error with <string> as message. Useful for clients", "    unit tests to simulate Redis errors."}},
		{"LOG", 3, 3, nil, debugLog,
			[]string{"LOG <message>", "    Write <message> to the server log."}},
		{"OBJECT", 3, 3, planKeys, debugObject,
			[]string{"OBJECT <key>", "    Show low level info about `key` and associated value."}},
		{"POPULATE", 3, 5, planEverything, debugPopulate,
			[]string{"POPULATE <count> [<prefix>] [<size>]", "    Create <count> string keys named key:<num>. If <prefix> is specified then",
				"    it is used instead of the 'key' prefix."}},
		{"PROTOCOL", 3, 3, nil, debugProtocol,
			[]string{"PROTOCOL <type>", "    Reply with a test value of the specified type. <type> can be: string,",
				"    integer, double, bignum, null, array, set, map, attrib, push, verbatim,", "    true, false."}},
		{"RELOAD", 2, 2, planWorker, debugReload,
			[]string{"RELOAD", "    Bring everything to disk, close the store and open it again."}},
		{"SET-ACTIVE-EXPIRE", 3, 3, nil, debugSetActiveExpire,
			[]string{"SET-ACTIVE-EXPIRE <0|1>", "    Setting it to 0 disables expiring keys in background when they are not",
				"    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the", "    default."}},
		{"SET-CLOCK", 3, 3, nil, debugSetClock,
			[]string{"SET-CLOCK <milliseconds>", "    Have keys expire as if the system's clock were ahead, or behind."}},
		{"SLEEP", 3, 3, planEverything, debugSleep,
			[]string{"SLEEP <seconds>", "    Stop the server for <seconds>. Decimals allowed."}},
		{"HELP", 2, 2, nil, debugHelp, []string{"HELP", "    Prints this help."}},
	}
}

func planWorker(_ *Invocation, p *execute.Plan)     { p.Worker = true }
func planWalk(_ *Invocation, p *execute.Plan)       { p.Walk = true }
func planEverything(_ *Invocation, p *execute.Plan) { p.Everything = true }

// planKeys reads keys from the third word on, on a worker.
func planKeys(c *Invocation, p *execute.Plan) {
	p.Worker = true
	for _, key := range c.Args[2:] {
		p.Lock(c.Engine.Store.Stripe(c.Session.Database, key), false)
	}
}

func findDebugCommand(args [][]byte) (debugCommand, bool) {
	for _, d := range debugCommands() {
		if equalFold(args[1], d.name) && len(args) >= d.least && len(args) <= d.most {
			return d, true
		}
	}
	return debugCommand{}, false
}

func planDebug(c *Invocation, p *execute.Plan) error {
	if d, ok := findDebugCommand(c.Args); ok && d.plan != nil {
		d.plan(c, p)
	}
	return nil
}

func cmdDebug(c *Invocation) error {
	d, ok := findDebugCommand(c.Args)
	if !ok {
		return Errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try DEBUG HELP.", execute.Clip(c.Args[1], 128))
	}
	return d.run(c)
}

// debugError replies what looks like an error and, as in Redis, counts as none.
func debugError(c *Invocation) error {
	c.Reply.WholeError(string(c.Args[2]))
	return nil
}

func debugLog(c *Invocation) error {
	c.Engine.Logger.Warn("DEBUG LOG", "message", string(c.Args[2]))
	c.Reply.OK()
	return nil
}

func debugHelp(c *Invocation) error {
	lines := []string{"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, d := range debugCommands() {
		lines = append(lines, d.help...)
	}
	return c.ReplyHelp(lines)
}

func debugDigest(c *Invocation) error {
	var all digest.Dataset
	for number := range c.Engine.Store.Databases() {
		db := c.InDatabase(number)
		var failed error
		err := db.Keys(nil, func(key []byte, m *layout.Metadata) bool {
			v := digest.NewKey(key, storage.TypeOf(m.Type).Digest)
			if failed = db.AddToDigest(&v, key, m); failed == nil {
				all.Add(number, v.Sum())
			}
			return failed == nil
		})
		if err := cmp.Or(failed, err); err != nil {
			return err
		}
	}
	c.Reply.SimpleString(all.Sum().String())
	return nil
}

func debugDigestValue(c *Invocation) error {
	c.Reply.Array(len(c.Args) - 2)
	for _, key := range c.Args[2:] {
		k, err := c.DB.Unseen().Lookup(key)
		if err != nil {
			return err
		}
		var sum digest.Sum
		if k.Exists {
			v := digest.NewValue(storage.TypeOf(k.Type).Digest)
			if err := c.DB.AddToDigest(&v, key, &k.Metadata); err != nil {
				return err
			}
			sum = v.Sum()
		}
		c.Reply.SimpleString(sum.String())
	}
	return nil
}

// payloadFrame is what a DUMP payload has besides the value: type, version and checksum.
const payloadFrame = 1 + 2 + 8

func debugObject(c *Invocation) error {
	k, err := c.DB.Unseen().Lookup(c.Args[2])
	if err != nil {
		return err
	}
	if !k.Exists {
		return ErrNoSuchKey
	}
	payload, err := c.DB.Dump(nil, k, rdb.NewPayloadWriter())
	if err != nil {
		return err
	}
	c.Reply.SimpleString(fmt.Sprintf("Value at:0x%x refcount:%d encoding:%s serializedlength:%d lru:0 lru_seconds_idle:%d",
		k.ID, redisReferences(k), storage.Encoding(&k.Metadata), len(payload)-payloadFrame, idleSeconds(c, c.Args[2])))
	return nil
}

// debugReload closes and opens the store, while nothing else runs.
func debugReload(c *Invocation) error {
	if c.Engine.Loading() { // what applies the log takes no locks
		return execute.ErrLoading
	}
	if c.Nested() {
		return Error("ERR DEBUG RELOAD can't run inside of MULTI")
	}
	err := c.Reopen()
	var refusal Error // it never came to that
	switch {
	case err == nil:
		c.Reply.OK()
		return nil
	case errors.As(err, &refusal):
		return refusal
	case c.Engine.Store.Closed():
		return errors.Join(err, c.Engine.Server.Shutdown()) // there is nothing to serve from any more
	}
	return Errorf("ERR %v", err)
}

func debugSetActiveExpire(c *Invocation) error {
	value := "no"
	if n, ok := number.ParseInt(c.Args[2]); ok && n != 0 {
		value = "yes"
	}
	if err := c.Engine.Config.Set([][2]string{{"active-expire", value}}); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func debugSetClock(c *Invocation) error {
	milliseconds, ok := number.ParseInt(c.Args[2])
	if !ok || milliseconds > int64(mostSkew/time.Millisecond) || milliseconds < -int64(mostSkew/time.Millisecond) {
		return ErrNotInteger
	}
	c.Engine.SkewClock(time.Duration(milliseconds) * time.Millisecond)
	c.Reply.OK()
	return nil
}

// mostSkew is 30 years.
const mostSkew = 30 * 365 * 24 * time.Hour

// debugSleep stops the server, as Redis does: nothing else runs meanwhile.
func debugSleep(c *Invocation) error {
	if c.OnReactor() {
		return c.Offload()
	}
	seconds, ok := number.ParseDouble(c.Args[2])
	if ok && seconds > 0 {
		select {
		case <-time.After(time.Duration(min(seconds, math.MaxInt64/2e9) * float64(time.Second))):
		case <-c.Engine.Stopped():
		}
	}
	c.Reply.OK()
	return nil
}
