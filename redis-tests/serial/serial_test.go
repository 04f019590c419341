package serial

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	seeds "kedis/redis-tests/seed"
)

var (
	programs = flag.Int("programs", 1500, "how many programs and transactions to run")
	seed     = flag.Uint64("seed", 0, "what they are made from; 0 is chosen as in other tests")
)

const (
	clients   = 8
	scripts   = 60 // different ones
	libraries = 4
	patience  = 30 * time.Second
)

// turn is something that was carried out, and when: by its number.
type turn struct {
	number   int64
	protocol int
	requests [][]string
	reply    resp.Reply // to the last one
}

// TestSerial runs programs at the same time, repeats them one after the other on redis-server, and
// compares replies, data and libraries; those of replicas, too, and what is there after kill -9.
func TestSerial(t *testing.T) {
	if *seed == 0 {
		*seed = seeds.Of(t)
	}
	server, oracle := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))
	replicas := []*launch.Server{launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustOracle(t))}
	for _, replica := range replicas {
		must(t, replica.MustDial(t), "REPLICAOF", "127.0.0.1", strconv.Itoa(server.Port))
	}
	for name := range libraries {
		source := newLibrary(rand.New(rand.NewPCG(*seed, uint64(name))), name)
		must(t, server.MustDial(t), "FUNCTION", "LOAD", source)
		must(t, oracle.MustDial(t), "FUNCTION", "LOAD", source)
	}
	turns := together(t, server)
	if !t.Failed() {
		repeat(t, oracle, turns)
	}
	if t.Failed() {
		return
	}
	want := state(t, oracle)
	check := func(what string, s *launch.Server) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for state(t, s) != want {
			if time.Now().After(deadline) {
				t.Fatalf("%s has\n%s\nand redis-server\n%s", what, state(t, s), want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	check("the server", server)
	for _, replica := range replicas {
		check("a replica", replica)
	}
	server.Kill()
	restarted, err := server.Restart()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restarted.Kill)
	check("the server that was killed", restarted)
}

func must(t *testing.T, c *resp.Connection, words ...string) resp.Reply {
	t.Helper()
	reply, err := c.Must(words...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// state is all that a server holds.
func state(t *testing.T, s *launch.Server) string {
	t.Helper()
	c := s.MustDial(t)
	defer c.Close()
	return must(t, c, "DEBUG", "DIGEST").String() + "\n" + launch.Libraries(t, c)
}

func newLibrary(random *rand.Rand, name int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#!lua name=library%d\n", name)
	for function := range 2 {
		fmt.Fprintf(&b, "local function run%d(keys, args)\n%send\nredis.register_function('f%d_%d', run%d)\n", function, newProgram(random), name, function, function)
	}
	return b.String()
}

// together has clients run programs at the same time, and returns what they have run in the order
// of its numbers.
func together(t *testing.T, server *launch.Server) []turn {
	sources := make([]string, scripts)
	random := rand.New(rand.NewPCG(*seed, 1<<32))
	for i := range sources {
		sources[i] = "local keys, args = KEYS, ARGV\n" + newProgram(random)
	}
	var mu sync.Mutex
	var turns []turn
	var group sync.WaitGroup
	for number := range clients {
		c := server.MustDial(t)
		c.SetTimeout(patience)
		group.Go(func() {
			random := rand.New(rand.NewPCG(*seed, 1<<33+uint64(number)))
			protocol := 2 + number%2
			if _, err := c.Do("HELLO", strconv.Itoa(protocol)); err != nil {
				t.Error(err)
				return
			}
			for range *programs / clients {
				done := turn{protocol: protocol, requests: newRequests(random, sources)}
				if err := done.carryOut(c); err != nil {
					t.Errorf("%q: %v", done.requests, err)
					return
				}
				done.number = numberOf(done.reply)
				mu.Lock()
				turns = append(turns, done)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.SortFunc(turns, func(a, b turn) int { return int(a.number - b.number) })
	return turns
}

// carryOut sends the requests in one write, and keeps the last reply.
func (d *turn) carryOut(c *resp.Connection) error {
	for _, request := range d.requests {
		c.Queue(request...)
	}
	if err := c.Flush(); err != nil {
		return err
	}
	for range d.requests {
		var err error
		if d.reply, err = c.Read(); err != nil {
			return err
		}
	}
	return nil
}

// numberOf is the number that a program or a transaction has taken; 0 if it says none.
func numberOf(reply resp.Reply) int64 {
	for len(reply.Elements) > 0 {
		reply = reply.Elements[0]
	}
	number, _ := reply.Integer()
	return number
}

// newRequests makes a script, a function, or a transaction of several of them that may change a
// library.
func newRequests(random *rand.Rand, sources []string) [][]string {
	called := func() []string {
		keys := []string{"string1", "counter1", "list2", "hash3"}[:random.IntN(3)]
		words := []string{"EVAL", sources[random.IntN(len(sources))], strconv.Itoa(len(keys))}
		if random.IntN(2) == 0 {
			words = []string{"FCALL", fmt.Sprintf("f%d_%d", random.IntN(libraries), random.IntN(2)), strconv.Itoa(len(keys))}
		}
		return append(append(words, keys...), []string{"a", "b", "7"}[:random.IntN(4)]...)
	}
	if random.IntN(5) > 0 {
		return [][]string{called()}
	}
	requests := [][]string{{"MULTI"}, {"INCR", "turn"}}
	for range 1 + random.IntN(3) {
		switch random.IntN(4) {
		case 0:
			name := random.IntN(libraries)
			requests = append(requests, []string{"FUNCTION", "LOAD", "REPLACE", newLibrary(random, name)})
		case 1:
			requests = append(requests, []string{"APPEND", "string" + strconv.Itoa(1+random.IntN(4)), "+"})
		default:
			requests = append(requests, called())
		}
	}
	return append(requests, []string{"EXEC"})
}

// repeat carries everything out on redis-server, in order.
func repeat(t *testing.T, oracle *launch.Server, turns []turn) {
	t.Helper()
	var connections [4]*resp.Connection
	for protocol := 2; protocol <= 3; protocol++ {
		connections[protocol] = oracle.MustDial(t)
		must(t, connections[protocol], "HELLO", strconv.Itoa(protocol))
	}
	for i, done := range turns {
		if i > 0 && done.number <= turns[i-1].number || done.number == 0 {
			t.Fatalf("%q has number %d: %s", done.requests, done.number, done.reply)
		}
		again := done
		if err := again.carryOut(connections[done.protocol]); err != nil {
			t.Fatal(err)
		}
		if string(again.reply.Raw) != string(done.reply.Raw) {
			t.Fatalf("number %d, seed %d: %s\nis answered\n%s\nand by redis-server\n%s", done.number, *seed, show(done.requests), done.reply, again.reply)
		}
	}
}

func show(requests [][]string) string {
	var lines []string
	for _, request := range requests {
		lines = append(lines, strings.Join(request, " "))
	}
	return strings.Join(lines, "\n")
}
