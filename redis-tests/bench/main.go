// Program bench runs redis-benchmark against Kedis and redis-server in turns, in one run on one
// machine, and writes what it measured: every round as text, the medians with their spread as a
// table, and a chart. With -floor it takes a server that does nothing in Kedis's place, which shows
// what the machine and redis-benchmark leave to be reached.
//
// It imports the standard library and its neighbours in redis-tests, nothing of Kedis.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/certificates"
	"kedis/redis-tests/launch"
)

// plan says what is run.
type plan struct {
	rounds    int
	single    int     // rounds at depth 1; 0: as many as of the others
	scale     float64 // of the numbers of requests
	keys      int
	valueSize int
	clients   int
	depths    []int
	only      *regexp.Regexp // names of workloads
	directory string         // for the results
	floor     bool           // instead of Kedis
	encrypted bool           // clients connect with TLS
	memory    string         // memory-tier of Kedis; empty: its default
	patience  time.Duration  // how long it is waited for the machine to rest

	clientFlags []string // for redis-benchmark
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var p plan
	var only, depths string
	flag.IntVar(&p.rounds, "rounds", 5, "rounds of each workload on each server")
	flag.IntVar(&p.single, "rounds-at-1", 0, "rounds at depth 1, where servers differ least and runs of one server by as much; 0: as at other depths")
	flag.Float64Var(&p.scale, "scale", 1, "times the ordinary number of requests")
	flag.IntVar(&p.keys, "keys", 1_000_000, "different keys")
	flag.IntVar(&p.valueSize, "size", 100, "bytes of a value")
	flag.IntVar(&p.clients, "clients", 50, "connections")
	flag.StringVar(&depths, "depths", "1,16,64", "pipeline depths")
	flag.StringVar(&only, "only", "", "regular expression for the names of the workloads to run")
	flag.StringVar(&p.directory, "results", "bench-results", "folder for the results")
	flag.BoolVar(&p.floor, "floor", false, "measure a server that does nothing instead of Kedis")
	flag.BoolVar(&p.encrypted, "tls", false, "connect with TLS")
	flag.StringVar(&p.memory, "memory-tier", "", "Kedis's option, where its default doesn't hold what Redis has in memory")
	flag.DurationVar(&p.patience, "rest", 30*time.Second, "wait at most so long for the machine to rest between runs; 0 where others work on it")
	flag.Parse()
	if p.floor && p.encrypted {
		return errors.New("-floor: has no TLS")
	}
	if p.rounds < 1 || p.single < 0 {
		return errors.New("-rounds and -rounds-at-1: a line needs one round at least")
	}
	var err error
	if p.only, err = regexp.Compile(only); err != nil {
		return err
	}
	for _, text := range strings.Split(depths, ",") {
		var depth int
		if _, err := fmt.Sscan(text, &depth); err != nil || depth < 1 {
			return fmt.Errorf("-depths: %q isn't a list of positive numbers", depths)
		}
		p.depths = append(p.depths, depth)
	}
	if err := os.MkdirAll(p.directory, 0o755); err != nil {
		return err
	}
	return p.compare()
}

// compare runs every workload and writes the results.
func (p *plan) compare() (err error) {
	began := time.Now()
	raw, err := os.Create(filepath.Join(p.directory, p.file(".txt")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	fmt.Fprintf(raw, "%s\n%s\n", strings.Join(os.Args, " "), machine())

	var options []string
	if p.encrypted {
		files := &temporary{}
		defer files.remove()
		authority := certificates.NewAuthority(files)
		own := authority.Sign("bench")
		options, p.clientFlags = append(authority.ServerOptions(own), "--tls-port", launch.FreePort), authority.ClientFlags(own)
	}
	pair, err := p.startPair(options)
	if err != nil {
		return err
	}
	defer pair.end()
	fmt.Fprintf(raw, "%s\n", pair.versions())

	var results []result
	for _, w := range allLines() {
		if !p.only.MatchString(w.name) || p.lacks(w) {
			continue
		}
		for _, depth := range p.depths {
			r, err := p.measure(&pair, w, depth, raw)
			if err != nil {
				return fmt.Errorf("%s at depth %d: %w", w.name, depth, err)
			}
			fmt.Println(r)
			results = append(results, r)
		}
	}
	report := report{title: machine(), versions: pair.versions(), flags: p.flags(), rounds: p.turns(), took: time.Since(began), results: results,
		measured: pair[0].title}
	return errors.Join(report.writeTable(filepath.Join(p.directory, p.file(".md"))), report.writeChart(filepath.Join(p.directory, p.file(".svg"))))
}

// lacks reports whether a workload can't be run: our own client is without TLS, and not for the
// floor.
func (p *plan) lacks(w workload) bool {
	return (w.walks() || w.hasPayload()) && (p.encrypted || p.floor)
}

// file names a file of results.
func (p *plan) file(extension string) string {
	switch {
	case p.floor:
		return "floor" + extension
	case p.encrypted:
		return "tls" + extension
	}
	return "commands" + extension
}

// flags tells what all runs have in common, as one would type it.
func (p *plan) flags() string {
	flags := fmt.Sprintf("redis-benchmark -r %d -d %d -c %d", p.keys, p.valueSize, p.clients)
	if p.encrypted {
		flags += " --tls"
	}
	return flags
}

// roundsAt is how many rounds of a workload are counted at a depth.
func (p *plan) roundsAt(depth int) int {
	if depth == 1 && p.single > 0 {
		return p.single
	}
	return p.rounds
}

// turns tells the numbers of rounds.
func (p *plan) turns() string {
	if p.single == 0 || p.single == p.rounds {
		return fmt.Sprintf("%d rounds", p.rounds)
	}
	return fmt.Sprintf("%d rounds (%d at depth 1)", p.rounds, p.single)
}

// contestant is one of the servers that are compared.
type contestant struct {
	name, title string
	server      *launch.Server // nil: it is the floor
	floor       *floor
	directory   string // a temporary one
}

// port is where redis-benchmark finds it.
func (c *contestant) port() int {
	if c.floor != nil {
		return c.floor.port
	}
	if !slices.Contains(c.server.Options, "--tls-port") {
		return c.server.Port
	}
	_, port, _ := strings.Cut(c.server.TLSAddress(), ":")
	number, _ := strconv.Atoi(port) // it is the number that the server was started with
	return number
}

// temporary owns the certificates.
type temporary struct{ directories []string }

func (*temporary) Helper() {}

func (*temporary) Fatal(words ...any) {
	fmt.Fprintln(os.Stderr, words...)
	os.Exit(1)
}

func (t *temporary) TempDir() string {
	directory, err := os.MkdirTemp("", "kedis-bench-tls")
	if err != nil {
		t.Fatal(err)
	}
	t.directories = append(t.directories, directory)
	return directory
}

func (t *temporary) remove() {
	for _, directory := range t.directories {
		_ = os.RemoveAll(directory) // what is left is in the system's temporary directory
	}
}

// process is whose processor time is measured; the floor is part of this one.
func (c *contestant) process() int {
	if c.server == nil {
		return os.Getpid()
	}
	return c.server.ProcessID()
}

// end kills the server and removes its directory; the floor ends with the program.
func (c *contestant) end() error {
	if c.server != nil {
		c.server.Kill()
	}
	if c.directory == "" {
		return nil
	}
	return os.RemoveAll(c.directory)
}

// pair is the two that are compared: Kedis or the floor, and redis-server.
type pair [2]contestant

func (p *plan) startPair(options []string) (servers pair, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, servers.end())
		}
	}()
	oracle, err := launch.Oracle()
	if err != nil {
		return servers, err
	}
	servers[1] = contestant{name: "redis", title: "Redis"}
	if err := servers[1].start(oracle, append([]string{"--appendonly", "yes", "--appendfsync", "everysec"}, options...)...); err != nil {
		return servers, err
	}
	if p.floor {
		servers[0] = contestant{name: "floor", title: "Floor"}
		servers[0].floor, err = startFloor()
		return servers, err
	}
	kedis, err := launch.UnderTest()
	if err != nil {
		return servers, err
	}
	if p.memory != "" {
		options = append(options, "--memory-tier", p.memory)
	}
	servers[0] = contestant{name: "kedis", title: "Kedis"}
	return servers, servers[0].start(kedis, append([]string{"--appendfsync", "everysec"}, options...)...)
}

func (c *contestant) start(program launch.Program, options ...string) (err error) {
	if c.directory, err = os.MkdirTemp("", "kedis-bench-"+c.name); err != nil {
		return err
	}
	c.server, err = program.Start(c.directory, options...)
	return err
}

func (p *pair) end() error { return errors.Join(p[0].end(), p[1].end()) }

// versions tells what is compared: the lines of INFO that say how each was built.
func (p *pair) versions() string {
	var lines []string
	for _, c := range p {
		var found []string
		if c.server == nil {
			lines = append(lines, c.name+": answers each request with the same bytes and does nothing else")
			continue
		}
		info, err := ask(c.server, "info")
		if err != nil {
			found = append(found, err.Error())
		}
		for _, line := range strings.Split(info, "\r\n") {
			for _, field := range []string{"redis_version:", "kedis_version:", "mem_allocator:", "rocksdb_version:", "rocksdb_build:"} {
				if strings.HasPrefix(line, field) {
					found = append(found, line)
				}
			}
		}
		lines = append(lines, c.name+": "+strings.Join(found, " "))
	}
	return strings.Join(lines, "\n")
}

// ask sends one request and returns its reply as text.
func ask(server *launch.Server, request ...string) (string, error) {
	connection, err := server.Dial()
	if err != nil {
		return "", err
	}
	defer connection.Close()
	reply, err := connection.Must(request...)
	return string(reply.Text), err
}

// machine names the processor, the cores and the kernel.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d cores, %s of memory, Linux %s", model, cores(), memory(), strings.TrimSpace(string(kernel)))
}
