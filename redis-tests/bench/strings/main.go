// Command strings measures what it costs to read and change parts of a very long string, and all of
// it, beside redis-server: requests a second on parts, one after another for a while on each server
// in turns; then the time and the highest memory of commands on the whole.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

var (
	megabytes = flag.Int("megabytes", 512, "length of the string")
	seconds   = flag.Float64("seconds", 2, "how long each question is asked, of each server, in each round")
	rounds    = flag.Int("rounds", 3, "how often")
	depth     = flag.Int("depth", 16, "requests that are on their way at a time, for each connection")
	clients   = flag.Int("clients", 8, "connections")
	only      = flag.String("only", "", "questions to be asked, a regular expression")
	whole     = flag.Bool("whole", true, "measure commands on the whole string, too")
)

// questions are commands on parts; {bit} and {byte} stand for random offsets, {end} for the one a
// megabyte behind {byte}, and {value} for 100 bytes.
var questions = [][]string{
	{"SETBIT", "long", "{bit}", "1"},
	{"GETBIT", "long", "{bit}"},
	{"SETRANGE", "long", "{byte}", "{value}"},
	{"GETRANGE", "long", "{byte}", "{near}"},
	{"BITFIELD", "long", "INCRBY", "u32", "{bit}", "1"},
	{"BITCOUNT", "long", "{byte}", "{near}"},
	{"BITCOUNT", "long", "{byte}", "{end}"},
	{"BITPOS", "long", "1", "{byte}"},
	{"STRLEN", "long"},
	{"APPEND", "growing", "{value}"},
}

// commands are on the whole.
var commands = [][]string{
	{"SETBIT", "sparse", "4294967295", "1"},
	{"BITCOUNT", "long"},
	{"BITPOS", "sparse", "1"},
	{"COPY", "long", "copy"},
	{"RENAME", "copy", "renamed"},
	{"DEL", "renamed"},
	{"BITOP", "NOT", "inverse", "long"},
	{"DEBUG", "DIGEST-VALUE", "long"},
	{"GET", "long"},
	{"DUMP", "long"},
	{"DUMP", "sparse"},
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	if err := compare(); err != nil {
		log.Fatal(err)
	}
}

// measured is one of the servers.
type measured struct {
	name        string
	server      *launch.Server
	connections []*resp.Connection
}

func compare() error {
	kedis, err := launch.UnderTest()
	if err != nil {
		return err
	}
	redis, err := launch.Oracle()
	if err != nil {
		return err
	}
	var servers []*measured
	for i, program := range []launch.Program{kedis, redis} {
		directory, err := os.MkdirTemp("", "kedis-bench-strings-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(directory) }()
		options := [][]string{nil, {"--save", "", "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0", "--enable-debug-command", "yes"}}[i]
		server, err := program.Start(directory, options...)
		if err != nil {
			return err
		}
		defer server.Kill()
		m := &measured{name: []string{"Kedis", "Redis"}[i], server: server}
		servers = append(servers, m)
		if err := m.fill(); err != nil {
			return err
		}
	}
	if err := compareParts(servers); err != nil || !*whole {
		return err
	}
	return compareWhole(servers)
}

// fill connects, and makes the string of bytes that can't be compressed.
func (m *measured) fill() error {
	for range *clients {
		c, err := m.server.Dial()
		if err != nil {
			return err
		}
		c.SetTimeout(5 * time.Minute)
		m.connections = append(m.connections, c)
	}
	random := rand.New(rand.NewPCG(1, 1))
	long := make([]byte, *megabytes<<20)
	for i := 0; i < len(long); i += 8 {
		for k, word := 0, random.Uint64(); k < 8; k++ {
			long[i+k] = byte(word >> (8 * k))
		}
	}
	took, peak, err := m.time("SET", "long", string(long))
	if err != nil {
		return err
	}
	fmt.Printf("%s: SET of %d MB takes %.2f s, peak %d MB\n", m.name, *megabytes, took.Seconds(), peak>>20)
	return m.read()
}

// read reads all of the string once, in parts, so that it is in memory.
func (m *measured) read() error {
	const part = 64 << 10
	for at := 0; at < *megabytes<<20; at += part {
		if _, err := m.connections[0].Do("GETRANGE", "long", strconv.Itoa(at), strconv.Itoa(at+part-1)); err != nil {
			return err
		}
	}
	return nil
}

func compareParts(servers []*measured) error {
	fmt.Println("\n| | Kedis/s | µs of the processor | Redis/s | µs of the processor | ratio |\n|---|---|---|---|---|---|")
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	for _, question := range questions {
		if !wanted.MatchString(resp.Line(question)) {
			continue
		}
		var rates, processor [2][]float64
		for range *rounds {
			for i, m := range servers {
				rate, used, err := m.ask(question)
				if err != nil {
					return err
				}
				rates[i], processor[i] = append(rates[i], rate), append(processor[i], used)
			}
		}
		kedis, redis := median(rates[0]), median(rates[1])
		fmt.Printf("| %s | %.0f | %.1f | %.0f | %.1f | %.2f |\n", resp.Line(question), kedis, median(processor[0]), redis, median(processor[1]), kedis/redis)
	}
	return nil
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// ask asks a question for a while on all connections, and returns the answers a second and the
// server's time of the processor for each, in µs.
func (m *measured) ask(question []string) (rate, processor float64, err error) {
	before, err := launch.ProcessorTime(m.server.ProcessID())
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	end := began.Add(time.Duration(*seconds * float64(time.Second)))
	answers, failures := make([]int, len(m.connections)), make([]error, len(m.connections))
	var asking sync.WaitGroup
	for i, c := range m.connections {
		asking.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), uint64(began.UnixNano())))
			for time.Now().Before(end) && failures[i] == nil {
				failures[i] = askOnce(c, question, random)
				answers[i] += *depth
			}
		})
	}
	asking.Wait()
	took, all := time.Since(began), 0
	for i, n := range answers {
		all += n
		if failures[i] != nil {
			return 0, 0, failures[i]
		}
	}
	after, err := launch.ProcessorTime(m.server.ProcessID())
	return float64(all) / took.Seconds(), float64((after - before).Microseconds()) / float64(all), err
}

func askOnce(c *resp.Connection, question []string, random *rand.Rand) error {
	for range *depth {
		c.Queue(fillIn(question, random)...)
	}
	if err := c.Flush(); err != nil {
		return err
	}
	for range *depth {
		reply, err := c.Read()
		if err == nil && reply.IsError() {
			err = fmt.Errorf("%s: %s", resp.Line(question), reply.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var value = string(make([]byte, 99)) + "x"

func fillIn(question []string, random *rand.Rand) []string {
	request, at := slices.Clone(question), random.IntN(*megabytes<<20-2<<20)
	for i, word := range request {
		switch word {
		case "{bit}":
			request[i] = strconv.Itoa(8*at + random.IntN(8))
		case "{byte}":
			request[i] = strconv.Itoa(at)
		case "{near}":
			request[i] = strconv.Itoa(at + 99)
		case "{end}":
			request[i] = strconv.Itoa(at + 1<<20)
		case "{value}":
			request[i] = value
		}
	}
	return request
}

// compareWhole says, for commands on the whole string, how long they take and the highest memory
// that the server has meanwhile.
func compareWhole(servers []*measured) error {
	fmt.Println("\n| | Kedis s | of the processor | peak MB | Redis s | of the processor | peak MB |\n|---|---|---|---|---|---|---|")
	for _, command := range commands {
		fmt.Printf("| %s |", resp.Line(command))
		for _, m := range servers {
			before, err := launch.ProcessorTime(m.server.ProcessID())
			if err != nil {
				return err
			}
			took, peak, err := m.time(command...)
			if err != nil {
				return err
			}
			after, err := launch.ProcessorTime(m.server.ProcessID())
			if err != nil {
				return err
			}
			fmt.Printf(" %.3f | %.2f | %d |", took.Seconds(), (after - before).Seconds(), peak>>20)
		}
		fmt.Println()
	}
	return nil
}

// time runs a command once, and returns the server's highest memory meanwhile.
func (m *measured) time(command ...string) (took time.Duration, peak int64, err error) {
	done, peaks := make(chan struct{}), make(chan int64)
	go func() { peaks <- m.highestMemory(done) }()
	began := time.Now()
	reply, err := m.connections[0].Do(command...)
	took = time.Since(began)
	close(done)
	peak = <-peaks
	if err == nil && reply.IsError() {
		err = fmt.Errorf("%.20s: %s", command[0], reply.Text)
	}
	return took, peak, err
}

func (m *measured) highestMemory(done <-chan struct{}) (highest int64) {
	for {
		if size, err := launch.ProcessMemory(m.server.ProcessID(), "VmRSS"); err == nil {
			highest = max(highest, size)
		}
		select {
		case <-done:
			return highest
		case <-time.After(5 * time.Millisecond):
		}
	}
}
