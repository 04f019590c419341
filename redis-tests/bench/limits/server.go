package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// megabyte is the unit of -megabytes.
const megabyte = 1 << 20

// settings are a configuration that fits into so many bytes of memory: an eighth for copies of
// records and as much for recent writes, an eighth for RocksDB's blocks, three sixteenths for its
// memtables: the larger they are, the less often compactions write the same anew. The rest is for
// the program, its garbage, and the page cache.
func settings(bytes int64) []string {
	share := func(divisor int64) string { return strconv.FormatInt(max(bytes/divisor, megabyte), 10) }
	const memtables = 3
	return []string{
		"--memory-tier", share(4), "--clean-cache-share", "50%", "--generation-bytes", share(32),
		"--rocksdb-block-cache", share(8), "--rocksdb-write-buffer-size", share(16), "--rocksdb-max-write-buffers", strconv.Itoa(memtables),
		"--binlog-segment-size", "16mb", "--binlog-retention-size", share(4), "--persist-log-size", share(4),
	}
}

// configured is how many of those bytes are caches and buffers.
func configured(bytes int64) int64 { return bytes/4 + bytes/8 + 3*bytes/16 }

// buffers is how many of those bytes are for writes that no table file has yet.
func buffers(bytes int64) int64 { return bytes/8 + 3*bytes/16 }

// observer asks a server for INFO, on a connection of its own.
type observer struct {
	connection *resp.Connection
}

func observe(server *launch.Server) (*observer, error) {
	c, err := server.Dial()
	if err != nil {
		return nil, err
	}
	return &observer{c}, nil
}

func (o *observer) close() { o.connection.Close() }

// fields are what INFO tells, by name; only those that are whole numbers.
func (o *observer) fields(sections ...string) (map[string]int64, error) {
	reply, err := o.connection.Must(append([]string{"info"}, sections...)...)
	if err != nil {
		return nil, err
	}
	fields := map[string]int64{}
	for line := range strings.SplitSeq(string(reply.Text), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			fields[name] = number
		}
	}
	return fields, nil
}

// settle waits until RocksDB has nothing to write for a second, or until it has been given long
// enough.
func (o *observer) settle(longest time.Duration) error {
	quiet := 0
	for began := time.Now(); time.Since(began) < longest && quiet < 10; time.Sleep(100 * time.Millisecond) {
		fields, err := o.fields("rocksdb")
		if err != nil {
			return err
		}
		quiet++
		if fields["rocksdb_running_flushes"]+fields["rocksdb_running_compactions"]+fields["rocksdb_immutable_memtables"] > 0 {
			quiet = 0
		}
	}
	return nil
}

// resident is a size of the process's memory in bytes, by its name in proc(5): VmRSS, VmHWM,
// RssAnon, RssFile.
func resident(server *launch.Server, name string) (int64, error) {
	return launch.ProcessMemory(server.ProcessID(), name)
}

// written is how many bytes the process has caused to be written to disk.
func written(server *launch.Server) (int64, error) {
	return launch.ProcessField(server.ProcessID(), "io", "write_bytes")
}

// diskUsage is how many bytes of disk a directory takes, like du(1). Files that go meanwhile don't
// count.
func diskUsage(directory string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(directory, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		if status, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += status.Blocks * 512
		}
		return nil
	})
	return sum, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
