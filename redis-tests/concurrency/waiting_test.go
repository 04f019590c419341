package concurrency

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

const (
	waitingClients = 300
	waitingSources = 5
	waitingDone    = "done"
)

func waitingSource(i int) string { return "source:" + strconv.Itoa(i) }

// mover moves elements from the sources to one list with commands that wait, and begins anew when
// it is killed. What it was told that it has moved is its own.
type mover struct {
	server *launch.Server
	random *rand.Rand
	got    []string
}

// request is one of the ways to wait for an element and to have it moved.
func (m *mover) request() []string {
	timeout := strconv.FormatFloat(float64(1+m.random.IntN(40))/1000, 'f', -1, 64)
	source := waitingSource(m.random.IntN(waitingSources))
	switch m.random.IntN(3) {
	case 0:
		return []string{"BRPOPLPUSH", source, waitingDone, timeout}
	case 1:
		return []string{"BLMOVE", source, waitingDone, "LEFT", "RIGHT", timeout}
	}
	return []string{"BLMOVE", source, waitingDone, "RIGHT", "LEFT", timeout}
}

// run moves until it is told to stop.
func (m *mover) run(stop *atomic.Bool) error {
	for !stop.Load() {
		c, err := m.server.Dial()
		if err != nil {
			return err
		}
		if err := m.serve(c, stop); err != nil {
			return err
		}
		_ = c.Close() // it may be closed already
	}
	return nil
}

// serve moves until the connection is cut.
func (m *mover) serve(c *resp.Connection, stop *atomic.Bool) error {
	for !stop.Load() {
		reply, err := c.Do(m.request()...)
		switch {
		case err != nil:
			return nil // it was killed
		case reply.Kind == '-' && !strings.HasPrefix(string(reply.Text), "UNBLOCKED"):
			return errors.New(reply.String())
		case reply.Kind == '$' && !reply.Null:
			m.got = append(m.got, string(reply.Text))
		}
	}
	return nil
}

// TestWaitersThatEndInEveryWay lets hundreds of clients wait for elements while they time out, are
// unblocked and killed, and are served by pushes, transactions, scripts and renames, all at once:
// each element is in one place in the end, and nobody was told of one that another one got.
func TestWaitersThatEndInEveryWay(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	random := rand.New(rand.NewPCG(seed.Of(t), 0))
	pusher, disturber := server.MustDial(t), server.MustDial(t)
	spared := max(clientID(t, pusher), clientID(t, disturber))
	movers := make([]*mover, waitingClients)
	var stop atomic.Bool
	var running sync.WaitGroup
	for i := range movers {
		movers[i] = &mover{server: server, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
		running.Go(func() {
			if err := movers[i].run(&stop); err != nil {
				t.Error(err)
			}
		})
	}
	others := rand.New(rand.NewPCG(random.Uint64(), 0))
	running.Go(func() {
		if err := disturb(disturber, spared, others, &stop); err != nil {
			t.Error(err)
		}
	})
	pushed, err := pushAll(pusher, random, 4000**scale)
	if err != nil {
		t.Error(err)
	}
	stop.Store(true)
	running.Wait()
	checkMoved(t, server.MustDial(t), movers, pushed, 0)
}

// TestKilledWhileHandingOver kills the server in the midst of pushes that clients wait for. After
// the start each element that was acknowledged is in one place, and whoever was told of one has
// moved it.
func TestKilledWhileHandingOver(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	random := rand.New(rand.NewPCG(seed.Of(t), 0))
	for round := range 3 * *scale {
		if round > 0 {
			if _, err := server.MustDial(t).Must("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
		}
		pusher := server.MustDial(t)
		movers := make([]*mover, waitingClients/6)
		var stop atomic.Bool
		var running sync.WaitGroup
		for i := range movers {
			movers[i] = &mover{server: server, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
			c := server.MustDial(t)
			running.Go(func() {
				if err := movers[i].serve(c, &stop); err != nil {
					t.Error(err)
				}
			})
		}
		killing := time.AfterFunc(time.Duration(50+random.IntN(300))*time.Millisecond, server.Kill)
		pushed, err := pushAll(pusher, random, 1_000_000)
		if err == nil {
			t.Error("it was never killed")
		}
		killing.Stop()
		stop.Store(true)
		running.Wait()
		if server, err = server.Restart(); err != nil {
			t.Fatal(err)
		}
		defer launch.End(t, server)
		const atOnce = 2 // elements of a request
		checkMoved(t, server.MustDial(t), movers, pushed, atOnce)
	}
}

// TestWaitersForManyKeys lets clients wait for so many keys that a worker looks at them. One that
// is gone takes nothing away, and one that stays misses nothing, whenever it comes.
func TestWaitersForManyKeys(t *testing.T) {
	const keys = 12000
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c := server.MustDial(t)
	random := rand.New(rand.NewPCG(seed.Of(t), 0))
	var lists, streams, ids []string
	for i := range keys {
		lists = append(lists, "list:"+strconv.Itoa(i))
		streams, ids = append(streams, "stream:"+strconv.Itoa(i)), append(ids, "0-0")
	}
	pop := append(append([]string{"BLPOP"}, lists...), "0")
	read := append(append([]string{"XREAD", "BLOCK", "0", "STREAMS"}, streams...), ids...)
	for range 20 * *scale {
		leaves, stays := server.MustDial(t), server.MustDial(t)
		leaver := strconv.Itoa(clientID(t, leaves))
		stays.SetTimeout(patience)
		leaves.Queue(pop...)
		stays.Queue(read...)
		if err := errors.Join(leaves.Flush(), stays.Flush()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		mustBe(t, c, "1-1", "XADD", streams[random.IntN(keys)], "1-1", "a", "b")
		if random.IntN(2) == 0 {
			_ = leaves.Close()
		} else if _, err := c.Do("CLIENT", "KILL", "ID", leaver); err != nil {
			t.Fatal(err)
		}
		for {
			reply, err := c.Must("CLIENT", "LIST", "ID", leaver)
			if err != nil {
				t.Fatal(err)
			}
			if len(reply.Text) == 0 {
				break
			}
		}
		last := lists[random.IntN(keys)]
		mustBe(t, c, "1", "RPUSH", last, "element")
		mustBe(t, c, "1", "LLEN", last)
		if reply, err := stays.Read(); err != nil || len(reply.Elements) != 1 {
			t.Fatalf("XREAD was answered %v, %v", reply, err)
		}
		mustBe(t, c, "OK", "FLUSHALL")
	}
}

func mustBe(t *testing.T, c *resp.Connection, want string, words ...string) {
	t.Helper()
	if reply, err := c.Must(words...); err != nil || string(reply.Text) != want {
		t.Fatalf("%s: %v, %v; want %s", resp.Line(words), reply, err, want)
	}
}

// clientID returns the id of a connection. Ids are given as connections are taken, which needn't be
// the order in which they were made.
func clientID(t *testing.T, c *resp.Connection) int {
	t.Helper()
	reply, err := c.Must("CLIENT", "ID")
	if err != nil {
		t.Fatal(err)
	}
	return int(integer(reply))
}

// disturb kills and unblocks clients with greater ids than the given one until it is told to stop.
func disturb(c *resp.Connection, spared int, random *rand.Rand, stop *atomic.Bool) error {
	for !stop.Load() {
		id := strconv.Itoa(spared + 1 + random.IntN(4*waitingClients))
		request := [][]string{{"CLIENT", "UNBLOCK", id}, {"CLIENT", "UNBLOCK", id, "ERROR"}, {"CLIENT", "KILL", "ID", id}}[random.IntN(3)]
		if _, err := c.Do(request...); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// pushAll pushes so many elements in several ways, and returns how many were acknowledged.
func pushAll(c *resp.Connection, random *rand.Rand, elements int) (pushed int, err error) {
	for pushed < elements {
		first, source := strconv.Itoa(pushed), waitingSource(random.IntN(waitingSources))
		var requests [][]string
		count := 1
		switch random.IntN(4) {
		case 0:
			requests = [][]string{{"LPUSH", source, first}}
		case 1:
			count = 2
			requests = [][]string{{"MULTI"}, {"RPUSH", source, first}, {"LPUSH", waitingSource(0), strconv.Itoa(pushed + 1)}, {"EXEC"}}
		case 2:
			requests = [][]string{{"EVAL", `return redis.call("rpush", KEYS[1], ARGV[1])`, "1", source, first}}
		case 3:
			requests = [][]string{{"RPUSH", "other", first}, {"LMOVE", "other", source, "LEFT", "RIGHT"}}
		}
		for _, request := range requests {
			c.Queue(request...)
		}
		if err := c.Flush(); err != nil {
			return pushed, err
		}
		for range requests {
			reply, err := c.Read()
			if err != nil {
				return pushed, err
			}
			if reply.Kind == '-' {
				return pushed, errors.New(reply.String())
			}
		}
		pushed += count
	}
	return pushed, nil
}

// checkMoved checks that each element is in one place, and that each mover was told of its own.
// So many were pushed at least; the last few may have been, or not.
func checkMoved(t *testing.T, c *resp.Connection, movers []*mover, pushed, unsure int) {
	places := map[string]string{}
	for i := range waitingSources + 1 {
		key := waitingDone
		if i < waitingSources {
			key = waitingSource(i)
		}
		reply, err := c.Must("LRANGE", key, "0", "-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, element := range reply.Elements {
			if other, twice := places[string(element.Text)]; twice {
				t.Errorf("element %s is in %s and in %s", element.Text, other, key)
			}
			places[string(element.Text)] = key
		}
	}
	for i := range pushed {
		if places[strconv.Itoa(i)] == "" {
			t.Errorf("element %d is nowhere", i)
		}
	}
	if len(places) > pushed+unsure {
		t.Errorf("%d elements are there, %d were pushed", len(places), pushed+unsure)
	}
	owners, told := map[string]int{}, 0
	for i, m := range movers {
		told += len(m.got)
		for _, element := range m.got {
			if other, twice := owners[element]; twice {
				t.Errorf("movers %d and %d were both told of element %s", other, i, element)
			}
			owners[element] = i
			if places[element] != waitingDone {
				t.Errorf("mover %d was told of element %s, which is in %q", i, element, places[element])
			}
		}
	}
	if told == 0 {
		t.Error("nobody was told of anything")
	}
	if reply, err := c.Must("INFO", "clients"); err != nil || !strings.Contains(string(reply.Text), "\r\nblocked_clients:0\r\n") {
		t.Errorf("clients are still blocked (%v): %s", err, reply.Text)
	}
	t.Logf("%d of %d elements were told of", told, pushed)
}

// TestWaitingForWhatHasExpired: a key that has expired, and that nobody has removed yet, is none:
// who waits for it is served when it comes back.
func TestWaitingForWhatHasExpired(t *testing.T) {
	redis, kedis := launch.Pair(t)
	for _, row := range []struct{ add, wait string }{
		{"rpush k a", "blpop k 0"}, {"rpush k a", "brpop other k 0"}, {"rpush k a", "brpoplpush k target 0"}, {"rpush k a", "blmove k target left right 0"},
		{"rpush k a", "blmpop 0 2 other k left"}, {"zadd k 1 a", "bzpopmin k other 0"}, {"zadd k 1 a", "bzpopmax k 0"}, {"zadd k 1 a", "bzmpop 0 1 k min"},
	} {
		want, got := servedAfterExpiry(t, redis, row.add, row.wait), servedAfterExpiry(t, kedis, row.add, row.wait)
		if got != want {
			t.Errorf("%s is answered\n%s, want\n%s", row.wait, got, want)
		}
	}
}

// servedAfterExpiry has a client wait for what has expired and isn't removed, and adds it again. It
// returns what the client gets.
func servedAfterExpiry(t *testing.T, server *launch.Server, add, wait string) string {
	t.Helper()
	c, waits := server.MustDial(t), server.MustDial(t)
	mustBe(t, c, "OK", "DEBUG", "SET-ACTIVE-EXPIRE", "0")
	mustBe(t, c, "1", strings.Fields(add)...)
	mustBe(t, c, "1", "PEXPIRE", "k", "1")
	await := func(want string, answer func() string) {
		t.Helper()
		for range 20_000 {
			if strings.Contains(answer(), want) {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("%s: %q never comes", wait, want)
	}
	answer := func(words ...string) func() string {
		return func() string {
			reply, err := c.Must(words...)
			if err != nil {
				t.Fatalf("%s: %v", wait, err)
			}
			return string(reply.Text)
		}
	}
	await("0", answer("EXISTS", "k"))
	waits.Queue(strings.Fields(wait)...)
	if err := waits.Flush(); err != nil {
		t.Fatal(err)
	}
	await("blocked_clients:1\r\n", answer("INFO", "clients"))
	mustBe(t, c, "0", "DBSIZE")
	mustBe(t, c, "1", strings.Fields(add)...)
	reply, err := waits.Read()
	if err != nil {
		t.Fatalf("%s: %v", wait, err)
	}
	mustBe(t, c, "OK", "FLUSHALL")
	return reply.String()
}
