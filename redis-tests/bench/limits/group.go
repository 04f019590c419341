package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/launch"
)

// group is a control group that limits the memory of a server and of the page cache that it fills.
// Linux has two versions of them (Documentation/admin-guide/cgroup-v1/memory.rst and
// cgroup-v2.rst), which differ in the names of files.
type group struct {
	directory string
	peakFile  string
}

// newGroup makes a group with a limit in bytes. It needs the rights of root.
func newGroup(limit int64) (*group, error) {
	name := fmt.Sprintf("kedis-bench-%d", os.Getpid())
	g := &group{filepath.Join("/sys/fs/cgroup/memory", name), "memory.max_usage_in_bytes"}
	limits := [][2]string{{"memory.limit_in_bytes", strconv.FormatInt(limit, 10)}}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g = &group{filepath.Join("/sys/fs/cgroup", name), "memory.peak"}
		limits = [][2]string{{"memory.max", strconv.FormatInt(limit, 10)}, {"memory.swap.max", "0"}}
	}
	if err := os.Mkdir(g.directory, 0o755); err != nil {
		return nil, fmt.Errorf("a memory control group can't be made (run this as root, outside of a container, or leave out the part cold): %w", err)
	}
	for _, l := range limits {
		if err := g.set(l[0], l[1]); err != nil {
			return nil, errors.Join(fmt.Errorf("the memory of a control group can't be limited: %w", err), g.end())
		}
	}
	return g, nil
}

// set writes a setting. One that the kernel doesn't have is refused, not made: swap may be compiled
// out.
func (g *group) set(name, value string) error {
	file, err := os.OpenFile(filepath.Join(g.directory, name), os.O_WRONLY, 0)
	if err != nil {
		if name == "memory.swap.max" && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// wrap returns the program started within the group: it enters before it takes any memory.
func (g *group) wrap(p launch.Program) launch.Program {
	enter := `echo $$ > "$0" && exec "$@"`
	p.Line = append([]string{"/bin/sh", "-c", enter, filepath.Join(g.directory, "cgroup.procs")}, p.Line...)
	return p
}

// peak is the most memory in bytes that the group ever had, the page cache included; 0 where the
// kernel doesn't tell.
func (g *group) peak() int64 {
	text, err := os.ReadFile(filepath.Join(g.directory, g.peakFile))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// end removes the group. A process that was killed may stay in it for a moment.
func (g *group) end() error {
	var err error
	for range 50 {
		if err = os.Remove(g.directory); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
