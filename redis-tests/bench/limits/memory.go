package main

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"kedis/redis-tests/launch"
)

const (
	// idleConnections are as many as issue 4 speaks of.
	idleConnections = 10_000
	// rest is how long a server is left alone before its memory is looked at.
	rest = 5 * time.Second
)

// use measures the memory of an idle server, of idle connections, and of one that has taken many
// times its memory in writes.
func (b *bench) use(r *report) error {
	r.header("", "measured", "wanted")
	if err := b.idle(r); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	return b.withServer(b.program, settings(b.memory), func(server *launch.Server) error { return b.loaded(r, server) })
}

// idle measures a fresh server with the options that it comes with, and what connections add to it.
func (b *bench) idle(r *report) error {
	if err := allowFiles(idleConnections + 1000); err != nil {
		return err
	}
	return b.withServer(b.program, []string{"--maxclients", strconv.Itoa(idleConnections + 100)}, func(server *launch.Server) error {
		time.Sleep(rest)
		before, err := resident(server, "VmRSS")
		if err != nil {
			return err
		}
		caches, err := usedCaches(server)
		if err != nil {
			return err
		}
		r.row("resident when idle, without what its caches hold", megabytes(before-caches), "< 50 MB")
		return b.connections(r, server, before)
	})
}

// usedCaches is what the configured caches hold: copies of records, recent writes, RocksDB's blocks
// and memtables.
func usedCaches(server *launch.Server) (int64, error) {
	o, err := observe(server)
	if err != nil {
		return 0, err
	}
	defer o.close()
	fields, err := o.fields()
	if err != nil {
		return 0, err
	}
	return fields["tier_copies"] + fields["tier_generations_size"] + fields["rocksdb_block_cache_usage"] + fields["rocksdb_memtable_bytes"], nil
}

// connections opens many connections, has each do a SET and a GET, and looks at what the server's
// memory has grown by.
func (b *bench) connections(r *report, server *launch.Server, before int64) error {
	var open []*connection
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	value := newData(0, 100)
	for i := range idleConnections {
		c, err := dial(server, 256)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		open = append(open, c)
		if err := value.setAndGet(c, i); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		c.reader = nil // the client needs memory too
	}
	peak, err := resident(server, "VmRSS")
	if err != nil {
		return err
	}
	time.Sleep(rest)
	after, err := resident(server, "VmRSS")
	if err != nil {
		return err
	}
	caches, err := usedCaches(server)
	if err != nil {
		return err
	}
	r.row(fmt.Sprintf("growth by %d idle connections after a SET and a GET each", len(open)), megabytes(after-before), "< 200 MB")
	r.line("at once: %s; the caches hold %s of it", megabytes(peak-before), megabytes(caches))
	return nil
}

// setAndGet sends two requests, each when the one before it is answered.
func (d *data) setAndGet(c *connection, i int) error {
	for _, request := range [][]byte{d.appendSet(nil, i, fixed()), appendGet(nil, i)} {
		if _, err := c.Write(request); err != nil {
			return err
		}
		if err := c.skipReply(); err != nil {
			return err
		}
	}
	return nil
}

// loaded measures a server that has taken many times its memory in writes.
func (b *bench) loaded(r *report, server *launch.Server) error {
	d := newData(b.excess*b.memory, valueSize)
	if err := d.load(server); err != nil {
		return err
	}
	most, err := resident(server, "VmHWM")
	if err != nil {
		return err
	}
	time.Sleep(rest)
	after, err := resident(server, "VmRSS")
	if err != nil {
		return err
	}
	r.row(fmt.Sprintf("resident after a load of %s, %s after its end", megabytes(d.bytes()), rest), megabytes(after),
		fmt.Sprintf("%s are configured for caches and buffers", megabytes(configured(b.memory))))
	r.row("the most that was resident during that load", megabytes(most), "")
	return b.memoryByPart(r, server)
}

// memoryByPart writes what INFO tells of the server's memory as raw text.
func (b *bench) memoryByPart(r *report, server *launch.Server) error {
	c, err := server.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := c.Must("info", "memory", "tier", "rocksdb")
	if err != nil {
		return err
	}
	r.line("%s", reply.Text)
	return nil
}

// allowFiles raises the limit of open files of this process and of those that it starts.
func allowFiles(wanted uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Max = max(limit.Max, wanted)
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("this process may not open %d files (ulimit -Hn): %w", wanted, err)
	}
	return nil
}
