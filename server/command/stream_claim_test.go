package command

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/server/execute"
)

// TestClaimIsInOrderOfDelivery: what CLAIM finds by the index is what XPENDING lists, those first
// that have been pending for longest, whatever has happened to the group since the index was made.
func TestClaimIsInOrderOfDelivery(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	random := rand.New(rand.NewPCG(1, 28))
	c.Do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
	entries := 0
	for range 1500 {
		switch random.IntN(12) {
		case 0, 1, 2, 3:
			entries++
			c.Do("XADD", "s", fmt.Sprint(entries), "f", "v")
		case 4, 5:
			c.Do("XREADGROUP", "GROUP", "g", consumerOf(random), "COUNT", "3", "STREAMS", "s", ">")
		case 6:
			c.Do("XCLAIM", "s", "g", consumerOf(random), "0", fmt.Sprint(1+random.IntN(entries+1)), "IDLE", idleOf(random), "JUSTID")
		case 7:
			c.Do("XACK", "s", "g", fmt.Sprint(1+random.IntN(entries+1)))
		case 8:
			c.Do("XREADGROUP", "GROUP", "g", consumerOf(random), "COUNT", "2", "STREAMS", "s", "0")
		case 9:
			c.disturb(random, entries)
		default:
			c.claim(random)
		}
	}
	c.Do(append([]string{"XACK", "s", "g"}, ids(entries)...)...)
	if got := c.Do("XPENDING", "s", "g"); !strings.HasPrefix(got, "*4\r\n:0\r\n") {
		t.Fatalf("pending: %q", got)
	}
}

func consumerOf(random *rand.Rand) string { return "c" + strconv.Itoa(random.IntN(4)) }

// idleOf is for how long an entry is to have been pending: not so that the time of the test would
// matter.
func idleOf(random *rand.Rand) string { return strconv.Itoa(1_000_000 * (1 + random.IntN(5))) }

func ids(entries int) (ids []string) {
	for i := range entries {
		ids = append(ids, strconv.Itoa(i+1))
	}
	return ids
}

// disturb does what happens to a group now and then.
func (c *testClient) disturb(random *rand.Rand, entries int) {
	c.T.Helper()
	switch random.IntN(6) {
	case 0:
		c.Do("XGROUP", "DELCONSUMER", "s", "g", consumerOf(random))
	case 1:
		c.Do("XDEL", "s", fmt.Sprint(1+random.IntN(entries+1)))
	case 2:
		c.Do("XAUTOCLAIM", "s", "g", consumerOf(random), "500000", "0", "COUNT", "4", "JUSTID")
	case 3:
		c.Do("XDELEX", "s", "DELREF", "IDS", "1", fmt.Sprint(1+random.IntN(entries+1)))
	case 4:
		if reply := c.Do("COPY", "s", "t", "REPLACE"); reply != ":1\r\n" {
			c.T.Fatalf("COPY: %q", reply)
		}
		c.Do("RENAME", "t", "s")
	default:
		c.Do("XCLAIM", "s", "g", consumerOf(random), "0", fmt.Sprint(1+random.IntN(entries+1)), "FORCE", "JUSTID")
	}
}

// claim compares what CLAIM delivers with what is pending.
func (c *testClient) claim(random *rand.Rand) {
	c.T.Helper()
	const count = 5
	least := 500_000 + 1_000_000*random.IntN(5)
	want := c.longestPending(least)
	c.Do("XGROUP", "SETID", "s", "g", "$")
	reply := c.Do("XREADGROUP", "GROUP", "g", consumerOf(random), "COUNT", strconv.Itoa(count), "CLAIM", strconv.Itoa(least), "STREAMS", "s", ">")
	var got []string
	for _, match := range regexp.MustCompile(`\*4\r\n\$\d+\r\n(\d+)-0\r\n`).FindAllStringSubmatch(reply, -1) {
		got = append(got, match[1])
	}
	if want = want[:min(len(want), count)]; !slices.Equal(got, want) {
		c.T.Fatalf("CLAIM %d: %v, want %v", least, got, want)
	}
}

// longestPending lists the entries that are there and have been pending for long enough, as CLAIM
// is to deliver them.
func (c *testClient) longestPending(least int) (ids []string) {
	c.T.Helper()
	type pending struct{ id, idle int }
	var all []pending
	for _, match := range regexp.MustCompile(`\*4\r\n\$\d+\r\n(\d+)-0\r\n\$\d+\r\nc\d\r\n:(\d+)`).FindAllStringSubmatch(
		c.Do("XPENDING", "s", "g", "-", "+", "100000"), -1) {
		id, _ := strconv.Atoi(match[1])
		idle, _ := strconv.Atoi(match[2])
		if there := c.Do("XRANGE", "s", match[1], match[1]); idle >= least && there != "*0\r\n" {
			all = append(all, pending{id, idle / 1000})
		}
	}
	slices.SortFunc(all, func(a, b pending) int { return cmp.Or(cmp.Compare(b.idle, a.idle), cmp.Compare(a.id, b.id)) })
	for _, p := range all {
		ids = append(ids, strconv.Itoa(p.id))
	}
	return ids
}

// TestClaimLooksIntoAllStreams: what is behind a stream that has nothing for its index is found,
// too.
func TestClaimLooksIntoAllStreams(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	const entries = indexedInPassing + 100
	c.deliverMany(entries, "a")
	c.Do("XGROUP", "CREATE", "empty", "g", "0", "MKSTREAM")
	last := fmt.Sprint(entries)
	c.Do("XCLAIM", "s", "g", "a", "0", last, "IDLE", "9000000", "JUSTID")
	reply := c.Do("XREADGROUP", "GROUP", "g", "c", "CLAIM", "8000000", "STREAMS", "empty", "s", ">", ">")
	if !strings.Contains(reply, last+"-0") {
		t.Errorf("entry %s wasn't found: %q", last, reply)
	}
}

// TestClaimOfAStreamTwice: what is served from a stream first, which had no index when the command
// opened it, keeps the index right that was made for the second time.
func TestClaimOfAStreamTwice(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.deliverMany(2, "a")
	c.Do("XCLAIM", "s", "g", "a", "0", "1", "2", "IDLE", "5000000", "JUSTID")
	c.Do("XREADGROUP", "GROUP", "g", "a", "CLAIM", "8000000", "STREAMS", "s", "s", "1", ">")
	c.want("XACK", ":1\r\n", "XACK", "s", "g", "2")
	if reply := c.Do("XREADGROUP", "GROUP", "g", "b", "CLAIM", "4000000", "STREAMS", "s", ">"); !strings.Contains(reply, "1-0") {
		t.Errorf("CLAIM: %q", reply)
	}
	c.want("COPY", ":1\r\n", "COPY", "s", "t")
}

// TestClaimOfWhatWasDeliveredNow: what was delivered in the same millisecond is claimed once, also
// when it takes several walks to find it, as there is much, or what is found first is gone.
func TestClaimOfWhatWasDeliveredNow(t *testing.T) {
	for _, one := range []struct{ entries, count int }{{4, 2}, {2*idleAtOnce + 10, 2*idleAtOnce + 10}} {
		engine, _ := newTestEngine(t)
		c := newTestClient(t, engine)
		c.Do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
		for _, id := range ids(one.entries) {
			c.Do("XADD", "s", id, "f", "v")
		}
		c.Do("MULTI")
		c.Do("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
		c.Do("XCLAIM", "s", "g", "a", "0", fmt.Sprint(one.entries), "IDLE", "5000", "JUSTID")
		c.Do("XDEL", "s", "1", "2")
		c.Do("XREADGROUP", "GROUP", "g", "b", "COUNT", fmt.Sprint(one.count), "CLAIM", "0", "STREAMS", "s", ">")
		claimed := regexp.MustCompile(`\*4\r\n\$\d+\r\n\d+-0\r\n\*2`).FindAllString(c.Do("EXEC"), -1)
		slices.Sort(claimed)
		got, want := len(claimed), one.entries-2
		if claimed = slices.Compact(claimed); got != want || len(claimed) != want {
			t.Errorf("%d entries were claimed, %d different ones, want %d", got, len(claimed), want)
		}
	}
}

// TestWaitingBesideWhatIsGone: entries that the stream has no longer are gone over once a second by
// who waits for idle ones, not a hundred times.
func TestWaitingBesideWhatIsGone(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.deliverMany(2, "a")
	c.Do("XCLAIM", "s", "g", "a", "0", "1", "2", "IDLE", "5000000", "JUSTID")
	c.Do("XDEL", "s", "1")
	request := strings.Fields("XREADGROUP GROUP g b BLOCK 0 CLAIM 1000000 STREAMS s >")
	if reply := c.Do("XREADGROUP", "GROUP", "g", "b", "CLAIM", "1000000", "STREAMS", "s", ">"); !strings.Contains(reply, "2-0") {
		t.Fatalf("what is there wasn't claimed: %q", reply)
	}
	before := engine.After(0)
	_, blocked := c.beginToWait(request...)
	if again := blocked.Until() - before; again < 900*time.Millisecond {
		t.Errorf("it is looked for again after %v", again)
	}
	blocked.Abandon()
}

// beginToWait has a client wait for others.
func (c *testClient) beginToWait(request ...string) (*execute.Request, *execute.Blocked) {
	c.T.Helper()
	c.Batch.Tick()
	read := c.Batch.Read(c.Session, words(request...))
	outcome := c.Batch.Execute(c.Session, read)
	for outcome == execute.Separate {
		c.commit()
		outcome = c.Batch.Execute(c.Session, read)
	}
	c.commit()
	if outcome == execute.Waiting && c.Session.Wait().Cause == execute.ForWorker {
		outcome = c.Engine.Work(c.Session, read)
	}
	blocked := c.Session.Wait().Blocked
	if outcome != execute.Waiting || blocked == nil {
		c.T.Fatalf("outcome %d: the client doesn't wait", outcome)
	}
	return read, blocked
}

func (c *testClient) commit() {
	c.T.Helper()
	if err := c.Batch.Commit(); err != nil {
		c.T.Fatal(err)
	}
	c.Batch.Clear()
}

// TestWaitingForWhatIsSetBack: XCLAIM may set back the time of a delivery. Who waits for what has
// been pending for long is given it, or waits for less long.
func TestWaitingForWhatIsSetBack(t *testing.T) {
	for _, one := range []struct {
		claim string
		again bool // the request runs again
		reply string
	}{
		{claim: "XCLAIM s g d 0 1"},
		{claim: "XCLAIM s g d 0 1 IDLE 4000000 JUSTID", reply: "1-0"},
		{claim: "XCLAIM s g d 0 1 TIME 1 JUSTID", reply: "1-0"},
		{claim: "XCLAIM s g d 0 1 IDLE 3000000", again: true},
	} {
		engine, _ := newTestEngine(t)
		waiter, other := newTestClient(t, engine), newTestClient(t, engine)
		waiter.deliverMany(2, "a")
		request, blocked := waiter.beginToWait(strings.Fields("XREADGROUP GROUP g w BLOCK 0 CLAIM 3600000 STREAMS s >")...)
		other.Do(strings.Fields(one.claim)...)
		if want := one.again || one.reply != ""; blocked.Ended() != want {
			t.Fatalf("%s: the client waits no more: %t, want %t", one.claim, !want, want)
		}
		waiter.Session.Reply.Reset()
		switch answered := blocked.Ended() && waiter.Batch.Answered(waiter.Session, request, blocked); {
		case answered != (one.reply != ""):
			t.Errorf("%s: the client is answered: %t", one.claim, answered)
		case !strings.Contains(string(waiter.Session.Reply.Bytes()), one.reply):
			t.Errorf("%s: the client is answered %q", one.claim, waiter.Session.Reply.Bytes())
		}
		blocked.Abandon()
	}
}
