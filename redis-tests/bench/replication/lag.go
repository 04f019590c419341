package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"kedis/redis-tests/resp"
)

const sampleEvery = 100 * time.Millisecond

// lag measures by how many bytes of the stream a replica is behind while the primary takes writes
// as fast as it can.
func lag(out io.Writer, p pair, t *table) (err error) {
	s, err := start(p)
	if err != nil {
		return err
	}
	defer func() {
		if ended := s.end(); err == nil {
			err = ended
		}
	}()
	if _, err := s.synchronize(); err != nil {
		return err
	}
	primary, err := s.primary.Dial()
	if err != nil {
		return err
	}
	defer primary.Close()
	replica, err := s.replica.Dial()
	if err != nil {
		return err
	}
	defer replica.Close()

	load := exec.Command("redis-benchmark", "-p", strconv.Itoa(s.primary.Port), "-t", "set", "-P", "16", "-c", "50", "-d", strconv.Itoa(valueBytes),
		"-r", "1000000", "-n", "1000000000", "-q")
	if err := load.Start(); err != nil {
		return err
	}
	from, began := int64(0), time.Now()
	cost := [2]float64{-processor(s.primary), -processor(s.replica)}
	var samples []int64
	for end := began.Add(time.Duration(*seconds) * time.Second); err == nil && time.Now().Before(end); time.Sleep(sampleEvery) {
		var at, behind int64
		if at, behind, err = distance(primary, replica); from == 0 {
			from, began = at, time.Now()
		}
		samples = append(samples, behind)
	}
	if killed := load.Process.Kill(); killed != nil {
		return errors.Join(err, killed)
	}
	_ = load.Wait() // it was killed
	if err != nil {
		return err
	}
	at, behind, err := distance(primary, replica)
	if err != nil {
		return err
	}
	wrote, ended := time.Since(began), time.Now()
	for behind > 0 {
		time.Sleep(5 * time.Millisecond)
		if _, behind, err = distance(primary, replica); err != nil {
			return err
		}
	}
	level := time.Since(ended)
	cost[0] += processor(s.primary)
	cost[1] += processor(s.replica)
	gigabytes := float64(at-from) / 1e9
	report(out, p, t, samples, []cell{
		{"stream, MB/s", "%.1f", float64(at-from) / wrote.Seconds() / 1e6},
		{"primary's CPU, s/GB", "%.0f", cost[0] / gigabytes},
		{"replica's CPU, s/GB", "%.0f", cost[1] / gigabytes},
		{"level after, ms", "%.0f", float64(level.Milliseconds())},
	})
	return nil
}

func report(out io.Writer, p pair, t *table, samples []int64, row []cell) {
	fmt.Fprintf(out, "bytes behind, every %v: %v\n", sampleEvery, samples)
	slices.Sort(samples)
	row = append(row, []cell{
		{"median lag, bytes", "%.0f", float64(samples[len(samples)/2])},
		{"95 % lag, bytes", "%.0f", float64(samples[len(samples)*95/100])},
		{"largest lag, bytes", "%.0f", float64(samples[len(samples)-1])},
	}...)
	t.add("lag at redis-benchmark -t set -P 16", p.name, row)
	for _, c := range row {
		fmt.Fprintf(out, "%s: %s\n", c.name, c.text())
	}
}

// distance is where the primary is, and by how many bytes the replica is behind. The replica is
// asked first: it seems rather further behind than it is.
func distance(primary, replica *resp.Connection) (at, behind int64, err error) {
	have, err := position(replica, "slave_repl_offset")
	if err != nil {
		return 0, 0, err
	}
	at, err = position(primary, "master_repl_offset")
	return at, max(0, at-have), err
}

func position(c *resp.Connection, field string) (int64, error) {
	fields, err := info(c, "replication")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(fields[field], 10, 64)
}

// cell is a figure with its name and its format.
type cell struct {
	name, format string
	value        float64
}

func (c cell) text() string { return fmt.Sprintf(c.format, c.value) }

// table gathers the rows of each measurement.
type table struct {
	titles []string
	rows   map[string][]row
}

type row struct {
	name  string
	cells []cell
}

func (t *table) add(title, name string, cells []cell) {
	if t.rows == nil {
		t.rows = map[string][]row{}
	}
	if !slices.Contains(t.titles, title) {
		t.titles = append(t.titles, title)
	}
	t.rows[title] = append(t.rows[title], row{name, cells})
}

// String is the table in Markdown.
func (t *table) String() string {
	var b strings.Builder
	for _, title := range t.titles {
		rows := t.rows[title]
		fmt.Fprintf(&b, "\n| %s |", title)
		for _, c := range rows[0].cells {
			fmt.Fprintf(&b, " %s |", c.name)
		}
		fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(rows[0].cells)))
		for _, r := range rows {
			fmt.Fprintf(&b, "| %s |", r.name)
			for _, c := range r.cells {
				fmt.Fprintf(&b, " %s |", c.text())
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}
