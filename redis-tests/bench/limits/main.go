// Limits measures what redis-benchmark doesn't: data that is ten times larger than memory (cold),
// collections that are (collections), the latency of the slowest requests while flushes and
// compactions run (tail), memory (memory), and the start after a crash with a long log (recovery).
//
//	make bench-limits PARTS=cold MEGABYTES=2048 LENGTH=60
//	go run ./redis-tests/bench/limits -only cold -megabytes 2048 -seconds 60
//
// For each part it writes raw text (bench-results/limits-PART.txt) and tables (limits-PART.md), and
// for tail a chart (limits-tail.svg). It imports the standard library and its neighbours in
// redis-tests, nothing of Kedis.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kedis/redis-tests/launch"
)

// bench is what all parts have in common.
type bench struct {
	program launch.Program
	memory  int64         // bytes that the server is given
	excess  int64         // how many times larger the data is
	length  time.Duration // of a timed run

	kinds    []string // the collections of collections
	elements int      // of each; 0: as many as excess says
}

// part is one of the measurements.
type part struct {
	name string
	run  func(*bench, *report) error
}

var allParts = []part{{"cold", (*bench).cold}, {"collections", (*bench).collections}, {"tail", (*bench).tail}, {"memory", (*bench).use}, {"recovery", (*bench).recovery}}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "cold,collections,tail,memory,recovery", "the parts to measure")
	kinds := flag.String("kinds", "hash,board,set", "the collections of collections: a hash, a sorted set, a set")
	elements := flag.Int("elements", 0, "elements of each of them; 0: as many as -times says")
	memory := flag.Int64("megabytes", 512, "memory of the server in MB; the log of recovery is twice as large, the data of tail as large")
	excess := flag.Int64("times", 10, "the data of cold, collections and memory as a multiple of that memory")
	seconds := flag.Float64("seconds", 15, "length of each timed run")
	results := flag.String("results", "bench-results", "folder for the results")
	flag.Parse()
	if *memory < 64 || *excess < 1 || *seconds <= 0 {
		return errors.New("-megabytes has to be 64 or more, -times 1 or more, and -seconds more than 0")
	}
	program, err := launch.UnderTest()
	if err != nil {
		return err
	}
	b := &bench{program: program, memory: *memory * megabyte, excess: *excess, length: time.Duration(*seconds * float64(time.Second)),
		kinds: strings.Split(*kinds, ","), elements: *elements}
	names := strings.Split(*only, ",")
	for _, name := range names {
		if !slices.ContainsFunc(allParts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("-only: there is no part %q", name)
		}
	}
	for _, p := range allParts {
		if slices.Contains(names, p.name) {
			if err := b.measure(p, *results); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// measure runs one part and writes its report.
func (b *bench) measure(p part, directory string) error {
	r, err := newReport(directory, p.name, b.build())
	if err != nil {
		return err
	}
	began := time.Now()
	err = p.run(b, r)
	r.line("%s took %v", p.name, time.Since(began).Round(time.Second))
	return errors.Join(err, r.end())
}

// build tells which build of the server is measured.
func (b *bench) build() string {
	if !slices.Contains(b.program.Line, "serve") {
		return strings.Join(b.program.Line, " ")
	}
	output, err := exec.Command(b.program.Line[0], "version").Output()
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(strings.TrimSpace(string(output)), "\n", ", ")
}

// errInterrupted says that the user has had enough.
var errInterrupted = errors.New("interrupted")

// withServer starts a server in a temporary directory (TMPDIR says where; it has to have room for
// the data), and ends it after work, or when the user interrupts it: what work does fails then, and
// everything is removed.
func (b *bench) withServer(program launch.Program, options []string, work func(*launch.Server) error) (err error) {
	directory, err := os.MkdirTemp("", "kedis-limits-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	data := filepath.Join(directory, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	server, err := program.Start(data, options...)
	if err != nil {
		return err
	}
	defer server.Kill()
	interrupt, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(interrupt, server.Kill)
	err = work(server)
	if interrupt.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return fmt.Errorf("%w\noutput of the server:\n%s", err, server.Output())
	}
	return nil
}
