package main

import (
	"errors"
	"fmt"
	"time"

	"kedis/redis-tests/launch"
)

const (
	valueSize = 400
	skew      = 0.99
	longest   = 2 * time.Minute // that compactions are waited for
)

// coldRun is one server in a control group, and the data that its memory can't hold.
type coldRun struct {
	*bench
	report   *report
	data     *data
	server   *launch.Server
	observer *observer
}

// cold measures data that is many times larger than the memory that the process and its page cache
// may use together.
func (b *bench) cold(r *report) (err error) {
	g, err := newGroup(b.memory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.end()) }()
	return b.withServer(g.wrap(b.program), settings(b.memory), func(server *launch.Server) error {
		o, err := observe(server)
		if err != nil {
			return err
		}
		defer o.close()
		c := &coldRun{b, r, newData(b.excess*b.memory, valueSize), server, o}
		r.text("Memory of the process and its page cache: at most %s. Data: %d keys of %d bytes with incompressible values of %d bytes, %s.",
			megabytes(b.memory), c.data.count, keySize, valueSize, megabytes(c.data.bytes()))
		r.text("%d connections at depth 1, each run %v; the load: 8 connections at depth 64.", clients, b.length)
		if err := c.run(); err != nil {
			return err
		}
		r.text("Most memory ever used in the group: %s. What a run has written and memory still holds at its end has cost no more than the log yet: "+
			"write amplification holds for runs that write several times the %s of buffers.", megabytes(g.peak()), megabytes(buffers(b.memory)))
		return nil
	})
}

func (c *coldRun) run() error {
	c.report.header("", "requests/s", "p50 ms", "p99 ms", "p99.9 ms", "longest ms", "MB written", "write amplification", "space amplification", "of RocksDB's tables")
	if err := c.load(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	even, skewed := uniform(c.data.count), zipf(c.data.count, skew)
	for _, w := range []struct {
		name   string
		choose chooser
		writes float64
	}{{"reads, uniform", even, 0}, {"reads, Zipf 0.99", skewed, 0}, {"50/50, uniform", even, 0.5}, {"50/50, Zipf 0.99", skewed, 0.5}} {
		if err := c.mixed(w.name, &workload{c.data, w.choose, w.writes}); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// load sets every key once.
func (c *coldRun) load() error {
	before, err := written(c.server)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.data.load(c.server); err != nil {
		return err
	}
	took := time.Since(began)
	amplification, err := c.amplification(before, c.data.bytes())
	if err != nil {
		return err
	}
	c.report.row(append([]string{"bulk load", fmt.Sprintf("%.0f", float64(c.data.count)/took.Seconds()), "", "", "", ""}, amplification...)...)
	c.report.line("the load: %v, %.1f MB/s; compactions went on for %v", took.Round(time.Millisecond),
		float64(c.data.bytes())/megabyte/took.Seconds(), (time.Since(began) - took).Round(time.Millisecond))
	return nil
}

// mixed runs one workload; where it writes, it is told for reads and writes too.
func (c *coldRun) mixed(name string, w *workload) error {
	before, err := written(c.server)
	if err != nil {
		return err
	}
	outcome, err := w.closedLoop(c.server, c.length)
	if err != nil {
		return err
	}
	amplification := []string{"", "", "", ""}
	if w.writes > 0 {
		if amplification, err = c.amplification(before, int64(outcome.writes.count)*(keySize+valueSize)); err != nil {
			return err
		}
	}
	c.report.row(append(append([]string{name, fmt.Sprintf("%.0f", outcome.rate())}, quantiles(outcome.all())...), amplification...)...)
	if w.writes > 0 {
		c.report.row(append(append([]string{"– its reads", ""}, quantiles(&outcome.reads)...), "", "", "", "")...)
		c.report.row(append(append([]string{"– its writes", ""}, quantiles(&outcome.writes)...), "", "", "", "")...)
	}
	return nil
}

// amplification waits until RocksDB is done, and returns four cells: what the clients wrote; bytes
// written to disk since before, for each of those; bytes of the directory for each that is alive;
// and the same of RocksDB's tables alone, without the log that is kept for replicas.
func (c *coldRun) amplification(before, sent int64) ([]string, error) {
	if err := c.observer.settle(longest); err != nil {
		return nil, err
	}
	after, err := written(c.server)
	if err != nil {
		return nil, err
	}
	used, err := diskUsage(c.server.Directory)
	if err != nil {
		return nil, err
	}
	fields, err := c.observer.fields("rocksdb")
	if err != nil {
		return nil, err
	}
	live := float64(c.data.bytes())
	return []string{fmt.Sprintf("%.0f", float64(sent)/megabyte), fmt.Sprintf("%.2f", float64(after-before)/float64(sent)), fmt.Sprintf("%.2f", float64(used)/live),
		fmt.Sprintf("%.2f", float64(fields["rocksdb_table_file_bytes"])/live)}, nil
}
