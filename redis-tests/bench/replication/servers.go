package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

func versions(pairs []pair) string {
	var lines []string
	for _, p := range pairs {
		output, err := exec.Command(p.program.Line[0], "--version").CombinedOutput()
		if err != nil {
			output = []byte(err.Error())
		}
		lines = append(lines, strings.TrimSpace(string(output)))
	}
	return strings.Join(lines, "\n")
}

// servers are a primary and a server that is to be its replica.
type servers struct {
	primary, replica *launch.Server
	directory        string
}

func start(p pair) (*servers, error) {
	directory, err := os.MkdirTemp("", "kedis-bench-")
	if err != nil {
		return nil, err
	}
	s := &servers{directory: directory}
	for name, server := range map[string]**launch.Server{"primary": &s.primary, "replica": &s.replica} {
		folder := filepath.Join(directory, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, errors.Join(err, s.end())
		}
		if *server, err = p.program.Start(folder, p.options...); err != nil {
			return nil, errors.Join(err, s.end())
		}
	}
	return s, nil
}

func (s *servers) end() error {
	for _, server := range []*launch.Server{s.primary, s.replica} {
		if server != nil {
			server.Kill()
		}
	}
	return os.RemoveAll(s.directory)
}

// fill sends requests in pipelines, and checks each reply.
func fill(server *launch.Server, count int, request func(i int) []string) error {
	c, err := server.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetTimeout(10 * time.Minute)
	const depth = 500
	for from := 0; from < count; from += depth {
		until := min(from+depth, count)
		for i := from; i < until; i++ {
			c.Queue(request(i)...)
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for range until - from {
			reply, err := c.Read()
			if err != nil {
				return err
			}
			if reply.IsError() {
				return errors.New(reply.String())
			}
		}
	}
	return nil
}

// info reads the fields of a section of INFO.
func info(c *resp.Connection, section string) (map[string]string, error) {
	reply, err := c.Must("info", section)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(string(reply.Text), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// synchronize makes the replica one, and returns how long it took until it had everything.
func (s *servers) synchronize() (time.Duration, error) {
	c, err := s.replica.Dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if _, err := c.Must("replicaof", "127.0.0.1", strconv.Itoa(s.primary.Port)); err != nil {
		return 0, err
	}
	for {
		fields, err := info(c, "replication")
		switch {
		case err != nil && strings.Contains(err.Error(), "LOADING"):
		case err != nil:
			return 0, err
		case fields["master_link_status"] == "up":
			return time.Since(began), s.same()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// same checks that both hold as many keys.
func (s *servers) same() error {
	var sizes [2]string
	for i, server := range []*launch.Server{s.primary, s.replica} {
		c, err := server.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		reply, err := c.Must("dbsize")
		if err != nil {
			return err
		}
		sizes[i] = string(reply.Text)
	}
	if sizes[0] != sizes[1] {
		return fmt.Errorf("the primary holds %s keys, the replica %s", sizes[0], sizes[1])
	}
	return nil
}

// peak is the most memory (bytes) that a server's process had since resetPeak; 0 if it has gone.
func peak(server *launch.Server) int64 { return memory(server, "VmHWM") }

// resident is the memory (bytes) that it has now.
func resident(server *launch.Server) int64 { return memory(server, "VmRSS") }

func memory(server *launch.Server, field string) int64 {
	size, err := launch.ProcessMemory(server.ProcessID(), field)
	if err != nil {
		return 0
	}
	return size
}

// resetPeak lets peak begin at what is resident now. Where the kernel doesn't have it, peak is that
// of the process's life.
func resetPeak(server *launch.Server) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", server.ProcessID()), []byte("5"), 0)
}

// processor is the time (s) that a server's process has computed; 0 if it has gone.
func processor(server *launch.Server) float64 {
	used, err := launch.ProcessorTime(server.ProcessID())
	if err != nil {
		return 0
	}
	return used.Seconds()
}
