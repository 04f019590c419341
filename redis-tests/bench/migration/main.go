// Migration measures how fast data gets from a Redis or a Kedis into another: kedis port, import
// and export beside redis-cli --rdb with redis-cli --pipe, redis-server's own loading, and
// replication, over the same data.
//
//	go run ./redis-tests/bench/migration -keys 1000000 -only port
//
// It prints a table and writes it to bench-results/migration.md, what the tools said to
// bench-results/migration.txt. Each way ends when the target answers with all keys. It imports the
// standard library and its neighbours in redis-tests, nothing of Kedis.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
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
	keys    = flag.Int("keys", 1_000_000, "how many strings of 100 bytes; there is a hash of 10 fields for each ten of them")
	only    = flag.String("only", "", "a part of the names of the ways that are measured")
	results = flag.String("results", "bench-results", "the folder for the results")
)

func main() {
	flag.Parse()
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bench is what all ways share.
type bench struct {
	redis, kedis launch.Program
	tool         string
	source       *launch.Server // a Redis with the data
	other        *launch.Server // a Kedis with the data
	directory    string
	commands     string // that make the data, as redis-cli --pipe takes them
	rdb          string // the data
	said         bytes.Buffer
}

// way is one way to bring the source's data to a server, or to a file: the server is nil then.
type way struct {
	name string
	move func(b *bench, directory string) (*launch.Server, error)
}

var ways = []way{
	{"redis-cli --rdb: the file that the others read", (*bench).dump},
	{"redis-cli --rdb, and its data by redis-cli --pipe: Redis → Redis", func(b *bench, d string) (*launch.Server, error) { return b.dumpAndPipe(b.redis, d) }},
	{"redis-cli --rdb, and its data by redis-cli --pipe: Redis → Kedis", func(b *bench, d string) (*launch.Server, error) { return b.dumpAndPipe(b.kedis, d) }},
	{"redis-server that loads the RDB file", (*bench).load},
	{"REPLICAOF: Redis → Redis", func(b *bench, d string) (*launch.Server, error) { return b.replicate(b.redis, d) }},
	{"REPLICAOF: Redis → Kedis", func(b *bench, d string) (*launch.Server, error) { return b.replicate(b.kedis, d) }},
	{"kedis port: Redis → Redis", func(b *bench, d string) (*launch.Server, error) { return b.port(b.source, b.redis, d) }},
	{"kedis port: Redis → Kedis", func(b *bench, d string) (*launch.Server, error) { return b.port(b.source, b.kedis, d) }},
	{"kedis port: Kedis → Kedis", func(b *bench, d string) (*launch.Server, error) { return b.port(b.other, b.kedis, d) }},
	{"kedis port: Kedis → Redis", func(b *bench, d string) (*launch.Server, error) { return b.port(b.other, b.redis, d) }},
	{"kedis import --to Redis", func(b *bench, d string) (*launch.Server, error) { return b.importTo(b.redis, d) }},
	{"kedis import --to Kedis", func(b *bench, d string) (*launch.Server, error) { return b.importTo(b.kedis, d) }},
	{"kedis import --dir, and kedis serve", (*bench).importDirectory},
	{"kedis export --format rdb", func(b *bench, d string) (*launch.Server, error) { return nil, b.export(d, "rdb") }},
	{"kedis export --format json", func(b *bench, d string) (*launch.Server, error) { return nil, b.export(d, "json") }},
	{"kedis export --format resp, and redis-cli --pipe: → Redis", func(b *bench, d string) (*launch.Server, error) { return b.exportAndPipe(b.redis, d) }},
	{"kedis export --format resp, and redis-cli --pipe: → Kedis", func(b *bench, d string) (*launch.Server, error) { return b.exportAndPipe(b.kedis, d) }},
}

func measure() (err error) {
	b := &bench{}
	if b.redis, err = launch.Oracle(); err != nil {
		return err
	}
	if b.kedis, err = launch.UnderTest(); err != nil {
		return err
	}
	if b.tool, err = launch.Binary(); err != nil {
		return err
	}
	if b.directory, err = os.MkdirTemp("", "kedis-bench-migration"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.directory)) }()
	if b.source, err = b.redis.Start(b.directory, "--repl-diskless-sync-delay", "0", "--client-output-buffer-limit", "replica 0 0 0"); err != nil {
		return err
	}
	defer b.source.Kill()
	data := filepath.Join(b.directory, "kedis")
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	if b.other, err = b.kedis.Start(data); err != nil {
		return err
	}
	defer b.other.Kill()
	b.commands, b.rdb = filepath.Join(b.directory, "commands"), filepath.Join(b.directory, "source.rdb")
	err = errors.Join(os.WriteFile(b.commands, commands(), 0o644), b.pipe(b.source, b.commands), b.pipe(b.other, b.commands))
	if _, dumped := b.dump(""); err != nil || dumped != nil {
		return errors.Join(err, dumped)
	}
	return b.table()
}

func (b *bench) table() error {
	total := *keys + *keys/10
	table := fmt.Sprintf("%s, %s, %d processors, %d keys\n\n| | seconds | keys/s |\n|---|---|---|\n", time.Now().Format(time.RFC3339), runtime.GOARCH,
		runtime.NumCPU(), total)
	fmt.Print(table)
	for _, w := range ways {
		if !strings.Contains(w.name, *only) {
			continue
		}
		took, err := b.run(w, total)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", w.name, err, b.said.String())
		}
		row := fmt.Sprintf("| %s | %.1f | %.0f |\n", w.name, took.Seconds(), float64(total)/took.Seconds())
		fmt.Print(row)
		table += row
	}
	if err := os.MkdirAll(*results, 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(*results, "migration.txt"), b.said.Bytes(), 0o644),
		os.WriteFile(filepath.Join(*results, "migration.md"), []byte(table), 0o644))
}

// run goes one way, in a directory of its own.
func (b *bench) run(w way, total int) (took time.Duration, err error) {
	directory, err := os.MkdirTemp(b.directory, "way")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	fmt.Fprintf(&b.said, "== %s\n", w.name)
	start := time.Now()
	server, err := w.move(b, directory)
	if server != nil {
		defer server.Kill()
		err = errors.Join(err, await(server, total))
	}
	return time.Since(start), err
}

// commands makes the data.
func commands() (b []byte) {
	value := bytes.Repeat([]byte("0123456789"), 10)
	for i := range *keys {
		n := strconv.Itoa(i)
		copy(value, n)
		b = resp.AppendRequest(b, "SET", "key:"+n, string(value))
		if i%10 == 0 {
			words := []string{"HSET", "hash:" + n}
			for field := range 10 {
				words = append(words, "field"+strconv.Itoa(field), "value"+n)
			}
			b = resp.AppendRequest(b, words...)
		}
	}
	return b
}

// await waits until a server has all keys.
func await(server *launch.Server, total int) error {
	c, err := server.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for deadline := time.Now().Add(time.Hour); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		reply, err := c.Do("DBSIZE")
		if err != nil {
			return err
		}
		if n, ok := reply.Integer(); ok && n == int64(total) && synchronized(c) {
			return nil
		}
	}
	return fmt.Errorf("%d keys don't come", total)
}

// synchronized tells that a server isn't taking a snapshot.
func synchronized(c *resp.Connection) bool {
	reply, err := c.Do("INFO", "replication")
	return err == nil && (bytes.Contains(reply.Text, []byte("role:master")) || bytes.Contains(reply.Text, []byte("master_link_status:up")))
}

// do runs a program, and keeps what it says.
func (b *bench) do(in io.Reader, name string, args ...string) error {
	command := exec.Command(name, args...)
	command.Stdin, command.Stdout, command.Stderr = in, &b.said, &b.said
	return command.Run()
}

func (b *bench) dump(string) (*launch.Server, error) {
	return nil, b.do(nil, "redis-cli", "-p", strconv.Itoa(b.source.Port), "--rdb", b.rdb)
}

func (b *bench) load(directory string) (*launch.Server, error) {
	if err := os.Link(b.rdb, filepath.Join(directory, "dump.rdb")); err != nil {
		return nil, err
	}
	return b.redis.Start(directory)
}

func (b *bench) replicate(program launch.Program, directory string) (*launch.Server, error) {
	server, err := program.Start(directory)
	if err != nil {
		return nil, err
	}
	c, err := server.Dial()
	if err != nil {
		return server, err
	}
	defer c.Close()
	_, err = c.Must("REPLICAOF", "127.0.0.1", strconv.Itoa(b.source.Port))
	return server, err
}

func (b *bench) importTo(program launch.Program, directory string) (*launch.Server, error) {
	server, err := program.Start(directory)
	if err != nil {
		return nil, err
	}
	return server, b.do(nil, b.tool, "import", b.rdb, "--to", server.Address)
}

func (b *bench) importDirectory(directory string) (*launch.Server, error) {
	data := filepath.Join(directory, "data")
	if err := b.do(nil, b.tool, "import", b.rdb, "--dir", data); err != nil {
		return nil, err
	}
	return b.kedis.Start(data)
}

func (b *bench) export(directory, format string) error {
	return b.do(nil, b.tool, "export", filepath.Join(directory, "out"), "--from", b.source.Address, "--format", format)
}

func (b *bench) exportAndPipe(program launch.Program, directory string) (*launch.Server, error) {
	server, err := program.Start(directory)
	if err != nil {
		return nil, err
	}
	if err := b.export(directory, "resp"); err != nil {
		return server, err
	}
	return server, b.pipe(server, filepath.Join(directory, "out"))
}

// dumpAndPipe leaves out what turns the dump into commands, for which redis-cli has nothing.
func (b *bench) dumpAndPipe(program launch.Program, directory string) (*launch.Server, error) {
	server, err := program.Start(directory)
	if err != nil {
		return nil, err
	}
	if _, err := b.dump(""); err != nil {
		return server, err
	}
	return server, b.pipe(server, b.commands)
}

// pipe sends a file of commands to a server.
func (b *bench) pipe(server *launch.Server, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return b.do(file, "redis-cli", "-p", strconv.Itoa(server.Port), "--pipe")
}

func (b *bench) port(from *launch.Server, program launch.Program, directory string) (*launch.Server, error) {
	server, err := program.Start(directory)
	if err != nil {
		return nil, err
	}
	return server, b.do(nil, b.tool, "port", "--from", from.Address, "--to", server.Address, "--position", filepath.Join(directory, "position"))
}
