// Replication measures full synchronizations and the lag of a replica: Kedis → Kedis, and Redis →
// Redis beside it.
//
//	go run ./redis-tests/bench/replication -keys 2000000
//
// It prints what it measures, and writes it to bench-results/replication.txt and, as a table, to
// bench-results/replication.md. It imports the standard library and its neighbours in redis-tests,
// nothing of Kedis.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"kedis/redis-tests/launch"
)

var (
	keys        = flag.Int("keys", 10_000_000, "how many small keys a full synchronization has to bring")
	collections = flag.Int("collections", 100, "how many large collections")
	fields      = flag.Int("fields", 100_000, "how many elements each of them has")
	seconds     = flag.Int("seconds", 15, "how long redis-benchmark writes while the lag is measured")
	only        = flag.String("only", "", "a part of the name of the only measurement: small keys, large collections or lag")
	results     = flag.String("results", "bench-results", "the folder for the results")
)

func main() {
	flag.Parse()
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pair is a program that is the primary and the replica of itself.
type pair struct {
	name    string
	program launch.Program
	options []string
}

// measure runs every measurement on both pairs, in turns.
func measure() (err error) {
	kedis, err := launch.UnderTest()
	if err != nil {
		return err
	}
	redis, err := launch.Oracle()
	if err != nil {
		return err
	}
	pairs := []pair{
		{"Redis → Redis", redis, []string{"--repl-diskless-sync-delay", "0", "--repl-backlog-size", "256mb"}},
		{"Kedis → Kedis", kedis, nil},
	}
	if err := os.MkdirAll(*results, 0o755); err != nil {
		return err
	}
	raw, err := os.Create(filepath.Join(*results, "replication.txt"))
	if err != nil {
		return err
	}
	defer func() {
		if closed := raw.Close(); err == nil {
			err = closed
		}
	}()
	out := io.MultiWriter(os.Stdout, raw)
	fmt.Fprintf(out, "%s\n%s, %s, %d processors\n%s\n", strings.Join(os.Args, " "), time.Now().Format(time.RFC3339), runtime.GOARCH, runtime.NumCPU(), versions(pairs))
	t := &table{}
	for _, m := range []struct {
		name string
		run  func(out io.Writer, p pair, t *table) error
	}{{"small keys", smallKeys}, {"large collections", largeCollections}, {"lag", lag}} {
		if !strings.Contains(m.name, *only) {
			continue
		}
		for _, p := range pairs {
			fmt.Fprintf(out, "\n== %s, %s\n", m.name, p.name)
			if err := m.run(out, p, t); err != nil {
				return fmt.Errorf("%s, %s: %w", m.name, p.name, err)
			}
		}
	}
	return os.WriteFile(filepath.Join(*results, "replication.md"), []byte(t.String()), 0o644)
}
