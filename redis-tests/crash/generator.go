package crash

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	keysOfAKind   = 3
	longestExpiry = 40 // milliseconds, of keys that expire while the test runs
	farFuture     = 4_102_444_800_000
)

// Generator makes the random requests of one writer.
type Generator struct {
	random    *rand.Rand
	prefix    string // of all its keys
	databases []int
	owner     bool // of the databases: it may flush and swap them
	largest   int  // how many elements one request may bring
	makers    []func(*Generator) []string
	// expires tells when a key of those that expire goes. Before that the generator doesn't name
	// the key again, so that it is certain what a request meets.
	expires map[string]int64
	now     int64 // Unix milliseconds, of the unit that is being made
	entries int   // of streams, that were made
}

// NewGenerator returns a Generator. An owner of databases is the only one to use them. Fields
// expire if timed says so.
func NewGenerator(random *rand.Rand, prefix string, databases []int, owner, timed bool, largest int) *Generator {
	g := &Generator{random: random, prefix: prefix, databases: databases, owner: owner, largest: largest, expires: map[string]int64{}}
	g.makers = append(g.makers, makers...)
	if timed {
		g.makers = append(g.makers, makeFieldTimes, makeFieldTimes, makeFieldTimes, makeShortFieldTime, makeShortFieldTime)
	}
	if owner {
		g.makers = append(g.makers, makeFlush, makeSwap, makeSwap, makeSwap)
	}
	return g
}

var makers = []func(*Generator) []string{
	makeSelect, makeMove, makeMove, makeCopy, makeCopy, makeRename, makeRename, makeRemoval, makeRemoval, makeFarExpiry, makeFarExpiry,
	makeShortExpiry, makeShortExpiry, makeText, makeText, makeIncrement, makeIncrement, makeIncrement, makeRead,
	makeHash, makeHash, makeHash, makeHashRemoval, makeHashIncrement, makePush, makePush, makePush, makePop, makePop, makeTrim, makeLinks,
	makeMembers, makeMembers, makeMemberRemoval, makeUnion, makeScores, makeScores, makeScoreIncrement, makeScoreRemoval,
	makeEntry, makeEntry, makeEntry, makeGroup, makeDelivery, makeDelivery, makeAcknowledgement, makeAcknowledgement, makeEntryRemoval,
	makeConsumerRemoval,
}

// Unit makes the next unit. Only a unit that is sent alone may be an SPOP.
func (g *Generator) Unit(alone bool) Unit {
	g.now = time.Now().UnixMilli()
	u := Unit{At: g.now}
	if alone && g.random.IntN(10) == 0 {
		u.Requests = [][]string{{"spop", g.key("t")}}
		return u
	}
	if g.random.IntN(80) == 0 {
		u.Transaction, u.Requests = true, g.entriesOfOne()
		return u
	}
	count := 1
	if u.Transaction = g.random.IntN(4) == 0; u.Transaction {
		count = 2 + g.random.IntN(5)
	}
	for range count {
		u.Requests = append(u.Requests, g.makers[g.random.IntN(len(g.makers))](g))
	}
	return u
}

// key names a key whose first letter behind the prefix tells what it holds.
func (g *Generator) key(letter string) string {
	return g.prefix + letter + strconv.Itoa(g.random.IntN(keysOfAKind))
}

func (g *Generator) anyLetter() string {
	return string("snhltzq"[g.random.IntN(7)])
}

func (g *Generator) database() string {
	return strconv.Itoa(g.databases[g.random.IntN(len(g.databases))])
}

// count is mostly small, and sometimes more than any packed collection holds.
func (g *Generator) count() int {
	if g.random.IntN(12) == 0 {
		return 1 + g.random.IntN(g.largest)
	}
	return 1 + g.random.IntN(8)
}

func (g *Generator) text() string {
	length := g.random.IntN(20)
	if g.random.IntN(10) == 0 {
		length = g.random.IntN(300)
	}
	return fmt.Sprintf("%x%s", g.random.Uint32(), strings.Repeat("v", length))
}

// name is a field or member: a number in keys whose number is even, so that sets of integers are
// among them.
func (g *Generator) name(key string) string {
	number := strconv.Itoa(g.random.IntN(2 * g.largest))
	if (key[len(key)-1]-'0')%2 == 0 {
		return number
	}
	return "m" + number
}

func (g *Generator) names(request ...string) []string {
	for range g.count() {
		request = append(request, g.name(request[1]))
	}
	return request
}

func makeSelect(g *Generator) []string { return []string{"select", g.database()} }

func makeFlush(*Generator) []string { return []string{"flushdb"} }

func makeSwap(g *Generator) []string { return []string{"swapdb", g.database(), g.database()} }

func makeMove(g *Generator) []string { return []string{"move", g.key(g.anyLetter()), g.database()} }

func makeCopy(g *Generator) []string {
	letter := g.anyLetter()
	number := g.random.IntN(keysOfAKind)
	target := (number + 1 + g.random.IntN(keysOfAKind-1)) % keysOfAKind
	return []string{"copy", g.prefix + letter + strconv.Itoa(number), g.prefix + letter + strconv.Itoa(target), "db", g.database(), "replace"}
}

func makeRename(g *Generator) []string {
	letter := g.anyLetter()
	return []string{"rename", g.key(letter), g.key(letter)}
}

func makeRemoval(g *Generator) []string {
	name := "del"
	if g.random.IntN(2) == 0 {
		name = "unlink"
	}
	return []string{name, g.key(g.anyLetter()), g.key(g.anyLetter())}
}

func makeFarExpiry(g *Generator) []string {
	key := g.key(g.anyLetter())
	if g.random.IntN(3) == 0 {
		return []string{"persist", key}
	}
	return []string{"pexpireat", key, strconv.Itoa(farFuture + g.random.IntN(1_000_000))}
}

// makeShortExpiry makes a key that expires soon, or counts in one that has expired, which must
// begin at 0.
func makeShortExpiry(g *Generator) []string {
	key := g.key("e")
	if g.expires[key] >= g.now-1 {
		return makeIncrement(g)
	}
	if g.random.IntN(2) == 0 {
		return []string{"incrby", key, "1"}
	}
	g.expires[key] = g.now + 1 + g.random.Int64N(longestExpiry)
	return []string{"set", key, strconv.Itoa(g.random.IntN(1000)), "pxat", strconv.FormatInt(g.expires[key], 10)}
}

func makeText(g *Generator) []string {
	switch g.random.IntN(4) {
	case 3: // beyond where strings come to stand in pieces
		return []string{"setrange", g.key("s"), strconv.Itoa([]int{5, 1020, 2000, 16300, 20000}[g.random.IntN(5)]), g.text()}
	case 0:
		return []string{"append", g.key("s"), g.text()}
	case 1:
		return []string{"mset", g.key("s"), g.text(), g.key("s"), g.text()}
	}
	return []string{"set", g.key("s"), g.text()}
}

func makeIncrement(g *Generator) []string {
	return []string{"incrby", g.key("n"), strconv.Itoa(g.random.IntN(100) - 30)}
}

func makeRead(g *Generator) []string {
	reads := [][2]string{{"get", "s"}, {"get", "n"}, {"hlen", "h"}, {"llen", "l"}, {"scard", "t"}, {"zcard", "z"}, {"xlen", "q"}}
	read := reads[g.random.IntN(len(reads))]
	return []string{read[0], g.key(read[1])}
}

func makeHash(g *Generator) []string {
	request := []string{"hset", g.key("h")}
	for range g.count() {
		request = append(request, g.name(request[1]), g.text())
	}
	return request
}

func makeHashRemoval(g *Generator) []string { return g.names("hdel", g.key("h")) }

func makeHashIncrement(g *Generator) []string {
	return []string{"hincrby", g.key("h"), "count" + strconv.Itoa(g.random.IntN(5)), strconv.Itoa(g.random.IntN(100))}
}

// makePush adds to a list, now and then so much at once that most of it stands in blocks.
func makePush(g *Generator) []string {
	request := []string{"rpush", g.key("l")}
	if g.random.IntN(2) == 0 {
		request[0] = "lpush"
	}
	count := g.count()
	if g.random.IntN(16) == 0 {
		count = 400 + g.random.IntN(400)
	}
	for range count {
		request = append(request, g.text())
	}
	return request
}

func makePop(g *Generator) []string {
	if g.random.IntN(2) == 0 {
		return []string{"lpop", g.key("l")}
	}
	return []string{"rpop", g.key("l")}
}

func makeTrim(g *Generator) []string {
	from := g.random.IntN(5)
	return []string{"ltrim", g.key("l"), strconv.Itoa(from), strconv.Itoa(from + g.random.IntN(2*g.largest))}
}

// makeLinks changes lists in their middle and moves elements from one to the other.
func makeLinks(g *Generator) []string {
	if g.random.IntN(2) == 0 {
		most := []int{20, 600}[g.random.IntN(2)]
		return []string{"lset", g.key("l"), strconv.Itoa(g.random.IntN(most)), g.text()}
	}
	ends := []string{"left", "right"}
	return []string{"lmove", g.key("l"), g.key("l"), ends[g.random.IntN(2)], ends[g.random.IntN(2)]}
}

func makeMembers(g *Generator) []string { return g.names("sadd", g.key("t")) }

func makeMemberRemoval(g *Generator) []string { return g.names("srem", g.key("t")) }

func makeUnion(g *Generator) []string {
	return []string{"sunionstore", g.key("t"), g.key("t"), g.key("t")}
}

func makeScores(g *Generator) []string {
	request := []string{"zadd", g.key("z")}
	for range g.count() {
		request = append(request, strconv.Itoa(g.random.IntN(1000)), g.name(request[1]))
	}
	return request
}

func makeScoreIncrement(g *Generator) []string {
	key := g.key("z")
	return []string{"zincrby", key, strconv.Itoa(g.random.IntN(100)), g.name(key)}
}

func makeScoreRemoval(g *Generator) []string { return g.names("zrem", g.key("z")) }
