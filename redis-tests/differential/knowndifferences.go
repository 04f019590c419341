package differential

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kedis/redis-tests/resp"
)

// known is a reason for which two replies to a command may differ, and how far they may.
type known struct {
	commands []string // with the subcommand where there is one: "object|encoding"
	reason   string
	equal    func(x *exchange) bool
}

// knownDifferences is the one list of what is let pass, and why. The oracle is Redis 7.0; Kedis
// behaves as Redis 7.2. A reply that is equal byte for byte never comes here. For one command
// several rows may hold; one that fits is enough.
var knownDifferences = []known{
	// What is left to chance.
	{[]string{"srandmember", "hrandfield", "zrandmember", "randomkey"}, "a random pick: as many, and none that isn't there", pickedFrom},
	{[]string{"spop"}, "a random pick: as many; the driver then compares what is left and makes it equal", sameShape},

	// Order that means nothing.
	{[]string{"smembers", "sunion", "sinter", "sdiff", "hkeys", "hvals", "keys", "command|list"}, "members in any order", unordered(1)},
	{[]string{"function|list"}, "libraries in any order", unordered(1)},
	{[]string{"function|dump"}, "libraries in any order", sameShape},
	{[]string{"hgetall", "config|get"}, "pairs in any order", unordered(2)},
	{[]string{"scan", "hscan", "sscan", "zscan"}, "cursors are a server's own; @scan and its kin compare whole walks", sameCursorShape},
	{[]string{"sort", "sort_ro"}, "a set that isn't sorted, or texts that weigh the same, come in any order, so LIMIT takes any part of them", sortWithoutOrder},
	{[]string{"sort", "sort_ro"}, "7.0 takes an errno that it finds for an element that can't be converted: a score of 5e-324 leaves one", errnoLeft},

	{[]string{"zlexcount", "zrangebylex", "zrevrangebylex", "zrange"}, "ranges by name mean nothing where scores differ", differentScores},

	// Time goes on between the two servers. An absolute time that was given has to come back
	// exactly.
	{[]string{"ttl"}, "seconds left", within(10)},
	{[]string{"pttl"}, "milliseconds left", within(10_000)},
	{[]string{"expiretime"}, "a relative expiry, as a time", beyond(4_200_000_000, within(10))},
	{[]string{"pexpiretime"}, "a relative expiry, as a time", beyond(4_200_000_000_000, within(10_000))},
	{[]string{"time"}, "the clock", sameShape},
	{[]string{"xpending"}, "for how long entries have been pending", pendingAlike},
	{[]string{"object|idletime"}, "seconds since the last access", integers},
	{[]string{"debug|digest-value"}, "a Redis 7.2 in the place of Kedis computes digests of scores otherwise", func(x *exchange) bool { return x.driver.Redis72 }},
	{[]string{"dbsize", "debug|digest-value"}, "expired keys are there until they are removed", equalAfterAWhile},

	// What a server is, and not what it holds.
	{[]string{"client|id", "command|count"}, "a number of the server's own", integers},
	{[]string{"hello"}, "version and connection id", sameShape},
	{[]string{"client|list", "client|info"}, "addresses, ids and figures of the server's own connections", sameShape},
	{[]string{"memory|usage"}, "bytes in this server's memory or on its disk; Redis tells them of expired keys too", memoryUsage},
	{[]string{"dump"}, "compression and the cutting of lists into nodes are free; @exchange compares what the payload says", sameShape},
	{[]string{"object|help", "client|help", "command|help", "config|help", "debug|help", "function|help", "memory|help"}, "help says what Kedis does", bothArrays},
	{[]string{"command", "command|info"}, "compared in redis-tests/commands, with a list of its own", bothArrays},
	{[]string{"command|list"}, "without a filter it names all, and Redis has more", func(x *exchange) bool { return len(x.line) == 2 && bothArrays(x) }},
	{[]string{"xreadgroup"}, "7.4 has an error of its own for +", func(x *exchange) bool { return slices.Contains(x.line, "+") && x.got.IsError() && x.want.IsError() }},
	{[]string{"xread"}, "7.4 takes + for the last entry", func(x *exchange) bool { return slices.Contains(x.line, "+") && x.want.IsError() }},
	{[]string{"xread", "xreadgroup"}, "7.4 tells which ids it takes", func(x *exchange) bool { return unbalanced(x.got) && unbalanced(x.want) }},
	{[]string{"command|list"}, "later Redis and Valkey have more commands of a kind", moreNames},

	// Encodings.
	{[]string{"object|encoding"}, "7.2 keeps small lists and sets as listpacks; Kedis tells a string's encoding from its value", encodingsMatch},
	{[]string{"object|refcount"}, "Redis shares a small integer if the command that wrote it looked for one; Kedis tells it from the value", integers},

	// Redis 7.2.
	{[]string{"zscore", "zmscore", "zincrby", "zadd", "zrange", "zrevrange", "zrangebyscore", "zrevrangebyscore", "zpopmin", "zpopmax", "zmpop",
		"zunion", "zinter", "zdiff"}, "7.2 writes scores with the fewest digits that tell them apart", sameScores},
	{[]string{"zrank", "zrevrank"}, "7.2 has WITHSCORE, and so other words for too many arguments", rankWithScore},
	{[]string{"bitcount", "bitpos"}, "7.2 checks the arguments before it looks at the key", checksBeforeKey},
	{[]string{"hello"}, "7.2 reads all words before it authenticates", authenticatesLast},
	{[]string{"lpos"}, "7.2 refuses the smallest integer, which has no positive counterpart", refusesSmallest},
	{[]string{"command|getkeys", "command|getkeysandflags"}, "7.2 takes commands without arguments here", keysOfShortCommand},
	{[]string{"command|getkeysandflags"}, "XREADGROUP changes its group: Kedis says RW", func(x *exchange) bool { return strings.EqualFold(x.line[2], "xreadgroup") && bothArrays(x) }},
	{[]string{"command|getkeysandflags"}, "some 7.2 say that SINTERSTORE overwrites, which it does", func(x *exchange) bool { return strings.EqualFold(x.line[2], "sinterstore") && bothArrays(x) }},
}

// What replies to single requests don't show differs only in the following, which the tests that
// are named let pass.
//
//   - A key of another type that SORT, ZUNIONSTORE and their kin overwrite with what clients wait for: Kedis serves them. Redis and Valkey wake
//     nobody then, up to the newest, and the clients wait on beside a list that has elements. (scripts/blocking.txt; TestWaitingClients has no such)
//   - A request that fails leaves no events. In Redis it may have told of missing keys (keymiss) before it found the error. (redis-tests/events)
//   - XREAD looks for a missing key once. 7.0 tells of it (keymiss) once or twice, as the words are. (redis-tests/events)
//   - SWAPDB has clients with caches forget everything. In Redis and Valkey nobody is told, and answers are of the other database. (redis-tests/events)
//   - While a script runs for long, BUSY is for those who need its keys, or all databases: also for WATCH, which Redis lets pass, and for EXEC
//     instead of the requests that are queued. (docs/scripts.md)
//   - QUIT closes the connection after CLIENT REPLY OFF, too. Redis and Valkey close it behind a reply, which isn't sent then, so it stays
//     open, and nothing is executed any more. (server, TestQuitWithoutReply)

// equalAfterAWhile repeats the request for as long as servers may take to remove what is expired.
func equalAfterAWhile(x *exchange) bool {
	return x.ask != nil && x.driver.eventually(func() bool {
		want, got, err := x.ask(x.line...)
		return err == nil && string(want.Raw) == string(got.Raw)
	})
}

func bothArrays(x *exchange) bool { return x.want.Kind == resp.Array && x.got.Kind == resp.Array }

// unbalanced tells whether a reply is that of XREAD to keys without ids.
func unbalanced(r resp.Reply) bool {
	return r.IsError() && strings.HasPrefix(string(r.Text), "ERR Unbalanced ")
}

// moreNames lets Kedis name more than redis-server.
func moreNames(x *exchange) bool {
	got := x.got.Strings()
	return !slices.ContainsFunc(x.want.Strings(), func(name string) bool { return !slices.Contains(got, name) })
}

// memoryUsage takes any two numbers, and none from the server that has removed, or hides, an
// expired key.
func memoryUsage(x *exchange) bool {
	if integers(x) {
		return true
	}
	if x.ask == nil {
		return !x.want.IsError() && !x.got.IsError()
	}
	want, got, err := x.ask("exists", x.line[2])
	return err == nil && string(want.Text) == "0" && string(got.Text) == "0"
}

// sameCursorShape takes any two replies to a SCAN that aren't errors.
func sameCursorShape(x *exchange) bool { return len(x.want.Elements) == 2 && len(x.got.Elements) == 2 }

// pendingAlike lets only the third of what XPENDING says of an entry differ: how long it has been
// pending.
func pendingAlike(x *exchange) bool {
	return len(x.line) > 3 && sameShape(x) && slices.EqualFunc(x.want.Elements, x.got.Elements, func(want, got resp.Reply) bool {
		const idle = 2
		for i := range want.Elements {
			if i != idle && string(want.Elements[i].Raw) != string(got.Elements[i].Raw) {
				return false
			}
		}
		return true
	})
}

// sortWithoutOrder lets elements that nothing puts in order differ in order, and in which of them
// LIMIT takes: those of a set when BY says not to sort, and those whose weights are equal texts, as
// far as the first byte 0. What LIMIT takes has to be there. What can't be asked is assumed.
func sortWithoutOrder(x *exchange) bool {
	if !bothArrays(x) || len(x.want.Elements) != len(x.got.Elements) {
		return false
	}
	by := slices.IndexFunc(x.line, func(argument string) bool { return strings.EqualFold(argument, "by") })
	sorted := by < 0 || by+1 == len(x.line) || strings.Contains(x.line[by+1], "*")
	texts := x.hasOption("alpha") && (by >= 0 || bytes.Contains(x.want.Raw, []byte{0}))
	if sorted && !texts || !sorted && !x.isSet() {
		return false
	}
	gets := 0
	for _, argument := range x.line {
		if strings.EqualFold(argument, "get") {
			gets++
		}
	}
	if x.hasOption("limit") {
		return x.ask == nil || takenFromAll(x, max(gets, 1))
	}
	return unordered(max(gets, 1))(x)
}

// isSet tells the type of the key that is sorted.
func (x *exchange) isSet() bool {
	if x.ask == nil {
		return true
	}
	kind, _, err := x.ask("type", x.line[1])
	return err == nil && kind.Is("set")
}

// takenFromAll repeats a SORT without its LIMIT, to see whether all that was answered is there, as
// often.
func takenFromAll(x *exchange, width int) bool {
	want, got, err := x.ask(withoutLimit(x.line)...)
	all := &exchange{want: want, got: got}
	if err != nil || !unordered(width)(all) {
		return false
	}
	left := map[string]int{}
	for group := range slices.Chunk(got.Elements, width) {
		left[rawOf(group)]++
	}
	for group := range slices.Chunk(x.got.Elements, width) {
		if left[rawOf(group)]--; left[rawOf(group)] < 0 {
			return false
		}
	}
	return true
}

func rawOf(group []resp.Reply) string {
	raw := ""
	for _, reply := range group {
		raw += string(reply.Raw)
	}
	return raw
}

// withoutLimit is a SORT without its LIMITs.
func withoutLimit(line []string) []string {
	kept := slices.Clone(line[:2])
	for rest := line[2:]; len(rest) > 0; {
		words := 1
		switch strings.ToLower(rest[0]) {
		case "limit":
			rest = rest[3:]
			continue
		case "by", "get", "store":
			words = 2
		}
		kept, rest = append(kept, rest[:words]...), rest[words:]
	}
	return kept
}

// differentScores reports whether the scores in a sorted set differ: then which members, and how
// many, Redis finds by name depends on how its skiplist happens to be built. Where it can't be
// asked, it is assumed.
func differentScores(x *exchange) bool {
	if x.name() == "zrange" && !x.hasOption("bylex") || len(x.line) < 2 || x.want.Kind != x.got.Kind || x.got.IsError() {
		return false
	}
	if x.ask == nil {
		return true
	}
	all, _, err := x.ask("zrange", x.line[1], "0", "-1", "withscores")
	if err != nil || !unequalScores(all) {
		return false
	}
	members, _, err := x.ask("zrange", x.line[1], "0", "-1")
	if count, ok := x.got.Integer(); ok {
		return err == nil && 0 <= count && count <= int64(len(members.Elements))
	}
	return err == nil && len(subtract(seenIn(x.got), seenIn(members))) == 0 && !repeated(x.got, 1)
}

// seenIn is the set of a reply's elements.
func seenIn(reply resp.Reply) map[string]bool {
	seen := map[string]bool{}
	for _, text := range reply.Strings() {
		seen[text] = true
	}
	return seen
}

// unequalScores takes the reply to a ZRANGE with scores in either protocol.
func unequalScores(reply resp.Reply) bool {
	texts := flatten(reply)
	for i := 3; i < len(texts); i += 2 {
		if texts[i] != texts[1] {
			return true
		}
	}
	return false
}

// encodingsMatch holds the encoding that Kedis names against the one of Redis 7.0.
func encodingsMatch(x *exchange) bool {
	want, got := string(x.want.Text), string(x.got.Text)
	switch want + " → " + got {
	case "quicklist → listpack", "hashtable → listpack":
		return true
	case "raw → embstr":
		// What was changed in place stays raw in Redis, however short.
		return x.lengthAtMost(44)
	case "raw → int", "embstr → int":
		return x.holdsInteger()
	case "listpack → hashtable", "listpack → skiplist", "intset → listpack", "intset → hashtable":
		return x.driver.Redis72
	}
	return false
}

func (x *exchange) lengthAtMost(limit int64) bool {
	if x.ask == nil {
		return true
	}
	_, length, err := x.ask("strlen", x.line[2])
	n, ok := length.Integer()
	return err == nil && ok && n <= limit
}

func (x *exchange) holdsInteger() bool {
	if x.ask == nil {
		return true
	}
	_, text, err := x.ask("get", x.line[2])
	n, parseError := strconv.ParseInt(string(text.Text), 10, 64)
	return err == nil && parseError == nil && strconv.FormatInt(n, 10) == string(text.Text)
}

func rankWithScore(x *exchange) bool {
	return len(x.line) > 3 && strings.HasPrefix(string(x.want.Text), "ERR wrong number of arguments")
}

func checksBeforeKey(x *exchange) bool {
	return slices.Contains([]string{"0", "-1", "WRONGTYPE Operation against a key holding the wrong kind of value"}, string(x.want.Text)) &&
		slices.Contains([]string{"ERR value is not an integer or out of range", "ERR syntax error"}, string(x.got.Text))
}

func authenticatesLast(x *exchange) bool {
	return strings.HasPrefix(string(x.want.Text), "WRONGPASS ") &&
		(strings.HasPrefix(string(x.got.Text), "ERR Syntax error in HELLO option") || strings.HasPrefix(string(x.got.Text), "ERR Client names cannot contain"))
}

func refusesSmallest(x *exchange) bool {
	return slices.Contains(x.line, "-9223372036854775808") && strings.HasPrefix(string(x.got.Text), "ERR value is out of range, value must between")
}

func keysOfShortCommand(x *exchange) bool {
	return len(x.line) == 3 && strings.HasPrefix(string(x.want.Text), "ERR wrong number of arguments for 'command|getkeys") && x.got.IsError()
}

// evenOut compares what SPOP has left on both servers, takes back what the server under test
// popped, and pops there what the oracle did.
func (d *Driver) evenOut(step Step, want, got resp.Reply) string {
	popped, poppedThere := members(want), members(got)
	if len(popped) == 0 {
		return ""
	}
	key := step.Line[1]
	rest, restThere, err := d.ask(step.Connection, "smembers", key)
	if err != nil {
		return fmt.Sprintf("SMEMBERS after SPOP: %v", err)
	}
	before, beforeThere := slices.Concat(popped, rest.Strings()), slices.Concat(poppedThere, restThere.Strings())
	slices.Sort(before)
	slices.Sort(beforeThere)
	if !slices.Equal(before, beforeThere) {
		return fmt.Sprintf("what SPOP took and what it left don't make the same set: %q, but %q", before, beforeThere)
	}
	if len(rest.Elements) == 0 {
		return ""
	}
	// First add, so that the set is never empty and keeps its expiry.
	for _, request := range [][]string{append([]string{"sadd", key}, poppedThere...), append([]string{"srem", key}, popped...)} {
		if _, err := d.underTest.connections[step.Connection].Must(request...); err != nil {
			return fmt.Sprintf("evening out SPOP: %v", err)
		}
	}
	return ""
}

func sorts(line []string) bool {
	name := strings.ToLower(line[0])
	return name == "sort" || name == "sort_ro"
}

// errnoLeft repeats a SORT that an errno made fail. It was left since forgetError by SORT itself,
// when it read the scores of a sorted set out of a listpack; now they are in a skiplist.
func errnoLeft(x *exchange) bool {
	if string(x.want.Text) != "ERR One or more scores can't be converted into double" || x.ask == nil {
		return false
	}
	if _, _, err := x.ask(errnoCleared...); err != nil {
		return false
	}
	want, got, err := x.ask(x.line...)
	again := &exchange{line: x.line, want: want, got: got, driver: x.driver}
	return err == nil && (string(want.Raw) == string(got.Raw) || sortWithoutOrder(again))
}

// errnoCleared is a request that fails, and clears errno before it does.
var errnoCleared = []string{"incrbyfloat", exchangeKey, "abc"}

// forgetError lets redis-server send a number through a function that clears errno. SORT of Redis
// 7.0 doesn't, and takes what an earlier command left there (ERANGE, of SCAN with too large a
// cursor or of a score out of range) for an element that can't be converted.
func (d *Driver) forgetError(connection int) error {
	_, err := d.oracle.connections[connection].Do(errnoCleared...)
	return err
}

// pack turns a sorted set back that SORT has turned into a skiplist. In Redis that reading command
// changes how a small sorted set is stored, and so its encoding and what becomes of a score of -0;
// in Kedis reads change nothing. A payload that is restored is packed where it fits.
func (d *Driver) pack(step Step) string {
	key := step.Line[1]
	want, got, err := d.ask(step.Connection, "object", "encoding", key)
	if err != nil || string(want.Text) != "skiplist" || string(got.Text) != "listpack" {
		return errorText(err)
	}
	d.Hits["SORT turns a sorted set into a skiplist"]++
	for _, s := range []*side{&d.oracle, &d.underTest} {
		if err := restoreOwn(s.connections[step.Connection], key); err != nil {
			return fmt.Sprintf("packing a sorted set after SORT: %v", err)
		}
	}
	return ""
}

// forget removes a key of bytes that are no HyperLogLog. Redis leaves in it what PFADD had added
// before it came to the error, and tells neither its log nor its replicas; Kedis takes it back.
func (d *Driver) forget(step Step) string {
	want, got, err := d.ask(step.Connection, "del", step.Line[1])
	if err == nil && want.String() != got.String() {
		return "a key that PFADD takes for no HyperLogLog isn't there on both"
	}
	d.Hits["PFADD fails in the midst"]++
	return errorText(err)
}

// restoreOwn replaces a key by what its own DUMP says, with its own expiry.
func restoreOwn(connection *resp.Connection, key string) error {
	payload, err := connection.Must("dump", key)
	if err != nil {
		return err
	}
	expires, err := connection.Must("pexpiretime", key)
	if err != nil {
		return err
	}
	at, _ := expires.Integer()
	_, err = connection.Must("restore", key, strconv.FormatInt(max(at, 0), 10), string(payload.Text), "replace", "absttl")
	return err
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func members(reply resp.Reply) []string {
	if reply.Kind == resp.BulkString && !reply.Null {
		return []string{string(reply.Text)}
	}
	return reply.Strings()
}
