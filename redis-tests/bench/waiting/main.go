// Waiting measures what clients that wait cost, beside redis-server: many clients that wait for
// elements (handover), the same with clients that ask for each instead (polling), deadlines among
// them (deadlines), and messages to many subscribers (publish).
//
//	make bench-waiting WAITING='-clients 10000 -rate 10000 -seconds 20'
//	taskset -c 1 go run ./redis-tests/bench/waiting -under 'taskset -c 0' -only deadlines
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// bench is what all parts have in common.
type bench struct {
	clients     int           // that wait
	rate        float64       // pushes/s
	length      time.Duration // of each run
	probes      int           // deadlines that are measured
	subscribers int
	patterns    int
	load        bool // SETs beside the deadlines
	output      io.Writer
}

// part is one of the measurements, of one server.
type part struct {
	name string
	run  func(*bench, *launch.Server) error
}

var parts = []part{{"handover", (*bench).handover}, {"polling", (*bench).polling}, {"deadlines", (*bench).deadlines}, {"publish", (*bench).publish}}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "waiting:", err)
		os.Exit(1)
	}
}

func run() error {
	b := &bench{output: os.Stdout}
	only := flag.String("only", "handover,polling,deadlines,publish", "the parts to measure")
	under := flag.String("under", "", "what to run the servers with, such as 'taskset -c 0'")
	alone := flag.Bool("alone", false, "without redis-server")
	flag.IntVar(&b.clients, "clients", 10000, "clients that wait")
	flag.Float64Var(&b.rate, "rate", 10000, "pushes/s at full load")
	flag.DurationVar(&b.length, "length", 10*time.Second, "length of each run")
	flag.IntVar(&b.probes, "probes", 400, "deadlines that are measured")
	flag.IntVar(&b.subscribers, "subscribers", 1000, "clients that listen to the channel")
	flag.IntVar(&b.patterns, "patterns", 100, "clients that listen to a pattern each")
	flag.BoolVar(&b.load, "load", true, "SETs by redis-benchmark beside the deadlines")
	flag.Parse()
	if b.clients < 3 || b.rate <= 0 || b.length <= 0 || b.probes < 1 || b.subscribers < 1 {
		return errors.New("the numbers have to be larger")
	}
	programs, err := programs(*under, *alone)
	if err != nil {
		return err
	}
	chosen := strings.Split(*only, ",")
	for _, p := range parts {
		if !slices.Contains(chosen, p.name) {
			continue
		}
		for _, program := range programs {
			if err := b.measure(p, program); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// programs are the servers to measure.
func programs(under string, alone bool) ([]launch.Program, error) {
	kedis, err := launch.UnderTest()
	if err != nil {
		return nil, err
	}
	all := []launch.Program{kedis}
	if !alone {
		redis, err := launch.Oracle()
		if err != nil {
			return nil, err
		}
		all = append(all, redis)
	}
	for i := range all {
		all[i].Line = slices.Concat(strings.Fields(under), all[i].Line)
	}
	return all, nil
}

// measure measures one part of one server, which it starts.
func (b *bench) measure(p part, program launch.Program) error {
	directory, err := os.MkdirTemp("", "kedis-bench-waiting-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	options := []string{"--maxclients", strconv.Itoa(b.clients + b.subscribers + b.patterns + 100)}
	if program.IsRedis { // as in docs/performance.md: Kedis keeps what it is told, too
		options = append(options, "--appendonly", "yes", "--appendfsync", "everysec")
	}
	server, err := program.Start(directory, options...)
	if err != nil {
		return err
	}
	defer server.Kill()
	b.say("%s of %s", p.name, map[bool]string{true: "Redis", false: "Kedis"}[program.IsRedis])
	return p.run(b, server)
}

func (b *bench) say(format string, arguments ...any) {
	fmt.Fprintf(b.output, format+"\n", arguments...)
}

// distribution is how long something took.
type distribution []time.Duration

func (d distribution) String() string {
	slices.Sort(d)
	at := func(share float64) time.Duration {
		return d[min(int(share*float64(len(d))), len(d)-1)].Round(10 * time.Microsecond)
	}
	if len(d) == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, most %v of %d", at(0.5), at(0.9), at(0.99), at(1), len(d))
}

// command is a request's bytes.
func command(words ...string) []byte { return resp.AppendRequest(nil, words...) }

// field is a number of INFO.
func field(server *launch.Server, name string) (int, error) {
	c, err := server.Dial()
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	reply, err := c.Must("INFO")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(reply.Text)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("INFO has no %s", name)
}
