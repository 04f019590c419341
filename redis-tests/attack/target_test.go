package attack

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
	"kedis/redis-tests/seed"
)

var scale = flag.Int("scale", 1, "how many times as long as in an ordinary run")

// modest are options with which memory is small, so that an attack on it shows.
var modest = []string{"--memory-tier", "64mb", "--rocksdb-block-cache", "8mb", "--rocksdb-write-buffer-size", "4mb", "--generation-bytes", "4mb",
	"--client-query-buffer-limit", "4mb", "--proto-max-bulk-len", "64mb"}

// mostMemory is what a process with these options may take: what is configured, the code, and what
// it holds for attackers.
const mostMemory = 700 << 20

// target is a server under attack, with a witness.
type target struct {
	*launch.Server
	t       *testing.T
	random  *rand.Rand
	witness witness
}

func newTarget(t *testing.T, options ...string) *target {
	t.Helper()
	return watch(t, launch.ForTest(t, launch.MustUnderTest(t), slices.Concat(modest, options)...))
}

// watch begins to watch a server.
func watch(t *testing.T, server *launch.Server) *target {
	t.Helper()
	v := &target{Server: server, t: t, random: rand.New(rand.NewPCG(seed.Of(t), 1))}
	v.witness.begin(server.MustDial(t))
	return v
}

// survives ends an attack and asserts what each attack has to leave standing.
func (v *target) survives() {
	v.t.Helper()
	written := v.witness.end(v.t)
	v.unharmed()
	memory, err := launch.ProcessMemory(v.ProcessID(), "VmHWM")
	if err != nil {
		v.t.Fatal(err)
	}
	if memory > mostMemory {
		v.t.Errorf("the process has taken %d MB", memory>>20)
	}
	v.t.Logf("witness: %d writes and reads, p99 %v, worst %v; memory at most %d MB", written, v.witness.percentile(0.99), v.witness.percentile(1), memory>>20)
	v.keeps(v.Server, written)
	v.Kill()
	again, err := v.Restart()
	if err != nil {
		v.t.Fatal(err)
	}
	defer launch.End(v.t, again)
	v.keeps(again, written)
}

// unharmed asserts that the process lives and has met no panic.
func (v *target) unharmed() {
	v.t.Helper()
	if !v.Running() {
		v.t.Fatalf("the server has ended:\n%s", v.Output())
	}
	if output := v.Output(); strings.Contains(output, "panic") {
		v.t.Errorf("a panic:\n%s", output)
	}
}

// keeps asserts that a server has what the witness was told that it has.
func (v *target) keeps(server *launch.Server, written int) {
	v.t.Helper()
	c := server.MustDial(v.t)
	if _, err := c.Must("select", witnessDatabase); err != nil {
		v.t.Fatal(err)
	}
	for i := range written {
		c.Queue("get", witnessKey(i))
	}
	if err := c.Flush(); err != nil {
		v.t.Fatal(err)
	}
	for i := range written {
		if reply, err := c.Read(); err != nil || string(reply.Text) != strconv.Itoa(i) {
			v.t.Fatalf("%s is %s (%v), want %d", witnessKey(i), reply, err, i)
		}
	}
}

// witness is a client that does no harm. It has a database of its own.
type witness struct {
	stop  chan struct{}
	ended sync.WaitGroup

	written int
	took    []time.Duration
	failure error
}

const witnessDatabase = "9"

func witnessKey(i int) string { return fmt.Sprint("witness:", i) }

func (w *witness) begin(c *resp.Connection) {
	w.stop = make(chan struct{})
	w.ended.Go(func() {
		if _, w.failure = c.Must("select", witnessDatabase); w.failure != nil {
			return
		}
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
			}
			if w.failure = w.step(c); w.failure != nil {
				return
			}
		}
	})
}

// step writes a key and reads it.
func (w *witness) step(c *resp.Connection) error {
	begun := time.Now()
	key, value := witnessKey(w.written), strconv.Itoa(w.written)
	if _, err := c.Must("set", key, value); err != nil {
		return err
	}
	w.written++
	reply, err := c.Must("get", key)
	if err == nil && string(reply.Text) != value {
		err = fmt.Errorf("GET %s answers %s, want %s", key, reply, value)
	}
	w.took = append(w.took, time.Since(begun)/2)
	return err
}

// end returns how many keys were acknowledged.
func (w *witness) end(t *testing.T) int {
	t.Helper()
	close(w.stop)
	w.ended.Wait()
	if w.failure != nil {
		t.Errorf("the witness: %v", w.failure)
	}
	if w.written == 0 {
		t.Error("the witness has written nothing")
	}
	slices.Sort(w.took)
	return w.written
}

// percentile is the time for a request that so many of them have taken at most. It is told, and not
// asserted.
func (w *witness) percentile(part float64) time.Duration {
	if len(w.took) == 0 {
		return 0
	}
	return w.took[int(part*float64(len(w.took)-1))].Round(10 * time.Microsecond)
}

// together runs attackers side by side, each with chance of its own, and waits for them.
func (v *target) together(count int, attacker func(random *rand.Rand)) {
	var attackers sync.WaitGroup
	for range count {
		random := rand.New(rand.NewPCG(v.random.Uint64(), 2))
		attackers.Go(func() { attacker(random) })
	}
	attackers.Wait()
}
