package command

import (
	"math"
	"strconv"

	"kedis/storage"
)

// What is repeated of commands on streams, beside themselves.

// Words of effects.
var (
	wordXAdd           = []byte("XADD")
	wordXTrim          = []byte("XTRIM")
	wordXDel           = []byte("XDEL")
	wordXGroup         = []byte("XGROUP")
	wordXClaim         = []byte("XCLAIM")
	wordXAck           = []byte("XACK")
	wordMaxLen         = []byte("MAXLEN")
	wordMinID          = []byte("MINID")
	wordExactly        = []byte("=")
	wordCreateConsumer = []byte("CREATECONSUMER")
	wordSetID          = []byte("SETID")
	wordEntriesRead    = []byte("ENTRIESREAD")
	wordTime           = []byte("TIME")
	wordRetryCount     = []byte("RETRYCOUNT")
	wordForce          = []byte("FORCE")
	wordJustID         = []byte("JUSTID")
	wordLastID         = []byte("LASTID")
	wordZero           = []byte("0")
)

// mostInEffect is how many entries an effect names.
const mostInEffect = 1000

func effectStreamID(c *Invocation, id storage.StreamID) {
	var text [48]byte
	c.EffectNumber(appendStreamID(text[:0], id))
}

func effectInteger(c *Invocation, n int64) {
	var text [24]byte
	c.EffectNumber(strconv.AppendInt(text[:0], n, 10))
}

// claimed collects entries that came to be pending for a consumer. Those that were delivered at the
// same time, and as often, are one effect: an XCLAIM, as Redis has one for each.
type claimed struct {
	key        []byte
	group      *storage.Group
	consumer   *storage.Consumer
	entries    []storage.StreamID
	ms         int64
	deliveries uint64
}

func (e *claimed) add(c *Invocation, p *storage.Pending) {
	if p.DeliveredMs != e.ms || p.Deliveries != e.deliveries || len(e.entries) == mostInEffect {
		e.say(c)
		e.ms, e.deliveries = p.DeliveredMs, p.Deliveries
	}
	e.entries = append(e.entries, p.Entry)
}

// say adds the effect.
func (e *claimed) say(c *Invocation) {
	if len(e.entries) == 0 {
		return
	}
	const besideEntries = 13
	c.BeginEffect(besideEntries+len(e.entries), wordXClaim, e.key, e.group.Name(), e.consumer.State().Name, wordZero)
	for _, id := range e.entries {
		effectStreamID(c, id)
	}
	e.entries = e.entries[:0]
	c.EffectWord(wordTime)
	effectInteger(c, e.ms)
	c.EffectWord(wordRetryCount)
	effectInteger(c, int64(min(e.deliveries, math.MaxInt64)))
	c.EffectWord(wordForce)
	c.EffectWord(wordJustID)
	c.EffectWord(wordLastID)
	effectStreamID(c, e.group.State().Last)
}

// effectGroupID says which entry a group has got last.
func effectGroupID(c *Invocation, key []byte, g *storage.Group) {
	c.BeginEffect(7, wordXGroup, wordSetID, key, g.Name())
	effectStreamID(c, g.State().Last)
	c.EffectWord(wordEntriesRead)
	effectInteger(c, g.State().Read)
}

// effectIDs says what was done to entries: one of XACK's or XDEL's words, and what stands behind
// it.
func effectIDs(c *Invocation, words [][]byte, ids []storage.StreamID) {
	for len(ids) > 0 {
		some := ids[:min(mostInEffect, len(ids))]
		c.BeginEffect(len(words)+len(some), words...)
		for _, id := range some {
			effectStreamID(c, id)
		}
		ids = ids[len(some):]
	}
}
