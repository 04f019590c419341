// Program pairs compares two builds, or two settings of one build, by alternating short runs of
// redis-benchmark. It prints the median of B's requests/s divided by A's, with a 95 % interval:
// five medians can't show a difference of 5 %. Beside it stands the same of the processor time that
// the server took for a request, A's divided by B's: other programs on the machine disturb it less.
//
//	pairs -a 'bin/kedis-before serve' -b 'bin/kedis serve --reactors 1' -pairs 20
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// shape is where client and server run, and what the client sends.
type shape struct {
	name    string
	server  []string // in front of the server's command line
	client  []string // in front of the client's
	clients int
	bytes   int // of a value
	depths  []int
}

var shapes = []shape{
	{name: "shared", clients: 50, bytes: 100, depths: []int{1, 16, 64}},
	{name: "split", server: []string{"taskset", "-c", "0"}, client: []string{"taskset", "-c", "1"}, clients: 50, bytes: 100, depths: []int{1, 16, 64}},
	{name: "large", clients: 200, bytes: 2048, depths: []int{1, 4}},
}

// comparison is what the flags ask for.
type comparison struct {
	servers [2][]string
	pairs   int
	scale   float64
	keys    int
	tests   []string
	shapes  *regexp.Regexp
	depths  string
	out     io.Writer
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pairs:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	c := comparison{out: os.Stdout}
	var a, b, tests, only string
	flag.StringVar(&a, "a", "", "command line of server A, up to its options")
	flag.StringVar(&b, "b", "", "command line of server B")
	flag.IntVar(&c.pairs, "pairs", 20, "pairs of runs for each line")
	flag.Float64Var(&c.scale, "scale", 1, "times the ordinary number of requests")
	flag.IntVar(&c.keys, "keys", 100_000, "different keys")
	flag.StringVar(&tests, "t", "set,get", "redis-benchmark's tests")
	flag.StringVar(&only, "shapes", "", "regular expression for the shapes to run: shared, split, large")
	flag.StringVar(&c.depths, "depths", "", "pipeline depths; empty: those of the shape")
	flag.Parse()
	for i, line := range []string{a, b} {
		if c.servers[i], err = resp.SplitLine(line); err != nil {
			return fmt.Errorf("-a and -b: %q: %w", line, err)
		}
		if len(c.servers[i]) == 0 {
			return errors.New("-a and -b: a command line each")
		}
	}
	if c.pairs < 1 {
		return errors.New("-pairs: a line needs one pair at least")
	}
	if c.shapes, err = regexp.Compile(only); err != nil {
		return err
	}
	c.tests = strings.Split(tests, ",")
	fmt.Fprintln(c.out, "| shape | test | depth | A/s | B/s | B/A | 95 % | processor A/B | 95 % |\n|---|---|---|---|---|---|---|---|---|")
	for _, s := range shapes {
		if !c.shapes.MatchString(s.name) {
			continue
		}
		if err := c.compare(s); err != nil {
			return err
		}
	}
	return nil
}

// compare runs all lines of a shape on two servers of their own.
func (c *comparison) compare(s shape) (err error) {
	var servers [2]*launch.Server
	for i, line := range c.servers {
		directory, err := os.MkdirTemp("", "kedis-pairs")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
		program := launch.Program{Line: slices.Concat(s.server, line), IsRedis: strings.Contains(line[0], "redis-server")}
		if servers[i], err = program.Start(directory); err != nil {
			return err
		}
		defer servers[i].Kill()
	}
	depths, err := c.depthsOf(s)
	if err != nil {
		return err
	}
	for _, test := range c.tests {
		for _, depth := range depths {
			if err := c.measure(s, servers, test, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *comparison) depthsOf(s shape) (depths []int, err error) {
	if c.depths == "" {
		return s.depths, nil
	}
	for _, text := range strings.Split(c.depths, ",") {
		depth, err := strconv.Atoi(text)
		if err != nil || depth < 1 {
			return nil, fmt.Errorf("-depths: %q isn't a list of positive numbers", c.depths)
		}
		depths = append(depths, depth)
	}
	return depths, nil
}

// measure runs one line in pairs. The first pair isn't counted: it fills memory and caches.
func (c *comparison) measure(s shape, servers [2]*launch.Server, test string, depth int) error {
	var rates [2][]float64
	var ratios, processor []float64
	for pair := range 1 + c.pairs {
		var rate [2]float64
		var used [2]time.Duration
		for turn := range 2 {
			i := (pair + turn) % 2
			before, err := launch.ProcessorTime(servers[i].ProcessID())
			if err != nil {
				return err
			}
			if rate[i], err = c.benchmark(s, servers[i].Port, test, depth); err != nil {
				return err
			}
			after, err := launch.ProcessorTime(servers[i].ProcessID())
			if err != nil {
				return err
			}
			used[i] = after - before
		}
		if pair == 0 {
			continue
		}
		rates[0], rates[1] = append(rates[0], rate[0]), append(rates[1], rate[1])
		ratios, processor = append(ratios, rate[1]/rate[0]), append(processor, used[0].Seconds()/used[1].Seconds())
	}
	low, high := interval(ratios)
	least, most := interval(processor)
	fmt.Fprintf(c.out, "| %s | %s | %d | %.0f | %.0f | **%.3f** | %.3f–%.3f | **%.3f** | %.3f–%.3f |\n",
		s.name, test, depth, median(rates[0]), median(rates[1]), median(ratios), low, high, median(processor), least, most)
	return nil
}

// requests is about a second of a run.
func requests(depth int) float64 {
	switch {
	case depth >= 64:
		return 800_000
	case depth >= 16:
		return 400_000
	case depth > 1:
		return 200_000
	}
	return 80_000
}

func (c *comparison) benchmark(s shape, port int, test string, depth int) (perSecond float64, err error) {
	line := slices.Concat(s.client, []string{"redis-benchmark", "-p", strconv.Itoa(port), "-c", strconv.Itoa(s.clients), "-d", strconv.Itoa(s.bytes),
		"-r", strconv.Itoa(c.keys), "-P", strconv.Itoa(depth), "-n", strconv.Itoa(int(requests(depth) * c.scale)), "-t", test, "--csv"})
	var standardError bytes.Buffer
	command := exec.Command(line[0], line[1:]...)
	command.Stderr = &standardError
	output, err := command.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, standardError.String())
	}
	rows, err := csv.NewReader(bytes.NewReader(output)).ReadAll()
	if err != nil || len(rows) < 2 || len(rows[len(rows)-1]) < 2 {
		return 0, fmt.Errorf("redis-benchmark printed %q (%v)", output, err)
	}
	return strconv.ParseFloat(rows[len(rows)-1][1], 64)
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// interval returns the order statistics that hold the median with at least 95 %, from the binomial
// distribution; the lowest and the highest sample when there are too few (Conover, Practical
// Nonparametric Statistics, 3.2).
func interval(samples []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	outside, rank := 0.0, 0
	for ; rank < n/2; rank++ {
		outside += choose(n, rank) / math.Pow(2, float64(n))
		if 2*outside > 0.05 {
			break
		}
	}
	rank = max(rank-1, 0)
	return sorted[rank], sorted[n-1-rank]
}

func choose(n, k int) float64 {
	product := 1.0
	for i := range k {
		product *= float64(n-i) / float64(i+1)
	}
	return product
}
