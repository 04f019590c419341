package concurrency

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

var (
	waiters = flag.Int("waiters", 1500, "clients whose waits end at the same moment")
	moments = flag.Int("moments", 3, "how often they do")
)

const momentSources = 40 // keys of each kind that clients wait for

// waiter waits for an element in one way or the other, once in each round.
type waiter struct {
	*resp.Connection
	server *launch.Server
	id     string

	moves bool   // the element is moved to a list, and not taken out
	got   string // in this round; empty: nothing
	cut   bool   // it was killed before it was answered
}

func (w *waiter) dial() error {
	c, err := w.server.Dial()
	if err != nil {
		return err
	}
	c.SetTimeout(patience)
	reply, err := c.Must("CLIENT", "ID")
	w.Connection, w.id = c, strconv.FormatInt(integer(reply), 10)
	return err
}

// wait waits until it is served, or its wait has ended otherwise: at the moment, or never by
// itself.
func (w *waiter) wait(random *rand.Rand, moment time.Time) error {
	w.got, w.cut = "", false
	timeout := "0"
	if random.IntN(3) > 0 {
		timeout = strconv.FormatFloat(max(time.Until(moment).Seconds(), 0.001), 'f', 3, 64)
	}
	source := strconv.Itoa(random.IntN(momentSources))
	other := strconv.Itoa(random.IntN(momentSources))
	request := [][]string{
		{"BLMOVE", "move:" + source, waitingDone, "LEFT", "RIGHT", timeout},
		{"BRPOPLPUSH", "move:" + source, waitingDone, timeout},
		{"BLPOP", "pop:" + source, "pop:" + other, timeout},
		{"BLMPOP", timeout, "2", "pop:" + other, "pop:" + source, "RIGHT"},
		{"BZPOPMIN", "zpop:" + source, "zpop:" + other, timeout},
		{"BZMPOP", timeout, "1", "zpop:" + source, "MAX"},
	}[random.IntN(6)]
	w.moves = request[0] == "BLMOVE" || request[0] == "BRPOPLPUSH"
	reply, err := w.Do(request...)
	switch {
	case err != nil && strings.Contains(err.Error(), "timeout"):
		return fmt.Errorf("client %s was left waiting: %w", w.id, err)
	case err != nil: // it was killed
		w.cut = true
		_ = w.Close()
		return w.dial()
	case reply.IsError() && !strings.HasPrefix(string(reply.Text), "UNBLOCKED"):
		return fmt.Errorf("%s: %s", resp.Line(request), reply)
	case !reply.Null && !reply.IsError():
		w.got = elementOf(reply)
	}
	return nil
}

// elementOf is the element in the reply: it begins with an e.
func elementOf(reply resp.Reply) string {
	if len(reply.Text) > 0 && reply.Text[0] == 'e' {
		return string(reply.Text)
	}
	for _, inner := range reply.Elements {
		if element := elementOf(inner); element != "" {
			return element
		}
	}
	return ""
}

// crowd is all of the waiters, and who disturbs them.
type crowd struct {
	t       *testing.T
	server  *launch.Server
	random  *rand.Rand
	waiters []*waiter
	control *resp.Connection
	pushed  int // in all rounds

	served, cut, unanswered int
}

// round has all wait, ends their waits all at once, and looks at what has become of the elements.
func (c *crowd) round() {
	t := c.t
	moment := time.Now().Add(300*time.Millisecond + time.Duration(len(c.waiters))*100*time.Microsecond)
	first := c.pushed
	works := [][][]string{c.pushes(len(c.waiters) / 4), c.pushes(len(c.waiters) / 4), c.disturbances()}
	var ready, running sync.WaitGroup
	for _, w := range c.waiters {
		random := rand.New(rand.NewPCG(c.random.Uint64(), 0))
		running.Go(func() {
			if err := w.wait(random, moment); err != nil {
				t.Error(err)
			}
		})
	}
	for _, requests := range works {
		connection := c.server.MustDial(t)
		ready.Go(func() {
			defer func() { _ = connection.Close() }()
			time.Sleep(time.Until(moment))
			if _, err := do(connection, requests...); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	c.unblockRest(&running)
	c.check(first)
}

// unblockRest ends the waits without a deadline that nobody has ended, until all have.
func (c *crowd) unblockRest(running *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	for {
		if _, err := do(c.control, c.unblockAll()...); err != nil {
			c.t.Fatal(err)
		}
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pushes push so many elements in several ways.
func (c *crowd) pushes(count int) (requests [][]string) {
	for end := c.pushed + count; c.pushed < end; c.pushed++ {
		element, source := "e"+strconv.Itoa(c.pushed), strconv.Itoa(c.random.IntN(momentSources))
		switch c.random.IntN(6) {
		case 0:
			requests = append(requests, []string{"RPUSH", "move:" + source, element})
		case 1:
			requests = append(requests, []string{"LPUSH", "pop:" + source, element})
		case 2:
			requests = append(requests, []string{"ZADD", "zpop:" + source, strconv.Itoa(c.pushed), element})
		case 3:
			requests = append(requests, []string{"MULTI"}, []string{"RPUSH", "move:" + source, element}, []string{"LPUSH", "nobody", "x"},
				[]string{"DEL", "nobody"}, []string{"EXEC"})
		case 4:
			requests = append(requests, []string{"EVAL", `return redis.call("rpush", KEYS[1], ARGV[1])`, "1", "pop:" + source, element})
		case 5:
			requests = append(requests, []string{"RPUSH", "other:" + source, element}, []string{"LMOVE", "other:" + source, "pop:" + source, "LEFT", "RIGHT"})
		}
	}
	return requests
}

// disturbances kill and unblock some of the waiters.
func (c *crowd) disturbances() (requests [][]string) {
	for _, i := range c.random.Perm(len(c.waiters))[:len(c.waiters)/4] {
		id := c.waiters[i].id
		requests = append(requests, [][]string{{"CLIENT", "KILL", "ID", id}, {"CLIENT", "UNBLOCK", id}, {"CLIENT", "UNBLOCK", id, "ERROR"}}[c.random.IntN(3)])
	}
	return requests
}

func (c *crowd) unblockAll() (requests [][]string) {
	for _, id := range c.ids() {
		requests = append(requests, []string{"CLIENT", "UNBLOCK", id})
	}
	return append(requests, []string{"PING"})
}

// ids are those of all that wait.
func (c *crowd) ids() (ids []string) {
	reply, err := c.control.Must("CLIENT", "LIST")
	if err != nil {
		c.t.Error(err)
	}
	for line := range strings.Lines(string(reply.Text)) {
		if fields := strings.Fields(line); slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "flags=") && strings.Contains(f, "b") }) {
			ids = append(ids, strings.TrimPrefix(fields[0], "id="))
		}
	}
	return ids
}

// check checks that each element of the round is in one place or with one client, but for those
// that were taken for a client whose connection was cut before it was answered; and that nobody
// waits.
func (c *crowd) check(first int) {
	t := c.t
	owners, cut := map[string]string{}, 0
	own := func(element, owner string) {
		if other, twice := owners[element]; twice {
			t.Errorf("element %s belongs to %s and to %s", element, other, owner)
		}
		owners[element] = owner
	}
	moved := map[string]bool{}
	for _, element := range c.texts("LRANGE", waitingDone, "0", "-1") {
		own(element, waitingDone)
		moved[element] = true
	}
	for i := range momentSources {
		source := strconv.Itoa(i)
		for _, element := range slices.Concat(c.texts("LRANGE", "move:"+source, "0", "-1"), c.texts("LRANGE", "pop:"+source, "0", "-1"),
			c.texts("ZRANGE", "zpop:"+source, "0", "-1")) {
			own(element, "source "+source)
		}
	}
	for _, w := range c.waiters {
		switch {
		case w.cut && !w.moves:
			cut++
		case w.got != "" && !w.moves:
			own(w.got, "client "+w.id)
		case w.got != "" && !moved[w.got]:
			t.Errorf("client %s was told that it has moved %s, which isn't there", w.id, w.got)
		}
		if w.got != "" {
			c.served++
		}
	}
	lost := 0
	for i := first; i < c.pushed; i++ {
		if owners["e"+strconv.Itoa(i)] == "" {
			lost++
		}
	}
	if lost > cut || len(owners)+lost != c.pushed-first {
		t.Errorf("%d elements were pushed, %d are found, %d are lost, and %d clients were cut off before they were answered", c.pushed-first, len(owners), lost, cut)
	}
	c.cut += cut
	c.unanswered += lost
	if _, err := c.control.Must("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	info := c.texts("INFO", "clients")[0]
	for _, field := range []string{"blocked_clients:0", "clients_in_timeout_table:0", "total_blocking_keys:0", "total_blocking_keys_on_nokey:0"} {
		if !strings.Contains(info, "\r\n"+field+"\r\n") {
			t.Errorf("no %s: %s", field, info)
		}
	}
}

func (c *crowd) texts(request ...string) []string {
	reply, err := c.control.Must(request...)
	if err != nil {
		c.t.Fatal(err)
	}
	if reply.Kind != resp.Array {
		return []string{string(reply.Text)}
	}
	return reply.Strings()
}

// TestThousandsOfWaitersEndAtOnce lets the deadlines of thousands of waiters come at the moment at
// which others push elements for them, kill them and unblock them. No element is lost or given
// twice, nobody is left waiting, and nothing of them stays.
func TestThousandsOfWaitersEndAtOnce(t *testing.T) {
	profiles := freeAddress(t)
	server := launch.ForTest(t, launch.MustUnderTest(t), "--maxclients", strconv.Itoa(2**waiters+100), "--pprof-address", profiles, "--memory-tier", "32mb")
	c := &crowd{t: t, server: server, random: rand.New(rand.NewPCG(seed.Of(t), 0)), control: server.MustDial(t)}
	c.control.SetTimeout(patience)
	for range *waiters {
		w := &waiter{server: server}
		if err := w.dial(); err != nil {
			t.Fatal(err)
		}
		c.waiters = append(c.waiters, w)
	}
	c.round() // what a server keeps for so many clients, it has made then
	goroutines, heap := inUse(t, profiles)
	for range *moments - 1 {
		c.round()
	}
	t.Logf("%d elements: %d clients were served; %d were cut off, and %d elements with them", c.pushed, c.served, c.cut, c.unanswered)
	if c.served < c.pushed/4 || c.cut == 0 {
		t.Error("they didn't end in every way")
	}
	goroutinesNow, heapNow := inUse(t, profiles)
	const more = 20
	for deadline := time.Now().Add(patience); goroutinesNow > goroutines+more && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // gnet keeps those that register connections for ten seconds
		goroutinesNow, heapNow = inUse(t, profiles)
	}
	if t.Logf("goroutines: %d, then %d; heap: %d, then %d", goroutines, goroutinesNow, heap, heapNow); goroutinesNow > goroutines+more {
		t.Errorf("%d goroutines have become %d", goroutines, goroutinesNow)
	}
	if heapNow > heap+heap/4+4<<20 {
		t.Errorf("a heap of %d bytes has become one of %d", heap, heapNow)
	}
}

// freeAddress is where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// inUse are the server's goroutines, and the bytes of its heap that are in use.
func inUse(t *testing.T, profiles string) (goroutines, heap int) {
	t.Helper()
	number := func(profile, pattern string) int {
		response, err := http.Get("http://" + profiles + "/debug/pprof/" + profile)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s: %s", profile, bytes.TrimSpace(text))
		}
		n, _ := strconv.Atoi(string(found[1]))
		return n
	}
	return number("goroutine?debug=1", `total (\d+)`), number("heap?gc=1&debug=1", `# HeapAlloc = (\d+)`)
}
