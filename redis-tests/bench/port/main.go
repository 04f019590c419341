// Port measures how fast kedis port moves a data set, beside redis-cli --rdb with redis-cli --pipe and beside Redis's own replication,
// over the same data.
//
//	go run ./redis-tests/bench/port -keys 1000000
//
// It prints a table and writes it to bench-results/port.md. It imports the standard library and its neighbours in redis-tests, nothing
// of Kedis.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

var (
	keys    = flag.Int("keys", 1_000_000, "how many strings; there is a hash of 10 fields for each ten of them")
	results = flag.String("results", "bench-results", "the folder for the results")
)

func main() {
	flag.Parse()
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// way is one way to move everything from a server to an empty one.
type way struct {
	name     string
	from, to launch.Program
	move     func(from, to *launch.Server, directory string) error
}

func measure() error {
	redis, err := launch.Oracle()
	if err != nil {
		return err
	}
	kedis, err := launch.UnderTest()
	if err != nil {
		return err
	}
	ways := []way{
		{"redis-cli --rdb, and its data by redis-cli --pipe: Redis → Redis", redis, redis, byPipe},
		{"redis-cli --rdb, and its data by redis-cli --pipe: Redis → Kedis", redis, kedis, byPipe},
		{"REPLICAOF: Redis → Redis", redis, redis, byReplica},
		{"REPLICAOF: Redis → Kedis", redis, kedis, byReplica},
		{"kedis port: Redis → Redis", redis, redis, byPort},
		{"kedis port: Redis → Kedis", redis, kedis, byPort},
		{"kedis port: Kedis → Kedis", kedis, kedis, byPort},
		{"kedis port: Kedis → Redis", kedis, redis, byPort},
	}
	total := *keys + *keys/10
	table := fmt.Sprintf("%s, %s, %d processors, %d keys\n\n| | seconds | keys/s |\n|---|---|---|\n", time.Now().Format(time.RFC3339), runtime.GOARCH,
		runtime.NumCPU(), total)
	fmt.Print(table)
	for _, w := range ways {
		took, err := w.measure(int64(total))
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		row := fmt.Sprintf("| %s | %.1f | %.0f |\n", w.name, took.Seconds(), float64(total)/took.Seconds())
		fmt.Print(row)
		table += row
	}
	if err := os.MkdirAll(*results, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*results, "port.md"), []byte(table), 0o644)
}

func (w way) measure(total int64) (took time.Duration, err error) {
	directory, err := os.MkdirTemp("", "kedis-bench-port")
	if err != nil {
		return 0, err
	}
	defer func() {
		if removed := os.RemoveAll(directory); err == nil {
			err = removed
		}
	}()
	var servers [2]*launch.Server
	for i, program := range []launch.Program{w.from, w.to} {
		of := filepath.Join(directory, strconv.Itoa(i))
		if err := os.Mkdir(of, 0o755); err != nil {
			return 0, err
		}
		var options []string
		if program.IsRedis {
			options = []string{"--repl-diskless-sync-delay", "0", "--client-output-buffer-limit", "replica 0 0 0"}
		}
		if servers[i], err = program.Start(of, options...); err != nil {
			return 0, err
		}
		defer servers[i].Kill()
	}
	if err := os.WriteFile(filepath.Join(directory, "commands"), commands(), 0o644); err != nil {
		return 0, err
	}
	if err := pipe(servers[0], directory); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := w.move(servers[0], servers[1], directory); err != nil {
		return 0, err
	}
	took = time.Since(began)
	return took, hasAll(servers[1], total)
}

// commands makes the data set, as redis-cli --pipe takes it.
func commands() []byte {
	var b []byte
	value := strings.Repeat("v", 64)
	for i := range *keys {
		n := strconv.Itoa(i)
		b = resp.AppendRequest(b, "SET", "string:"+n, n+value)
		if i%10 == 9 {
			words := []string{"HSET", "hash:" + n}
			for field := range 10 {
				words = append(words, "field"+strconv.Itoa(field), n)
			}
			b = resp.AppendRequest(b, words...)
		}
	}
	return b
}

func run(name string, in *os.File, words ...string) error {
	command := exec.Command(name, words...)
	var output bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = in, &output, &output
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(words, " "), err, output.String())
	}
	return nil
}

func pipe(to *launch.Server, directory string) error {
	in, err := os.Open(filepath.Join(directory, "commands"))
	if err != nil {
		return err
	}
	defer in.Close()
	return run("redis-cli", in, "-p", strconv.Itoa(to.Port), "--pipe")
}

// byPipe leaves out what turns the file into commands, for which redis-cli has nothing.
func byPipe(from, to *launch.Server, directory string) error {
	if err := run("redis-cli", nil, "-p", strconv.Itoa(from.Port), "--rdb", filepath.Join(directory, "dump.rdb")); err != nil {
		return err
	}
	return pipe(to, directory)
}

func byReplica(from, to *launch.Server, _ string) error {
	c, err := to.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Must("REPLICAOF", "127.0.0.1", strconv.Itoa(from.Port)); err != nil {
		return err
	}
	for {
		info, err := c.Must("INFO", "replication")
		if err != nil {
			return err
		}
		if strings.Contains(string(info.Text), "master_link_status:up") {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func byPort(from, to *launch.Server, directory string) error {
	kedis, err := launch.Binary()
	if err != nil {
		return err
	}
	return run(kedis, nil, "port", "--from", from.Address, "--to", to.Address, "--position", filepath.Join(directory, "position"))
}

func hasAll(s *launch.Server, total int64) error {
	c, err := s.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := c.Must("DBSIZE")
	if err != nil {
		return err
	}
	if n, _ := reply.Integer(); n != total {
		return fmt.Errorf("%d keys have arrived, not %d", n, total)
	}
	return nil
}
