// Synchronous measures what it costs that replies wait for a replica: SETs without that, with
// synchronous-replicas 1, and with WAIT 1 behind each, on a Kedis whose replica is on the same
// machine, and the first and the last of them on Redis. Runs take turns.
//
//	go run ./redis-tests/bench/synchronous -rounds 5 -depths 1,16,64
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kedis/redis-tests/launch"
)

var (
	rounds  = flag.Int("rounds", 5, "rounds of each way and depth; one more before them isn't counted")
	depths  = flag.String("depths", "1,16,64", "SETs that a client sends at once")
	clients = flag.Int("clients", 50, "clients")
	length  = flag.Duration("length", 2*time.Second, "length of each run")
	keys    = flag.Int("keys", 100_000, "keys")
)

// way is a server and how its clients come to know that a replica has what they have written.
type way struct {
	name      string
	set       *set
	replicas  string // for synchronous-replicas
	waitsEach bool   // WAIT 1 behind each SET
}

// set is a primary and its replica.
type set struct {
	primary, replica *launch.Server
}

func main() {
	flag.Parse()
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "synchronous:", err)
		os.Exit(1)
	}
}

func measure() error {
	kedis, err := launch.UnderTest()
	if err != nil {
		return err
	}
	redis, err := launch.Oracle()
	if err != nil {
		return err
	}
	sets := [2]*set{}
	for i, program := range []launch.Program{kedis, redis} {
		s, err := start(program)
		if err != nil {
			return err
		}
		sets[i] = s
		defer s.end()
	}
	ways := []way{{"Kedis", sets[0], "0", false}, {"Kedis, synchronous-replicas 1", sets[0], "1", false}, {"Kedis, WAIT 1 behind each", sets[0], "0", true},
		{"Redis", sets[1], "", false}, {"Redis, WAIT 1 behind each", sets[1], "", true}}
	fmt.Println("| depth | | SETs/s | of the first | p50 ms | p99 ms |\n|---|---|---|---|---|---|")
	for word := range strings.SplitSeq(*depths, ",") {
		depth, err := strconv.Atoi(word)
		if err != nil || depth < 1 {
			return fmt.Errorf("-depths: %q is no number", word)
		}
		if err := compare(ways, depth); err != nil {
			return err
		}
	}
	return nil
}

// start starts a primary and a replica that has caught up.
func start(program launch.Program) (*set, error) {
	s := &set{}
	for _, server := range []**launch.Server{&s.primary, &s.replica} {
		directory, err := os.MkdirTemp("", "kedis-bench-synchronous")
		if err != nil {
			return nil, err
		}
		if *server, err = program.Start(directory); err != nil {
			return nil, err
		}
	}
	c, err := s.replica.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Must("REPLICAOF", "127.0.0.1", strconv.Itoa(s.primary.Port)); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		info, err := c.Must("INFO", "replication")
		switch {
		case err != nil:
			return nil, err
		case strings.Contains(string(info.Text), "master_link_status:up"):
			return s, nil
		case time.Now().After(deadline):
			return nil, fmt.Errorf("the replica of %s doesn't come up", s.primary.Address)
		}
	}
}

func (s *set) end() {
	for _, server := range []*launch.Server{s.replica, s.primary} {
		server.Kill()
		_ = os.RemoveAll(server.Directory)
	}
}

// outcome is what the clients of one run were told.
type outcome struct {
	rate      float64
	latencies []time.Duration // of a client's requests that were sent at once
}

// compare has all ways take turns at one depth.
func compare(ways []way, depth int) error {
	rates, latencies := make([][]float64, len(ways)), make([][]time.Duration, len(ways))
	for round := range 1 + *rounds {
		for i := range ways {
			o, err := ways[i].run(depth)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if round > 0 {
				rates[i], latencies[i] = append(rates[i], o.rate), append(latencies[i], o.latencies...)
			}
		}
	}
	var first float64
	for i, w := range ways {
		slices.Sort(rates[i])
		slices.Sort(latencies[i])
		rate, n := rates[i][len(rates[i])/2], len(latencies[i])
		if !w.waitsEach && w.replicas != "1" {
			first = rate
		}
		fmt.Printf("| %d | %s | %.0f | %.2f | %.2f | %.2f |\n", depth, w.name, rate, rate/first, milliseconds(latencies[i][n/2]), milliseconds(latencies[i][n*99/100]))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// run has clients write for a while.
func (w *way) run(depth int) (outcome, error) {
	if w.replicas != "" {
		c, err := w.set.primary.Dial()
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		if _, err := c.Must("CONFIG", "SET", "synchronous-replicas", w.replicas); err != nil {
			return outcome{}, err
		}
	}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		total   outcome
		failed  error
	)
	began := time.Now()
	for range *clients {
		running.Go(func() {
			latencies, err := w.work(depth, began.Add(*length))
			mu.Lock()
			defer mu.Unlock()
			total.latencies = append(total.latencies, latencies...)
			if err != nil {
				failed = err
			}
		})
	}
	running.Wait()
	total.rate = float64(len(total.latencies)*depth) / time.Since(began).Seconds()
	return total, failed
}

// work is one client.
func (w *way) work(depth int, until time.Time) (latencies []time.Duration, err error) {
	c, err := w.set.primary.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	value := strings.Repeat("v", 100)
	for began := time.Now(); began.Before(until); began = time.Now() {
		replies := depth
		for range depth {
			c.Queue("SET", "key:"+strconv.Itoa(rand.IntN(*keys)), value)
			if w.waitsEach {
				c.Queue("WAIT", "1", "0")
				replies++
			}
		}
		if err := c.Flush(); err != nil {
			return nil, err
		}
		for range replies {
			reply, err := c.Read()
			if err == nil && reply.IsError() {
				err = fmt.Errorf("the reply is %s", reply)
			}
			if err != nil {
				return nil, err
			}
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}
